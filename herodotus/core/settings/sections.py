"""Which settings are there? Each part of the peer receives its own section and nothing else."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import get_type_hints

from herodotus.core.offered_limits import DiskLimits, Hours, TrafficLimits
from herodotus.core.settings.fields import (
    HostPort,
    PeerDoor,
    choice,
    endpoint,
    flag,
    hours,
    line,
    many,
    number,
    peer_door,
    seconds,
    web_address,
    whole,
)

HTTP_PORT_OFFSET = 1000  # DESIGN 9
_GB, _MBIT_BYTES = 1e9, 125_000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorSettings:
    """Who runs this peer."""

    contact: str = web_address().setting(
        "",
        "page or address where site owners can reach you; sent with every request, required by public networks",
    )
    nickname: str = line(40, "a name").setting("", "shown on the start page beside the peer's id")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings:
    """The port that readers open in a browser."""

    listen: HostPort = endpoint().setting(
        HostPort(host="0.0.0.0", port=5484),  # noqa: S104  # readers anywhere are the point; test and lan differ
        "where readers reach the portal; port 0 takes any free one",
    )
    public_url: str = web_address().setting(
        "",
        "the address that readers use, such as https://archive.example.org; requests under other names are refused",
    )
    replay_name: str = line(150, "a name with a star before it", r"(?:\*\.[a-z0-9.-]+)?").setting(
        "",
        "such as *.replay.example, of another domain than http.public_url: names below it lead to this port, one for "
        "each archived site and date. Readers on this machine have such names without it",
    )
    gateway: bool = flag().setting(
        False, "without effect since peers redirect no readers; kept for files of before"
    )
    banner: bool = flag().setting(True, "a line above archived pages, with the date and links to other days")
    connections_max: int = whole(8, 100_000).setting(512, "open connections at once; further readers get 503")
    connections_per_address: int = whole(1, 100_000).setting(
        32,
        "of these, one address may hold so many (of IPv6 a /64); this machine's own readers have room of their own",
    )
    connections_per_network: int = whole(1, 100_000).setting(
        128, "and so many all addresses of a /24 together (of IPv6 a /48)"
    )
    drift_days: int = whole(0, 36_500).setting(
        30,
        "a part of an archived page that is from so many days before or after the page is marked in the line above it",
    )
    survey: bool = flag().setting(
        True, "read each new capture once more, for statistics and in-links; about 2 ms and 1 kB a page"
    )
    idle_s: float = seconds(1, 3600).setting(
        30.0, "a connection that is silent for so long is closed, so slow readers cannot pile up"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RingSettings:
    """The peer's place among the others."""

    listen: HostPort = endpoint().setting(
        HostPort(host="::", port=4484),
        "where other peers reach this one, by UDP and TCP. [::] stands for all addresses of both"
        " families; the portal is at port + 1000, the rendezvous at port + 2000",
    )
    join: tuple[PeerDoor, ...] = many(peer_door(), 64).setting(
        (),
        "peers to join the ring through; the peer remembers those it met. For a name alone DNS is asked (SRV records of"
        " _herodotus._tcp.NAME), else port 4484 is tried",
    )
    advertise: str = line(45, "an IP address", r"[0-9A-Fa-f:.]*").setting(
        "", "the address at which others reach this peer; if empty, the peer finds out"
    )
    slot: int = whole(0, 7).setting(0, "tells peers behind one address apart: each needs its own")
    virtual_nodes: int = whole(0, 64).setting(
        0,
        "positions on the ring; the peer's share grows with them. 0 takes one for each 50 GB offered, at most"
        " the charter's positions_per_address / slots",
    )
    stabilize_s: float = seconds(0.5, 120).setting(10.0, "how often the peer asks a neighbour for its list")
    rumour_s: float = seconds(0.2, 60).setting(5.0, "how often the peer passes news on")
    digest_s: float = seconds(1, 600).setting(
        60.0, "how often the peer compares its table with another peer's"
    )
    graveyard_s: float = seconds(1, 600).setting(60.0, "how often the peer asks one of the dead again")
    suspicion_s: float = seconds(1, 600).setting(
        30.0,
        "how long a silent peer has to answer before two witnesses declare it dead and others do its work",
    )
    gossip_bits_per_s_max: float = number(500, 1e9, "bit/s").setting(
        10_000.0, "what keeping the table of members may cost; above it the peer keeps a sample"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CallsSettings:
    """Connections with other peers, for links, leases and copies: TCP at the port that `ring.listen` has by UDP."""

    connections_max: int = whole(8, 10_000).setting(
        200, "connections that others may hold open at once; home routers can handle a few hundred"
    )
    idle_s: float = seconds(1, 3600).setting(60.0, "a connection without a call for so long is closed")
    knock_s: float = number(0, 3600, "seconds").setting(
        15.0,
        "this peer opens and closes a connection to one member, always the same, in so many seconds, and to one "
        "neighbour on the ring in four times as many, to see that calls get through. 0 for never",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RelaySettings:
    """Peers behind closed routers, which others reach through members that can be called."""

    mbit_per_s: float = number(0, 1_000, "Mbit/s").setting(
        1.0, "what this peer passes on between others that cannot reach each other; 0 for nothing at all"
    )
    member_after_s: float = seconds(1, 86_400).setting(
        1800.0, "a peer behind a closed router owns a share when its relays have kept its lines for so long"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoverySettings:
    """How the peer finds the ring and becomes reachable."""

    lan: bool = flag().setting(True, "announce this peer on the local network and look for others there")
    kademlia: bool = flag().setting(True, "publish and look for peer records at the public rendezvous")
    port_mapping: bool = flag().setting(True, "ask the router to let other peers in (PCP, NAT-PMP, UPnP)")
    dial_backs: int = whole(0, 16).setting(
        3, "peers of different networks that must reach this peer before it owns a share; 0 skips the test"
    )
    rendezvous_find_s: float = seconds(1, 86_400).setting(600.0, "how often the peer looks at the rendezvous")
    rendezvous_publish_s: float = seconds(1, 86_400).setting(
        1800.0, "how often the peer publishes its record there"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CrawlSettings:
    """How this peer fetches. Rules for all members are in the charter."""

    connections: int = whole(1, 512).setting(56, "connections open at once, as in the thesis (5.1)")
    visits_per_host_max: int = whole(1, 10_000_000).setting(
        50_000, "fetches from one host in a day; the rest is due the next day"
    )
    urls_per_host_max: int = whole(1, 1_000_000_000).setting(
        1_000_000, "URLs of one host that the peer remembers; a trap has endlessly many"
    )
    helps: bool = flag().setting(
        True, "fetch for other peers while nobody can call this one, and it therefore has no share of its own"
    )
    helpers: bool = flag().setting(
        True,
        "let such peers fetch for this one; it fetches some of their results again, and gives no work to those that "
        "alter pages",
    )
    rules_off: tuple[str, ...] = many(line(20, "a rule's name", r"[a-z-]+"), 20).setting(
        (),
        "rules of finding what pages need that this peer does not use, by the names that `crawl` counts them under; "
        "each rests by itself at a host where it finds nothing",
    )
    opt_out: tuple[str, ...] = many(line(253, "a host name", r"[^\s/:@]+"), 10_000).setting(
        (), "hosts whose owners asked not to be visited; includes all hosts below them"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiesSettings:
    """How copies are kept. Their number is in the charter."""

    acknowledge: str = choice("local", "k").setting(
        "local",
        "when a fetched capture counts as stored: when durable here, or at every holder that can be reached",
    )
    compare_s: float = seconds(1, 604_800).setting(
        86_400.0, "how often this peer compares with each other holder"
    )
    departed_s: float = seconds(1, 2_592_000).setting(
        86_400.0, "how long a lost peer may be away before the others make new copies of its captures"
    )
    low_s: float = seconds(1, 86_400).setting(
        900.0, "the same when fewer than two thirds of the copies can be reached"
    )
    keep_s: float = seconds(1, 2_592_000).setting(
        86_400.0,
        "how long this peer's share, and the holders of a surplus copy, must be unchanged before it may be deleted",
    )
    full_share: float = number(0, 1, "of the offer").setting(
        0.9, "surplus copies stay until the archive takes this share of what the peer offers"
    )
    spare_share: float = number(0, 1, "of the offer").setting(
        0.75,
        "copies beyond those that the network promises are taken in until the archive takes this share of what the "
        "peer offers; between this and copies.full_share they stay, then they go first. 0 takes none",
    )
    let_go_share: float = number(0, 1, "of the archive's captures").setting(
        0.05, "the most that is deleted as surplus in 24 hours"
    )
    promise_s: float = seconds(1, 86_400).setting(
        86_400.0,
        "how long the holders of a surplus copy must promise to keep theirs before it is deleted here",
    )
    audit_s: float = seconds(1, 604_800).setting(
        86_400.0,
        "how often this peer and each other holder prove to each other that they have what both hold",
    )
    quota_mb: float = number(0, 1e6, "MB").setting(
        16.0,
        "what this peer takes a day of the captures that one peer fetched or brought in, besides 1 % of what that peer "
        "proved to hold of ours; of one place four times that. Where most bring more, four times what is usual counts",
    )
    cross_fetch_share: float = number(0, 1, "of the captures").setting(
        0.02,
        "share of captures that one of their other holders also asks the origin for, to expose peers that "
        "invent or alter pages. 0 for none, as in tests, where each page is fetched once a day",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LinksSettings:
    """When the peer carries new links to the peers that are responsible for them."""

    per_peer: int = whole(1, 10_000).setting(
        40, "average number of waiting links for each peer of the ring that starts a walk; the thesis had ten"
    )
    wait_s: float = seconds(0.1, 86_400).setting(
        600.0,
        "the longest time that a link waits for others before a walk starts; in a ring of few peers it waits less: a "
        "quarter of a second among five, a second among ten",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetSettings:
    """What this peer may use of the machine and its line. 0 sets no limit of that kind."""

    disk_gb_max: float = number(0, 1e6, "GB").setting(
        0.0, "the most that the archive's WARC files may take, over all slices"
    )
    disk_free_gb_min: float = number(0.3, 1e6, "GB").setting(
        1.0, "space left free on the home's disk for everything else; below it nothing is stored"
    )
    upload_mbit_per_s_max: float = number(0, 1e5, "Mbit/s").setting(
        0.0, "the most that copies for others may take of the line; answers to readers are not limited"
    )
    download_mbit_per_s_max: float = number(0, 1e5, "Mbit/s").setting(
        0.0, "the most that crawling and copies from others may take of the line"
    )
    month_gb_max: float = number(0, 1e6, "GB").setting(
        0.0,
        "both ways together in a month; crawling and copying spread nine tenths of it evenly, the rest is for"
        " readers and the ring",
    )
    month_day: int = whole(1, 28).setting(1, "day on which the provider's month begins")
    hours: tuple[Hours, ...] = many(hours(), 16).setting(
        (), "when crawling and copying may run; none means always. Readers are served all day"
    )
    connections_max: int = whole(25, 100_000).setting(
        100,
        "TCP connections to sites and other peers together, as home routers keep a row for each; no bound in a network"
        " of private addresses",
    )
    rest_on_battery: bool = flag().setting(
        True, "no crawling and no copies while the machine runs on its battery, as UPower tells"
    )
    rest_on_metered_line: bool = flag().setting(
        True, "no crawling and no copies while the line is paid by the byte, as NetworkManager tells"
    )
    niceness: int = whole(0, 19).setting(
        10, "how much the peer gives way to other programs of this machine; 19 is most"
    )

    @property
    def disk(self) -> DiskLimits:
        cap = int(self.disk_gb_max * _GB) or None
        return DiskLimits(archive_bytes_max=cap, free_bytes_min=int(self.disk_free_gb_min * _GB))

    @property
    def traffic(self) -> TrafficLimits:
        return TrafficLimits(
            up_bytes_per_s=self.upload_mbit_per_s_max * _MBIT_BYTES or None,
            down_bytes_per_s=self.download_mbit_per_s_max * _MBIT_BYTES or None,
            month_bytes=int(self.month_gb_max * _GB) or None,
            month_day=self.month_day,
            hours=self.hours,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveFilesSettings:
    """How the archive writes its files from now on. It reads all existing files."""

    codec: str = choice("zstd", "gzip").setting(
        "zstd", "compression of sealed files: zstd needs less space, every WARC tool reads gzip (.warc.gz)"
    )
    dictionary_kb: int = whole(0, 1_000, "kB").setting(
        0,
        "size of a dictionary in each sealed file; 110 is usual. It saves space if a few sites have many pages, but"
        " zstd -dc alone no longer reads the file. 0 makes none",
    )
    scrub_days: int = whole(0, 3_650, "days").setting(
        30,
        "all files are read once in so long, to find what rots while other holders still have it; 0 reads only what"
        " is asked for",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalsSettings:
    """What happens to removed pages, and to the notices of other peers that removed some."""

    follow: str = choice("ask", "issuers", "holders").setting(
        "ask",
        "whose removals this peer follows by itself: nobody's (you decide with herodotus notices), those of the keys in"
        " removals.issuers, or those that two thirds of the places of a capture's holders followed; never more than a"
        " thousandth of what it holds a day",
    )
    issuers: tuple[str, ...] = many(line(64, "a peer's id"), 1_000).setting(
        (), "peers whose removals are followed, by the id that herodotus identity show prints, or by key"
    )
    grace_days: float = number(0, 3_650, "days").setting(
        30.0,
        "how long the bytes of a removed page stay hidden, and can be shown again, before they are erased",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSettings:
    """The index of words, by which pages are found."""

    enabled: bool = flag().setting(
        True,
        "keep an index of the words of the pages that this peer holds; without it nothing is found by its words",
    )
    cpu_share: float = number(0.01, 1).setting(
        0.25, "of one processor, at most, for reading the words of new captures"
    )
    copies: int = whole(1, 16).setting(
        3,
        "of the peers that hold an address, so many have an index of its words and are asked about them; the same at "
        "all peers of a ring",
    )
    patience_s: float = seconds(0.1, 60).setting(
        0.7,
        "how long a question in words waits for other peers; after half of it others are asked in the place of those "
        "that are silent",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleSettings:
    """How the daemon stops."""

    drain_s: float = seconds(0.1, 600).setting(
        8.0, "time to finish open work after the first stop signal; service managers kill after 10 s"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """What the peer writes about itself."""

    level: str = choice("debug", "info", "warning", "error").setting(
        "info", "the least important lines that are written"
    )
    format: str = choice("text", "json").setting(
        "text", "lines for people, or one JSON object a line for machines"
    )
    file_bytes_max: int = whole(100_000, 1_000_000_000, "bytes").setting(
        10_000_000, "a new log file starts at this size; five are kept"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    operator: OperatorSettings = field(default_factory=OperatorSettings)
    http: HttpSettings = field(default_factory=HttpSettings)
    ring: RingSettings = field(default_factory=RingSettings)
    calls: CallsSettings = field(default_factory=CallsSettings)
    relay: RelaySettings = field(default_factory=RelaySettings)
    discovery: DiscoverySettings = field(default_factory=DiscoverySettings)
    crawl: CrawlSettings = field(default_factory=CrawlSettings)
    copies: CopiesSettings = field(default_factory=CopiesSettings)
    links: LinksSettings = field(default_factory=LinksSettings)
    budget: BudgetSettings = field(default_factory=BudgetSettings)
    archive: ArchiveFilesSettings = field(default_factory=ArchiveFilesSettings)
    removals: RemovalsSettings = field(default_factory=RemovalsSettings)
    search: SearchSettings = field(default_factory=SearchSettings)
    lifecycle: LifecycleSettings = field(default_factory=LifecycleSettings)
    log: LogSettings = field(default_factory=LogSettings)


SECTIONS: MappingProxyType[str, type] = MappingProxyType(get_type_hints(Settings))
"""A new section is a field of `Settings`."""

# A preset sets several defaults together; the file, the environment and flags override it.
PRESETS: Mapping[str, Mapping[str, object]] = MappingProxyType(
    {
        "wan": {},
        "lan": {
            "http.connections_max": 128,
            "http.idle_s": 120.0,
            "discovery.kademlia": False,
            "discovery.port_mapping": False,
            "discovery.dial_backs": 1,
        },
        "test": {
            "http.listen": HostPort(host="127.0.0.1", port=0),
            "http.connections_max": 64,
            "lifecycle.drain_s": 2.0,
            "ring.listen": HostPort(host="127.0.0.1", port=0),
            "ring.virtual_nodes": 1,
            "ring.stabilize_s": 2.0,
            "ring.rumour_s": 1.0,
            "ring.digest_s": 5.0,
            "ring.graveyard_s": 5.0,
            "copies.compare_s": 10.0,
            "copies.departed_s": 10.0,
            "copies.low_s": 5.0,
            "copies.keep_s": 5.0,
            "copies.full_share": 0.0,
            "copies.let_go_share": 1.0,
            "copies.promise_s": 60.0,
            "copies.audit_s": 10.0,
            "copies.cross_fetch_share": 0.0,
            "links.wait_s": 1.0,
            "relay.member_after_s": 5.0,
            "discovery.lan": False,
            "discovery.kademlia": False,
            "discovery.port_mapping": False,
            "discovery.dial_backs": 0,
            "budget.disk_free_gb_min": 0.3,
            "budget.rest_on_battery": False,
            "budget.rest_on_metered_line": False,
            "budget.niceness": 0,
        },
        # A line that a family uses too, on somebody's desktop machine.
        "home": {
            "http.connections_max": 128,
            "http.connections_per_network": 64,
            "crawl.connections": 16,
            "budget.disk_free_gb_min": 20.0,
            "budget.upload_mbit_per_s_max": 4.0,
            "budget.download_mbit_per_s_max": 16.0,
            "budget.month_gb_max": 300.0,
            "budget.niceness": 15,
        },
        # A machine that does nothing else, on a permanent line.
        "server": {
            "http.connections_max": 4096,
            "crawl.connections": 128,
            "budget.connections_max": 1_000,
            "discovery.lan": False,
            "discovery.port_mapping": False,
            "budget.disk_free_gb_min": 20.0,
            "budget.niceness": 0,
        },
        # A Raspberry Pi or an old laptop: little memory, a slow card or USB disk, and a home line.
        "small": {
            "http.connections_max": 64,
            "http.connections_per_address": 16,
            "http.connections_per_network": 32,
            "crawl.connections": 8,
            "crawl.visits_per_host_max": 10_000,
            "ring.gossip_bits_per_s_max": 5_000.0,
            "budget.disk_free_gb_min": 4.0,
            "budget.upload_mbit_per_s_max": 2.0,
            "budget.download_mbit_per_s_max": 8.0,
            "budget.month_gb_max": 150.0,
            "budget.niceness": 19,
            "log.file_bytes_max": 1_000_000,
        },
    }
)
