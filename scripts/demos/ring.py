"""What does a ring do that one peer cannot? Five real peers share the crawl of a made-up web, and one is killed.

Everything runs on loopback, as processes of their own in a lab of `herodotus ring`. What is said of the crawl is read
from the log of the web's server, which alone knows who asked for what. Each page is kept by three peers of the five.
No step is waited for without a bound; what takes too long ends the demonstration.
"""

import dataclasses
import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import anyio

from herodotus.core.charter import TEST_CHARTER
from herodotus.core.errors import HerodotusError
from herodotus.operate import lab_ring, lab_web
from herodotus.operate.http_questions import NoAnswer, ask
from herodotus.operate.lab_ring import LabPeer
from scripts.demos.frame import DemoFailed, call, lines_of, perform, say, turn_the_day
from scripts.demos.reading import Version, contents, owner_of, raw, versions
from scripts.demos.weblog import Visits, least_pause_s, visits_on

T = TypeVar("T")

PEERS, COPIES = 5, 3
BASE_PORT = 4484
PAGES_MAX = 30  # on each of six sites: some seconds of polite crawling
DELAY_S = 0.1
READY_S = 10.0
"""From the choice of the day's length to a ring that is ready, on a quiet machine of two cores."""
DAY_LENGTHS_S = range(46, 61)
"""Owners have half of a day for themselves: twice what crawling this web takes on a quiet machine."""
LATEST_START = 0.2
"""Of a day; later, the next one is waited for."""
FIRST_PAGE_S, COPIED_S, FOUND_S = 20.0, 30.0, 60.0
STOP_S = 15.0
_LOOK_EVERY_S = 0.3
_ENDING = "stopping all processes; the next start removes what they archived"


def show_ring(folder: Path, base_port: int) -> None:
    """Until Ctrl-C, which leaves no process behind. Raises DemoFailed, and leaves none behind either."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    _end(folder)  # of a demonstration that was killed
    shutil.rmtree(folder, ignore_errors=True)
    try:
        _Demonstration(folder, base_port).show()
        _wait_for_ctrl_c(folder)
    except KeyboardInterrupt:
        say(_ENDING)
        raise
    except HerodotusError as error:
        raise DemoFailed(str(error)) from error
    finally:
        _end(folder)


def _wait_for_ctrl_c(folder: Path) -> None:
    try:
        say(f"the ring runs on, day after day, until Ctrl-C; its archives stay in {folder}/peer-*/archive")
        threading.Event().wait()
    except KeyboardInterrupt:
        say(_ENDING)


def _end(folder: Path) -> None:
    """Ctrl-C again changes nothing: in the end nobody runs."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        lab_web.end(folder)
        anyio.run(lab_ring.end, lab_ring.homes_of(folder), STOP_S)
        _until(lambda: not lab_web.processes_of(folder) or None, STOP_S)
    finally:
        signal.signal(signal.SIGINT, before)


def _until(fact: Callable[[], T | None], within_s: float) -> T | None:
    """Of other processes, which send us no events. None: it did not come true in time."""
    end = time.monotonic() + within_s
    while (found := fact()) is None and time.monotonic() < end:
        time.sleep(_LOOK_EVERY_S)
    return found


class _Demonstration:
    def __init__(self, folder: Path, base_port: int) -> None:
        self._folder = folder
        self._base_port = base_port
        self._day_length_s = _day_length(time.time() + READY_S)
        self._peers: tuple[LabPeer, ...] = ()
        self._control = ""

    def show(self) -> None:
        self._start()
        self._crawl()
        changed = self._crawl_again()
        self._wait_copied()
        victim, pages = self._victim(changed)
        self._kill(victim, pages)

    # -- the steps

    def _start(self) -> None:
        say(f"1  starting {PEERS} peers as a ring on 127.0.0.1, and a made-up web of {lab_web.HOSTS} sites")
        self._folder.mkdir(parents=True)
        charter = self._folder / "network.toml"
        agreed = dataclasses.replace(
            TEST_CHARTER,
            name="ring demo",
            copies=COPIES,
            delay_floor_s=DELAY_S,
            day_length_s=self._day_length_s,
        )
        charter.write_text(agreed.to_toml(), encoding="utf-8")
        where = ("--dir", str(self._folder), "--base-port", str(self._base_port), "--network", str(charter))
        found = call("ring up", "--peers", str(PEERS), *where)
        self._peers = tuple(LabPeer(**peer) for peer in found["peers"])
        port = self._base_port + lab_web.PORT_OFFSET
        _process, self._control = lab_web.start(self._folder, port, None, pages_max=PAGES_MAX)
        say(f"   they see each other: .venv/bin/herodotus ring status --dir {self._folder}")

    def _crawl(self) -> None:
        began = self._day_begun()
        say(f"2  day one: the ring gets the {lab_web.HOSTS} front pages and crawls by itself")
        front_pages = lab_web.front_pages(self._control)
        call("crawl", "--home", self._peers[0].home, *front_pages)
        self._name_first_page(front_pages)
        expected = lines_of(self._control, "/reachable")
        visits = self._wait_crawled(0, len(expected), began + self._day_length_s - 1.0)
        shares = ", ".join(f"{peer['crawl']['fetched']}" for peer in self._statuses().values())
        say(
            f"   {visits.requests} requests for {len(visits.status)} of {len(expected)} documents, "
            f"shared by the peers as {shares}"
        )
        say(
            f"   all peers together left each site {least_pause_s(self._log):.3f} s between two requests "
            f"({DELAY_S:g} s is agreed): {self._log}"
        )

    def _name_first_page(self, pages: Sequence[str]) -> None:
        portal = self._peers[0].http
        if _until(lambda: versions(portal, pages[0]) or None, FIRST_PAGE_S) is not None:
            say(f"   the first page is archived; open it while the ring crawls on: {portal}/web/{pages[0]}")

    def _crawl_again(self) -> list[str]:
        """Pages that have two versions now."""
        turn_the_day(self._control)
        self._say_wait("3  the web changes overnight; the next day of this sped-up ring begins")
        began = self._day_begun()
        expected = lines_of(self._control, "/reachable")
        visits = self._wait_crawled(1, len(expected), began + self._day_length_s - 1.0)
        kinds = Counter(visits.status.values())
        say(
            f"   day two: {len(visits.status)} documents visited again, {kinds[304]} not modified, "
            f"{kinds[200]} new or changed and archived"
        )
        before = visits_on(self._log, 0).status
        changed = [
            f"http://{host}:{self._base_port + lab_web.PORT_OFFSET}{path}"
            for (host, path), status in visits.status.items()
            if status == 200 and before.get((host, path)) == 200 and path.endswith(("/", ".html"))
        ]
        return sorted(changed, key=len)

    def _wait_copied(self) -> None:
        def is_copied() -> bool | None:
            facts = self._statuses().values()
            least = min((int(count) for peer in facts for count, n in peer["copies"].items() if n), default=0)
            return True if least >= COPIES else None

        took = time.monotonic()
        if _until(is_copied, COPIED_S) is None:
            raise DemoFailed(f"after {COPIED_S:g} s not every capture had {COPIES} copies")
        took = time.monotonic() - took
        say(f"4  each capture is held by {COPIES} peers ({took:.0f} s later): .venv/bin/herodotus status --peer "
            f"{self._peers[0].http}")  # fmt: skip

    def _victim(self, changed: list[str]) -> tuple[LabPeer, dict[str, list[Version]]]:
        """Who answers for most of these pages, and what it has of them."""
        by_origin: dict[str, list[str]] = {}
        origins = [peer.http for peer in self._peers]
        for url in changed:
            owner = owner_of(url, origins)
            if owner is not None:
                by_origin.setdefault(owner, []).append(url)
        for origin, urls in sorted(by_origin.items(), key=lambda item: -len(item[1])):
            pages = {url: found for url in urls if contents(found := versions(origin, url)) > 1}
            if pages:
                return next(peer for peer in self._peers if peer.http == origin), pages
        raise DemoFailed("no page was found with two versions")

    def _kill(self, victim: LabPeer, pages: Mapping[str, list[Version]]) -> None:
        number = self._peers.index(victim)
        before = {(url, one.date): raw(victim.http, url, one.date) for url in pages for one in pages[url]}
        if None in before.values():
            raise DemoFailed(f"peer {number} does not list its captures")
        perform("ring kill", str(number), "--dir", str(self._folder))
        say(f"5  killed peer {number} (kill -9), which answered for {len(pages)} of the changed pages")
        reader = self._peers[(number + 1) % PEERS]
        began = time.monotonic()

        def is_read() -> bool | None:
            got = {(url, date): raw(reader.http, url, date) for url, date in before}
            if None in got.values():
                return None
            return got == before

        same = _until(is_read, FOUND_S)
        if not same:
            reason = "did not come" if same is None else "came with other bytes"
            raise DemoFailed(
                f"the pages of the killed peer {reason} through peer {self._peers.index(reader)}"
            )
        page = next(iter(pages))
        say(
            f"   all {len(before)} captures of them read through peer {self._peers.index(reader)}, byte for byte "
            f"the same, {time.monotonic() - began:.0f} s after the kill"
        )
        say(f"6  a page of the killed peer with its {contents(pages[page])} versions, in your browser:")
        say(f"       {reader.http}/web/*/{page}")

    # -- helpers

    @property
    def _log(self) -> Path:
        return lab_web.log_in(self._folder)

    def _statuses(self) -> dict[str, Any]:
        return {peer.http: ask(peer.http, "/api/v1/status") for peer in self._peers}

    def _day_begun(self) -> float:
        """When today began; if too much of it is over, tomorrow, which is waited for."""
        over_s = time.time() % self._day_length_s
        if over_s > LATEST_START * self._day_length_s:
            time.sleep(self._day_length_s - over_s)
            over_s = 0.0
        return time.time() - over_s

    def _say_wait(self, words: str) -> None:
        say(f"{words} in {self._day_length_s - time.time() % self._day_length_s:.0f} s")

    def _wait_crawled(self, web_day: int, expected: int, until: float) -> Visits:
        """What was visited when nothing is left to be done, or the day is almost over."""
        today = int(time.time() // self._day_length_s)

        def crawled() -> Visits | None:
            visits = visits_on(self._log, web_day)
            if len(visits.status) < expected:
                return None
            try:
                crawls = [peer["crawl"] for peer in self._statuses().values()]
            except NoAnswer:
                return None  # a busy moment
            is_done = all(one["state"] == "done for today" and one["day"] >= today for one in crawls)
            return visits if is_done else None

        visits = _until(crawled, until - time.time())
        if visits is not None:
            return visits
        say("   this machine is slow or busy: the day ends before all pages are visited; the rest follows")
        return visits_on(self._log, web_day)


def _day_length(ready: float) -> int:
    """One of which a day begins soon after the ring is ready: days are counted from 1970."""
    return min(DAY_LENGTHS_S, key=lambda length_s: -ready % length_s)
