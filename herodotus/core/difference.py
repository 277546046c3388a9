"""What changed between two texts? A script of kept, removed and added lines, in bounded time.

Lines that both texts have once are anchors (patience diff); between two anchors the shortest script is searched
(Myers 1986, the greedy O(ND) way) for as long as a budget of steps lasts. Where it is used up, the rest of a gap
counts as removed and added as a whole: a longer answer than necessary, but never a wrong one. For any texts, the kept
and removed lines are the old text, and the kept and added lines the new one.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

LINES_MAX = 20_000
"""Of each text. Later lines are not compared, and the answer says so."""
LINE_CHARS_MAX = 2_000
STEPS_MAX = 400_000
"""Of the search, some tenths of a second; pages of a few thousand lines with some hundred changes need less."""
WORDS_MAX = 400
_WORD_STEPS_MAX = 20_000


class Change(Enum):
    KEPT = " "
    REMOVED = "-"
    ADDED = "+"


@dataclass(frozen=True, slots=True, kw_only=True)
class EqualRun:
    """Lines of one fate, in a row."""

    change: Change
    lines: tuple[str, ...]


@dataclass(slots=True)
class _Budget:
    steps: int


def lines_of(text: str) -> tuple[tuple[str, ...], bool]:
    """Lines without the white space that layout makes, none empty; whether the text had more than is compared."""
    found: list[str] = []
    for line in text.splitlines():
        words = " ".join(line.split())
        for start in range(0, len(words), LINE_CHARS_MAX):
            if len(found) == LINES_MAX:
                return tuple(found), True
            found.append(words[start : start + LINE_CHARS_MAX])
    return tuple(found), False


def difference(old: Sequence[str], new: Sequence[str], *, steps_max: int = STEPS_MAX) -> list[EqualRun]:
    """Within a change the removed lines come before the added ones."""
    budget = _Budget(steps_max)
    runs: list[EqualRun] = []
    removed: list[str] = []
    added: list[str] = []

    def settle() -> None:
        for change, lines in ((Change.REMOVED, removed), (Change.ADDED, added)):
            if lines:
                runs.append(EqualRun(change=change, lines=tuple(lines)))
                lines.clear()

    kept: list[str] = []
    for change, line in _script(old, new, budget):
        if change is Change.KEPT:
            settle()
            kept.append(line)
            continue
        if kept:
            runs.append(EqualRun(change=Change.KEPT, lines=tuple(kept)))
            kept.clear()
        (removed if change is Change.REMOVED else added).append(line)
    settle()
    if kept:
        runs.append(EqualRun(change=Change.KEPT, lines=tuple(kept)))
    return runs


def word_difference(old: str, new: str) -> list[EqualRun]:
    """Within a line that was changed. Lines with too many words are changed as a whole."""
    before, after = old.split(" "), new.split(" ")
    if max(len(before), len(after)) > WORDS_MAX:
        return [EqualRun(change=Change.REMOVED, lines=(old,)), EqualRun(change=Change.ADDED, lines=(new,))]
    return difference(before, after, steps_max=_WORD_STEPS_MAX)


_Step = tuple[Change, str]


def _script(old: Sequence[str], new: Sequence[str], budget: _Budget) -> Iterator[_Step]:
    start, old_end, new_end = 0, len(old), len(new)
    while start < min(old_end, new_end) and old[start] == new[start]:
        start += 1
    while old_end > start and new_end > start and old[old_end - 1] == new[new_end - 1]:
        old_end, new_end = old_end - 1, new_end - 1
    yield from ((Change.KEPT, line) for line in old[:start])
    at_old, at_new = start, start
    for anchor_old, anchor_new in _anchors(old, new, start, old_end, new_end):
        yield from _gap(old[at_old:anchor_old], new[at_new:anchor_new], budget)
        yield Change.KEPT, old[anchor_old]
        at_old, at_new = anchor_old + 1, anchor_new + 1
    yield from _gap(old[at_old:old_end], new[at_new:new_end], budget)
    yield from ((Change.KEPT, line) for line in old[old_end:])


def _anchors(
    old: Sequence[str], new: Sequence[str], start: int, old_end: int, new_end: int
) -> list[tuple[int, int]]:
    """Places of lines that stand once in both, as many as keep their order: the longest rising sequence."""
    old_counts, new_counts = Counter(old[start:old_end]), Counter(new[start:new_end])
    place_in_new = {new[at]: at for at in range(start, new_end) if new_counts[new[at]] == 1}
    pairs = [
        (at, place_in_new[old[at]])
        for at in range(start, old_end)
        if old_counts[old[at]] == 1 and old[at] in place_in_new
    ]
    tails: list[int] = []  # of rising sequences by length: the least place in `new` that one ends with
    ends: list[int] = []  # which pair that is
    previous: list[int] = []
    for number, (_, at) in enumerate(pairs):
        length = bisect_left(tails, at)
        previous.append(ends[length - 1] if length else -1)
        if length == len(tails):
            tails.append(at)
            ends.append(number)
        else:
            tails[length], ends[length] = at, number
    found: list[tuple[int, int]] = []
    number = ends[-1] if ends else -1
    while number >= 0:
        found.append(pairs[number])
        number = previous[number]
    return found[::-1]


def _gap(old: Sequence[str], new: Sequence[str], budget: _Budget) -> Iterator[_Step]:
    path = _search(old, new, budget) if old and new else None
    if path is None:
        yield from ((Change.REMOVED, line) for line in old)
        yield from ((Change.ADDED, line) for line in new)
        return
    x = y = 0
    for to_x, to_y in path:
        if to_x - to_y > x - y:
            yield Change.REMOVED, old[x]
            x += 1
        elif to_x - to_y < x - y:
            yield Change.ADDED, new[y]
            y += 1
        yield from ((Change.KEPT, line) for line in old[x:to_x])
        x, y = to_x, to_y


def _search(old: Sequence[str], new: Sequence[str], budget: _Budget) -> list[tuple[int, int]] | None:
    """Where each step of a shortest script ends: a line removed or added, and the kept lines after it. None where the
    budget is used up first."""
    reach = {1: 0}  # how far each diagonal has come
    history: list[dict[int, int]] = []
    for cost in range(len(old) + len(new) + 1):
        history.append({k: x for k, x in reach.items() if abs(k) <= cost})
        for k in range(-cost, cost + 1, 2):
            is_down = k == -cost or (k != cost and reach[k - 1] < reach[k + 1])
            x = reach[k + 1] if is_down else reach[k - 1] + 1
            y = x - k
            begun = x
            while x < len(old) and y < len(new) and old[x] == new[y]:
                x, y = x + 1, y + 1
            reach[k] = x
            budget.steps -= 1 + (x - begun)
            if x >= len(old) and y >= len(new):
                return _path(history, k, x)
        # The history of a step is as long as the step: it counts, too, as memory.
        budget.steps -= cost
        if budget.steps < 0:
            return None
    raise AssertionError("a script of all lines removed and added always exists")


def _path(history: list[dict[int, int]], k: int, x: int) -> list[tuple[int, int]]:
    path = [(x, x - k)]
    for cost in range(len(history) - 1, 0, -1):
        reach = history[cost]
        is_down = k == -cost or (k != cost and reach.get(k - 1, -1) < reach.get(k + 1, -1))
        k = k + 1 if is_down else k - 1
        x = reach[k]
        path.append((x, x - k))
    return path[::-1]
