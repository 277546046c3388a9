"""How are several files replaced by several others, all or none?

New files are written and flushed as `.part`. Then one small file, the journal, appears whole: from then on
the change is decided. It says which parts get their names and which old files go. Settling it may be
interrupted and done again.
"""

import re
from collections.abc import Callable, Iterable, Sequence

from herodotus.core.errors import UnusableArchiveError
from herodotus.core.layout import JOURNAL_FOLDER, SEGMENT_FOLDER, parse_path
from herodotus.core.manifest import MANIFEST_FOLDER
from herodotus.store.disk import Disk, exists, is_folder, read_file, sync_folder, write_file
from herodotus.store.files import Files

JOURNAL_BYTES_MAX = 4 * 1024 * 1024
PART = ".part"
_NAME = re.compile(r"\d{6,10}\.txt")
_STEP = re.compile(r"(install|remove) (\d{1,4}) ([!-~]+)")

Step = tuple[str, int, str]
"""An action, its slice and its path."""


def write_journal(
    files: Files, epoch: int, installs: Sequence[tuple[int, str]], removals: Sequence[tuple[int, str]]
) -> None:
    """Slice and path of the files that become whole, and of those that go. Returning is the decision."""
    lines = [f"install {slice_} {path}" for slice_, path in installs]
    lines += [f"remove {slice_} {path}" for slice_, path in removals]
    text = "".join(f"{line}\n" for line in lines) + "end\n"
    write_file(files.disk(files.present[0]), _path(epoch), [text.encode()])


def is_decided(files: Files, epoch: int) -> bool:
    return exists(files.disk(files.present[0]), _path(epoch))


def _path(epoch: int) -> str:
    return f"{JOURNAL_FOLDER}/{epoch:06}.txt"


Between = Callable[[Iterable[tuple[int, str]], Iterable[tuple[int, str]]], None]


def settle_journals(files: Files, between: Between) -> bool:
    """Finish decided journals, then remove parts of undecided ones. False when a journal names new files that are
    missing: journal and files were copied at different moments. `between` is told slice and path of the new files,
    which are in place, and of those that go next."""
    are_whole = True
    awaited: set[tuple[int, str]] = set()
    for number in files.present:
        disk = files.disk(number)
        for path in _journals(disk):
            steps = _read(disk, path)
            if any(slice_ not in files.present for _, slice_, _ in steps):
                awaited |= {(slice_, path + PART) for verb, slice_, path in steps if verb == "install"}
                removed = [parse_path(path) for verb, _, path in steps if verb == "remove"]
                files.unreadable |= {name.number for name in removed if name is not None}
                continue  # until that slice is back; files that go then take nothing new
            are_whole = _settle(files, steps, between) and are_whole
            disk.unlink(path)
        sync_folder(disk, JOURNAL_FOLDER)
    _remove_parts(files, frozenset(awaited))
    return are_whole


def _journals(disk: Disk) -> list[str]:
    """Other files in their folder are none of ours."""
    names = sorted(name for name in disk.listdir(JOURNAL_FOLDER) if _NAME.fullmatch(name))
    return [f"{JOURNAL_FOLDER}/{name}" for name in names]


def _read(disk: Disk, path: str) -> list[Step]:
    lines = read_file(disk, path, JOURNAL_BYTES_MAX).decode(errors="surrogateescape").split("\n")
    steps = [_STEP.fullmatch(line) for line in lines[:-2]]
    if lines[-2:] != ["end", ""] or not all(steps):
        raise UnusableArchiveError(path, "the journal is not whole, which no crash can do")
    return [(step[1], int(step[2]), step[3]) for step in steps if step is not None]


def _settle(files: Files, steps: Sequence[Step], between: Between) -> bool:
    """False when not all new files are there: then the old ones stay."""
    is_whole = True
    for verb, slice_, path in steps:
        if verb == "install":
            disk = files.disk(slice_)
            if exists(disk, path + PART):
                disk.rename(path + PART, path)
            is_whole = exists(disk, path) and is_whole
    _sync_folders(files, steps)
    if is_whole:
        new, old = ([step[1:] for step in steps if step[0] == verb] for verb in ("install", "remove"))
        between(new, old)
    for verb, slice_, path in steps if is_whole else ():
        disk = files.disk(slice_)
        if verb == "remove" and exists(disk, path):
            disk.unlink(path)
    _sync_folders(files, steps)
    return is_whole


def _sync_folders(files: Files, steps: Sequence[Step]) -> None:
    for slice_, folder in sorted({(slice_, path.rpartition("/")[0]) for _, slice_, path in steps}):
        if exists(files.disk(slice_), folder):
            sync_folder(files.disk(slice_), folder)


def _remove_parts(files: Files, awaited: frozenset[tuple[int, str]]) -> None:
    for number in files.present:
        disk = files.disk(number)
        buckets = [f"{SEGMENT_FOLDER}/{name}" for name in disk.listdir(SEGMENT_FOLDER) if len(name) == 1]
        for folder in (".", JOURNAL_FOLDER, MANIFEST_FOLDER, SEGMENT_FOLDER, *buckets):
            for name in disk.listdir(folder) if is_folder(disk, folder) else ():
                path = name if folder == "." else f"{folder}/{name}"
                if name.endswith(PART) and (number, path) not in awaited and not is_folder(disk, path):
                    disk.unlink(path)
