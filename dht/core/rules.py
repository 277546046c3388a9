"""Which numbers does the ring run by?  The charter's rules, and every bound and period of the core in one
place.

Section numbers are those of the ring design (`docs/protocol/ring.md` and its measurements).
"""

from dataclasses import dataclass

from dht.core.ids import IdCheck, NetworkId
from dht.core.limits import Rate
from dht.core.placement import Rule
from dht.core.places import BY_PEER, PlaceRules
from dht.core.round_trips import TIMEOUT_MAX_S

# Requests (4.5): three tries make a false alarm 7.9e-6 at 1 % loss (3.7).
TRIES = 3
PENDING_MAX = 4_096
ROUND_TRIPS_MAX = 1_024

# Ring steps (4.5, 4.6)
JITTER = 0.2  # +-20 %: peers started together drift apart
RETRY_MIN_S, RETRY_MAX_S = 0.1, 0.5  # after BUSY, and after a change
NOT_MEMBER_MAX = 3
QUIET_AFTER_S = 1_800.0  # unchanged for so long: stabilize less often
QUIET_FACTOR = 3.0
IMPATIENCE = 0.4  # after a change wait for this share of the time since it, up to the full period
STATE_AFRESH_ASKS_MAX = 24  # in random picks one list in a hundred outlived 70 asks (storm seed 1224)
STATE_AFRESH = 1 / 16  # share of asks that do not say what is known: no stale or false list is kept for long
PASSED_OVER_S = 10.0  # a candidate that did not answer as a member is left alone for so long
PASSED_OVER_MAX = 64
NOTIFIES_QUEUED_MAX = 16
CALL_BACK = Rate(per_second=0.1, burst=2)  # of one address: a peer says so each time that it stabilizes

# Joining
JOIN_ROUNDS_MAX = 60  # about two minutes: a small ring that many join at once is often BUSY
JOIN_SILENT_ROUNDS_MAX = 3  # rounds in which no contact led anywhere
JOIN_AGREE_ROUNDS = 3  # then the nearer of two answers is taken: in a join storm both may be honest
CONTACTS_MAX = 64

# Membership and gossip: sections 4.2, 4.4 and 4.6
MEMBERS_MAX = 200_000
TOMBS_MAX = 65_536
TOMB_LIFE_S = 48 * 3600.0  # twice a record's life: an older record cannot come back
KEY_TOMB_LIFE_S = 30 * 24 * 3600.0  # how long a rotated key is refused, and its successor signed by both
KEY_TOMBS_MAX = 16_384  # the oldest goes: its records have long expired
RUMOURS_MAX = 4_096
RUMOUR_PEERS = 2
RUMOUR_FACTOR = 4.0  # 4 log10(N + 1) offers (4.4)
OFFERS_MAX = 4  # datagrams of marks to one member at a time
WANTS_MAX = 8  # questions for offered news at a time
WANT_AGAIN_S = 30.0  # what came and was refused is not asked for sooner
MEMBERS_PER_NEWS = (
    64  # in a lively ring of so many per differing bucket, news is on its way; digests need not hurry
)
DIGEST_EAGER_S = 10.0  # while the last exchange found differences
DIGEST_URGENT_S = 2.5  # after an exchange in which more than this many buckets differed
URGENT_BUCKETS = 16
PULLS_MAX = 8  # at a time
PULL_PAGES_MAX = 256  # of one bucket: 7 news each make twice the share of a full table and its tombs
CONTESTS_MAX = 32  # claims to taken positions that are looked into at a time
CONTESTS_REMEMBERED_MAX = 256
CONTEST_RESTS_FIRST_S, CONTEST_RESTS_LONGEST_S = 60.0, 3_600.0  # one that was settled; doubles each time
YOUNG_CLAIM_S = 3_600.0  # a peer that has sat longer cannot be moved by one with a better key
GRAVES_MAX = 256
SEEDS_MAX = 16
SWEEP_STEP = 64  # records looked at for expiry per digest period and 4,096 members

# Failure detector (4.5)
PROBES = 3
PROBES_FOR_OTHERS_MAX = 1_024  # targets: half of a ring of 2,000 may die at once
PROBE_ASKERS_MAX = 16
PROBED_S = 2.5 * TIMEOUT_MAX_S  # what a ping for others found is told so long; the ping itself ends before
EXAMINED_S = TIMEOUT_MAX_S * (TRIES + 1)  # a helper's own tries, and the way there and back
RECHECK_FACTOR = 2.0  # times the suspicion: then an unconfirmed case is examined again
RECHECK_SOON_S = 2.0  # if helpers reach a peer that we cannot; doubles up to the period above
UNKNOWN_ROUNDS_MAX = 5  # of rechecks, so minutes: then a silent peer without a record is forgotten
WITNESS_REACH = 16  # distinct positions on either side that may witness a death
WITNESS_SLACK = 8  # tables differ a little
WITNESSES_ASKED = 4
HEALTH_MAX = 8
UNWELL_MAX = 4_096
REFUTE_AGAIN_S = 600.0  # deaths by witnesses that we refuted before: late-comers hear of it soon enough
DEPARTED_AFTER_S = 24 * 3600.0

# Budget: sections 3.7 and 4.6
BUDGET_WINDOW_S = 600.0
NEAR_POSITIONS = 64
SAMPLE_MAX = 512

# Lookups: section 4.5
LOOKUP_ASKS_MAX = 128
LOOKUPS_MAX = 1_024
LOOKUP_BUSY_MAX = 16  # about five seconds: a step that meets three silent peers takes that long
DENSITY_FACTOR = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class RingRules:
    """What the charter says, and the periods that presets move together."""

    network: NetworkId
    id_check: IdCheck = "ip"
    places: PlaceRules = BY_PEER
    successors: int = 16  # r; larger only in tables that reproduce the papers
    copies: int = 6
    stabilize_s: float = 10.0
    rumour_s: float = 5.0
    digest_s: float = 60.0
    graveyard_s: float = 60.0
    finger_s: float = 60.0  # sampled mode only
    suspicion_s: float = 30.0  # times log10(N + 1) where that is more: how long a suspect may answer
    gossip_bits_per_s_max: float = 10_000.0
    proves_newcomers: bool = True
    """A peer that is only heard of must answer before it counts; False where tests make peers up."""
    gossips: bool = True  # False: successor lists and fingers only, as the Chord papers

    @property
    def holders(self) -> Rule:
        """Who holds a key."""
        return Rule(self.copies, self.places)

    @property
    def recheck_s(self) -> float:
        return RECHECK_FACTOR * self.suspicion_s
