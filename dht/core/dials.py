"""Which handshakes have we begun, and when is a frame of theirs repeated? The initiator's half, one for an address.

A dial is in one of three phases, each of which repeats its frame four times and then gives up:

    GREETING     HELLO without a cookie
    COOKIE       HELLO with the cookie of a RETRY
    CONFIRMING   keys agreed: FINISH, until the responder has been heard
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from dht.core.frames import Address, DatagramHello
from dht.core.sessions import Session

RETRIES_S: Final = (0.5, 1.0, 2.0, 3.0)  # the clamp of the retransmission timer, ring.md 4.5
DIALS_MAX: Final = 256
COOKIES_MAX: Final = 3  # of one dial: its responder may restart, but each RETRY costs us a HELLO


@dataclass(slots=True, kw_only=True)
class Dial:
    address: Address
    expected: bytes | None  # whose key must answer; None when only an address is known
    hello: DatagramHello
    secret: bytes = field(repr=False)
    frame: bytes  # what is repeated until answered
    tries: int = 0  # in this phase
    cookies: int = 0  # how many were taken
    due: float = 0.0
    session: Session | None = None  # set while CONFIRMING
    finish: bytes = b""
    waiting: list[bytes] = field(default_factory=list)
    is_once: bool = False
    """Its address never answered: what was sent there is not repeated."""

    @property
    def is_given_up(self) -> bool:
        return self.tries == len(RETRIES_S)


class Dials:
    def __init__(self) -> None:
        self._by_address: dict[Address, Dial] = {}
        # An entry is left behind when its dial ends or is armed again; `due` of the dial tells which one counts.
        self._timers: list[tuple[float, int, Address]] = []
        self._timer_count = 0  # of two timers of one moment the first set is the first to go off

    def __contains__(self, address: Address) -> bool:
        return address in self._by_address

    @property
    def is_full(self) -> bool:
        return len(self._by_address) >= DIALS_MAX

    def at(self, address: Address) -> Dial | None:
        return self._by_address.get(address)

    def expecting(self, public_key: bytes, host: str) -> Dial | None:
        """One for this key at any port of the host: a router may show its peers at another one than they know."""
        for dial in self._by_address.values():
            if dial.expected == public_key and dial.address[0] == host and dial.session is None:
                return dial
        return None

    def add(self, dial: Dial) -> None:
        assert dial.address not in self._by_address
        self._by_address[dial.address] = dial
        assert len(self._by_address) <= DIALS_MAX

    def remove(self, dial: Dial) -> None:
        assert self._by_address[dial.address] is dial
        del self._by_address[dial.address]

    def arm(self, dial: Dial, now: float) -> None:
        """Its frame has been sent once more."""
        assert not dial.is_given_up
        dial.due = now + RETRIES_S[dial.tries]
        dial.tries += 1
        self._timer_count += 1
        heapq.heappush(self._timers, (dial.due, self._timer_count, dial.address))

    def next_deadline(self) -> float | None:
        return self._timers[0][0] if self._timers else None

    def due(self, now: float) -> Iterator[Dial]:
        """Those whose frame was not answered in time, one by one; each is to be armed again or removed."""
        while self._timers and self._timers[0][0] <= now:
            due, _, address = heapq.heappop(self._timers)
            dial = self._by_address.get(address)
            if dial is not None and dial.due == due:
                yield dial
