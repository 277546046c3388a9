"""Which unsynced changes can a power cut leave on the disk?

Per file: each dirty page reached the platter in the state after some number of its writes (none, ..., all),
the last such write perhaps torn at a sector; the size is any that the file had since its last sync, and
what lies inside it without having been written reads as zeros. So writes are reordered and lost in any
combination, but a page never holds a newer write of its own without the older one below it, as a page cache
writes whole pages.

Per directory: any subset of the unsynced entry changes survives, a rename always as a whole. A file whose
name is lost is lost with it.
"""

import itertools
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from simnet.world.inodes import Change, Directory, File, Inode, Resize, Transaction, Write, apply, resize

# Up to this many images are listed one by one; beyond, images are drawn.
EXHAUSTIVE_IMAGES_MAX = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashRules:
    page_bytes: int = 4_096
    sector_bytes: int = 512


Chooser = Callable[[int], int]  # out of n possibilities, which


def leave_crash_image(
    root: Directory, pending: list[Transaction], rules: CrashRules, rng: random.Random
) -> Directory:
    return _image(root, pending, rules, rng.randrange)


def crash_images(
    root: Directory, pending: list[Transaction], rules: CrashRules, rng: random.Random, limit: int
) -> Iterator[Directory]:
    """Every image where there are at most `limit` (and 4,096) of them, else the two extremes and random
    ones."""
    radices: list[int] = []

    def measure(possibilities: int) -> int:
        radices.append(possibilities)
        return 0

    _image(root, pending, rules, measure)  # every choice is asked for whatever the answers are
    if math.prod(radices) <= min(limit, EXHAUSTIVE_IMAGES_MAX):
        for choices in itertools.product(*(range(radix) for radix in radices)):
            yield _image(root, pending, rules, _replay(choices))
        return
    if limit > 0:
        yield _image(root, pending, rules, lambda n: 0)
    if limit > 1:
        yield _image(root, pending, rules, lambda n: n - 1)
    for _ in range(limit - 2):
        yield _image(root, pending, rules, rng.randrange)


def _replay(choices: tuple[int, ...]) -> Chooser:
    answers = iter(choices)
    return lambda possibilities: next(answers)


def _image(root: Directory, pending: list[Transaction], rules: CrashRules, choose: Chooser) -> Directory:
    names: dict[int, dict[str, Inode]] = {}
    _add_names(root, names)
    for transaction in [transaction for transaction in pending if choose(2)]:
        for change in transaction.changes:
            entries = names.setdefault(change.directory.number, dict(change.directory.durable))
            if change.inode is None:
                entries.pop(change.name, None)
            else:
                entries[change.name] = change.inode
                _add_names(change.inode, names)
    files = {file.number: _leave_file(file, rules, choose) for file in all_files(root, pending)}
    made = Directory(root.number)
    return _fill(made, names, files, {root.number}, {})


def _add_names(inode: Inode, names: dict[int, dict[str, Inode]]) -> None:
    if isinstance(inode, Directory) and inode.number not in names:
        names[inode.number] = dict(inode.durable)
        for child in inode.durable.values():
            _add_names(child, names)


def all_files(root: Directory, pending: list[Transaction]) -> list[File]:
    """Every file that an image could name, by number: also one whose every name is still unsynced."""
    found: dict[int, File] = {}
    seen: set[int] = set()

    def collect(inode: Inode) -> None:
        if isinstance(inode, File):
            found[inode.number] = inode
        elif inode.number not in seen:
            seen.add(inode.number)
            for child in (*inode.cached.values(), *inode.durable.values()):
                collect(child)

    collect(root)
    for transaction in pending:
        for change in transaction.changes:
            if change.inode is not None:
                collect(change.inode)
    return [found[number] for number in sorted(found)]


def _leave_file(file: File, rules: CrashRules, choose: Chooser) -> bytearray:
    content = bytearray(file.durable)
    if not file.pending:
        return content
    sizes = _sizes(file)
    size_index = choose(len(sizes))
    pages = _page_choices(file.pending, rules, choose)
    for index, change in enumerate(file.pending):
        if isinstance(change, Resize):
            if index < size_index:
                resize(content, change.size)
        else:
            _apply_pages(content, change, pages, rules)
    resize(content, sizes[size_index])
    return content


def _sizes(file: File) -> list[int]:
    """The sizes the file had, from its last sync (index 0) to after each pending change."""
    sizes = [len(file.durable)]
    for change in file.pending:
        if isinstance(change, Resize):
            sizes.append(change.size)
        else:
            sizes.append(max(sizes[-1], change.offset + len(change.data)))
    return sizes


@dataclass(slots=True)
class _PageChoice:
    """How many whole writes of this page survive, and how much of the next (in bytes from the page's
    start)."""

    whole: int
    torn_at: int


def _page_choices(pending: list[Change], rules: CrashRules, choose: Chooser) -> dict[int, _PageChoice]:
    states: dict[int, list[_PageChoice]] = {}
    for change in pending:
        if isinstance(change, Write) and change.data:
            for page in _pages(change, rules.page_bytes):
                known = states.setdefault(page, [_PageChoice(0, 0)])
                whole = known[-1].whole
                known.extend(_PageChoice(whole, cut) for cut in _cuts(change, page, rules))
                known.append(_PageChoice(whole + 1, 0))
    return {page: states[page][choose(len(states[page]))] for page in sorted(states)}


def _cuts(write: Write, page: int, rules: CrashRules) -> range:
    """Where inside the page the write can tear: at the sector borders strictly inside it."""
    page_start = page * rules.page_bytes
    start = max(write.offset - page_start, 0)
    stop = min(write.offset + len(write.data) - page_start, rules.page_bytes)
    first = (start // rules.sector_bytes + 1) * rules.sector_bytes
    return range(first, stop, rules.sector_bytes)


def _pages(write: Write, page_bytes: int) -> range:
    return range(write.offset // page_bytes, (write.offset + len(write.data) - 1) // page_bytes + 1)


def _apply_pages(
    content: bytearray, write: Write, choices: dict[int, _PageChoice], rules: CrashRules
) -> None:
    if not write.data:
        return
    end = write.offset + len(write.data)
    for page in _pages(write, rules.page_bytes):
        choice = choices[page]
        page_start = page * rules.page_bytes
        start = max(write.offset, page_start)
        stop = min(end, page_start + rules.page_bytes)
        if choice.whole > 0:
            choice.whole -= 1
        else:
            stop = min(stop, page_start + choice.torn_at)
            choice.torn_at = 0
        if start < stop:
            apply(content, Write(start, write.data[start - write.offset : stop - write.offset]))


def _fill(
    made: Directory,
    names: dict[int, dict[str, Inode]],
    files: dict[int, bytearray],
    inside: set[int],
    copies: dict[int, File],
) -> Directory:
    for name in sorted(names.get(made.number, {})):
        inode = names[made.number][name]
        child: Inode
        if isinstance(inode, File):
            known = copies.get(inode.number)
            if known is None:
                content = files[inode.number]
                known = File(
                    inode.number,
                    cached=content,
                    durable=bytearray(content),
                    links=0,
                )
                copies[inode.number] = known
            known.links += 1
            child = known
        elif inode.number in inside:
            continue  # half-persisted renames may not tie a directory into itself
        else:
            child = Directory(inode.number)
            _fill(child, names, files, inside | {inode.number}, copies)
        made.cached[name] = child
    made.durable = dict(made.cached)
    return made
