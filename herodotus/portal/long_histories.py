"""How is a history of a hundred thousand versions held, while answers are made of it?

As rows of 96 bytes, and four more for each visit that found a version unchanged; as objects they take 560 each.
Those would cost more than their bytes: Python gives a megabyte back only when all in it is gone, and something that
stays, such as a day's name in a cache, lies in each of them. What all versions of a page have in common, mostly
everything else, is there once.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from operator import attrgetter
from struct import Struct
from typing import Any, Final, overload

from herodotus.core.captures import CaptureId
from herodotus.store import Version

_ROW: Final = Struct("<I32sI32sQQII")
"""Time and digest, last time seen, SHA-1, two sizes, visits, and the number of what it has in common with others."""
_U32_MAX = 2**32 - 1
_SHA1 = "sha1:"
_SHA1_CHARS = 32
_OWN = frozenset(("id", "last_seen_s", "sha1", "size", "stored_bytes", "visits", "seen"))
_SHARED = tuple(one.name for one in fields(Version) if one.name not in _OWN)
_shared_of = attrgetter("id.key", *_SHARED)


class LongHistory(Sequence[Version]):
    """The versions as they were given, made anew whenever they are looked at."""

    def __init__(self, versions: Iterable[Version]) -> None:
        self._rows = bytearray()
        self._shared: list[tuple[bytes, dict[str, Any]]] = []
        self._seen = bytearray()
        self._seen_ends = array("Q")
        """Behind the times of each row in `_seen`; empty while there are none."""
        self._others: dict[int, Version] = {}
        """What fits no row, by its number."""
        numbers: dict[tuple[Any, ...], int] = {}
        for place, version in enumerate(versions):
            shared = _shared_of(version)
            number = numbers.setdefault(shared, len(numbers))
            if number == len(self._shared):
                self._shared.append((shared[0], dict(zip(_SHARED, shared[1:], strict=True))))
            if version.seen and not self._seen_ends:
                self._seen_ends.extend([0] * place)
            self._seen += version.seen
            if self._seen:
                self._seen_ends.append(len(self._seen))
            if not _fits(version):
                self._others[place] = version
                self._rows += bytes(_ROW.size)
                continue
            self._rows += _ROW.pack(
                version.id.time_s,
                version.id.digest,
                version.last_seen_s,
                version.sha1.removeprefix(_SHA1).encode(),
                version.size,
                version.stored_bytes,
                version.visits,
                number,
            )

    def __len__(self) -> int:
        return len(self._rows) // _ROW.size

    def __iter__(self) -> Iterator[Version]:
        for place, row in enumerate(_ROW.iter_unpack(self._rows)):
            yield self._version(place, row)

    @overload
    def __getitem__(self, place: int) -> Version: ...
    @overload
    def __getitem__(self, place: slice) -> list[Version]: ...
    def __getitem__(self, place: int | slice) -> Version | list[Version]:
        if isinstance(place, slice):
            return [self[one] for one in range(*place.indices(len(self)))]
        at = range(len(self))[place]
        return self._version(at, _ROW.unpack_from(self._rows, at * _ROW.size))

    def _version(self, place: int, row: tuple[Any, ...]) -> Version:
        if self._others and place in self._others:
            return self._others[place]
        time_s, digest, last_seen_s, sha1, size, stored_bytes, visits, number = row
        key, shared = self._shared[number]
        return Version(
            id=CaptureId(key, time_s, digest),
            last_seen_s=last_seen_s,
            sha1=_SHA1 + sha1.decode() if sha1[0] else "",
            size=size,
            stored_bytes=stored_bytes,
            visits=visits,
            seen=self._seen_of(place) if self._seen else b"",
            **shared,
        )

    def _seen_of(self, place: int) -> bytes:
        return bytes(self._seen[self._seen_ends[place - 1] if place else 0 : self._seen_ends[place]])


def _fits(version: Version) -> bool:
    """A record of somebody else may have any words for a SHA-1."""
    sha1 = version.sha1.removeprefix(_SHA1)
    is_usual = not version.sha1 or (sha1 != version.sha1 and len(sha1) == _SHA1_CHARS and sha1.isascii())
    return is_usual and "\0" not in sha1 and max(version.last_seen_s, version.visits) <= _U32_MAX
