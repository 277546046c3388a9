"""Since when have we held which keys, without a gap? So a holder can say of a capture that it never came.

Two holders who belong to one person may invent a past, and offer it as something to be repaired. The other holders of
the key were there on that day, and would have it. One that became a holder later cannot know, and one that was away,
lost something or had no room cannot either: they say nothing. So a real past of which two copies are left is
repaired as before.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from dht.core.arcs import Arc, Arcs
from dht.core.ids import Key

TENURE_FORMAT: Final = 1
LAYERS_MAX: Final = 64
"""One is added when some of our keys are new to us; then the two oldest become one. An arc takes 100 bytes."""
ARCS_MAX: Final = 4_096
"""Of all layers: 400 kB. Beyond, the oldest are forgotten."""
GAP_S: Final = 86_400
"""Away for longer, a peer begins anew: what came meanwhile may reach it any day later."""
KEPT_SHARE: Final = 0.99
"""Of its captures an archive must still have: another disk in its place, or an older backup, knows of nothing."""
FULL_SPANS_MAX: Final = 64
"""Times without room; beyond, the oldest two become one."""


class TenureLayer(msgspec.Struct, frozen=True, kw_only=True):
    since_s: int
    arcs: list[tuple[str, str]]
    """(start, end] in hexadecimal."""


class TenureFile(msgspec.Struct, frozen=True, kw_only=True):
    """`state/tenure.json`."""

    format: int = TENURE_FORMAT
    saved_s: int = 0
    captures: int = 0
    """In the archive, when it was saved."""
    layers: list[TenureLayer] = msgspec.field(default_factory=list)
    full: list[tuple[int, int]] = msgspec.field(default_factory=list)
    """From when to when captures were turned away for want of room. The last of them may be going on."""


class _Layer(NamedTuple):
    since_s: int
    arcs: Arcs


class Tenure:
    """`kept`: of the peer's last life."""

    def __init__(self, kept: TenureFile | None = None) -> None:
        self._kept = kept
        self._layers: list[_Layer] = []
        """The oldest first; no key is in two."""
        self._full: list[tuple[int, int]] = list(kept.full) if kept is not None else []
        self._now_s = 0
        self._captures = 0

    def turned_away(self, now_s: int) -> None:
        """There was no room for something that we should hold."""
        if self._full and abs(now_s - self._full[-1][1]) <= GAP_S:
            start, end = self._full.pop()
            self._full.append((min(start, now_s), max(end, now_s)))
        else:
            self._full.append((now_s, now_s))
        if len(self._full) > FULL_SPANS_MAX:
            (start, _), (_, end), *rest = self._full
            self._full = [(start, end), *rest]

    def may_have_turned_away(self, time_s: int, within_s: float) -> bool:
        """What is of that time, and was offered within so long after it."""
        return any(start <= time_s + within_s and time_s <= end for start, end in self._full)

    def hold(self, share: Arcs, now_s: int, captures: int) -> None:
        """We hold these keys now, and as many captures. To be called once they are known for certain, and often."""
        if self._kept is not None:
            self._take_up(self._kept, now_s, captures)
            self._kept = None
        if now_s > self._now_s + GAP_S and self._now_s:
            self._layers = []  # a suspended machine
        self._now_s, self._captures = now_s, captures
        left = [_Layer(one.since_s, one.arcs & share) for one in self._layers]
        new = share
        for one in left:
            new -= one.arcs
        self._layers = _bounded([one for one in (*left, _Layer(now_s, new)) if one.arcs])

    def _take_up(self, kept: TenureFile, now_s: int, captures: int) -> None:
        if not 0 <= now_s - kept.saved_s <= GAP_S or captures < KEPT_SHARE * kept.captures:
            return
        self._now_s = kept.saved_s
        self._layers = [
            _Layer(one.since_s, Arcs(Arc(Key(bytes.fromhex(a)), Key(bytes.fromhex(b))) for a, b in one.arcs))
            for one in kept.layers
            if one.since_s <= kept.saved_s
        ]

    def since(self, position: bytes) -> int | None:
        """None: we do not hold it, or do not know yet."""
        return next((one.since_s for one in self._layers if position in one.arcs), None)

    def keep(self) -> TenureFile | None:
        """For the peer's next life; None: nothing new is known."""
        if not self._now_s:
            return None
        layers = [
            TenureLayer(since_s=one.since_s, arcs=[(arc.start.hex(), arc.end.hex()) for arc in one.arcs])
            for one in self._layers
        ]
        return TenureFile(saved_s=self._now_s, captures=self._captures, layers=layers, full=self._full)


def _bounded(layers: list[_Layer]) -> list[_Layer]:
    if len(layers) > LAYERS_MAX:
        oldest, second, *rest = layers
        layers = [_Layer(second.since_s, oldest.arcs | second.arcs), *rest]
    while _arcs_in(layers) > ARCS_MAX:
        layers = layers[1:]
    return layers


def _arcs_in(layers: Iterable[_Layer]) -> int:
    return sum(len(one.arcs) for one in layers)
