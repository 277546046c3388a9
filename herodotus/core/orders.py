"""What may the operator order of a running peer? Work on its archive, what is to become of its crawl, and whether it
leaves.

The door carries these orders; who carries them out is `peer.py`'s choice. Reports are plain JSON.
"""

from dataclasses import dataclass

from herodotus.store import performer


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Begin no fetch until `Resume`, also after a restart. The report comes when those under way have ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    """Crawl these canonical URLs today, and what they lead to as far as the charter's scope goes."""

    urls: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOver:
    """Give what the peer holds to those who will hold it without it, as it is going to leave for good."""

    wait_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """Hand over everything, then end. The report comes when it is over, or after `wait_s`; it goes on all the same."""

    wait_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stay:
    """Take the order to drain back."""


CrawlControl = Pause | Resume | Begin
Order = performer.Order | CrawlControl | HandOver | Drain | Stay
ORDERS: dict[str, type[Order]] = {
    **performer.ORDERS,
    "pause": Pause,
    "resume": Resume,
    "begin": Begin,
    "hand-over": HandOver,
    "drain": Drain,
    "stay": Stay,
}
NAMES = {kind: name for name, kind in ORDERS.items()}
