"""What does a peer say about itself? The snapshot behind `herodotus status --json`, whose keys stay (DESIGN 9)."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class NeighbourStatus:
    """Somebody next to us on the ring, and how long ago it last gave a sign of life, as a word."""

    position: str
    address: str
    clock: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatus:
    """One of our positions."""

    position: str
    is_member: bool
    predecessor: NeighbourStatus | None
    successors: tuple[NeighbourStatus, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficStatus:
    """UDP of the ring since the start; `dropped` by reason. `kinds`: bytes in and out by kind of message; the rest are
    handshakes, signs of life and what was dropped."""

    bytes_in: int = 0
    bytes_out: int = 0
    datagrams_in: int = 0
    datagrams_out: int = 0
    sessions: int = 0
    gossip_bits_per_s: float = 0.0
    kinds: dict[str, tuple[int, int]] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacesStatus:
    """Where the members that own keys are: copies count by place."""

    by: str = "peer"
    """"prefix" of addresses; "peer" where the charter takes each key for a place of its own."""
    places: int = 0
    areas: int = 0
    of_age: int = 0
    """Members that count."""
    probation_days: int = 0
    """After which a new member counts, in this network today."""
    veteran_days: int = 0
    is_counted: bool = True
    """Whether this peer is of age itself, or a reader of the ring alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SilentStatus:
    """Peers that were asked and do not answer, and the network that most of them are said to be in: members of the
    table, and strangers that others tell of, which do not count (of the last ten minutes)."""

    members: int = 0
    strangers: int = 0
    network: str = ""
    in_network: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class UncallableStatus:
    """A member that answers datagrams, and to which no call gets through. `for_s`: since the first that did not."""

    peer: str
    address: str
    why: str
    for_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RingStatus:
    """`arcs` are (start, end] in hexadecimal: the keys that this peer must hold; equal ends are the whole circle."""

    members: int
    ideal: bool
    arcs: tuple[tuple[str, str], ...]
    address: str
    slot: int  # among the peers of one address; another than the settings' where that one was taken
    reachability: str
    nodes: tuple[NodeStatus, ...]
    unwell: dict[str, str]
    traffic: TrafficStatus
    places: PlacesStatus = PlacesStatus()
    silent: SilentStatus = SilentStatus()
    invitation: str = ""  # the line for `herodotus join`; empty while nobody could be reached by it
    heard_s: int | None = None
    """Since a peer of this network last answered or asked by datagram; None before the first."""
    silent_after_s: int = 60
    """Who has heard nobody for so long is cut off: neighbours ask each other more often, as ring.stabilize_s says."""
    uncallable: tuple[UncallableStatus, ...] = ()
    """None while `ideal`, which says that calls get through to the neighbours, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedStatus:
    """A member as this peer itself saw it. `there` is its part of the time since we first saw it."""

    peer: str
    age_days: int
    there: float
    seen_min_ago: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservationStatus:
    """For how long this peer has watched the ring (`unbroken_days`: without being away for a day), and what it saw of
    the members known now. `there` is the median of all `seen`; `members` lists 64 of them, the least present first.
    """

    watched_days: int = 0
    unbroken_days: int = 0
    seen: int = 0
    there: float = 0.0
    members: tuple[ObservedStatus, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayStatus:
    """What this peer does for others that cannot be called: `kept` lines, `joined` pairs now, and since the start
    `bytes` and what came of knocks. `relays` are those that keep a line of ours, and `is_member` says whether they make
    us one; `knocks` counts by what came of them."""

    kept: int = 0
    joined: int = 0
    bytes: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    relays: tuple[str, ...] = ()
    is_member: bool = False
    member_in_s: int | None = None
    knocks: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallsStatus:
    """Calls between peers by TCP since the start. `dropped` counts refused callers and broken rules, by a word.
    `crowd` is the address that wants many more connections than one may have, if there is one now. `short_called` and
    `short_answered` count calls by datagram, `short_failed` those that had to take a stream."""

    connections: int = 0
    called: int = 0
    failed: int = 0
    answered: int = 0
    refused: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    short_called: int = 0
    short_failed: int = 0
    short_answered: int = 0
    crowd: str = ""
    dropped: dict[str, int] = field(default_factory=dict)
    relaying: RelayStatus = RelayStatus()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadersStatus:
    """Connections to the portal, and those refused since the start. `crowd` as for calls."""

    connections: int = 0
    refused: int = 0
    crowd: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinksStatus:
    """Links found here and delivered to others, and links that others found. Since the start, except the waiting
    ones."""

    waiting: int = 0
    standby: int = 0
    """URLs that this peer remembers for others."""
    walks: int = 0
    last_walk: dict[str, int] = field(default_factory=dict)
    received: int = 0
    received_new: int = 0
    strays: int = 0
    rubbish: int = 0
    senders_closed: int = 0
    repeated: int = 0
    over_budget: int = 0
    given_up: int = 0
    learned: int = 0
    """URLs learned from other holders, when a stretch became ours or when two holders compared their URLs."""
    reminded: int = 0
    """URLs that an owner had forgotten."""
    taken_over: int = 0
    silent_owners: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CrawlStatus:
    """`known` and `due` are of now, the other figures of today. `restarts` counts crawls that an error ended."""

    known: int = 0
    due: int = 0
    fetched: int = 0
    unchanged: int = 0
    failed: int = 0
    stored: int = 0
    handed_over: int = 0
    """Links found here that others own."""
    taken_over: int = 0
    """Links of ours that others found."""
    held_back: int = 0
    """Hosts that had their share of today's visits; the rest waits for tomorrow."""
    left_over: int = 0
    """URLs that the days before were too short for. They come first today."""
    day: int = 0
    day_ends: str = ""
    paused_s: int | None = 0
    """For how long the operator's pause lasts on; None until it is ended by hand."""
    state: str = "closed"
    problem: str | None = None
    restarts: int = 0
    forbidden: int = 0
    closed: dict[str, str] = field(default_factory=dict)
    """Sites that cannot be reached and are tried again today: why, since when, and when next. The first few."""
    to_be_retried: int = 0
    """Pages that failed today and are tried again today."""
    problems: dict[str, int] = field(default_factory=dict)
    """Why visits of today came to nothing, and how many did; the most frequent reasons."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HelpersStatus:
    """Peers that fetch for this one, since the start; `waiting` for work and `out` at them are of now. `given` URLs,
    and the results that they `brought`. Of these this peer `checked` some with the origin: `differed` were not what it
    says, `changing` pages say something else each time. `lost`: nothing of use came in time; `declined`: the helper
    could not fetch it; `late` results came too late, twice, or unasked. `barred`: for how many more seconds a helper
    has no work here.
    """

    waiting: int = 0
    out: int = 0
    given: int = 0
    brought: int = 0
    checked: int = 0
    differed: int = 0
    changing: int = 0
    lost: int = 0
    declined: int = 0
    late: int = 0
    barred: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class HelpingStatus:
    """This peer as a helper, which fetches for `owners` as it has no share of its own. `fetched` pages of today,
    `declined` of them were not to be fetched, `late` came to nothing. `distrusted`: since the start, owners that give
    it no more work, as its pages were not what the origins say to them."""

    is_helper: bool = False
    fetched: int = 0
    owners: int = 0
    declined: int = 0
    late: int = 0
    distrusted: int = 0
    rests: str = ""
    """Why it fetches nothing now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StewardStatus:
    """First the hosts and addresses that this peer is steward of, then its own requests to other stewards.

    `lost`: windows that were never given back; `overdue`: of these, windows of addresses that are still waited for, as
    somebody may be connected there; `elsewhere`: leases for an address to which the host's name does not lead for us;
    `slow`: hosts that have waited for ten minutes or more, apart from their delay between fetches; `is_passed_over`:
    our line is slow, so other holders are stewards of our hosts.
    """

    subjects: int = 0
    windows: int = 0
    waiting: int = 0
    granted: int = 0
    lost: int = 0
    backing_off: int = 0
    overdue: int = 0
    elsewhere: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    is_passed_over: bool = False
    held: int = 0
    slow: int = 0
    calls: int = 0
    calls_failed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStatus:
    """`state` is that of the archive; `problem` says why nothing can be read (not open) or stored (open)."""

    captures: int = 0
    bytes: int = 0
    state: str = "closed"
    problem: str | None = None
    index_bytes: int = 0
    files: int = 0
    stored: int = 0
    damaged: int = 0
    quarantined: int = 0
    """Captures that this disk could not read any more, whose damaged bytes are kept until they are whole again."""
    quarantined_urls: tuple[str, ...] = ()
    quarantine_bytes: int = 0
    is_index_damaged: bool = False
    """The next start makes it again."""
    scrubbed_share: float = 0.0
    """Of the files, so much was read in the present round."""
    lost: int = 0
    """Captures that went with files that are gone or too short, and are not back."""
    lost_files: tuple[str, ...] = ()
    """Those files, and what is left of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HolderStatus:
    """A peer that holds some of our captures. `compared_s_ago` is None if the two have not compared yet."""

    peer: str
    compared_s_ago: int | None
    differences: int
    is_absent: bool
    bytes: int = 0
    """Of the last comparison, both ways."""
    proof: str = "unproven"
    """`proven` (in the last week), `doubted` (a wrong proof, or none for a day), `failed` (twice: not counted here)."""
    proven_s_ago: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditStatus:
    """A holder and this peer proved to each other that they have what was drawn."""

    peer: str
    s_ago: int
    asked: int
    result: str
    """`proven`, `fully proven` (all that both hold), `wrong`, `lacking` (it says so), `other set` (the two must compare
    first)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossFetchStatus:
    """Captures of others that we also fetched from the origin, since the start. `peers` are their signers, the most
    differences first. A difference is no accusation: pages change, and some differ for each visitor.
    """

    made: int = 0
    agreed: int = 0
    differed: int = 0
    changing: int = 0
    """The origin said something else each time."""
    unclear: int = 0
    """The origin did not answer that day."""
    peers: dict[str, dict[str, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DoorStatus:
    """Other peers' captures since the start: by which door they came in, why others were turned away, and which peers
    sent most of those. `clock` is `behind` or `ahead` where the dates of others say that this machine's clock is.
    `quotas_hit` are the signers of whom more came today than this peer takes, and the bytes that were turned away."""

    came: dict[str, int] = field(default_factory=dict)
    turned_away: dict[str, int] = field(default_factory=dict)
    peers: dict[str, str] = field(default_factory=dict)
    clock: str = ""
    quotas_hit: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyPlacesStatus:
    """In how many places the holders of our captures are; nothing where each key is a place of its own."""

    captures: dict[str, int] = field(default_factory=dict)
    """By the number of places."""
    told: str = ""
    """The same as a sentence."""
    is_short: bool = False
    """The ring has many places, and yet copies share some."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpareStatus:
    """Copies beyond those that the network promises, of which up to `copies` are kept while there is room. `held` are
    captures that this peer keeps so for others. Of the `own` captures that it must hold, other peers have `known` spare
    copies together, as of the last time that they were asked."""

    copies: int = 0
    held: int = 0
    known: int = 0
    own: int = 0
    fills: bool = False
    """This peer has room for more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiesStatus:
    """Captures under way and since the start. `suspects` lists the peers that broke a promise, and how."""

    to_send: int = 0
    to_fetch: int = 0
    pushed: int = 0
    pulled: int = 0
    received: int = 0
    refused: int = 0
    dropped: int = 0
    compared: int = 0
    failed: int = 0
    audited: int = 0
    disputed: int = 0
    """Captures that another peer's capture of the same page and day contradicts, since the start."""
    repaired: int = 0
    """Damaged ones that were fetched again."""
    under_repair: int = 0
    without_source: int = 0
    """Of those, the captures that no peer that answers is known to have."""
    too_few: int = 0
    """Captures that fewer peers are known to have than should."""
    too_few_bytes: int = 0
    """About: by the average size of a capture here."""
    done_in_s: int | None = 0
    """Until everything is sent and fetched, at the pace of the last ten minutes; None while nothing moves."""
    declined: int = 0
    """Captures that have fewer copies since a holder removed its own; they are not among `too_few`."""
    bytes_in: int = 0
    bytes_out: int = 0
    places: CopyPlacesStatus = field(default_factory=CopyPlacesStatus)
    spares: SpareStatus = field(default_factory=SpareStatus)
    holders: tuple[HolderStatus, ...] = ()
    audits: tuple[AuditStatus, ...] = ()
    """The last of them, newest first."""
    full: tuple[str, ...] = ()
    """Holders that have no room, or cannot store: nothing is sent to them for an hour, and the next peers on the ring
    get what they lack."""
    cross_fetches: CrossFetchStatus = field(default_factory=CrossFetchStatus)
    doors: DoorStatus = field(default_factory=DoorStatus)
    suspects: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticesStatus:
    """Notices of removals, and what was removed here: `hidden` and `erased` count subjects, not captures."""

    kept: int = 0
    open: int = 0
    issued: int = 0
    much: int = 0
    """Open ones that name more than a thousandth of what is held."""
    first: tuple[str, ...] = ()
    """The first digits of some of these."""
    hidden: int = 0
    erased: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetStatus:
    """The use of the line since the provider's month began. `waits_s` is by kind of background work; 0 means that it
    runs. A volume of 0 is without a limit. `closed_by` says why the crawl may not go on: "paused", "battery", "metered
    line", "hours", "month" (used up), "ahead of the month" (its even pace), and `closed_s` for how long at least.
    """

    month: str = ""
    month_up_bytes: int = 0
    month_down_bytes: int = 0
    month_bytes_max: int = 0
    connections: dict[str, int] = field(default_factory=dict)
    """Open to sites and other peers, by use."""
    closed_by: tuple[str, ...] = ()
    closed_s: int = 0
    waits_s: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeavingStatus:
    """Whether the peer is leaving for good, and how many parts of its archive `peers` others have taken over.
    `silent` of them take nothing now. `turned_away` copies are not let in there for now; `kept_out` are copies of what
    was brought in here, which the network does not spread.
    """

    state: str = "staying"
    peers: int = 0
    parts: int = 0
    parts_over: int = 0
    silent: int = 0
    turned_away: int = 0
    kept_out: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SaidStatus:
    """What the operator reads first, in sentences: who the peer is to the ring, what it does now, what it holds, and
    what comes next. `alarms` say what is wrong."""

    standing: str = ""
    doing: str = ""
    holds: str = ""
    next: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchStatus:
    """The index of words."""

    state: str = "off"
    """`off`, `waiting` (for the archive), `filling` (it lacks words of old captures), `level`, `resting` (`problem`
    says why)."""
    documents: int = 0
    """Runs of captures of one page with one text."""
    bytes: int = 0
    waiting: int = 0
    """Captures that came, and cannot be found by their words yet."""
    share: float = 0.0
    """Of what should be in it, so much was read."""
    ring_share: float = 0.0
    """Of the ring: for so much of it this peer answers other peers' questions in words."""
    answered: int = 0
    """Questions of other peers since the start."""
    refused: int = 0
    disbelieved: int = 0
    """Answers of other peers that were left out, as they contradict the question or themselves."""
    is_rebuilding: bool = False
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerStatus:
    """`copies` counts captures by how many peers hold them."""

    peer_id: str
    nickname: str
    version: str
    network: str
    network_id: str
    http: str
    pid: int
    started: str
    uptime_s: int
    ring: RingStatus
    observation: ObservationStatus = field(default_factory=ObservationStatus)
    calls: CallsStatus = field(default_factory=CallsStatus)
    readers: ReadersStatus = field(default_factory=ReadersStatus)
    links: LinksStatus = field(default_factory=LinksStatus)
    crawl: CrawlStatus = field(default_factory=CrawlStatus)
    helpers: HelpersStatus = field(default_factory=HelpersStatus)
    helping: HelpingStatus = field(default_factory=HelpingStatus)
    stewards: StewardStatus = field(default_factory=StewardStatus)
    store: StoreStatus = field(default_factory=StoreStatus)
    search: SearchStatus = field(default_factory=SearchStatus)
    copies: dict[str, int] = field(default_factory=dict)
    copying: CopiesStatus = field(default_factory=CopiesStatus)
    notices: NoticesStatus = field(default_factory=NoticesStatus)
    budget: BudgetStatus = field(default_factory=BudgetStatus)
    leaving: LeavingStatus = field(default_factory=LeavingStatus)
    restored: tuple[str, ...] = ()
    """Files of the home that were lost or damaged, and put back since this start began."""
    said: SaidStatus = field(default_factory=SaidStatus)
    alarms: tuple[str, ...] = ()
    """Sentences for the operator, each about something that needs action."""
