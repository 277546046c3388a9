"""How many of a ring of home lines are full members, and which way do their bytes go?

Lines are modelled, decisions are real: each closed peer chooses and keeps its relays by `RelayKeeper`, each relay has a
`RelayDesk`, and `way_between` says how two peers meet. What routers do is drawn:

* a peer has an IPv4 line, an IPv6 line, or both. Its IPv4 line is open or closed. A closed router shows one port to all
  (two such peers can open at once) or another one to each (they cannot). IPv6 is open where IPv4 is, and behind a
  firewall elsewhere; two firewalls let both ends open at once.
* open peers go and come back; unsteady lines break every half an hour.

Small messages go between any two peers. Bulk goes between holders of one key: where a pair has no direct way, another
holder or spare with a direct way to both hands it on, or (the figure beside it) the relay carries it after all.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from random import Random

from dht.core.frames import Address as SocketAddress
from dht.core.ids import PeerKey
from herodotus.core.relays import Candidate, Kept, Mapping, RelayDesk, RelayKeeper, Way, way_between
from herodotus.peers.net.relaying import ALIVE_S

STEP_S = 30.0
SMALL_SHARE = 0.06
"""Of all bytes, those of small messages: as measured in rings of whole peers."""
UNSTEADY_BREAK_S = 1_800.0
OPEN_UP_S, OPEN_DOWN_S = 96 * 3_600.0, 4 * 3_600.0
COPIES, SPARES = 6, 4
OWNERS_ASKED = 3
"""At which a peer that is no member asks for work."""
ALIVE_BYTES = 2 * 52 + 22 + 7
"""A sign of life on a kept line and its acknowledgement: IP and TCP with timestamps, a record of TLS, a frame."""
V4_PUBLIC, V6_PUBLIC = "198.51.100.1", "2001:db8::1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """Shares of all peers, but where it says otherwise."""

    open_v4: float = 0.30
    with_v6: float = 0.50
    only_v6: float = 0.02
    steady: float = 0.93
    """Of closed lines."""
    punchable: float = 0.70
    """Of pairs of closed IPv4 routers, those through which both can open at once (published: 70 %)."""


@dataclass(eq=False, slots=True)
class HomePeer:
    key: PeerKey
    has_v4: bool
    has_v6: bool
    is_open: bool
    mapping: Mapping
    is_steady: bool
    candidate: Candidate
    keeper: RelayKeeper
    desk: RelayDesk = field(default_factory=RelayDesk)
    lines: dict[PeerKey, Kept] = field(default_factory=dict)
    """That it keeps, by the relay."""
    is_up: bool = True

    @property
    def is_member(self) -> bool:
        return self.is_open or self.keeper.is_member

    def families(self) -> set[int]:
        return {family for family, is_there in ((4, self.has_v4), (6, self.has_v6)) if is_there}

    def addresses(self) -> list[SocketAddress]:
        found = {4: (V4_PUBLIC, 1), 6: (V6_PUBLIC, 1)}
        return [found[family] for family in sorted(self.families())]


class HomeLines:
    def __init__(self, seed: int, *, peers: int, mix: Mix) -> None:
        self._chance = Random(f"{seed}/home lines")
        self._mix = mix
        self.now = 0.0
        self.peers = [self._peer() for _ in range(peers)]
        self._by_key: dict[bytes, HomePeer] = {one.key: one for one in self.peers}
        self._open = [one for one in self.peers if one.is_open]
        self._closed = [one for one in self.peers if not one.is_open]
        self.kept_most = 0
        self.without_relay_s = 0.0
        """Of members behind closed routers, added up."""

    def _peer(self) -> HomePeer:
        chance, mix = self._chance, self._mix
        has_v6 = chance.random() < mix.with_v6
        has_v4 = not (has_v6 and chance.random() < mix.only_v6 / mix.with_v6)
        is_open = has_v4 and chance.random() < mix.open_v4
        # Two routers with one port for all are a pair that can open at once.
        keeps_port = chance.random() < mix.punchable**0.5
        key, area = PeerKey(chance.randbytes(32)), chance.randbytes(2)
        return HomePeer(
            key=key,
            has_v4=has_v4,
            has_v6=has_v6,
            is_open=is_open,
            mapping=Mapping.OPEN if is_open else Mapping.SAME if keeps_port else Mapping.CHANGES,
            is_steady=is_open or chance.random() < mix.steady,
            candidate=Candidate(peer=key, place=area + chance.randbytes(1), area=area),
            keeper=RelayKeeper(Random(chance.randrange(1 << 62))),
        )

    # --- time

    def run(self, for_s: float) -> None:
        end = self.now + for_s
        while self.now < end:
            self.now += STEP_S
            self._churn()
            for one in self._closed:
                self._keep_relays(one)
            self.kept_most = max(self.kept_most, *(one.desk.kept for one in self._open), 0)

    def _churn(self) -> None:
        chance = self._chance
        for one in self._open:
            if chance.random() < STEP_S / (OPEN_UP_S if one.is_up else OPEN_DOWN_S):
                one.is_up = not one.is_up
                if not one.is_up:
                    for other in self._closed:
                        self._break(other, one)
        for one in self._closed:
            if not one.is_steady and chance.random() < STEP_S / UNSTEADY_BREAK_S:
                for relay in list(one.lines):
                    self._break(one, self._by_key[relay])

    def _break(self, one: HomePeer, relay: HomePeer) -> None:
        kept = one.lines.pop(relay.key, None)
        if kept is not None:
            relay.desk.ends(one.key, kept)
            one.keeper.lost(relay.key, self.now)

    def _keep_relays(self, one: HomePeer) -> None:
        if not one.keeper.is_full:
            known = (relay.candidate for relay in self._open if relay.is_up)
            for candidate in one.keeper.choice(known, self.now):
                relay = self._by_key[candidate.peer]
                if not one.keeper.may_keep(candidate):
                    continue
                kept = self._asked(one, relay)
                if kept is None:
                    one.keeper.refused(candidate.peer, self.now)
                    continue
                one.lines[relay.key] = kept
                one.keeper.keeps(candidate, self.now)
        one.keeper.advance(self.now)
        if one.keeper.is_member and not one.lines:
            self.without_relay_s += STEP_S

    def _asked(self, one: HomePeer, relay: HomePeer) -> Kept | None:
        common = one.families() & relay.families()
        if not common:
            return None
        seen = (V6_PUBLIC, 1) if 6 in common and not one.has_v4 else (V4_PUBLIC, 1)
        kept = relay.desk.keeps(one.key, seen)
        if kept is not None:
            relay.desk.maps(one.key, one.mapping)
        return kept

    # --- what is found

    def way(self, one: HomePeer, other: HomePeer) -> Way | None:
        """How calls from one reach the other, and come back; direct as the call back; None: not at all."""
        common = one.families() & other.families()
        if common and (one.is_open or other.is_open):
            return Way.CALL_BACK
        if 6 in common:  # two firewalls
            return Way.OPEN_AT_ONCE
        relays = [self._by_key[key] for key in other.lines] or ([other] if other.is_open else [])
        reached = [relay for relay in relays if relay.families() & one.families()]
        if not reached:
            relays = [self._by_key[key] for key in one.lines] or ([one] if one.is_open else [])
            if not any(relay.families() & other.families() for relay in relays):
                return None
            return Way.JOIN
        kept = other.lines.get(reached[0].key)
        if kept is None:  # an open peer of the other family: some dual member joins them
            return Way.JOIN
        return way_between(one.mapping, one.addresses(), kept, None)

    def figures(self, pairs: int) -> dict[str, float]:
        members = [one for one in self.peers if one.is_member]
        ways: Counter[Way | None] = Counter()
        handed = relayed = bulk = 0
        for _ in range(pairs):
            one, other = self._chance.sample(members, 2)
            ways[self.way(one, other)] += 1
        for _ in range(max(1, pairs // COPIES)):
            keepers = self._chance.sample(members, COPIES + SPARES)
            for pair in combinations(keepers[:COPIES], 2):
                bulk += 1
                if self._is_direct(*pair):
                    continue
                relayed += 1
                handed += any(
                    self._is_direct(third, pair[0]) and self._is_direct(third, pair[1])
                    for third in keepers
                    if third not in pair
                )
        total = len(self.peers)
        lines = sum(len(one.lines) for one in self._closed)
        bits_a_line = 8 * ALIVE_BYTES / ALIVE_S
        small = SMALL_SHARE * (ways[Way.JOIN] + ways[None]) / pairs
        contributing = sum(one.is_member or self._finds_work(one, members) for one in self.peers)
        return {
            "full members, %": 100 * len(members) / total,
            "contribute, %": 100 * contributing / total,
            "pairs that meet directly, %": 100 * ways[Way.CALL_BACK] / pairs,
            "pairs that open at once, %": 100 * ways[Way.OPEN_AT_ONCE] / pairs,
            "pairs that a relay joins, %": 100 * ways[Way.JOIN] / pairs,
            "pairs without a way, %": 100 * ways[None] / pairs,
            "relayed bytes, bulk handed on, %": 100 * (small + (1 - SMALL_SHARE) * (relayed - handed) / bulk),
            "relayed bytes, nothing handed on, %": 100 * (small + (1 - SMALL_SHARE) * relayed / bulk),
            "lines kept at one relay, mean": lines / max(1, len(self._open)),
            "lines kept at one relay, most": float(self.kept_most),
            "bits/s for three kept lines": 3 * bits_a_line,
            "bits/s at a relay for its lines, mean": bits_a_line * lines / max(1, len(self._open)),
            "members behind closed routers without any relay, s a day": self.without_relay_s
            / max(1, sum(one.keeper.is_member for one in self._closed))
            / (self.now / 86_400),
        }

    def _finds_work(self, one: HomePeer, members: Sequence[HomePeer]) -> bool:
        owners = self._chance.sample(members, min(OWNERS_ASKED, len(members)))
        return any(self.way(one, owner) is not None for owner in owners)

    def _is_direct(self, one: HomePeer, other: HomePeer) -> bool:
        return self.way(one, other) in (Way.CALL_BACK, Way.OPEN_AT_ONCE) and (
            self.way(other, one) in (Way.CALL_BACK, Way.OPEN_AT_ONCE)
        )
