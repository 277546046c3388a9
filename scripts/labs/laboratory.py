"""What does every scenario of the lab need? An internet, peers on it, a web, verdicts, and an end."""

import dataclasses
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, MappingProxyType

from herodotus.core.charter import PUBLIC_CHARTER, Charter, founded_on
from herodotus.operate import lab_web
from scripts.demos.frame import lines_of
from scripts.labs.internet import Host, Internet
from scripts.labs.volunteers import Facts, Volunteer, end_all
from scripts.sweeps.judging import Verdict

LOOK_EVERY_S = 0.5
SUFFIX = "lab.test"
READY_S = 30.0
_WEB_PORT = 80

SHORTER: Mapping[str, object] = MappingProxyType({"links.wait_s": 2.0})
"""Of everybody's settings only what would make a crawl of minutes one of hours."""


class LabFailed(Exception):
    """The scenario could not be played; the message says why, in one line."""


def public_charter(name: str, *, delay_floor_s: float = PUBLIC_CHARTER.delay_floor_s) -> Charter:
    """The public network's rules, of a network that begins today: its members are of age at once."""
    charter = founded_on(PUBLIC_CHARTER, time.time())
    return dataclasses.replace(charter, name=f"lab {name}", delay_floor_s=delay_floor_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the tester chose."""

    is_short: bool = False
    kinds: tuple[str, ...] = ()


class Laboratory:
    """Of one scenario; `opened` ends all that it started."""

    def __init__(self, name: str, charter: Charter, settings: Mapping[str, object] = SHORTER) -> None:
        self.name, self.charter, self.settings = name, charter, settings
        self.folder = Path(tempfile.mkdtemp(prefix=f"herodotus-lab-{name}-"))
        self.internet = Internet()
        self.volunteers: dict[str, Volunteer] = {}
        self.keys: dict[str, bytes] = {}
        self.verdicts: list[Verdict] = []
        self.began = time.monotonic()
        self._web: subprocess.Popen[bytes] | None = None
        self.control = ""

    @contextmanager
    def opened(self, limit_s: int) -> Iterator[None]:
        """Inside the block for at most so long."""

        def too_long(_number: int, _frame: FrameType | None) -> None:
            raise LabFailed(f"not done within {limit_s} s")

        before = signal.signal(signal.SIGALRM, too_long)
        signal.alarm(limit_s)
        try:
            yield
        finally:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, before)
            end_all(list(self.volunteers.values()))
            if self._web is not None:
                lab_web.end_process(self._web)

    def say(self, words: str) -> None:
        print(f"{self.name}: {time.monotonic() - self.began:5.0f} s: {words}", file=sys.stderr, flush=True)

    def note(self, name: str, is_ok: bool, detail: str) -> None:
        self.verdicts.append(Verdict(name=name, is_ok=is_ok, detail=detail))

    # -- peers

    def volunteer(
        self, name: str, host: Host, chosen: Mapping[str, object] = MappingProxyType({})
    ) -> Volunteer:
        """With a home, not running yet."""
        one = self.volunteers[name] = Volunteer(name, host, self.folder / name)
        self.keys[name] = one.settle(self.charter, {**self.settings, **chosen})
        return one

    def begin(self, count: int = 5, *, v6: bool = False) -> list[Volunteer]:
        """A ring of public peers, each in a network of its own, that see each other."""
        made = [self.volunteer(f"pub{n}", self.internet.customer(f"pub{n}", v6=v6)) for n in range(count)]
        for one in made:
            self.start(one)
        self.must(
            f"{count} public peers are one ring",
            lambda: all(
                facts is not None and facts["ring"]["members"] == count and facts["ring"]["ideal"]
                for facts in (one.status() for one in made)
            ),
            120.0,
        )
        return made

    def start(self, one: Volunteer) -> None:
        """It joins through the first public peers."""
        doors = [
            f"[{address}]:4484" if ":" in address else f"{address}:4484"
            for other in self.volunteers.values()
            if other is not one and other.process is not None and other.name.startswith("pub")
            for address in other.host.addresses
        ]
        one.start("run", *(word for door in doors[:6] for word in ("--join", door)))

    def statuses(self) -> dict[str, Facts]:
        """Of those that answer."""
        found = ((name, one.status()) for name, one in self.volunteers.items() if one.process is not None)
        return {name: facts for name, facts in found if facts is not None}

    # -- the web

    def serve(self, hosts: int, pages_max: int, pages_min: int = 20, *, v6: bool = True) -> list[str]:
        """A made-up web at public addresses with names; gives its front pages."""
        log = lab_web.log_in(self.folder)
        names = [f"h{number}.{SUFFIX}" for number in range(hosts)]
        self.internet.resolve(names, v6=v6)
        command = [
            *(sys.executable, "-m", "simnet", "web", "--log", str(log), "--port", str(_WEB_PORT), "--tidy"),
            *("--hosts", str(hosts), "--pages-max", str(pages_max), "--pages-min", str(pages_min)),
            *("--names", "test", "--suffix", SUFFIX, "--listen", "0.0.0.0", "--listen", "::"),  # noqa: S104  # of a namespace
        ]
        self._web, self.control = lab_web.started(command)
        return lab_web.front_pages(self.control)

    def urls(self) -> list[str]:
        """All that the web has today."""
        return lines_of(self.control, "/reachable")

    # -- waiting

    def until(self, fact: Callable[[], bool], within_s: float) -> bool:
        """Of other processes, which send us no events."""
        end = time.monotonic() + within_s
        while not fact():
            for one in self.volunteers.values():
                if one.process is not None and one.process.poll() is not None:
                    raise LabFailed(f"peer {one.name} ended with {one.process.returncode}: {one.last_words}")
            if time.monotonic() > end:
                return False
            time.sleep(LOOK_EVERY_S)
        return True

    def linger(self, for_s: float) -> None:
        """Time passes; nobody may end meanwhile."""
        end = time.monotonic() + for_s
        self.until(lambda: time.monotonic() >= end, for_s + READY_S)

    def must(self, words: str, fact: Callable[[], bool], within_s: float) -> None:
        if not self.until(fact, within_s):
            said = {name: facts["ring"]["members"] for name, facts in self.statuses().items()}
            raise LabFailed(f"not within {within_s:g} s: {words} (members: {said})")
        self.say(words)

    def judge_logs(self) -> None:
        complaints = [line for one in self.volunteers.values() for line in one.complaints()]
        self.note("no mistake of ours in a log", not complaints, "; ".join(complaints[:5]) or "none")


Rows = Sequence[Mapping[str, object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """`play` gives rows for a table; its verdicts are with the laboratory."""

    play: Callable[[Laboratory, Asked], Rows]
    limit_s: int
    delay_floor_s: float = PUBLIC_CHARTER.delay_floor_s
    settings: Mapping[str, object] = field(default_factory=lambda: SHORTER)

    @property
    def summary(self) -> str:
        return (self.play.__doc__ or "").splitlines()[0]
