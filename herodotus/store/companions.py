"""Is the list beside each segment there and right, and how is it made again? From the segment itself.

The `.cdxj` is for other tools, and derived. Without it, sealing repacks what it could copy, and behind a damaged place
nobody knows where the next member begins. The manifest has the start of its digest.
"""

import hashlib
import logging

from herodotus.core.errors import MalformedRecordError
from herodotus.core.layout import CDXJ_BYTES_MAX, FileName
from herodotus.core.manifest import LISTED_BYTES
from herodotus.store.disk import exists, read_file, write_file
from herodotus.store.engine import Archive
from herodotus.store.scan import scan_file
from herodotus.store.segments import line_of
from herodotus.store.stored_records import StoredCapture

logger = logging.getLogger(__name__)


def make_missing_lists(archive: Archive) -> list[str]:
    """Of segments that are whole. Returns the paths of the lists that were made again."""
    rows = {} if archive.manifest.known is None else dict(archive.manifest.known.rows)
    found = []
    for number, row in sorted(rows.items()):
        located = archive.files.catalogue.get(number)
        if located is None or row.name.is_log or row.is_going or row.slice in archive.files.missing:
            continue
        if not exists(archive.files.disk(located.slice), row.name.cdxj) and make_list(archive, number):
            found.append(row.name.cdxj)
    return found


def is_list_right(archive: Archive, number: int) -> bool:
    """As the manifest says; of what it says nothing, anything is right."""
    row = None if archive.manifest.known is None else archive.manifest.known.rows.get(number)
    if row is None or row.name.is_log or row.listed == bytes(LISTED_BYTES):
        return True
    try:
        lines = read_file(archive.files.disk(row.slice), row.name.cdxj, CDXJ_BYTES_MAX)
    except (FileNotFoundError, IsADirectoryError):
        return False
    return hashlib.sha256(lines).digest()[:LISTED_BYTES] == row.listed


def make_list(archive: Archive, number: int) -> bool:
    """False where the segment is damaged: what it held cannot be told from what is left."""
    with archive.upkeep_lock:
        located = archive.files.catalogue.get(number)
        if located is None or archive.refusal is not None:
            return False
        name: FileName = located.name
        file_name = name.path.rpartition("/")[2]
        try:
            found = scan_file(archive.files, number, 0, archive.files.size(number))
            lines = [line_of(one, one.place, file_name) for one in found if isinstance(one, StoredCapture)]
            data = "".join(f"{line}\n" for line in sorted(lines)).encode()
            write_file(archive.files.disk(located.slice), name.cdxj, [data])
        except MalformedRecordError:
            return False
        except OSError as error:
            logger.warning("list of a segment cannot be written path=%s error=%s", name.cdxj, error)
            return False
    logger.warning("list of a segment made again path=%s", name.cdxj)
    return True
