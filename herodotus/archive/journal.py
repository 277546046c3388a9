"""How are several files replaced by several others, all or none?

New files are written and flushed as `.part`. Then one small file, the journal, appears whole: from then on
the change is decided. It says which parts get their names and which old files go. Settling it may be
interrupted and done again.
"""

from collections.abc import Sequence

from herodotus.archive.disk import exists, read_file, sync_folder, write_file
from herodotus.archive.files import Files
from herodotus.core.archive_errors import UnusableArchiveError
from herodotus.core.layout import JOURNAL_FOLDER, SEGMENT_FOLDER

JOURNAL_BYTES_MAX = 4 * 1024 * 1024
PART = ".part"


def write_journal(
    files: Files, epoch: int, installs: Sequence[tuple[int, str]], removals: Sequence[tuple[int, str]]
) -> None:
    """Slice and path of what becomes whole, and of what goes. Returning is the decision."""
    lines = [f"install {slice_} {path}" for slice_, path in installs]
    lines += [f"remove {slice_} {path}" for slice_, path in removals]
    text = "".join(f"{line}\n" for line in lines) + "end\n"
    write_file(files.disk(files.present[0]), f"{JOURNAL_FOLDER}/{epoch:06}.txt", [text.encode()])


def settle_journals(files: Files) -> None:
    """Finish what was decided, then remove parts that nothing decided on."""
    for number in files.present:
        disk = files.disk(number)
        for name in sorted(disk.listdir(JOURNAL_FOLDER)):
            path = f"{JOURNAL_FOLDER}/{name}"
            if name.endswith(".txt") and _settle(files, read_file(disk, path, JOURNAL_BYTES_MAX).decode()):
                disk.unlink(path)
        sync_folder(disk, JOURNAL_FOLDER)
    for number in files.present:
        _remove_parts(files, number)


def _settle(files: Files, text: str) -> bool:
    """False when a slice that it speaks of is missing: it waits until that is back."""
    lines = text.split("\n")
    if lines[-2:] != ["end", ""]:
        raise UnusableArchiveError(JOURNAL_FOLDER, "a journal is not whole, which no crash can do")
    steps = [line.split(" ", 2) for line in lines[:-2]]
    if any(int(slice_) not in files.present for _, slice_, _ in steps):
        return False
    folders = set()
    for verb, slice_, path in steps:
        disk = files.disk(int(slice_))
        folders.add((int(slice_), path.rpartition("/")[0]))
        if verb == "install" and exists(disk, path + PART):
            disk.rename(path + PART, path)
    for slice_number, folder in sorted(folders):
        sync_folder(files.disk(slice_number), folder)
    for verb, slice_, path in steps:
        disk = files.disk(int(slice_))
        if verb == "remove" and exists(disk, path):
            disk.unlink(path)
    for slice_number, folder in sorted(folders):
        sync_folder(files.disk(slice_number), folder)
    return True


def _remove_parts(files: Files, number: int) -> None:
    disk = files.disk(number)
    awaited = {
        line.split(" ", 2)[2] + PART
        for name in disk.listdir(JOURNAL_FOLDER)
        if name.endswith(".txt")
        for line in read_file(disk, f"{JOURNAL_FOLDER}/{name}", JOURNAL_BYTES_MAX).decode().split("\n")
        if line.startswith("install ")
    }
    folders = [
        SEGMENT_FOLDER,
        *(f"{SEGMENT_FOLDER}/{name}" for name in disk.listdir(SEGMENT_FOLDER) if len(name) == 1),
    ]
    for folder in (".", JOURNAL_FOLDER, *folders):
        for name in disk.listdir(folder):
            path = name if folder == "." else f"{folder}/{name}"
            if name.endswith(PART) and path not in awaited:
                disk.unlink(path)
