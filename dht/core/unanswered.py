"""May a datagram go to an address that never answered?  Rarely, or whoever names addresses aims the ring at them.

Others tell us where peers are: in records, in lists, in lookups, in questions of theirs ("do you reach it?").  All of
that is a stranger's word, and each word costs its address a HELLO of 512 bytes from every peer that believes it.  So
whatever made us send, of datagrams that nobody has answered there are

    to one address       one a minute, ten in a day
    to one network       16 in any minute (IPv4 /24, IPv6 /48: what one person may have whole)
    open handshakes      8 to one network, 32 in all

An address has answered when it returned something that only a reader of our datagrams can know: the id of our dial, our
cookie, the keys of a session.  From then on nothing here concerns it, and what it left unanswered before is given back:
a network of living peers is met as fast as they answer.

Not counted are addresses that our operator, or our own memory of peers met, told us (`is_chosen` of a dial), and those
in a laboratory's own network (`spared`).  Streams ask here too: none is opened to an address that has not answered.
"""

from collections import Counter, OrderedDict
from typing import Final

from dht.core.frames import Address, packed_ip

ADDRESS_AGAIN_S: Final = 60.0
ADDRESS_MAX: Final = 10
ADDRESS_FORGOTTEN_S: Final = 24 * 3600.0
"""Then a peer whose way to us was broken for a day is asked again."""
NETWORK_MAX: Final = 16
NETWORK_S: Final = 60.0
OPEN_OF_NETWORK_MAX: Final = 8
OPEN_MAX: Final = 32
ANSWERED_MAX: Final = 16_384
ASKED_MAX: Final = 8_192
"""With 32 open at a time, each for 6.5 s, it takes half an hour of nothing but new addresses to push one out."""

_IPV4_MAPPED: Final = bytes(10) + b"\xff\xff"


def network_of(address: Address) -> bytes:
    """What of an address counts as one network, whatever the charter calls a place: others' networks are not ours
    to divide.
    """
    packed = packed_ip(address[0])
    return packed[:15] if packed.startswith(_IPV4_MAPPED) else packed[:6]


class _Asked:
    __slots__ = ("first", "last", "times")

    def __init__(self, now: float) -> None:
        self.first = self.last = now
        self.times = 1


class Unanswered:
    """Of one link.  Times never go back."""

    def __init__(self, spared: bytes = b"") -> None:
        """`spared` is a network (`network_of`) whose addresses are all ours to ask: a laboratory's own."""
        self._spared = spared
        self._answered: OrderedDict[Address, None] = OrderedDict()  # the one that answered last comes last
        self._asked: OrderedDict[Address, _Asked] = OrderedDict()
        # Of the last minute, the oldest first; an address stands there once, as it gets one datagram a minute.
        self._recent: dict[bytes, OrderedDict[Address, float]] = {}
        self._open: dict[Address, bytes] = {}
        self._open_of: Counter[bytes] = Counter()

    def has_answered(self, address: Address) -> bool:
        return address in self._answered or (bool(self._spared) and network_of(address) == self._spared)

    def answered(self, address: Address) -> None:
        self._answered[address] = None
        self._answered.move_to_end(address)
        if len(self._answered) > ANSWERED_MAX:
            self._answered.popitem(last=False)
        if self._asked.pop(address, None) is not None:
            network = network_of(address)
            recent = self._recent.get(network, OrderedDict())
            recent.pop(address, None)
            if not recent:
                self._recent.pop(network, None)
        self.closed(address)

    def refusal(self, address: Address, now: float) -> str | None:
        """Why no handshake may begin there now.  None: its one datagram may go and is counted, and the handshake is
        open until `answered` or `closed`.
        """
        network = network_of(address)
        if len(self._open) >= OPEN_MAX or self._open_of[network] >= OPEN_OF_NETWORK_MAX:
            return "unanswered_open"
        asked = self._asked.get(address)
        if asked is not None and now - asked.first >= ADDRESS_FORGOTTEN_S:
            asked = None
        if asked is not None and (now - asked.last < ADDRESS_AGAIN_S or asked.times >= ADDRESS_MAX):
            return "unanswered_address"
        if self._count_recent(network, now) >= NETWORK_MAX:
            return "unanswered_network"
        if asked is None:
            asked = self._asked[address] = _Asked(now)
        else:
            asked.last, asked.times = now, asked.times + 1
        self._asked.move_to_end(address)
        recent = self._recent.setdefault(network, OrderedDict())
        recent[address] = now
        recent.move_to_end(address)
        assert len(recent) <= NETWORK_MAX
        if len(self._asked) > ASKED_MAX:
            self._forget_oldest()
        assert address not in self._open, "one handshake to an address at a time"
        self._open[address] = network
        self._open_of[network] += 1
        return None

    def closed(self, address: Address) -> None:
        """Its handshake is given up."""
        network = self._open.pop(address, None)
        if network is None:
            return
        self._open_of[network] -= 1
        if not self._open_of[network]:
            del self._open_of[network]

    def _count_recent(self, network: bytes, now: float) -> int:
        recent = self._recent.get(network)
        if recent is None:
            return 0
        while recent and now - next(iter(recent.values())) >= NETWORK_S:
            recent.popitem(last=False)
        if not recent:
            del self._recent[network]
        return len(recent)

    def _forget_oldest(self) -> None:
        address, _ = self._asked.popitem(last=False)
        recent = self._recent.get(network_of(address))
        if recent is not None:
            recent.pop(address, None)
            if not recent:
                del self._recent[network_of(address)]
