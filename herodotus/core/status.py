"""What does a peer say about itself? The snapshot behind `herodotus status --json`, whose keys stay (DESIGN 9)."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class RingStatus:
    """A peer that knows nobody is a ring of one and answers for the whole circle."""

    members: int = 1
    ideal: bool = True
    arcs: tuple[tuple[str, str], ...] = (("0" * 40, "f" * 40),)


@dataclass(frozen=True, slots=True, kw_only=True)
class CrawlStatus:
    known: int = 0
    due: int = 0
    fetched: int = 0
    unchanged: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStatus:
    captures: int = 0
    bytes: int = 0


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
    ring: RingStatus = field(default_factory=RingStatus)
    crawl: CrawlStatus = field(default_factory=CrawlStatus)
    store: StoreStatus = field(default_factory=StoreStatus)
    copies: dict[str, int] = field(default_factory=dict)
