"""Where does a peer keep what was removed here? `state/removed.json`, replaced in one step.

It outlives the captures and the settings, which people edit. Format 2 (golden bytes in a test):

    {"format":2,"lived_s":86400.0,"seen_s":1795000000.0,"rules":[{"kind":"host","name":"example.org",
     "removed":1795000000,"state":"hidden","at_s":3600.0,"notice":"…32 hex digits…","captures":12}]}

A rule is `hidden` (undone at any time), then `erasing` once its grace is over, then `erased`. `at_s` and `lived_s` are
on a clock of its own, which counts the time that this peer lived through (`core.removals`). Format 1 had hosts and
urls, which were erased at once.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from herodotus.core.errors import FileSyntaxError, Misuse
from herodotus.core.removals import (
    HOST,
    NOTED_CREDIT_MAX_S,
    NOTHING_REMOVED,
    URL,
    MalformedSubjectError,
    Removals,
    Subject,
    credit_s,
    subject_of,
)
from herodotus.home.state_files import one_change_at_a_time, read_state_file, write_state_file

FORMAT = 2
_FORMAT_OF_BEFORE = 1
REMOVED_MAX = 100_000
FILE_BYTES_MAX = 256 * 2**20
NAME, LOCK = "removed.json", "removed.lock"
_HINT = "restore it from a backup; without it, removed pages would come back"

State = Literal["hidden", "erasing", "erased"]


class Telling(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a notice to the other peers is to say; a running peer signs and sends it."""

    reason: str = ""
    text: str = ""
    contact: str = ""


class Rule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    kind: str
    name: str
    removed: int
    """Seconds since 1970."""
    state: State
    at_s: float = 0.0
    notice: str = ""
    """The notice that was followed, or that tells others of this."""
    captures: int = 0
    """Covered when it was made."""
    telling: Telling | None = None
    """Not told yet."""

    @property
    def subject(self) -> Subject:
        return Subject(self.kind, self.name)


class _Former(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    removed: int


class _File(msgspec.Struct, frozen=True, kw_only=True):
    format: int = FORMAT
    lived_s: float = 0.0
    seen_s: float = 0.0
    rules: list[Rule] = []
    hosts: list[_Former] = []
    urls: list[_Former] = []


class RemovedFile(msgspec.Struct, frozen=True, kw_only=True):
    format: int = FORMAT
    lived_s: float = 0.0
    """How long this peer lived, since it first removed something."""
    seen_s: float = 0.0
    """What the wall clock said then."""
    rules: list[Rule] = []

    @property
    def by_subject(self) -> dict[Subject, Rule]:
        return {rule.subject: rule for rule in self.rules}


@dataclass(kw_only=True)
class TooManyRemoved(Misuse):
    count: int

    def __str__(self) -> str:
        return (
            f"{self.count:,} entries are more than the {REMOVED_MAX:,} that a home keeps: remove whole hosts"
        )


def read_removed(state: Path) -> RemovedFile:
    found = read_state_file(
        state / NAME, _File, newest=FORMAT, oldest=_FORMAT_OF_BEFORE, bytes_max=FILE_BYTES_MAX, hint=_HINT
    )
    if found is None:
        return RemovedFile()
    try:
        former = [_former(HOST, one) for one in found.hosts] + [_former(URL, one) for one in found.urls]
        rules = list(map(_checked, found.rules))
    except MalformedSubjectError as error:
        raise FileSyntaxError(file=str(state / NAME), problem=f"is damaged ({error})", hint=_HINT) from error
    return RemovedFile(lived_s=found.lived_s, seen_s=found.seen_s, rules=former + rules)


def _checked(rule: Rule) -> Rule:
    if subject_of(rule.kind, rule.name) != rule.subject:
        raise MalformedSubjectError(f"{rule.name!r} is not as this release writes it")
    return rule


def _former(kind: str, one: _Former) -> Rule:
    return Rule(kind=kind, name=subject_of(kind, one.name).name, removed=one.removed, state="erased")


def removals_in(file: RemovedFile) -> Removals:
    if not file.rules:
        return NOTHING_REMOVED
    return Removals.of_subjects(
        (rule.subject for rule in file.rules),
        erased=(rule.subject for rule in file.rules if rule.state != "hidden"),
    )


def removals_of(state: Path) -> Removals:
    return removals_in(read_removed(state))


def change(state: Path, rewrite: Callable[[RemovedFile], RemovedFile]) -> RemovedFile:
    """One change, durable when it returns."""
    with one_change_at_a_time(state / LOCK):
        before = read_removed(state)
        after = rewrite(before)
        if len(after.rules) > REMOVED_MAX:
            raise TooManyRemoved(count=len(after.rules))
        if after != before:
            write_state_file(state / NAME, after)
        return after


def note_removed(
    state: Path,
    subjects: Iterable[Subject],
    *,
    now: float,
    becomes: State = "hidden",
    notice: str = "",
    captures: int = 0,
    telling: Telling | None = None,
) -> RemovedFile:
    """Keep these subjects. Those that were there keep their date, and go on from hidden to erasing, never back."""

    def rewrite(before: RemovedFile) -> RemovedFile:
        file = lived(before, credit_s(before.seen_s, now, NOTED_CREDIT_MAX_S), now)
        rules = file.by_subject
        for subject in subjects:
            known = rules.get(subject)
            if known is None:
                rules[subject] = Rule(
                    kind=subject.kind,
                    name=subject.name,
                    removed=int(now),
                    at_s=file.lived_s,
                    state=becomes,
                    notice=notice,
                    captures=captures,
                    telling=telling,
                )
            elif becomes != "hidden" and known.state == "hidden":
                rules[subject] = msgspec.structs.replace(known, state=becomes)
        return msgspec.structs.replace(file, rules=list(rules.values()))

    return change(state, rewrite)


def lived(file: RemovedFile, credit: float, now: float) -> RemovedFile:
    return msgspec.structs.replace(file, lived_s=file.lived_s + credit, seen_s=now)


def alter(state: Path, subjects: Collection[Subject], rewrite: Callable[[Rule], Rule | None]) -> RemovedFile:
    """Each of these rules as `rewrite` makes it; None forgets it."""

    def rewritten(before: RemovedFile) -> RemovedFile:
        found = (rewrite(rule) if rule.subject in subjects else rule for rule in before.rules)
        return msgspec.structs.replace(before, rules=[rule for rule in found if rule is not None])

    wanted = frozenset(subjects)
    subjects = wanted
    return change(state, rewritten)


def forget_removed(state: Path, subjects: Sequence[Subject]) -> tuple[RemovedFile, list[Subject]]:
    """Allow these again; also returns those that had not been removed."""
    known = read_removed(state).by_subject
    after = alter(state, subjects, lambda _: None)
    return after, [subject for subject in subjects if subject not in known]


def due_for_erasing(file: RemovedFile, grace_s: float) -> list[Rule]:
    """Whose bytes are to go: the grace is over, or going began and was interrupted."""
    return [
        rule
        for rule in file.rules
        if rule.state == "erasing" or (rule.state == "hidden" and file.lived_s - rule.at_s >= grace_s)
    ]
