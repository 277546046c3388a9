"""May this peer own keys? Only if strangers from different networks could call it back, by datagram and by stream.

A peer asks members to dial it back at the address it claims; each answer comes from a /16 (IPv6 /32: the
caller names the prefix). Enough successes of different prefixes make it a member, else it is a leaf: it
crawls and reads but owns nothing. The verdict is tested again while it stands, sooner while it is bad, and
whenever the address or the port mapping changes. What the machine does not know is how a dial-back is done:
it says how many are wanted, and is told what came of them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

DIAL_BACKS_WANTED = 3
"""From three networks: one helpful liar, or one path that happens to be open, makes no member."""
RESULTS_MAX = 16
ROUND_S = 30.0
"""How long one test may take: three tries of a session each, and time to spare."""
MEMBER_RETEST_S = 3600.0
LEAF_RETEST_FIRST_S, LEAF_RETEST_LONGEST_S = 60.0, 1800.0
FAILED_ROUNDS_TO_LOSE = 2
"""A member stays one through a single failed round: its data moves when it goes, and helpers fail too."""


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


ReachabilityEffect = RequestDialBacks | StandingChanged


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
        self._successes = 0
        self._failures = 0
        self._by_datagram = self._by_stream = 0

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
            self._become(Reachability.MEMBER, "this network does not ask for dial-backs")
        elif self._is_testing:
            self._fail(now)
        else:
            self._begin(now)

    def address_changed(self, now: float) -> None:
        """The address, port or mapping is another: what was found out is void, the test starts again now.

        The standing stays until the new test has spoken, so that a renewed lease does not end a membership.
        """
        self._is_testing = False
        self._failed_rounds = FAILED_ROUNDS_TO_LOSE - 1
        self._due_at = now

    def dialed_back(
        self, *, round_number: int, prefix: bytes, is_reached: bool, by_stream: bool, now: float
    ) -> None:
        """What one member's dial-back came to; answers of earlier rounds, and second ones, do not count. Links, leases
        and copies travel by stream: a peer that only datagrams reach could do nothing for the keys that it owned."""
        if not self._is_testing or round_number != self._round:
            return
        if len(self._tried) >= RESULTS_MAX or (self._is_prefix_distinct and prefix in self._tried):
            return
        self._tried.add(prefix)
        self._by_datagram += is_reached
        self._by_stream += by_stream
        if not (is_reached and by_stream):
            self._failures += 1
            return
        self._successes += 1
        if self._successes >= self._wanted:
            self._pass(now)

    def helpers_missing(self, *, round_number: int, now: float) -> None:
        """There is nobody (left) to ask in this round: it ends early with what is known."""
        if self._is_testing and round_number == self._round:
            self._fail(now)

    def networks_missing(self, *, round_number: int, known: int, now: float) -> None:
        """The whole ring has fewer networks than the test needs, so nobody can pass it: that is no finding.

        Who was never tested is a member on trust, or a young ring would have none; a verdict stays. Asked again soon.
        """
        if not self._is_testing or round_number != self._round:
            return
        self._is_testing = False
        self._due_at = now + LEAF_RETEST_FIRST_S
        if self._is_untested:
            why = f"not tested: the ring has peers in {known} other networks, {self._wanted} are needed"
            self._become(Reachability.MEMBER, f"{why}; a member on trust")

    def _begin(self, now: float) -> None:
        assert not self._is_testing, "one test at a time"
        self._round += 1
        self._is_testing = True
        self._tried, self._successes, self._failures = set(), 0, 0
        self._by_datagram = self._by_stream = 0
        self._due_at = now + ROUND_S
        self._effects.append(RequestDialBacks(round=self._round, wanted=self._wanted))

    def _pass(self, now: float) -> None:
        assert self._successes >= self._wanted
        self._is_testing = self._is_untested = False
        self._failed_rounds = 0
        self._due_at = now + MEMBER_RETEST_S
        where = "different networks" if self._is_prefix_distinct else "this network"
        peers = "peer" if self._successes == 1 else "peers"
        self._become(Reachability.MEMBER, f"{self._successes} {peers} of {where} could call this peer back")

    def _fail(self, now: float) -> None:
        self._is_testing = False
        self._failed_rounds += 1
        wait = LEAF_RETEST_FIRST_S * 2 ** min(self._failed_rounds - 1, 10)
        self._due_at = now + min(wait, LEAF_RETEST_LONGEST_S)
        is_kept = self.standing is Reachability.MEMBER and self._failed_rounds < FAILED_ROUNDS_TO_LOSE
        if not is_kept:
            self._is_untested = False
            self._become(Reachability.LEAF, self._why_not())

    def _why_not(self) -> str:
        wanted, reached, failed = self._wanted, self._successes, self._failures
        if reached == 0 and failed == 0:
            return f"no member answered the request to call back; {wanted} are needed"
        if reached == 0 and self._by_datagram and not self._by_stream:
            return (
                f"half open: UDP arrives and TCP does not ({failed} peers tried); in the router, forward TCP and UDP of"
                " this peer's port"
            )
        if reached == 0 and self._by_stream and not self._by_datagram:
            return (
                f"half open: TCP arrives and UDP does not ({failed} peers tried); in the router, forward TCP and UDP of"
                " this peer's port"
            )
        if reached == 0:
            return (
                f"{failed} peers tried to call back and none got through: a router or firewall is likely "
                "closed; in the router, forward TCP and UDP of this peer's port, or continue as a leaf"
            )
        return f"only {reached} of {wanted} needed networks could call this peer back, {failed} could not"

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
