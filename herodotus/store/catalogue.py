"""How does the archive answer readers? The face `Catalogue`, over index and files."""

from collections.abc import Iterator, Sequence
from functools import partial

from herodotus.core.captures import position_of
from herodotus.core.index_rows import (
    CAPTURE,
    KEY_BYTES,
    VISITS,
    FilePlace,
    Unreachable,
    after,
    decode_visits,
    family_key,
    time_of,
    url_of_address,
    url_prefix,
)
from herodotus.store.engine import Archive
from herodotus.store.faces import Around, ContainerFacts
from herodotus.store.large_captures import LargeCapture
from herodotus.store.members import scan_passing
from herodotus.store.reader import (
    HISTORY_MAX,
    MemberCache,
    ShownReader,
    Version,
)
from herodotus.store.stored_records import StoredCapture
from herodotus.store.streams import Cursor, HostPlace, HostStream, Query, Stream
from herodotus.store.survey import (
    ArchiveSurvey,
    Property,
    Span,
    Tally,
    decode_span,
    decode_tally,
    links_to,
    tally_key,
)

_OF_HOSTS = tally_key(Property.HOST, "")


class _Entry:
    __slots__ = ("_cache", "_key", "_reader", "_url", "_value")

    def __init__(self, reader: ShownReader, cache: MemberCache, url: str, key: bytes, value: bytes) -> None:
        self._reader, self._cache = reader, cache
        self._url, self._key, self._value = url, key, value

    @property
    def name(self) -> bytes:
        return self._key + self._value

    def version(self) -> Version | None:
        return self._reader.version_at(self._url, self._key, self._value, self._cache)

    def seen_s(self) -> Sequence[int]:
        return self._reader.seen_s(self._key)


class ArchiveCatalogue:
    """Implements `herodotus.store.Catalogue`; one for each opening of an archive."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._reader = ShownReader(archive)

    @property
    def stamp(self) -> int:
        return self._archive.counters.commits + self._archive.removals

    # -- one URL ------------------------------------------------------------------------------------------

    def around(self, url: str, moment_s: int) -> Around | None:
        # A long history costs four steps, not a walk; nothing is read from the archive's files.
        reader, prefix = self._reader, url_prefix(position_of(url))
        end = after(prefix)
        first = next(reader.rows(prefix, end), None)
        if first is None or not reader.shows_url(url):
            return None
        split = prefix + moment_s.to_bytes(4, "big") + b"\xff" * 4
        before, following = reader.last_row(prefix, split), next(reader.rows(split, end), None)
        last = before if following is None else reader.last_row(prefix, end)
        return Around(
            first_s=time_of(first[0]),
            last_s=time_of((last or following or first)[0]),
            before_s=None if before is None else time_of(before[0]),
            after_s=None if following is None else time_of(following[0]),
        )

    def before_s(self, url: str, time_s: int) -> int | None:
        key = self._version_at(url, time_s - 1) if time_s else None
        return None if key is None else time_of(key)

    def _version_at(self, url: str, time_s: int) -> bytes | None:
        prefix = url_prefix(position_of(url))
        found = self._reader.last_row(prefix, prefix + time_s.to_bytes(4, "big") + b"\xff" * 4)
        return None if found is None or not self._reader.shows_url(url) else found[0]

    def last_visit_s(self, url: str, time_s: int) -> int | None:
        key = self._version_at(url, time_s)
        data = None if key is None else self._archive.index.get(family_key(VISITS, key))
        return None if data is None else decode_visits(data).last_s

    def seen_s(self, url: str, time_s: int) -> Sequence[int]:
        key = self._version_at(url, time_s)
        return () if key is None else self._reader.seen_s(key)

    def unreachable(self, url: str) -> Unreachable | None:
        return self._reader.unreachable(url)

    def digests_at(self, url: str, time_s: int) -> set[bytes]:
        prefix = url_prefix(position_of(url)) + time_s.to_bytes(4, "big")
        if not self._reader.shows_url(url):
            return set()
        return {key[len(prefix) :] for key, _ in self._reader.rows(prefix, after(prefix))}

    def newest(self, url: str, not_after_s: int) -> StoredCapture | None:
        return self._reader.newest(url, not_after_s)

    def spellings(self, asked: Sequence[str], *, is_sure: bool = True) -> list[str]:
        return self._reader.spellings(asked, is_sure=is_sure)

    def history(self, url: str, from_s: int, to_s: int) -> list[Version]:
        return self._reader.history(url, from_s, to_s, HISTORY_MAX)

    def entries(self, url: str, from_s: int, to_s: int, most: int) -> Iterator[_Entry]:
        cache = MemberCache(self._archive.files)
        for key, value in self._reader.entries_of(url, from_s, to_s, most):
            yield _Entry(self._reader, cache, url, key, value)

    # -- many URLs ----------------------------------------------------------------------------------------

    def addresses(self, start: bytes, end: bytes) -> Iterator[str]:
        return map(url_of_address, self._reader.address_keys(start, end))

    def address_keys(self, start: bytes, end: bytes) -> Iterator[bytes]:
        return self._reader.address_keys(start, end)

    def positions(self, start: bytes, end: bytes | None) -> Iterator[bytes]:
        at, stop = CAPTURE + start, after(CAPTURE) if end is None else CAPTURE + end
        # Versions of one URL are not walked through.
        while at < stop and (first := next(self._reader.rows(at, stop), None)) is not None:
            prefix = first[0][: 1 + KEY_BYTES]
            yield prefix[1:]
            at = after(prefix)

    def newest_at(self, position: bytes) -> StoredCapture | None:
        prefix = CAPTURE + position
        newest = self._reader.last_row(prefix, after(prefix))
        capture = None if newest is None else self._reader.try_read(*newest)
        return capture if capture is None or self._reader.shows(capture) else None

    # -- as surveyed --------------------------------------------------------------------------------------

    def is_surveyed(self) -> bool:
        return ArchiveSurvey(self._archive).is_current()

    def links_to(self, position: bytes, behind: bytes = b"") -> Iterator[tuple[bytes, Span]]:
        prefix = links_to(position)
        rows = self._archive.index.scan(prefix + behind + b"\0" if behind else prefix, after(prefix))
        return ((key[-KEY_BYTES:], decode_span(value)) for key, value in rows)

    def tally(self, of: Property, value: str = "") -> Tally:
        data = None if self._hides(of, value) else self._archive.index.get(tally_key(of, value))
        return Tally() if data is None else decode_tally(data)

    def tallies(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, Tally]]:
        for key, value in self._archive.index.scan(start, end):
            if key[:2] != _OF_HOSTS or not self._hides(Property.HOST, key[2:].decode("utf-8", "replace")):
                yield key, decode_tally(value)

    def _hides(self, of: Property, value: str) -> bool:
        """A removed host is named to nobody; sums over many hosts have its captures in them."""
        return of is Property.HOST and not self._reader.shows_url(f"http://{value}/")

    # -- whole files, and all that there is ---------------------------------------------------------------

    def containers(self, behind: int) -> Iterator[ContainerFacts]:
        numbers = sorted(number for number in self._archive.files.catalogue if number > behind)
        return (facts for number in numbers if (facts := self.container(number)) is not None)

    def container(self, number: int) -> ContainerFacts | None:
        located = self._archive.files.catalogue.get(number)
        try:
            size = self._archive.files.size(number)
        except (KeyError, FileNotFoundError):
            return None
        if located is None:
            return None
        name = located.name
        return ContainerFacts(
            number=number,
            path=name.path,
            is_log=name.is_log,
            bucket=name.bucket,
            epoch=None if name.is_log else name.epoch,
            codec=name.codec.value,
            bytes=size,
        )

    def contents(
        self, number: int, start: int
    ) -> tuple[int, Iterator[tuple[int, int, bytes | StoredCapture]]]:
        files, log = self._archive.files, self._archive.log
        # In the log that is growing, every acknowledged capture is whole.
        with self._archive.lock:
            size = log.tail if log.number == number else files.size(number)
        found = scan_passing(partial(files.read_at, number), start, size, files.dictionary(number))
        return size, (
            (
                at,
                length,
                LargeCapture(FilePlace(number, at, length, 0), files) if content is None else content,
            )
            for at, length, content in found
        )

    def shows_record(self, url: str, digest: str) -> bool:
        removed = self._archive.removed
        is_hidden_content = bool(removed.digests) and digest in {one.hex() for one in removed.digests}
        return not is_hidden_content and not removed.covers(url)

    def stream(self, query: Query, cursor: Cursor | None, *, is_whole: bool) -> Stream:
        return Stream(self._archive, query, cursor, is_whole=is_whole)

    def host_stream(
        self, ranges: Sequence[tuple[bytes, bytes]], query: Query, place: HostPlace | None, *, is_whole: bool
    ) -> HostStream:
        return HostStream(self._archive, ranges, query, place, is_whole=is_whole)
