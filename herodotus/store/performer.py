"""Which orders does an open archive carry out for another process? An order comes in, a report goes out.

The same orders are carried out by a command that opened the archive itself and by a peer that has it open: then they
come as JSON through `herodotus.operate.order_socket`. Reports are plain JSON; a capture's bytes travel beside its
report.
"""

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import anyio.from_thread
import anyio.to_thread
import msgspec

from crawler.core.errors import MalformedUrlError
from crawler.core.urls import canonical
from herodotus.core.disputes import disputed
from herodotus.core.errors import ArchiveError
from herodotus.core.index_rows import Unreachable
from herodotus.core.orders import (
    ArchiveOrder,
    Export,
    Expunge,
    Get,
    History,
    Import,
    NoticeOrder,
    OrderReport,
    RebuildIndex,
    Remove,
    Say,
    Statistics,
    Verify,
    Why,
)
from herodotus.core.removals import Subject, subject_of
from herodotus.core.warc import format_date
from herodotus.home.durable import storage_failure
from herodotus.home.removed import Rule, Telling, alter, forget_removed, note_removed, removals_in
from herodotus.store.evidence import evidence
from herodotus.store.import_orders import ImportProgress, take_in
from herodotus.store.mending import accept
from herodotus.store.notice_orders import note_undone, perform_on_notice
from herodotus.store.reader import Version
from herodotus.store.removal import RemovalReport, erase_rules, survey_covered
from herodotus.store.store import DiskStore
from herodotus.store.stored_records import StoredCapture
from herodotus.store.streams import Query
from herodotus.store.verification import Verification, verify
from herodotus.store.wacz import export_wacz
from herodotus.store.warc_export import ExportReport, export_warc

EXPORTS_BETWEEN_WORDS = 256
VERIFIES_BETWEEN_WORDS = 1_024
EXPUNGED_LISTED = 10_000


class RefusedWhileRunningError(ArchiveError):
    def __init__(self, what: str) -> None:
        super().__init__(f"{what} needs the archive at rest: stop the peer first (`herodotus stop`)")


async def perform(store: DiskStore, order: ArchiveOrder, say: Say, state: Path | None = None) -> OrderReport:
    """`state` is the folder where an interrupted order notes how far it came."""
    match order:
        case Import():
            return OrderReport(
                facts=await take_in(
                    store,
                    [Path(file) for file in order.files],
                    start=order.resume_at,
                    marks_path=None if state is None else state / "imports.json",
                    tell=partial(_tell, say),
                )
            )
        case Export():
            report = await anyio.to_thread.run_sync(export_to, store, order, None, _from_thread(say))
            return OrderReport(facts=asdict(report))
        case Get():
            return await _get(store, order)
        case History():
            versions = await _of_spellings(store, order.url, store.history)
            unreachable = await store.unreachable(versions[-1].url) if versions else None
            return OrderReport(facts=history_as_json(versions or (), unreachable) or None)
        case Why():
            return OrderReport(
                facts=await _of_spellings(store, order.url, partial(evidence, store, order.not_after_s))
            )
        case Verify():
            found = await anyio.to_thread.run_sync(_verify, store, order, _from_thread(say))
            return OrderReport(facts={**asdict(found), "is_sound": found.is_sound})
        case Expunge():
            return OrderReport(facts=await _expunge(store, order, say))
        case RebuildIndex():
            await store.rebuild()
            return OrderReport(facts={"captures": (await store.statistics()).captures})
        case Remove():
            return await _remove(store, order, say, state)
        case NoticeOrder():
            return await perform_on_notice(store, order, _state_of(state))
        case Statistics():
            return OrderReport(facts=asdict(await store.statistics()))


async def perform_in_peer(
    store: DiskStore, order: ArchiveOrder, say: Say, state: Path | None = None
) -> OrderReport:
    """An order that would take the index away from a running peer's readers is refused."""
    if isinstance(order, RebuildIndex):
        raise RefusedWhileRunningError("rebuild-index")
    if isinstance(order, Verify) and order.repair:
        raise RefusedWhileRunningError("verify --repair")
    return await perform(store, order, say, state)


def _tell(say: Say, progress: ImportProgress) -> None:
    say(str(progress))


def _from_thread(say: Say) -> Say:
    """For work in a thread of ours: it also ends there when the order is cancelled."""

    def pass_on(words: str) -> None:
        anyio.from_thread.check_cancelled()
        if words:
            anyio.from_thread.run_sync(say, words)

    return pass_on


def export_to(
    store: DiskStore, order: Export, out: BinaryIO | None, say: Say = lambda words: None
) -> ExportReport:
    """Blocks. The target appears when it is whole; `out` is written instead where it is given."""
    target = Path(order.target)

    def progress(report: ExportReport) -> None:
        seen = report.captures + report.visits
        say(f"{target}: {report.captures} captures" if seen % EXPORTS_BETWEEN_WORDS == 0 else "")

    export = partial(
        export_warc,
        store.archive,
        query=Query(from_s=order.from_s, to_s=order.to_s + 1),
        url_pattern=order.url_pattern,
        progress=progress,
    )
    if out is not None:
        return export(out)
    try:
        return _export_beside(store, order, target, export, progress)
    except OSError as error:
        raise storage_failure(error, target, "write") from error


def _export_beside(
    store: DiskStore,
    order: Export,
    target: Path,
    export: Callable[..., ExportReport],
    progress: Callable[[ExportReport], None],
) -> ExportReport:
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(target))
    if order.is_wacz:
        return export_wacz(
            store.archive,
            target,
            query=Query(from_s=order.from_s, to_s=order.to_s + 1),
            url_pattern=order.url_pattern,
            progress=progress,
        )
    part = target.with_name(target.name + ".part")
    try:
        with part.open("wb") as file:
            report = export(file, scratch=target.parent)
        if report.captures:
            part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    return report


async def _expunge(store: DiskStore, order: Expunge, say: Say) -> dict[str, Any]:
    """Step by step, each durable. If interrupted, it continues when it is ordered again."""
    count, first = await store.outdated(order.before_s, EXPUNGED_LISTED)
    gone = 0
    while not order.is_rehearsal and (step := await store.expunge(order.before_s)):
        gone += len(step)
        say(f"{gone} of {count} captures deleted")
    listed = [{"url": url, "date": format_date(id_.time_s)} for id_, url in first]
    return {"captures": count if order.is_rehearsal else gone, "first": listed}


def _verify(store: DiskStore, order: Verify, say: Say) -> Verification:
    records = 0

    def report(path: str, done: int, total: int) -> None:
        nonlocal records
        records += 1
        say(f"{path}: {100 * done // max(1, total)} %" if records % VERIFIES_BETWEEN_WORDS == 0 else "")

    if order.gives_up:
        accept(store.archive)
    return verify(store.archive, repair=order.repair, report=report)


def _state_of(state: Path | None) -> Path:
    if state is None:
        raise ArchiveError("an archive without a home cannot note removals")
    return state


async def _remove(store: DiskStore, order: Remove, say: Say, state: Path | None) -> OrderReport:
    """The rule comes first: from then on readers are shown nothing of it, and nothing of it comes back meanwhile."""
    state = _state_of(state)
    subjects = [subject_of(*pair) for pair in order.subjects]
    if order.is_forgotten:
        return OrderReport(facts=_show_again(store, subjects, state))
    telling = Telling(reason=order.reason, text=order.text, contact=order.contact) if order.is_told else None
    file = note_removed(
        state,
        subjects,
        now=store.archive.now(),
        becomes="erasing" if order.is_erased else "hidden",
        telling=telling,
    )
    store.archive.removed = removals_in(file)
    report = RemovalReport()
    for subject in subjects:
        await survey_covered(store, subject, report, say)
        alter(state, [subject], partial(_counted, captures=report.of_subject))
    if order.is_erased:
        await erase_rules(store, state, subjects, report, say)
    return OrderReport(facts={**asdict(report), "unknown": []})


def _counted(rule: Rule, captures: int) -> Rule:
    return msgspec.structs.replace(rule, captures=captures)


def _show_again(store: DiskStore, subjects: list[Subject], state: Path) -> dict[str, Any]:
    note_undone(state, subjects)
    file, unknown = forget_removed(state, subjects)
    store.archive.removed = removals_in(file)
    return {**asdict(RemovalReport()), "unknown": [str(subject) for subject in unknown]}


async def _get(store: DiskStore, order: Get) -> OrderReport:
    async def newest(url: str) -> StoredCapture | None:
        return await store.newest(url, order.not_after_s)

    capture = await _of_spellings(store, order.url, newest)
    if capture is None:
        return OrderReport(facts=None)
    content = capture.head + capture.body if order.is_raw else capture.body
    return OrderReport(facts={"url": capture.url, "date": format_date(capture.time_s)}, content=content)


async def _of_spellings(store: DiskStore, url: str, find: Any) -> Any:
    """As it was written (imported files keep their spelling), else as the crawler would write it, else of the nearest
    address that is spelled otherwise."""
    exact = spellings(url)
    for spelling in exact:
        found = await find(spelling)
        if found:
            return found
    for spelling in await store.spellings(exact):
        found = await find(spelling)
        if found:
            return found
    return None


def spellings(url: str) -> tuple[str, ...]:
    """The URLs that a person's text may mean. Without a scheme: https first, then http."""
    tried = [url] if "://" in url else [f"https://{url}", f"http://{url}"]
    for text in tuple(tried):
        try:
            tried.append(canonical(text))
        except MalformedUrlError:
            continue
    return tuple(dict.fromkeys(tried))


def history_as_json(
    versions: Sequence[Version], unreachable: Unreachable | None = None
) -> list[dict[str, Any]]:
    return list(history_facts(versions, unreachable))


def history_facts(
    versions: Sequence[Version], unreachable: Unreachable | None = None
) -> Iterator[dict[str, Any]]:
    """One after the other: of a long history they take more memory than the versions. The newest says since when it
    cannot be seen again."""
    of_doubt = disputed(versions)
    for number, one in enumerate(versions, 1):
        facts = {**_version_as_json(one), "disputed": one.id in of_doubt}
        if unreachable is not None and number == len(versions):
            facts["unreachable"] = unreachable_facts(unreachable)
        yield facts


def unreachable_facts(found: Unreachable) -> dict[str, Any]:
    return {
        "since": format_date(found.since_s),
        "last": format_date(found.last_s),
        "reason": found.reason,
        "tries": found.tries,
    }


def _version_as_json(version: Version) -> dict[str, Any]:
    return {
        "url": version.url,
        "date": format_date(version.id.time_s),
        "digest": f"sha256:{version.id.digest.hex()}",
        "status": version.status,
        "mime": version.mime,
        "first_seen": format_date(version.first_seen_s),
        "last_seen": format_date(version.last_seen_s),
        "visits": version.visits,
        "size": version.size,
        "stored_bytes": version.stored_bytes,
        "sha1": version.sha1,
        "door": version.door,
        "fetched_by": version.voucher,
        "permitted_by": version.steward,
    }
