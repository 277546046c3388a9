"""What does an operator do with the notices of other peers? List, show, follow, dismiss, undo.

Carried out like any order on the archive, by a command or by the running peer. The files are the truth: a peer that
runs looks at them again after each order.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from herodotus.core.errors import Misuse, NotFound
from herodotus.core.notices import ID_BYTES, Kept
from herodotus.core.orders import NoticeOrder, OrderReport
from herodotus.core.removals import DAY_S, Subject
from herodotus.core.warc import TIME_MAX_S, format_date
from herodotus.home.identity import names_of_key
from herodotus.home.notices import change_notices, read_notices, with_kept
from herodotus.home.removed import RemovedFile, Rule, forget_removed, note_removed, read_removed, removals_in
from herodotus.store.removal import LISTED_MAX, covered_addresses
from herodotus.store.store import READING, DiskStore

ID_DIGITS_MIN = 4


class NoSuchNoticeError(NotFound):
    """No notice, or more than one, begins with the digits that were given."""


async def perform_on_notice(store: DiskStore, order: NoticeOrder, state: Path) -> OrderReport:
    if order.verb == "list":
        return OrderReport(facts=notices_as_json(state, store.archive.settings.grace_s))
    one = _named(state, order.id)
    rule = read_removed(state).by_subject.get(one.notice.subject)
    match order.verb:
        case "show":
            listed = await store.workers.work(
                lambda: covered_addresses(store.archive, one.notice.subject, LISTED_MAX), READING
            )
            found = _as_json(one, rule, read_removed(state), store.archive.settings.grace_s)
            found |= {"captures_here": sum(count for _, count in listed), "listed": listed}
            return OrderReport(facts=found)
        case "follow":
            _follow(store, state, one, rule)
        case "undo":
            _undo(store, state, one, rule)
        case _:
            _dismiss(state, one, rule)
    return OrderReport(facts={"id": one.notice.id.hex(), "subject": str(one.notice.subject)})


def _follow(store: DiskStore, state: Path, one: Kept, rule: Rule | None) -> None:
    if rule is None:
        file = note_removed(state, [one.notice.subject], now=store.archive.now(), notice=one.notice.id.hex())
        store.archive.removed = removals_in(file)
    _change(state, one, lambda kept: msgspec.structs.replace(kept, was_followed=True, is_dismissed=False))


def _undo(store: DiskStore, state: Path, one: Kept, rule: Rule | None) -> None:
    if rule is None:
        raise Misuse("this notice was not followed: nothing is hidden because of it")
    if rule.state != "hidden":
        raise Misuse(
            f"its captures are erased; `herodotus remove --undo` allows {one.notice.subject} to be archived again"
        )
    # Decided first: killed between, nothing follows it again by itself.
    _change(state, one, lambda kept: msgspec.structs.replace(kept, was_followed=True, is_dismissed=True))
    file, _ = forget_removed(state, [one.notice.subject])
    store.archive.removed = removals_in(file)


def _dismiss(state: Path, one: Kept, rule: Rule | None) -> None:
    if rule is not None:
        raise Misuse("what it names is removed here: undo it first")
    _change(state, one, lambda kept: msgspec.structs.replace(kept, is_dismissed=True))


def note_undone(state: Path, subjects: list[Subject]) -> None:
    """The operator shows these again: no notice about them is followed by itself from now on."""
    wanted = frozenset(subjects)

    def undone(kept: Kept) -> Kept:
        if kept.notice.subject not in wanted:
            return kept
        return msgspec.structs.replace(kept, was_followed=True, is_dismissed=True)

    change_notices(state, lambda file: with_kept(file, list(map(undone, file.kept))))


def _change(state: Path, one: Kept, rewrite: Callable[[Kept], Kept]) -> None:
    id_ = one.notice.id
    change_notices(
        state,
        lambda file: with_kept(
            file, [rewrite(kept) if kept.notice.id == id_ else kept for kept in file.kept]
        ),
    )


def _named(state: Path, digits: str) -> Kept:
    wanted = digits.strip().lower()
    if (
        len(wanted) < ID_DIGITS_MIN
        or len(wanted) > 2 * ID_BYTES
        or not all(c in "0123456789abcdef" for c in wanted)
    ):
        raise Misuse(
            f"{digits[:40]!r} is no notice: give at least {ID_DIGITS_MIN} of its digits, as `list` shows them"
        )
    found = [one for one in read_notices(state).kept if one.notice.id.hex().startswith(wanted)]
    if len(found) != 1:
        what = "more than one notice begins" if found else "no notice begins"
        raise NoSuchNoticeError(f"{what} with {wanted}")
    return found[0]


def notices_as_json(state: Path, grace_s: float) -> list[dict[str, Any]]:
    """The last first."""
    removed = read_removed(state)
    rules = removed.by_subject
    kept = sorted(read_notices(state).kept, key=lambda one: one.notice.issued, reverse=True)
    return [_as_json(one, rules.get(one.notice.subject), removed, grace_s) for one in kept]


def _as_json(one: Kept, rule: Rule | None, removed: RemovedFile, grace_s: float) -> dict[str, Any]:
    notice = one.notice
    erased_in_s = None
    if rule is not None and rule.state == "hidden":
        erased_in_s = max(0.0, rule.at_s + grace_s - removed.lived_s)
    return {
        "id": notice.id.hex(),
        "state": _state_of(one, rule),
        "kind": notice.kind,
        "name": notice.name,
        "reason": notice.reason,
        "text": notice.text,
        "contact": notice.contact,
        "issuer": names_of_key(notice.issuer)[0],
        "is_own": one.is_own,
        "issued": format_date(min(notice.issued, TIME_MAX_S)),
        "captures_there": notice.count,
        "erased_in_days": None if erased_in_s is None else round(erased_in_s / DAY_S, 1),
    }


def _state_of(one: Kept, rule: Rule | None) -> str:
    if rule is not None:
        return "hidden" if rule.state == "hidden" else "erased"
    return "dismissed" if one.is_dismissed else "open"
