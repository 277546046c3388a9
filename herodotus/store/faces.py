"""What may the other rooms ask of the archive? Three faces; nothing else of it is seen from outside.

`Store` is for parts that bring captures in or read one (crawling, commands), `Holdings` for the other holders of the
same share, `Catalogue` for readers. The calls are typed and take values: no caller meets the index, the files or
their locks. The one function that goes in is the guard of `drop`: it is asked under the archive's lock, as what it
looks at must not change between the look and the deed.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from herodotus.core.captures import CaptureId, Deposit
from herodotus.core.copies.proofs import Proof
from herodotus.store.intake import StoreOutcome

Stretch = tuple[bytes, bytes | None]
"""Positions from the first on, to before the second; None is the end of the circle. It does not wrap."""
Sign = Callable[[Deposit], Deposit]
"""Gives the very same deposit where somebody vouches for it already."""
OnStored = Callable[[Sequence[CaptureId]], None]
"""Told what is durable from now on, in the thread that committed it: it must be quick."""
Acknowledge = Callable[[CaptureId], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """A capture as it travels (`herodotus.store.parcels`)."""

    id: CaptureId
    data: bytes


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


class Holdings(Protocol):
    """What this archive holds, as the other holders of it ask and answer.

    Members are what digests are made of (`herodotus.core.digests`): a URL on a day. Keys are those of the index,
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
        """`sign` vouches for what this peer brings in; a new capture counts as stored when `acknowledge` returns."""
        ...

    async def digests(self, low: bytes, high: bytes | None) -> dict[int, bytes]:
        """Of the directories of 16 bits of a stretch; `top_digests` and `root_digest` go on from there. Kept while
        nothing changes; a URL on a day counts once, whatever its content."""
        ...

    async def members(self, stretches: Sequence[Stretch]) -> list[bytes]:
        """Of each stretch captures before tombstones, either in order of position and day."""
        ...

    async def keys(self, stretches: Sequence[Stretch], *, beside_others: bool = False) -> list[bytes]:
        """Of all captures there, or of those that are not their URL's only one of a day."""
        ...

    async def counts(self, stretches: Sequence[Stretch]) -> list[int]:
        """Captures in each."""
        ...

    async def keys_of(self, members: Sequence[bytes]) -> set[bytes]:
        """Of their captures."""
        ...

    async def drawn(self, places: Sequence[tuple[bytes, Stretch]]) -> dict[bytes, list[bytes]]:
        """The first member from each position on, or else of its stretch, with the keys of its captures."""
        ...

    async def lacking(self, members: Sequence[bytes]) -> list[bytes]:
        """Those of which nothing is here. What was deleted for good is not lacking."""
        ...

    async def held(self, keys: Sequence[bytes]) -> list[Held]: ...

    async def parcel(self, key: bytes, sign: Sign) -> Parcel | None:
        """None when it is not here, or broken."""
        ...

    async def parcels(self, member: bytes, sign: Sign) -> list[Parcel]:
        """What there is of a member and can be read."""
        ...

    async def buried(self, member: bytes) -> list[bytes]:
        """The keys of what was deleted for good of a member."""
        ...

    async def proofs(self, members: Sequence[bytes], nonce: bytes) -> list[list[Proof]]:
        """Of each content of each member that can be read."""
        ...

    async def unpack(self, parcel: bytes, bytes_max: int) -> Deposit:
        """MalformedRecordError at anything that does not fit, and where all of it is more than `bytes_max`."""
        ...

    async def take(self, deposit: Deposit) -> Taken:
        """Durable when it returns. StoreRefusedError when the disk cannot take it."""
        ...

    async def drop(self, low: bytes, high: bytes | None, may_go: Callable[[], bool]) -> int:
        """Let go of what others hold now, without a word that it should not exist; how many captures went. `may_go`
        is asked in another thread, while nothing can be stored."""
        ...

    async def bury(self, keys: Collection[bytes]) -> int:
        """Delete for good what the other holders have deleted; how many captures went."""
        ...

    async def broken(self, noted: int, known: Iterable[bytes], *, may_scan: bool, most: int) -> Broken:
        """What still is of the known ones; all that there is, where `may_scan` and something came to what `noted`
        says."""
        ...

    async def compact(self) -> None:
        """Rewrite segments of which a good part went."""
        ...
