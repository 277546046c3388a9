"""Which `.cdxj` lines belong to a member that is copied unchanged? Those in the list beside its segment."""

from collections import defaultdict

from cachetools import FIFOCache

from herodotus.core.cdxj import place_of_line
from herodotus.core.layout import CDXJ_BYTES_MAX
from herodotus.store.disk import read_file
from herodotus.store.engine import Archive
from herodotus.store.segments import SegmentWriter

LINES_FILES_MAX = 4


class Lines:
    """The `.cdxj` lines of segments by member; those of the last few segments are kept."""

    def __init__(self, archive: Archive) -> None:
        self._files = archive.files
        self._of: FIFOCache[int, dict[int, list[tuple[int, str]]]] = FIFOCache(LINES_FILES_MAX)

    def of_member(self, number: int, offset: int, writer: SegmentWriter) -> list[str]:
        """In the order of the member; empty when it cannot go into that segment as it is."""
        name = self._files.catalogue[number].name
        if name.is_log or name.codec is not writer.name.codec:
            return []
        if writer.dictionary is not None or self._files.dictionary(number) is not None:
            return []
        if number not in self._of:
            self._of[number] = self._load(number)
        return [line for _, line in sorted(self._of[number].get(offset, []))]

    def _load(self, number: int) -> dict[int, list[tuple[int, str]]]:
        lines: defaultdict[int, list[tuple[int, str]]] = defaultdict(list)
        located = self._files.catalogue[number]
        try:
            data = read_file(self._files.disk(located.slice), located.name.cdxj, CDXJ_BYTES_MAX)
        except FileNotFoundError:
            return {}
        for line in data.decode(errors="replace").split("\n"):
            place = place_of_line(line)
            if place is not None:
                lines[place[0]].append((place[1], line))
        return lines
