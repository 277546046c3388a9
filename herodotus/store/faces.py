"""What may the other rooms ask of the archive? Three faces; nothing else of it is seen from outside.

`Store` is for parts that bring captures in or read one (crawling, commands), `Holdings` for the other holders of the
same share, `Catalogue` for readers. The calls are typed and take values: no caller meets the index, the files or
their locks. The one function that goes in is the guard of `drop`: it is asked under the archive's lock, since the
captures must not change between its answer and the deletion.
"""

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol

from herodotus.core.bundles import Visit
from herodotus.core.captures import CaptureId, Deposit, LargeBody, Mode
from herodotus.core.copies.possession import Room
from herodotus.core.errors import ArchiveError, MalformedRecordError
from herodotus.core.index_rows import Unreachable
from herodotus.core.removals import Removals, Subject
from herodotus.core.signatures import Proof
from herodotus.store.intake import StoreOutcome
from herodotus.store.large_parcels import Packed
from herodotus.store.reader import Version
from herodotus.store.spools import Lying, OnDisk, Spool
from herodotus.store.store import STREAM_PAGE, Acknowledge, Page, Stored
from herodotus.store.stored_records import StoredCapture
from herodotus.store.streams import Cursor, HostPlace, HostStream, Query, Stream
from herodotus.store.survey import Property, Span, Tally

Stretch = tuple[bytes, bytes | None]
"""Positions from the first on, to before the second; None is the end of the circle. It does not wrap."""
Sign = Callable[[Deposit], Deposit]
"""Gives the very same deposit where somebody vouches for it already."""
TakePayload = Callable[[bytes, bytes | LargeBody], None]
"""Takes a capture's SHA-256 and its payload, in the thread that reads it."""
TakeDraw = Callable[[int, bytes, bytes | LargeBody], None]
"""The same with the number of the place that it was drawn from."""
OnStored = Callable[[Sequence[CaptureId]], None]
"""Called with captures that have just become durable, in the thread that committed them: it must be quick."""


@dataclass(frozen=True, slots=True)
class Parcel:
    """A capture as it travels (`herodotus.store.holdings`)."""

    data: bytes | OnDisk


class Checked(NamedTuple):
    """A parcel that was taken apart, and is what its digests say."""

    deposit: Deposit
    signer: bytes | None
    """Who vouches for it; None where the signature is missing, or is of something else."""
    members: tuple[bytes, ...] | None = None
    """Its bytes, where they hold to the byte what this archive would write for the deposit."""
    packed: Packed | None = None
    """The body, where the deposit has none."""


class Held(Enum):
    """Whether a capture is here."""

    HERE = "here"
    LACKING = "lacking"
    DELETED = "deleted"
    """For good: it was here, or must not come."""


@dataclass(frozen=True, slots=True)
class Taken:
    outcome: StoreOutcome
    is_disputed: bool
    """It is new here, and somebody else vouches for another content of that day."""


@dataclass(frozen=True, slots=True)
class Broken:
    """Where captures were found damaged."""

    noted: int
    """Damages that were looked for, ever."""
    keys: list[bytes]
    """Of captures that still lie where some is."""
    is_scan: bool
    """All of the index was read for it."""


class Store(Protocol):
    """For parts that bring captures in, or read one by its name."""

    def has_room(self, bytes_: int) -> bool:
        """Whether so many bytes fit now, judging by the disks and the operator's limits."""
        ...

    def is_removed(self, url: str) -> bool:
        """Whether the operator removed it for good: then nothing of it is stored."""
        ...

    async def store(
        self, deposit: Deposit, mode: Mode = Mode.REGULAR, packed: Packed | None = None
    ) -> Stored:
        """Durable when it returns. StoreRefusedError when the disk cannot take it."""
        ...

    async def note_visits(self, visits: Sequence[Visit]) -> None:
        """Found unchanged: some bytes each, durable when it returns."""
        ...

    async def note_failure(self, url: str, time_s: int, problem: str) -> None:
        """A visit got no answer; forgotten where nothing of the page is here, or it was noted just before. Of a whole
        site as of its robots.txt. Durable when it returns."""
        ...

    async def note_answer(self, url: str, time_s: int) -> None:
        """There was one, of which nothing is stored; needed only after a failure."""
        ...

    async def newest(self, url: str, not_after_s: int) -> StoredCapture | None: ...

    async def read(self, id_: CaptureId) -> StoredCapture | None:
        """DamagedRecordError when it is there and damaged."""
        ...

    async def page(self, query: Query, cursor: Cursor | None = None, limit: int = STREAM_PAGE) -> Page:
        """A stream by pieces: give the cursor of one page for the next."""
        ...

    async def delete(self, ids: Iterable[CaptureId]) -> int: ...


class Holdings(Protocol):
    """The archive's captures, as other holders of the same share ask about them.

    A member is a URL on a day; digests are made of members (`core.reconciliation`). Keys are those of the index,
    without their family: `position[12] time[4] variant[3]`.
    """

    @property
    def captures(self) -> int: ...

    @property
    def stamp(self) -> object:
        """While it is the same, so is every digest."""
        ...

    @property
    def counted(self) -> tuple[int, int]:
        """Captures, and how often some went or were written again: while both are the same, so are all counts."""
        ...

    def listen(self, on_stored: OnStored, *, sign: Sign, acknowledge: Acknowledge | None = None) -> None:
        """`sign` signs the captures that this peer brings in. A new capture counts as stored when `acknowledge`
        returns."""
        ...

    async def digests(self, low: bytes, high: bytes | None) -> dict[int, bytes]:
        """The digests of the directories of 16 bits in a stretch; `top_digests` and `root_digest` build on them. They
        are kept while nothing changes. A URL on a day counts once, whatever its content."""
        ...

    async def members(self, stretches: Sequence[Stretch]) -> list[bytes]:
        """Of each stretch captures before tombstones, either in order of position and day."""
        ...

    async def keys(self, stretches: Sequence[Stretch], *, beside_others: bool = False) -> list[bytes]:
        """The keys of all captures in the stretches, or only of those that share URL and day with another."""
        ...

    async def counts(self, stretches: Sequence[Stretch]) -> list[int]:
        """Captures in each."""
        ...

    async def keys_of(self, members: Sequence[bytes]) -> set[bytes]:
        """Of their captures."""
        ...

    async def lacking(self, members: Sequence[bytes]) -> list[bytes]:
        """The members without a capture here. A member deleted for good is not lacking."""
        ...

    async def held(self, keys: Sequence[bytes]) -> list[Held]: ...

    async def has(self, contents: Sequence[tuple[bytes, bytes]]) -> list[bool]:
        """Whether the captures of these keys are here with these SHA-256 in their records."""
        ...

    async def parcel(self, key: bytes, sign: Sign) -> Parcel | None:
        """None when it is not here, or broken."""
        ...

    async def parcels(self, keys: Sequence[bytes], sign: Sign, bytes_max: int) -> list[Parcel | None]:
        """Of the first of these keys, at least one; no more after those given have `bytes_max` together."""
        ...

    async def buried(self, member: bytes) -> list[bytes]:
        """The keys of a member's captures that were deleted for good."""
        ...

    async def proofs(self, members: Sequence[bytes], question: bytes) -> list[list[Proof]]:
        """Of each content of each member that can be read."""
        ...

    async def tallies(self, low: bytes, high: bytes | None) -> list[tuple[bytes, bytes | None, int]]:
        """The directories of 16 bits in a stretch, from where to where, and of how many URLs on a day there are
        captures."""
        ...

    async def draw(self, places: Sequence[tuple[bytes, bytes | None, int]], take: TakeDraw) -> list[bytes]:
        """Read all contents of certain members: from each stretch the one of a number. Gives the members; empty where
        there is none, or its contents cannot be read."""
        ...

    async def payloads(self, keys: Sequence[bytes], take: TakePayload) -> list[bytes]:
        """Read the captures in this order, each checked against its SHA-256; the keys of those that cannot be."""
        ...

    async def check_all(
        self, parcels: Sequence[bytes], bytes_max: int
    ) -> list[Checked | MalformedRecordError]:
        """Of the first of these, as many as hold `bytes_max` together; none at all where the first holds more alone."""
        ...

    def spool(self) -> Spool:
        """Where a large parcel waits while it comes in."""
        ...

    async def append(self, spool: Spool, data: bytes | bytearray) -> None:
        """StoreRefusedError when the disk cannot take it."""
        ...

    async def check(self, parcel: Lying) -> Checked:
        """Of any size, piece by piece: the deposit has no body. MalformedRecordError at anything that does not fit."""
        ...

    async def take_all(self, arrivals: Sequence[Checked]) -> list[Taken | ArchiveError]:
        """Durable when it returns, or why not: StoreRefusedError when the disk cannot take it."""
        ...

    async def room(self) -> Room:
        """How full the archive is."""
        ...

    async def has_room(self, size: int) -> bool:
        """Whether so many bytes fit now."""
        ...

    async def drop(
        self, low: bytes, high: bytes | None, keys: Container[bytes], may_go: Callable[[], bool]
    ) -> int:
        """Drop captures that other peers hold now, without tombstones: those of the stretch that `keys` name, and no
        others. Returns how many. `may_go` is asked in another thread, while nothing can be stored."""
        ...

    async def covered(self, subject: Subject, most: int) -> list[bytes]:
        """The keys of captures that a removal of the subject would cover; no more than so many."""
        ...

    def hide(self, removals: Removals) -> None:
        """From now on readers are shown nothing of these."""
        ...

    async def broken(self, noted: int, known: Iterable[bytes], *, may_scan: bool, most: int) -> Broken:
        """The known broken captures that are still broken. With `may_scan`, and if the count of damage is not `noted`,
        all broken ones."""
        ...

    async def release(self, keys: Collection[bytes]) -> None:
        """These are not ours to hold any more, and their holders have them: quarantine need not wait for them. Keys as
        `broken` gave them."""
        ...

    @property
    def lost(self) -> int:
        """Captures that went with files that are gone or too short, and are not back."""
        ...

    async def compared_with_all(self, is_ours: Callable[[bytes], bool]) -> None:
        """No other holder has anything that is missing here. So of what was lost, `is_ours` says by its key what is
        still waited for."""
        ...

    async def compact(self) -> None:
        """Rewrite segments of which a good part went."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """Seconds; `before` is the newest capture not newer than the moment, `after` the oldest that is newer."""

    first_s: int
    last_s: int
    before_s: int | None
    after_s: int | None


class VersionEntry(Protocol):
    """The index's facts about a capture; reading the capture itself costs ten times more."""

    @property
    def name(self) -> bytes:
        """The same name is always the same version."""
        ...

    def version(self) -> Version | None:
        """None where it is damaged, gone meanwhile, or of another URL."""
        ...

    def seen_s(self) -> Sequence[int]:
        """When it was found unchanged, ascending; from the index alone."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerFacts:
    """A log takes captures of all the ring as they come; a segment is one bucket, sorted, and never changed."""

    number: int
    path: str
    is_log: bool
    bucket: int | None
    epoch: int | None
    codec: str
    bytes: int


class Catalogue(Protocol):
    """The questions of readers. The calls wait for disks, so they are made in a worker. One question takes several
    calls, and the portal has its own lanes and a bounded queue for them. Positions are the first 12 bytes of a URL's
    key."""

    @property
    def stamp(self) -> int:
        """Another number whenever something was stored or deleted; it begins again with each opening."""
        ...

    # -- one URL

    def around(self, url: str, moment_s: int) -> Around | None:
        """From the index alone, as the next three; None: there is no capture of the URL."""
        ...

    def before_s(self, url: str, time_s: int) -> int | None:
        """The second of the newest capture that is older."""
        ...

    def last_visit_s(self, url: str, time_s: int) -> int | None:
        """When the version of that second was last found unchanged."""
        ...

    def seen_s(self, url: str, time_s: int) -> Sequence[int]:
        """All times at which it was, ascending, as far as they are kept; of a version without visits none."""
        ...

    def unreachable(self, url: str) -> Unreachable | None:
        """The visits since its newest version was last seen, where they got no answer."""
        ...

    def digests_at(self, url: str, time_s: int) -> set[bytes]:
        """Of the captures of a second, as far as the index has them: three bytes, between versions of one URL."""
        ...

    def newest(self, url: str, not_after_s: int) -> StoredCapture | None:
        """That can be read."""
        ...

    def history(self, url: str, from_s: int, to_s: int) -> list[Version]:
        """Oldest first, both ends included, up to a limit of the store."""
        ...

    def entries(self, url: str, from_s: int, to_s: int, most: int) -> Iterator[VersionEntry]: ...

    def spellings(self, asked: Sequence[str], *, is_sure: bool = True) -> list[str]:
        """The addresses with captures that are least bent from one of the asked, and not among them; mostly one.
        `is_sure`: none where several differ in case alone."""
        ...

    # -- many URLs

    def addresses(self, start: bytes, end: bytes) -> Iterator[str]:
        """URLs between two keys of `address_key`, in order. One of them may have lost its last capture since."""
        ...

    def address_keys(self, start: bytes, end: bytes) -> Iterator[bytes]:
        """As `addresses`; `url_of_address` reads them."""
        ...

    def positions(self, start: bytes, end: bytes | None) -> Iterator[bytes]:
        """Of the URLs that have captures, in the order of the ring."""
        ...

    def newest_at(self, position: bytes) -> StoredCapture | None:
        """None where nothing is left of it, or its newest capture is damaged."""
        ...

    # -- as surveyed

    def is_surveyed(self) -> bool:
        """Whether the figures and links below include everything stored so far."""
        ...

    def links_to(self, position: bytes, behind: bytes = b"") -> Iterator[tuple[bytes, Span]]:
        """Positions of the pages that have a link to a URL, and when they had it."""
        ...

    def tally(self, of: Property, value: str = "") -> Tally: ...

    def tallies(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, Tally]]:
        """Between two keys of `tally_key`."""
        ...

    # -- whole files, and all that there is

    def containers(self, behind: int) -> Iterator[ContainerFacts]:
        """Files by number. Files that were sealed or compacted meanwhile are left out."""
        ...

    def container(self, number: int) -> ContainerFacts | None: ...

    def contents(
        self, number: int, start: int
    ) -> tuple[int, Iterator[tuple[int, int, bytes | StoredCapture]]]:
        """The size of a file, and its members from a place on: where, how long, and unpacked. KeyError or
        FileNotFoundError where it went; MalformedRecordError in the middle where nothing can be read any more."""
        ...

    def shows_record(self, url: str, digest: str) -> bool:
        """Whether a record of a file may be shown: of such an address, with such a SHA-256 in hexadecimal."""
        ...

    def stream(self, query: Query, cursor: Cursor | None, *, is_whole: bool) -> Stream:
        """In the order of the ring. CursorExpiredError when the index was made again since."""
        ...

    def host_stream(
        self, ranges: Sequence[tuple[bytes, bytes]], query: Query, place: HostPlace | None, *, is_whole: bool
    ) -> HostStream:
        """In the order of addresses."""
        ...
