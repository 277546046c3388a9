"""What of the archive do readers see? All that no removal covers.

A hidden capture stays where it is, in the files, the index and the digests, so other holders find and prove it as
before. The readers' side alone looks at the rules each time, so a rule holds at once, after a restart, with a new
index, and for what comes in later; without it everything is back as it was. Rows of the index name no address, so a
rule about addresses is asked with the address, and one about contents with the start of a digest that the row has.
"""

from collections.abc import Iterator

from herodotus.core.index_rows import CAPTURE, KEY_BYTES, address_key, after, url_of_address
from herodotus.core.removals import Removals
from herodotus.store.engine import Archive
from herodotus.store.reader import Reader, site_ranges
from herodotus.store.stored_records import StoredCapture

_VARIANT = slice(1 + KEY_BYTES + 4, 1 + KEY_BYTES + 4 + 3)
Row = tuple[bytes, bytes]


class ShownReader(Reader):
    """As `Reader`, for readers and exports."""

    def __init__(self, archive: Archive) -> None:
        super().__init__(archive)
        self._raw = Reader(archive)

    @property
    def removed(self) -> Removals:
        return self._archive.removed

    def shows(self, capture: StoredCapture) -> bool:
        return not self.removed.covers_capture(capture.url, capture.id.digest)

    def shows_url(self, url: str) -> bool:
        return not self.removed.covers(url)

    def newest(self, url: str, not_after_s: int) -> StoredCapture | None:
        return super().newest(url, not_after_s) if self.shows_url(url) else None

    def entries_of(self, url: str, from_s: int, to_s: int, limit: int) -> Iterator[Row]:
        if not self.shows_url(url):
            return iter(())
        return super().entries_of(url, from_s, to_s, limit)

    # -- rows ---------------------------------------------------------------------------------------------

    def rows(self, start: bytes, end: bytes) -> Iterator[Row]:
        found = self._archive.index.scan(start, end)
        return (row for row in found if self._shows_row(row)) if self.removed.digests else found

    def last_row(self, start: bytes, end: bytes) -> Row | None:
        while (found := self._archive.index.last_before(start, end)) is not None:
            if self._shows_row(found):
                return found
            end = found[0]
        return None

    def _shows_row(self, row: Row) -> bool:
        """By its content alone."""
        key, value = row
        if key[_VARIANT] not in self.removed.variants or key[:1] != CAPTURE:
            return True
        capture = self._raw.record_at(key, value)
        return capture is None or capture.id.digest not in self.removed.digests

    # -- addresses ----------------------------------------------------------------------------------------

    def address_keys(self, start: bytes, end: bytes) -> Iterator[bytes]:
        removed = self.removed
        if not removed.is_by_address:
            yield from (key for key, _ in self._archive.index.scan(start, end))
            return
        while start < end:
            for key, _ in self._archive.index.scan(start, end):
                if not removed.covers(url_of_address(key)):
                    yield key
                    continue
                jump = _end_of_removed(removed, key)
                if (
                    jump is not None
                ):  # a removed site may have a million addresses: they are not walked through
                    start = jump
                    break
            else:
                return


def _end_of_removed(removed: Removals, key: bytes) -> bytes | None:
    """Where the removed addresses around this one end; None where only this one may be."""
    host = url_of_address(key).partition("://")[2].partition("/")[0].rpartition("@")[2].partition(":")[0]
    labels = host.split(".")
    for at in range(len(labels)):
        name = ".".join(labels[at:])
        if name in removed.hosts.hosts:
            return next((end for start, end in site_ranges(name) if start <= key < end), None)
    for start, end in prefix_ranges(removed):
        if start <= key < end:
            return end
    return None


def prefix_ranges(removed: Removals) -> Iterator[tuple[bytes, bytes]]:
    for names in removed.prefixes.values():
        for name in names:
            yield prefix_range(f"http://{name}")


def prefix_range(url: str) -> tuple[bytes, bytes]:
    """Where the addresses are that begin so, of both schemes."""
    key = address_key(url).rpartition(b"\0")[0]
    return key, after(key)
