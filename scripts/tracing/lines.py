"""How long did URLs wait at each step, and for what? The peers' notes, joined."""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

LEASES = frozenset({"it is asked for a lease", "its rules are asked for"})
"""States of a host in which a peer waits for an answer of its steward."""


@dataclass(frozen=True, slots=True)
class Line:
    time: float
    step: str
    about: str
    word: str


def read_lines(path: Path) -> list[Line]:
    """The last line may be torn, of a peer that was killed."""
    found = []
    for text in path.read_text(encoding="utf-8").split("\n")[:-1]:
        time, step, about, word = text.split("\t")
        found.append(Line(float(time), step, about, word))
    return found


@dataclass(slots=True)
class Stage:
    """How long it took, for each URL that came through."""

    name: str
    seconds: list[float] = field(default_factory=list)

    def at(self, share: float) -> float:
        ordered = sorted(self.seconds)
        return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else 0.0

    @property
    def mean(self) -> float:
        return sum(self.seconds) / len(self.seconds) if self.seconds else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    stages: Sequence[Stage]
    causes: Mapping[str, float]
    """Seconds that due URLs waited while their host was in that state, all URLs together."""
    calls: Mapping[str, int]
    """By service, since the first seed: what a ring says to itself while it comes together is no URL's cost."""
    begun: Mapping[int, int]
    """Fetches by peer."""
    last_begun: float
    last_copied: float
    urls: int


def joined(peers: Sequence[Sequence[Line]], *, since: float) -> Joined:
    """`since`: when the crawl began, by the clock of the notes."""
    first: dict[str, dict[str, float]] = defaultdict(dict)
    """By step: when a URL first came there, at any peer."""
    copied = Stage("durable → last copy answered")
    waited: dict[str, float] = defaultdict(float)
    begun: Counter[int] = Counter()
    calls: Counter[str] = Counter()
    last = {"begun": 0.0, "copied": 0.0}
    due_stage = Stage("due → fetch begun")
    for number, lines in enumerate(peers):
        due: dict[str, float] = {}
        hosts: dict[str, list[tuple[float, str]]] = defaultdict(list)
        fresh: dict[str, float] = {}
        for line in lines:
            match line.step:
                case "call" if line.time >= since:
                    calls[(line.word and line.about) or f"{line.about}, failed"] += 1
                case "fresh":
                    fresh[line.about] = line.time
                case "copied" if line.about in fresh:
                    copied.seconds.append(line.time - fresh.pop(line.about))
                    last["copied"] = max(last["copied"], line.time)
                case "lease?" | "lease!" | "rules?" | "rules!" | "back":
                    hosts[line.about].append((line.time, _state(line)))
                case "due":
                    due.setdefault(line.about, line.time)
                case "begun":
                    last["begun"] = max(last["begun"], line.time)
                    if line.about in due:
                        begun[number] += 1
                        due_at = due.pop(line.about)
                        due_stage.seconds.append(line.time - due_at)
                        for cause, seconds in causes(hosts[_origin(line.about)], due_at, line.time).items():
                            waited[cause] += seconds
            if line.step in ("outbox", "sent", "due"):
                before = first[line.step].get(line.about)
                first[line.step][line.about] = line.time if before is None else min(before, line.time)
    stages = [
        between("outbox → batch sent", first["outbox"], first["sent"]),
        between("batch sent → due", first["sent"], first["due"]),
        due_stage,
        copied,
    ]
    return Joined(
        stages=stages,
        causes=waited,
        calls=calls,
        begun=begun,
        last_begun=last["begun"],
        last_copied=last["copied"],
        urls=sum(begun.values()),
    )


def uncopied(peers: Sequence[Sequence[Line]]) -> int:
    """Captures that some holder has not answered for yet."""
    steps = Counter(line.step for lines in peers for line in lines)
    return steps["fresh"] - steps["copied"]


def between(name: str, starts: Mapping[str, float], ends: Mapping[str, float]) -> Stage:
    return Stage(name, [ends[url] - at for url, at in starts.items() if ends.get(url, 0.0) >= at])


def causes(states: Sequence[tuple[float, str]], since: float, until: float) -> dict[str, float]:
    """What a host was waiting for, second by second, between the two moments."""
    found: dict[str, float] = defaultdict(float)
    at = bisect_right(states, since, key=lambda state: state[0])
    state = states[at - 1][1] if at else "it has no place in the crawl's round"
    moments = [(since, state), *_until(states[at:], until), (until, "")]
    for (start, name), (end, _) in pairwise(moments):
        found[name] += end - start
    return dict(found)


def _until(states: Iterable[tuple[float, str]], until: float) -> Iterable[tuple[float, str]]:
    for state in states:
        if state[0] >= until:
            return
        yield state


def _state(line: Line) -> str:
    match line.step:
        case "lease?":
            return "it is asked for a lease"
        case "rules?":
            return "its rules are asked for"
        case "back":
            return "others of it are fetched first"
        case _:
            return line.word or "others of it are fetched first"


def _origin(url: str) -> str:
    return "/".join(url.split("/", 3)[:3])
