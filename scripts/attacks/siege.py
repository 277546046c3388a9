"""What is attacked? Seven honest peers, each in a network of its own, with the pages of a made-up web.

The peers are ordinary daemons in network namespaces, with the quick timers of the test preset: an hour of theirs is
a minute here. The attacker has one more line, with as many peers on it as the attack wants.
"""

import dataclasses
import json
import os
import subprocess
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from herodotus.core.charter import TEST_CHARTER, Charter
from herodotus.core.settings.sections import PRESETS, Settings
from herodotus.operate import lab_web
from scripts.demos.frame import HERODOTUS
from scripts.sweeps.judging import Content, Verdict
from scripts.sweeps.looking import contents_today, read_all
from scripts.sweeps.namespaces import NETWORK_EACH, Lines
from scripts.sweeps.peers import SweptPeer, SweptRing, made_up_web

HONEST = 7
ATTACKERS_MAX = 8
ATTACKERS_POSITIONS = "8"
"""Of each, where an honest peer of the test preset has one: the attacker takes all that an address may have."""
PAGES_MAX = 20
"""On each of the web's six sites."""
DAY_S = 3_600
"""Long enough that no new day of the crawl begins during an attack."""
READY_S, ARCHIVED_S = 300.0, 600.0
ALARM_S = 120.0
"""So soon must the operator be told."""
COMMAND_S = 300.0
LOOK_EVERY_S = 0.5
CHARTER = dataclasses.replace(
    TEST_CHARTER, name="attacked", id_check="ip", delay_floor_s=0.05, day_length_s=DAY_S
)

_QUICK = ("ring", "copies")
DEFAULT_TIMERS: Mapping[str, str] = MappingProxyType(
    {
        f"HERODOTUS_{key.replace('.', '_').upper()}": str(
            getattr(getattr(Settings(), key.partition(".")[0]), key.partition(".")[2])
        )
        for key in PRESETS["test"]
        if key.partition(".")[0] in _QUICK and key.endswith("_s")
    }
)
"""What the test preset makes quick, as it is without a preset; but links travel quickly, or archiving takes an hour."""


class SiegeFailed(Exception):
    """The ring that was to be attacked did not come about; the message says why, in one line."""


class Siege:
    def __init__(
        self,
        folder: Path,
        say: Callable[[str], None],
        charter: Charter = CHARTER,
        honest_settings: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`honest_settings` as variables of the environment."""
        self.folder, self.say, self._settings = folder, say, honest_settings
        lines = Lines(HONEST + 1, NETWORK_EACH)
        self.ring = SweptRing(folder, charter, HONEST + ATTACKERS_MAX, lines, disks=0, lines_max=HONEST + 1)
        self.verdicts: list[Verdict] = []
        self.wanted: list[Content] = []
        """All that the honest peers held when the attack began."""
        self._web: subprocess.Popen[bytes] | None = None

    @property
    def honest(self) -> Sequence[SweptPeer]:
        return self.ring.peers[:HONEST]

    @property
    def attackers(self) -> Sequence[SweptPeer]:
        return self.ring.peers[HONEST:]

    def note(self, name: str, is_ok: bool, detail: str) -> None:
        self.verdicts.append(Verdict(name=name, is_ok=is_ok, detail=detail))

    # -- before the attack

    @contextmanager
    def archived(self) -> Iterator[None]:
        """Inside the block the honest peers hold the web of today, in as many copies as the charter wants."""
        try:
            for one in self.honest:
                self.ring.start(one.number, self._settings)
            self.must("the ring is whole", lambda: self._is_ring_of(HONEST), READY_S)
            self._web, control = made_up_web(self.folder, PAGES_MAX)
            self.command(self.honest[0], "crawl", *lab_web.front_pages(control), "--quiet")
            self.must("the web is archived", lambda: self._is_archived(control), ARCHIVED_S)
            self.wanted = sorted(contents_today(control))
            self.say(f"{len(self.wanted)} pages are archived in {HONEST} networks")
            yield
        finally:
            self.ring.end(10.0)
            if self._web is not None:
                lab_web.end_process(self._web)

    def join(self, count: int) -> Sequence[SweptPeer]:
        """So many ordinary peers of the attacker, all at one address, until they hold what a holder does."""
        for one in self.attackers[:count]:
            self.ring.start(one.number, {"HERODOTUS_RING_VIRTUAL_NODES": ATTACKERS_POSITIONS})
        self.must("the attacker's peers are members", lambda: self._is_ring_of(HONEST + count), READY_S)
        self.until(lambda: self._is_settled(self.up()), ARCHIVED_S)
        return self.attackers[:count]

    def up(self) -> list[SweptPeer]:
        return self.ring.up()

    def _is_ring_of(self, count: int) -> bool:
        found = self.ring.statuses()
        return len(found) == count and all(
            one["ring"]["members"] == count and one["ring"]["ideal"] for one in found.values()
        )

    def _is_archived(self, control: str) -> bool:
        found = self.ring.statuses()
        is_done = all(one["crawl"]["state"] == "done for today" for one in found.values())
        wanted = {one.url for one in contents_today(control)} if is_done else set[str]()
        held = sum(one["store"]["captures"] for one in found.values())
        return is_done and held >= len(wanted) * min(CHARTER.copies, HONEST) and self._is_settled(self.honest)

    def _is_settled(self, among: Sequence[SweptPeer]) -> bool:
        found = self.ring.statuses()
        return all(one.number in found for one in among) and not any(
            one["copying"]["to_send"] or one["copying"]["to_fetch"] for one in found.values()
        )

    # -- during the attack

    def command(self, peer: SweptPeer, *words: str) -> str:
        """An operator's command at a peer; what it prints."""
        command = [HERODOTUS, words[0], "--home", str(peer.home), *words[1:]]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=COMMAND_S, check=False, stdin=subprocess.DEVNULL
        )
        if done.returncode not in (0, 1, 3):
            raise SiegeFailed(f"`herodotus {words[0]}` ended with {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def facts(self, peer: SweptPeer, *words: str) -> Any:
        return json.loads(self.command(peer, *words, "--json").splitlines()[-1])

    def statuses(self) -> Mapping[int, Mapping[str, Any]]:
        """Of the honest ones that answer."""
        return {number: one for number, one in self.ring.statuses().items() if number < HONEST}

    def captures(self) -> dict[int, int]:
        return {number: one["store"]["captures"] for number, one in self.statuses().items()}

    def cpu_s(self) -> float:
        """What the honest peers have used since they started."""
        return sum(_cpu_s(one.process.pid) for one in self.honest if one.process is not None)

    # -- judging

    def judge_pages(self, name: str = "every page is read through each honest peer") -> None:
        found = read_all([one.http for one in self.honest if one.is_up], self.wanted)
        self.note(name, found.is_ok, found.detail)

    def judge_alarm(
        self, *words: str, among: Collection[int] = range(HONEST), within_s: float = ALARM_S
    ) -> None:
        """That some honest peer raises an alarm with one of these words."""
        began = time.monotonic()
        heard: list[str] = []

        def is_heard() -> bool:
            heard[:] = [
                sentence
                for number, one in self.statuses().items()
                if number in among
                for sentence in one["alarms"]
                if any(word in sentence.lower() for word in words)
            ]
            return bool(heard)

        is_ok = self.until(is_heard, within_s)
        detail = (
            f"after {time.monotonic() - began:.0f} s: {heard[0]}" if is_ok else f"none within {within_s:g} s"
        )
        others = sorted({sentence for one in self.statuses().values() for sentence in one["alarms"]})
        self.note(
            f"an alarm names the cause ({' or '.join(words)})",
            is_ok,
            detail + (f"; alarms are: {others}" if not is_ok else ""),
        )

    def judge_memory(self, mib_max: float) -> None:
        """By the most that any honest peer ever took."""
        peaks = {one.number: _peak_mib(one.process.pid) for one in self.honest if one.process is not None}
        worst = max(peaks.values())
        self.note("memory is bounded", worst <= mib_max, f"{worst:.0f} MiB at most")

    # -- waiting

    def linger(self, for_s: float) -> None:
        """An attack lasts; the honest peers must live on meanwhile."""
        began = time.monotonic()
        self.until(lambda: time.monotonic() - began >= for_s, for_s + 60.0)

    def until(self, fact: Callable[[], bool], within_s: float) -> bool:
        """Of other processes, which send us no events."""
        end = time.monotonic() + within_s
        while not fact():
            fallen = [one for one in self.ring.fallen() if one.number < HONEST]
            if fallen:
                raise SiegeFailed(
                    f"honest peer {fallen[0].number} ended with {fallen[0].ended}: {fallen[0].last_words}"
                )
            if time.monotonic() > end:
                return False
            time.sleep(LOOK_EVERY_S)
        return True

    def must(self, words: str, fact: Callable[[], bool], within_s: float) -> None:
        if not self.until(fact, within_s):
            found = {
                number: (one["ring"]["members"], one["copying"]["to_send"])
                for number, one in self.ring.statuses().items()
            }
            raise SiegeFailed(f"not within {within_s:g} s: {words} (members and copies to send: {found})")


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _peak_mib(pid: int) -> float:
    """`ip netns exec` becomes the program that it starts, so it is the process itself."""
    text = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    line = next(line for line in text.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024
