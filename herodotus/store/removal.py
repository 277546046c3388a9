"""What does a removal cover in this archive, and how do the bytes of it go?

The rule comes first (`home.removed`), and hides at once. Erasing deletes the covered captures, some at a time, as any
others are, and then rewrites the files that had them. A rule is `erasing` before the first capture goes and `erased`
after the last: a peer that is killed between begins again where it was.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path

import msgspec

from herodotus.core.captures import CaptureId, position_of
from herodotus.core.errors import StoreRefusedError
from herodotus.core.index_rows import BUCKETS, KEY_BYTES, after, capture_key, url_prefix
from herodotus.core.orders import Say
from herodotus.core.removals import Removals, Subject, digest_of, without_scheme
from herodotus.home.removed import Rule, State, alter, removals_in
from herodotus.store.deletion import TOMBSTONES_PER_RECORD
from herodotus.store.engine import Archive
from herodotus.store.log import NewTombstones
from herodotus.store.reader import Reader, addresses, odd_addresses, prefix_range, site_ranges
from herodotus.store.sealing import NOTHING
from herodotus.store.store import READING, UPKEEP, DiskStore

VERSIONS_AT_ONCE = 500
ADDRESSES_AT_ONCE = 1_000
LISTED_MAX = 10_000
"""Addresses that a report names."""
_ANY_DEAD = 1e-9


@dataclass(slots=True)
class RemovalReport:
    addresses: int = 0
    captures: int = 0
    rewritten: int = 0
    """Files that were replaced by smaller ones, as their bytes were to go at once."""
    listed: list[tuple[str, int]] = field(default_factory=list)
    """The first of the addresses, and how many captures each had."""
    quarantined_left: int = 0
    """Damaged pieces that may hold bytes of it beside those of other pages, which are waited for."""
    of_subject: int = 0
    """Captures of the last subject."""


def covered(archive: Archive, subject: Subject) -> Iterator[tuple[str, int]]:
    """The addresses that it covers and that have captures, and how many of these."""
    if subject.kind == "digest":
        by_url: dict[str, int] = {}
        reader = Reader(archive)
        for bucket in range(BUCKETS):
            for key, value in reader.entries_of_payload(bucket, digest_of(subject)):
                capture = reader.record_at(key, value)
                if capture is not None and capture.id.digest == digest_of(subject):
                    by_url[capture.url] = by_url.get(capture.url, 0) + 1
        yield from sorted(by_url.items())
        return
    for url in _addresses_of(archive, subject):
        prefix = url_prefix(position_of(url))
        count = sum(1 for _ in archive.index.scan(prefix, after(prefix)))
        if count:
            yield url, count


def covered_addresses(archive: Archive, subject: Subject, most: int) -> list[tuple[str, int]]:
    return list(islice(covered(archive, subject), most))


def covered_keys(archive: Archive, subject: Subject, most: int) -> list[bytes]:
    """Index keys, without their family, of captures that it covers; no more than so many."""
    return list(islice(_keys_of(archive, subject), most))


def _keys_of(archive: Archive, subject: Subject) -> Iterator[bytes]:
    if subject.kind == "digest":
        reader = Reader(archive)
        for id_ in reader.of_payload(digest_of(subject)):
            yield capture_key(id_)[1:]
        return
    for url, _ in covered(archive, subject):
        prefix = url_prefix(position_of(url))
        yield from (key[1:] for key, _ in archive.index.scan(prefix, after(prefix)))


def covered_positions(archive: Archive, subject: Subject) -> Iterator[bytes]:
    """Of the URLs that have captures which it covers; one may come twice."""
    if subject.kind == "digest":
        yield from (id_.key[:KEY_BYTES] for id_ in Reader(archive).of_payload(digest_of(subject)))
        return
    yield from (position_of(url)[:KEY_BYTES] for url in _addresses_of(archive, subject))


def _addresses_of(archive: Archive, subject: Subject) -> Iterator[str]:
    wanted = Removals.of_subjects([subject])
    for start, end in _ranges_of(subject):
        yield from (url for url in addresses(archive, start, end) if wanted.covers(url))
    # Imported files keep their spelling, which may be any.
    yield from (url for url in odd_addresses(archive) if wanted.covers(url))


def _ranges_of(subject: Subject) -> list[tuple[bytes, bytes]]:
    """Where its addresses are; others may be among them."""
    if subject.kind == "host":
        return site_ranges(subject.name)
    if subject.kind == "prefix":
        return [prefix_range(subject.name)]
    # What the crawler takes for the same page may have a port or parameters that say nothing.
    site, slash, rest = without_scheme(subject.name).partition("/")
    path = slash + rest.partition("?")[0]
    starts = [prefix_range(f"http://{site}{port}{path}")[0] for port in ("", ":80", ":443")]
    return [(start + end, after(start + end)) for start in starts for end in (b"\0", b"?")]


async def survey_covered(store: DiskStore, subject: Subject, report: RemovalReport, say: Say) -> None:
    """Count, and list, what it covers; some addresses at a time, since there may be a million."""
    found = covered(store.archive, subject)
    report.of_subject = 0
    while some := await store.workers.work(lambda: list(islice(found, ADDRESSES_AT_ONCE)), READING):
        report.listed += some[: LISTED_MAX - len(report.listed)]
        report.addresses += len(some)
        report.of_subject += sum(count for _, count in some)
        say(f"{subject}: {report.of_subject} captures")
    report.captures += report.of_subject


async def erase_rules(
    store: DiskStore, state: Path, subjects: Sequence[Subject], report: RemovalReport, say: Say
) -> None:
    """Their captures and the bytes of these. Once this began there is no way back."""
    _become(store, state, subjects, "erasing")
    for subject in subjects:
        deleted = 0
        look = partial(_some_captures, store.archive, subject)
        while some := await store.workers.work(look, READING):
            deleted += (gone := await store.delete(some))
            say(f"{subject}: {deleted} captures deleted")
            if not gone:
                break
    await store.workers.work(partial(_bury_unreadable, store.archive, subjects), UPKEEP)
    say("rewriting files")
    await erase(store, report)
    report.quarantined_left = _damaged_left(store.archive, subjects)
    _become(store, state, subjects, "erased")


def _become(store: DiskStore, state: Path, subjects: Sequence[Subject], becomes: State) -> None:
    def changed(rule: Rule) -> Rule:
        return msgspec.structs.replace(rule, state=becomes)

    store.archive.removed = removals_in(alter(state, subjects, changed))


def _some_captures(archive: Archive, subject: Subject) -> list[CaptureId]:
    """The first that are here and can be read."""
    reader = Reader(archive)
    if subject.kind == "digest":
        return reader.of_payload(digest_of(subject))[:VERSIONS_AT_ONCE]
    found: list[CaptureId] = []
    for url, _ in covered(archive, subject):
        found += [version.id for version in reader.history(url, limit=VERSIONS_AT_ONCE)]
        if len(found) >= VERSIONS_AT_ONCE:
            break
    return found


def _bury_unreadable(archive: Archive, subjects: Sequence[Subject]) -> None:
    """What is left in the index cannot be read. A tombstone names as much of it as a row of the index has, so that it
    is neither waited for nor asked for from other holders."""
    for subject in subjects:
        with archive.upkeep_lock, archive.lock:
            keys = list(_keys_of(archive, subject))
            if keys and archive.files.missing:
                raise StoreRefusedError("a slice is missing: what is on it cannot be erased")
            for at in range(0, len(keys), TOMBSTONES_PER_RECORD):
                ids = tuple(map(_unread_id, keys[at : at + TOMBSTONES_PER_RECORD]))
                archive.commit([NewTombstones(ids=ids)])


def _unread_id(key: bytes) -> CaptureId:
    position, time_s, variant = key[:KEY_BYTES], key[KEY_BYTES : KEY_BYTES + 4], key[KEY_BYTES + 4 :]
    return CaptureId(
        key=position.ljust(20, b"\0"), time_s=int.from_bytes(time_s, "big"), digest=variant.ljust(32, b"\0")
    )


def _damaged_left(archive: Archive, subjects: Sequence[Subject]) -> int:
    """Pieces in quarantine that name other pages besides what is erased, or nothing: they wait until these are whole
    again. Pieces of nothing else went as soon as their captures were not wanted (`losses.settle`)."""
    removals = Removals.of_subjects(subjects)
    items = list(archive.quarantine.items.values())
    return sum(not item.captures or any(removals.covers(one.url) for one in item.captures) for item in items)


async def erase(store: DiskStore, report: RemovalReport) -> None:
    """Rewrite every file that holds something dead, so that its bytes are gone from the disk."""
    if (await store.seal()) is not NOTHING:
        report.rewritten += 1
    for _ in range(len(store.archive.files.segments()) + 1):  # each turn ends some of them
        sealed = await store.compact(_ANY_DEAD)
        if sealed is NOTHING:
            return
        report.rewritten += sealed.files_before
