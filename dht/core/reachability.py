"""May this peer own keys? Only if strangers from different networks could call it back, by datagram and by stream.

A peer asks members to have it dialled at the address it claims; each answer comes from a /16 (IPv6 /32: the
caller names the prefix), and says whether a stranger dialled (it is *cold*) or the asked one itself. Enough
successes of different prefixes make it a member, else it is a leaf: it crawls and reads but owns nothing. One
stranger that did not get through makes the others' successes void: their calls may have come through a hole
that this peer's own datagrams had made. In a ring so small that all talk to all there is no stranger by
datagram. By stream there are some: all those to which no connection left from the port on which this peer
listens, as those to its relays do. So one of them that did not get through makes void what came from the others,
and a leaf does not become a member by these alone: it tries all that it knows as relays, within a minute.

The verdict is tested again while it stands, sooner while it is bad, whenever the address or the port mapping
changes, and when a member says that its calls fail. What the machine does not know is how a dial-back is
done: it says how many are wanted, and is told what came of them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import NamedTuple

DIAL_BACKS_WANTED = 3
"""From three networks: one helpful liar, or one path that happens to be open, makes no member."""
RESULTS_MAX = 16
ROUND_S = 30.0
"""How long one test may take: three tries of a session each, and time to spare."""
MEMBER_RETEST_S = 3600.0
LEAF_RETEST_FIRST_S, LEAF_RETEST_LONGEST_S = 60.0, 1800.0
FAILED_ROUNDS_TO_LOSE = 2
"""A member stays one through a single failed round: its data moves when it goes, and helpers fail too."""
FAILED_AGAIN_S = 10.0
"""From a member's first failed round to the second. A round takes some 13 s where streams are dropped, and the
knock that begins it 4 s, so a router that closes is noticed within a minute."""
LOST_RETEST_S, LOST_FOR_S = 40.0, 3600.0
"""Who was a member until lately is tested often: a router that was switched off comes back."""
DOUBT_AGAIN_S = 60.0
"""So often others' word that calls fail may cause a test. Tests of our own do not count: a router may close just after
one."""


_FILTERED = "Not callable yet: those get through whom this peer has called, and strangers do not."


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """Where we are called, for people."""

    host: str = "this peer's address"
    port: int = 0
    inside: str = "this machine"
    """What a router has to forward to."""

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def advice(self) -> str:
        if ":" in self.host:  # IPv6 is not translated, so there is nothing to forward
            return f"In the router, open the firewall for TCP and UDP {self.port} to {self.inside}."
        return f"In the router, forward TCP and UDP {self.port} to {self.inside}."


class Reachability(Enum):
    UNKNOWN = "unknown"
    MEMBER = "member"
    LEAF = "leaf"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestDialBacks:
    """Ask members (`choose_helpers`) until so many reached us; report each by `dialed_back`."""

    round: int
    wanted: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingChanged:
    standing: Reachability
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundFailed:
    """A round did not find us open; the standing may hold for now."""


ReachabilityEffect = RequestDialBacks | StandingChanged | RoundFailed


class Warmth(IntEnum):
    """For whom our own packets may have opened the router: less is a better witness."""

    STRANGER = 0
    BY_DATAGRAM = 1
    """It heard datagrams from our port, and no stream."""
    BY_STREAM = 2


class _Answer(NamedTuple):
    is_reached: bool
    by_stream: bool
    warmth: Warmth

    @property
    def is_cold(self) -> bool:
        return self.warmth is Warmth.STRANGER

    @property
    def is_open(self) -> bool:
        return self.is_reached and self.by_stream


class ReachabilityMachine:
    """One test at a time; `advance` when `next_deadline` is due, then `take_effects`."""

    def __init__(
        self, wanted: int = DIAL_BACKS_WANTED, *, now: float, is_prefix_distinct: bool = True
    ) -> None:
        """`wanted` dial-backs make a member: 1 for a LAN, 0 for a test charter where everybody is on loopback (then a
        peer is a member at once). They must be of different prefixes, except where a whole ring lives in one network.
        """
        assert 0 <= wanted <= RESULTS_MAX, wanted
        self._wanted = wanted
        self._is_prefix_distinct = is_prefix_distinct
        self.standing = Reachability.UNKNOWN
        self.reason = "nobody has tried to call this peer back yet"
        self._effects: list[ReachabilityEffect] = []
        self._round = 0
        self._is_testing = False
        self._due_at = now
        self._failed_rounds = 0
        self._is_untested = True
        self._tried: set[bytes] = set()
        self._answers: list[_Answer] = []
        self._is_doubted = False
        self._doubted_at = float("-inf")
        """When a test began that others' word had caused."""
        self._lost_at = float("-inf")
        self.spot = Spot()

    def next_deadline(self) -> float | None:
        is_settled = self._wanted == 0 and self.standing is Reachability.MEMBER
        return None if is_settled else self._due_at

    def take_effects(self) -> list[ReachabilityEffect]:
        effects, self._effects = self._effects, []
        return effects

    def advance(self, now: float) -> None:
        if now < self._due_at:
            return
        if self._wanted == 0:
            self._become(Reachability.MEMBER, "Member: this network asks for no test.")
        elif self._is_testing:
            self._conclude(now)
        else:
            self._begin(now)

    def address_changed(self, now: float) -> None:
        """The address, port or mapping is another: what was found out is void, the test starts again now.

        The standing stays until the new test has spoken, so that a renewed lease does not end a membership.
        """
        self._is_testing = False
        self._failed_rounds = FAILED_ROUNDS_TO_LOSE - 1
        self._due_at = now

    def begin_again(self, now: float) -> None:
        """What was found out is old: a line that passes now is `MEMBER` again."""
        self.standing = Reachability.UNKNOWN
        self.address_changed(now)

    @property
    def is_tested(self) -> bool:
        """Others have dialled, and it is no member on trust."""
        return not self._is_untested

    def doubt(self, now: float) -> None:
        """Somebody says that calls fail: a member that was not tested for that just now is tested."""
        if self.standing is Reachability.MEMBER and not self._is_testing and self._wanted:
            self._is_doubted = True
            self._due_at = min(self._due_at, max(now, self._doubted_at + DOUBT_AGAIN_S))

    def dialed_back(
        self,
        *,
        round_number: int,
        prefix: bytes,
        is_reached: bool,
        by_stream: bool,
        warmth: Warmth,
        now: float,
    ) -> None:
        """What one member's dial-back came to; answers of earlier rounds, and second ones, do not count. Links, leases
        and copies travel by stream: a peer that only datagrams reach could do nothing for the keys that it owned."""
        if not self._is_testing or round_number != self._round:
            return
        if len(self._tried) >= RESULTS_MAX or (self._is_prefix_distinct and prefix in self._tried):
            return
        self._tried.add(prefix)
        self._answers.append(_Answer(is_reached, by_stream, warmth))
        # What those found whom we know may be void yet; where one is enough, no other network is there to find it so.
        found = sum(one.is_open for one in self._answers if one.is_cold or self._wanted == 1)
        if found >= self._wanted:
            self._pass(now)

    def helpers_missing(self, *, round_number: int, now: float) -> None:
        """There is nobody (left) to ask in this round: it ends early with what is known."""
        if self._is_testing and round_number == self._round:
            self._conclude(now)

    def networks_missing(self, *, round_number: int, known: int, now: float) -> None:
        """The whole ring has fewer networks than the test needs, so nobody can pass it: that is no finding.

        Who was never tested is a member on trust, or a young ring would have none; a verdict stays. Asked again soon.
        """
        if not self._is_testing or round_number != self._round:
            return
        self._is_testing = False
        self._due_at = now + LEAF_RETEST_FIRST_S
        if self._is_untested:
            networks = "network is" if known == 1 else "networks are"
            why = f"Member on trust: {known} other {networks} known, a test needs {self._wanted}."
            self._become(Reachability.MEMBER, why)

    def _begin(self, now: float) -> None:
        assert not self._is_testing, "one test at a time"
        self._round += 1
        self._is_testing = True
        self._tried, self._answers = set(), []
        if self._is_doubted:
            self._is_doubted, self._doubted_at = False, now
        self._due_at = now + ROUND_S
        self._effects.append(RequestDialBacks(round=self._round, wanted=self._wanted))

    def _counted(self) -> list["_Answer"]:
        """Those of witnesses as good as the best one that did not get through, and better."""
        failed = [one.warmth for one in self._answers if not one.is_open]
        return [one for one in self._answers if not failed or one.warmth <= min(failed)]

    def _conclude(self, now: float) -> None:
        found = [one for one in self._counted() if one.is_open]
        if len(found) >= self._wanted and not self._are_let_in(found):
            self._pass(now)
        else:
            self._fail(now)

    def _are_let_in(self, found: list["_Answer"]) -> bool:
        """To a leaf only those got through to whom it had opened a stream: that is what its router would let in."""
        is_leaf = self.standing is Reachability.LEAF
        return is_leaf and bool(found) and all(one.warmth is Warmth.BY_STREAM for one in found)

    def _pass(self, now: float) -> None:
        found = [one for one in self._counted() if one.is_open]
        assert len(found) >= self._wanted
        self._is_testing = self._is_untested = False
        self._failed_rounds = 0
        self._due_at = now + MEMBER_RETEST_S
        peers = "1 peer" if len(found) == 1 else f"{len(found)} peers"
        where = f" in {len(found)} networks" if self._is_prefix_distinct else ""
        known = "" if any(one.is_cold for one in found) else ", none of them a stranger to it"
        self._become(
            Reachability.MEMBER,
            f"Member. {peers}{where} called this peer by UDP and TCP at {self.spot}{known}.",
        )

    def _fail(self, now: float) -> None:
        self._is_testing = False
        self._failed_rounds += 1
        self._effects.append(RoundFailed())
        is_kept = self.standing is Reachability.MEMBER and self._failed_rounds < FAILED_ROUNDS_TO_LOSE
        if is_kept:
            self._due_at = now + FAILED_AGAIN_S
            return
        if self.standing is Reachability.MEMBER:
            self._lost_at = now
        wait_s = min(LEAF_RETEST_FIRST_S * 2 ** min(self._failed_rounds - 1, 10), LEAF_RETEST_LONGEST_S)
        self._due_at = now + (LOST_RETEST_S if now - self._lost_at < LOST_FOR_S else wait_s)
        self._is_untested = False
        self._become(Reachability.LEAF, self._why_not())

    def _why_not(self) -> str:
        counted, spot = self._counted(), self.spot
        if not counted:
            return (
                f"Not callable yet: no member answered the request to call back; {self._wanted} are needed."
            )
        tried = "1 peer" if len(counted) == 1 else f"{len(counted)} peers"
        let_in = any(one.is_open for one in self._answers if one not in counted)
        let_in = let_in or self._are_let_in([one for one in counted if one.is_open])
        if let_in and not any(one.is_cold for one in counted):
            return f"{_FILTERED} {spot.advice}"
        reached = sum(one.is_open for one in counted)
        if reached:
            return (
                f"Not callable yet: {tried} tried, and {reached} of {self._wanted} needed networks got through to"
                f" {spot}. {spot.advice}"
            )
        # What comes through a hole of our own making does not arrive. And one of several strangers may have met us
        # between the question and its call.
        for arrives, other, proves in (
            ("UDP", "TCP", [one.is_reached for one in counted if one.is_cold or self._wanted == 1]),
            ("TCP", "UDP", [one.by_stream for one in counted if one.warmth is not Warmth.BY_STREAM]),
        ):
            if 2 * sum(proves) > len(proves):
                return (
                    f"Half open: {arrives} {spot.port} arrives, {other} {spot.port} does not. {spot.advice}"
                )
        if any(one.by_stream for one in self._answers):
            return f"{_FILTERED} {spot.advice}"
        if any(one.is_reached for one in self._answers):
            return (
                f"Not callable yet: TCP {spot.port} does not arrive, and UDP {spot.port} from those whom this peer has"
                f" called, as far as is known. {spot.advice}"
            )
        return f"Not callable yet: {tried} tried, and none got through to {spot}. {spot.advice}"

    def _become(self, standing: Reachability, reason: str) -> None:
        is_news = standing is not self.standing
        self.standing, self.reason = standing, reason
        if is_news:
            self._effects.append(StandingChanged(standing=standing, reason=reason))


def choose_helpers(candidates: Iterable[tuple[bytes, bytes]], wanted: int, spare: int = 2) -> list[bytes]:
    """Peer ids to ask, in the order given (the caller has shuffled), no two of one prefix, some to spare.

    Takes (peer id, prefix) pairs.
    """
    chosen: dict[bytes, bytes] = {}
    for peer_id, prefix in candidates:
        if len(chosen) >= wanted + spare:
            break
        chosen.setdefault(prefix, peer_id)
    return list(chosen.values())
