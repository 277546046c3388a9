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
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType, MappingProxyType

from herodotus.core.charter import PUBLIC_CHARTER, Charter, founded_on
from herodotus.core.settings.fields import HostPort
from herodotus.operate import lab_web
from scripts.demos.frame import lines_of
from scripts.labs.internet import Host, Internet
from scripts.labs.routers import RING_PORT
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
    """The public network's rules, of a network that begins today: its members are of age at once. Its day begins in
    this minute: a scenario that ran into the next one would see every page fetched twice."""
    now = datetime.now(UTC)
    charter = founded_on(PUBLIC_CHARTER, now.timestamp())
    return dataclasses.replace(
        charter,
        name=f"lab {name}",
        delay_floor_s=delay_floor_s,
        day_start=f"{now:%H:%M}",
        content="html+images",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the tester chose."""

    is_short: bool = False
    is_long: bool = False
    """With everybody's timers, also where they take half an hour."""
    kinds: tuple[str, ...] = ()


class Laboratory:
    """Of one scenario; `opened` ends all that it started."""

    def __init__(self, name: str, settings: Mapping[str, object] = SHORTER) -> None:
        self.name, self.settings = name, settings
        self.folder = Path(tempfile.mkdtemp(prefix=f"herodotus-lab-{name}-"))
        self.internet = Internet()
        self.volunteers: dict[str, Volunteer] = {}
        self.verdicts: list[Verdict] = []
        self.began = time.monotonic()
        self._web: subprocess.Popen[bytes] | None = None
        self._beside: list[subprocess.Popen[bytes]] = []
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
            for process in (*self._beside, *([self._web] if self._web is not None else [])):
                lab_web.end_process(process)

    def say(self, words: str) -> None:
        print(f"{self.name}: {time.monotonic() - self.began:5.0f} s: {words}", file=sys.stderr, flush=True)

    def note(self, name: str, is_ok: bool, detail: str) -> None:
        self.verdicts.append(Verdict(name=name, is_ok=is_ok, detail=detail))

    def run_beside(self, host: Host, module: str, *words: str) -> None:
        """A program of ours, for as long as the laboratory is open."""
        command = host.command(sys.executable, "-m", module, *words)
        with (self.folder / f"{host.name}.console").open("ab") as console:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=console, stderr=console, start_new_session=True
            )
        self._beside.append(process)

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
            said = {name: facts["ring"]["members"] for name, facts in statuses(self.volunteers).items()}
            raise LabFailed(f"not within {within_s:g} s: {words} (members: {said})")
        self.say(words)

    def judge_logs(self) -> None:
        complaints = [line for one in self.volunteers.values() for line in one.complaints()]
        self.note("no mistake of ours in a log", not complaints, "; ".join(complaints[:5]) or "none")


def statuses(volunteers: Mapping[str, Volunteer]) -> dict[str, Facts]:
    """Of those that answer."""
    found = ((name, one.status()) for name, one in volunteers.items() if one.process is not None)
    return {name: facts for name, facts in found if facts is not None}


class LabRing:
    """The peers of one network; a laboratory may have two side by side, so that the same load is on both."""

    def __init__(self, lab: Laboratory, charter: Charter) -> None:
        self.lab, self.charter = lab, charter
        self.volunteers: dict[str, Volunteer] = {}
        self.keys: dict[str, bytes] = {}
        self._doors: list[str] = []

    def volunteer(
        self, name: str, host: Host, chosen: Mapping[str, object] = MappingProxyType({})
    ) -> Volunteer:
        """With a home, not running yet."""
        one = self.volunteers[name] = self.lab.volunteers[name] = Volunteer(
            name, host, self.lab.folder / name
        )
        self.keys[name] = one.settle(self.charter, {**self.lab.settings, **chosen})
        return one

    def begin(
        self, count: int = 5, *, prefix: str = "pub", v4: bool = True, v6: bool = False
    ) -> list[Volunteer]:
        """Public peers, each in a network of its own, that see each other."""
        made = []
        for number in range(count):
            name = f"{prefix}{number}"
            made.append(self.volunteer(name, self.lab.internet.customer(name, v4=v4, v6=v6)))
            self.start(made[-1])
            self._doors += [str(HostPort(host=host, port=RING_PORT)) for host in made[-1].host.addresses]
        self.lab.must(f"{count} public peers are one ring", lambda: self.is_whole(count), 180.0)
        return made

    def start(self, one: Volunteer) -> None:
        """It joins through the first public peers."""
        one.start("run", *(word for door in self._doors[:6] for word in ("--join", door)))

    def statuses(self) -> dict[str, Facts]:
        """Of those that answer."""
        return statuses(self.volunteers)

    def is_whole(self, count: int) -> bool:
        """All of the ring's peers see so many members, and all is well with them."""
        found = self.statuses()
        return len(found) == len(self.volunteers) and all(
            facts["ring"]["members"] == count and facts["ring"]["ideal"] for facts in found.values()
        )


Rows = Sequence[Mapping[str, object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """`play` gives rows for a table; its verdicts are with the laboratory."""

    play: Callable[[Laboratory, Asked], Rows]
    limit_s: int
    settings: Mapping[str, object] = field(default_factory=lambda: SHORTER)

    @property
    def summary(self) -> str:
        return (self.play.__doc__ or "").splitlines()[0]
