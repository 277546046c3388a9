"""Which holder is compared with next? Each once a day, soon after the ring changed, and again after a failure.

A task is a peer and a purpose: the share that both must hold, or our surplus. A failing task waits longer each time,
so a dead holder costs little and delays no other.

How fast does a repair go, and when will it be done? Counted over the last ten minutes.
"""

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from random import Random

from herodotus.core.copies import PeerKey

AGAIN_S = (2.0, 10.0, 60.0, 300.0, 900.0)


class Purpose(Enum):
    SHARED = "shared"
    """Both must hold it: each gets the captures that it lacks."""
    SURPLUS = "surplus"
    """The other must hold it and we need not: it gets the captures that it lacks, and ours may go."""

    SPARE = "spare"
    """The other must hold it and we keep it while there is room: each gets the captures that it lacks."""
    COUNT = "count"
    """We must hold it and the other may keep it: how much of it does it have?"""


UNHURRIED = frozenset({Purpose.SPARE, Purpose.COUNT})
"""They wait while there is anything else to do."""
Task = tuple[PeerKey, Purpose]


@dataclass(slots=True)
class _Entry:
    due: float
    failures: int = 0
    is_running: bool = False
    is_wanted_again: bool = False


class ComparisonSchedule:
    def __init__(self, *, every_s: float, soon_s: float, random: Random) -> None:
        """`soon_s` spreads the tasks that a change of the ring makes due, so that peers do not all compare at
        once."""
        assert 0 <= soon_s <= every_s, "what changed is compared before what did not"
        self._every_s = every_s
        self._soon_s = soon_s
        self._random = random
        self._tasks: dict[Task, _Entry] = {}

    def set_tasks(self, tasks: Collection[Task], now: float, *, changed: Collection[Task]) -> None:
        """Replace all tasks. New and changed ones are due soon."""
        for task in [known for known in self._tasks if known not in tasks]:
            del self._tasks[task]
        for task in sorted(tasks, key=_order):
            entry = self._tasks.setdefault(task, _Entry(float("inf")))
            if task in changed or entry.due == float("inf"):
                self._hurry(entry, now)

    def hurry(self, task: Task, now: float) -> None:
        if task in self._tasks:
            self._hurry(self._tasks[task], now)

    def _hurry(self, entry: _Entry, now: float) -> None:
        entry.failures = 0
        entry.is_wanted_again = entry.is_running
        entry.due = min(entry.due, now + self._random.uniform(0, self._soon_s))

    def take(self, now: float, *, is_busy: bool = False) -> Task | None:
        """The task that has been due for the longest, to begin now; those that have no hurry come last, and not while
        the peer is busy."""
        due = [
            (task[1] in UNHURRIED, entry.due, _order(task), task)
            for task, entry in self._tasks.items()
            if entry.due <= now and not entry.is_running and not (is_busy and task[1] in UNHURRIED)
        ]
        if not due:
            return None
        task = min(due)[-1]
        self._tasks[task].is_running = True
        self._tasks[task].is_wanted_again = False
        return task

    def done(self, task: Task, now: float) -> None:
        entry = self._tasks.get(task)
        if entry is not None:
            entry.is_running, entry.failures = False, 0
            wait_s = self._soon_s if entry.is_wanted_again else self._every_s
            entry.due = now + wait_s * self._random.uniform(0.9, 1.0)

    def failed(self, task: Task, now: float) -> None:
        entry = self._tasks.get(task)
        if entry is not None:
            wait_s = min(AGAIN_S[min(entry.failures, len(AGAIN_S) - 1)], self._every_s)
            entry.is_running = False
            entry.failures += 1
            entry.due = now + wait_s * self._random.uniform(0.5, 1.0)
            assert entry.due <= now + self._every_s, "a peer that fails is asked no less often than others"

    def next_deadline(self, *, is_busy: bool = False) -> float | None:
        waiting = (
            entry.due
            for task, entry in self._tasks.items()
            if not entry.is_running and not (is_busy and task[1] in UNHURRIED)
        )
        return min(waiting, default=None)


def _order(task: Task) -> tuple[str, PeerKey]:
    return task[1].value, task[0]


SPAN_S = 600.0
SAMPLES_MAX = 64


class Pace:
    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque(maxlen=SAMPLES_MAX)

    def note(self, done: int, now: float) -> None:
        """`done` is of all time; it never falls."""
        assert not self._samples or done >= self._samples[-1][1]
        self._samples.append((now, done))
        while now - self._samples[0][0] > SPAN_S:
            self._samples.popleft()

    def left_s(self, left: int) -> int | None:
        """For so much more; None when nothing was done lately, so that nobody can tell."""
        if not left:
            return 0
        if len(self._samples) < 2:
            return None
        (began, before), (now, done) = self._samples[0], self._samples[-1]
        return round(left * (now - began) / (done - before)) if done > before else None
