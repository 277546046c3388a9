"""What if any one file of a peer is lost, changed or cut? Each file of a home is hurt in each way, and watched.

Three ordinary peers on loopback hold the same pages, some in segments and some in logs. Of one peer each file is hurt:
while the peer runs, and while it is stopped. Then nobody gives a command. What must hold: the peer runs, has all
captures with their bytes, is sound, and its log or an alarm named what was hurt, where something was lost with it.
"""

import argparse
import fnmatch
import gzip
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from herodotus.core.charter import TEST_CHARTER
from herodotus.home.clock import unix_seconds
from herodotus.operate import lab_web
from herodotus.store.recovery import open_archive
from herodotus.store.sealing import seal
from herodotus.store.slices import archive_at
from scripts.attacks.commands import CommandFailed, command, facts
from scripts.attacks.with_programs import warc_record
from scripts.demos import reading
from scripts.sweeps.looking import contents_today
from scripts.sweeps.peers import SweptPeer, SweptRing, made_up_web

PEERS, VICTIM = 3, 0
PAGES_MAX = 20
"""On each of the web's six sites: some 120 pages."""
MORE_PAGES = 120
"""Imported later than the others: they stay in logs."""
READY_S, MENDED_S, START_S = 240.0, 150.0, 60.0
LOOK_EVERY_S = 0.5
CHARTER = replace(TEST_CHARTER, name="files", delay_floor_s=0.02, day_length_s=36_000)
ONLY_A_KEY = "identity.key"


# -- ways to hurt a file ---------------------------------------------------------------------------------------------


def _delete(path: Path, _: random.Random, __: Path) -> bool:
    path.unlink()
    return True


def _flip(path: Path, rng: random.Random, _: Path) -> bool:
    data = bytearray(path.read_bytes())
    if not data:
        return False
    for _place in range(3):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    _put(path, bytes(data))
    for second in path.parent.glob(f"**/second/{path.name}"):
        os.utime(second)  # a disk that rots changes no times: the file must not be the later one
    return True


def _halve(path: Path, _: random.Random, __: Path) -> bool:
    data = path.read_bytes()
    _put(path, data[: len(data) // 2])
    return bool(data)


def _empty(path: Path, _: random.Random, __: Path) -> bool:
    is_other = path.stat().st_size > 0
    _put(path, b"")
    return is_other


def _folder(path: Path, _: random.Random, __: Path) -> bool:
    path.unlink()
    path.mkdir()
    return True


def _older(path: Path, _: random.Random, older: Path) -> bool:
    if not older.is_file() or older.read_bytes() == path.read_bytes():
        return False
    _put(path, older.read_bytes())
    return True


def _put(path: Path, data: bytes) -> None:
    """In place, as a disk rots and as a careless program writes: whoever has it open sees it."""
    with path.open("r+b") as file:
        file.write(data)
        file.truncate()


HOW: Mapping[str, Callable[[Path, random.Random, Path], bool]] = {
    "delete": _delete,
    "flip": _flip,
    "halve": _halve,
    "empty": _empty,
    "folder": _folder,
    "older": _older,
}
WHEN = ("stopped", "running")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    path: str
    how: str
    when: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    case: Case
    is_up: bool
    is_whole: bool
    after_s: float
    said: str
    """What the log or an alarm said of it."""
    detail: str

    @property
    def is_ok(self) -> bool:
        return self.is_up and self.is_whole


class FilesFailed(Exception):
    """The ring that was to be hurt did not come about; the message says why, in one line."""


class Hospital:
    def __init__(self, folder: Path, say: Callable[[str], None], rng: random.Random) -> None:
        self.folder, self.say, self.rng = folder, say, rng
        self.ring = SweptRing(folder, CHARTER, PEERS, None, disks=0)
        self.older, self.sound = folder / "older", folder / "sound"
        self.pages: dict[tuple[str, str], bytes] = {}
        """What the other holders give, by URL and date."""

    @property
    def victim(self) -> SweptPeer:
        return self.ring.peers[VICTIM]

    # -- before

    @contextmanager
    def archived(self) -> Iterator[None]:
        web = None
        try:
            self._start_all()
            web, control = made_up_web(self.folder, PAGES_MAX)
            command(self.victim.home, "crawl", *lab_web.front_pages(control), "--quiet")
            wanted = len({one.url for one in contents_today(control)})
            self._must("the web is archived", lambda: self._is_archived(wanted))
            self._stop_all()
            shutil.copytree(self.victim.home, self.older, ignore=_is_no_file)
            for one in self.ring.peers:
                _seal(one.home)
            self._start_all()
            self._import_more()
            self._give_side_files(lab_web.front_pages(control))
            self.pages = self._read_others()
            self._stop(self.victim)
            shutil.copytree(self.victim.home, self.sound, ignore=_is_no_file)
            self._start(self.victim)
            self.say(f"{len(self.pages)} captures are with each of {PEERS} peers")
            yield
        finally:
            self.ring.end(10.0)
            if web is not None:
                lab_web.end_process(web)

    def _start_all(self) -> None:
        for one in self.ring.peers:
            self.ring.start(one.number)
        self._must("the ring is whole", self._is_ring)

    def _stop_all(self) -> None:
        self.ring.end(20.0)

    def _is_ring(self) -> bool:
        found = self.ring.statuses()
        return len(found) == PEERS and all(one["ring"]["members"] == PEERS for one in found.values())

    def _counts(self) -> list[int]:
        return [one["store"]["captures"] for one in self.ring.statuses().values()]

    def _is_archived(self, count: int) -> bool:
        found = self.ring.statuses()
        is_done = all(one["crawl"]["state"] == "done for today" for one in found.values())
        return is_done and self._is_same(count)

    def _is_same(self, least: int) -> bool:
        counts = self._counts()
        is_settled = not any(
            one["copying"]["to_send"] or one["copying"]["to_fetch"] for one in self.ring.statuses().values()
        )
        return len(counts) == PEERS and len(set(counts)) == 1 and counts[0] >= least and is_settled

    def _import_more(self) -> None:
        before = self._counts()[0]
        file = self.folder / "more.warc.gz"
        write_pages(file, MORE_PAGES, self.rng)
        command(self.victim.home, "import", str(file), "--quiet")
        self._must("the imported pages are with all", lambda: self._is_same(before + MORE_PAGES))

    def _give_side_files(self, fronts: Sequence[str]) -> None:
        """Files that come about by what operators do."""
        command(self.victim.home, "seed", "add", *fronts)
        command(self.victim.home, "remove", "--yes", page_url(0))
        command(self.ring.peers[1].home, "remove", "--yes", page_url(1))
        state = self.victim.home / "state"
        self._must("a notice came", (state / "notices.json").exists)

    def _read_others(self) -> dict[tuple[str, str], bytes]:
        other = self.ring.peers[2]
        found = {}
        for url, date in _listed(other.home, self.folder / "list.warc.gz"):
            if url in (page_url(0), page_url(1)):
                continue
            body = reading.raw(other.http, url, date)
            if body is not None:
                found[url, date] = body
        return found

    # -- one file after another

    def files(self) -> list[str]:
        """One of each kind: the numbers in its name do not matter."""
        home = self.victim.home
        found = sorted(
            str(path.relative_to(home))
            for path in home.rglob("*")
            if path.is_file() and not path.is_symlink() and not _is_passing(path.relative_to(home))
        )
        return list({re.sub(r"[0-9]+|/[0-9a-f]/", "#", one): one for one in found}.values())

    def hurt(self, case: Case) -> Outcome | None:
        """None where this way does nothing to the file, or it is gone by now."""
        home = self.victim.home
        path = home / case.path
        self.victim.ended = None
        if case.when == "stopped":
            self._stop(self.victim)
        log_before = _log_size(home)
        try:
            did = path.is_file() and HOW[case.how](path, self.rng, self.older / case.path)
        except OSError as error:
            self.say(f"{case}: {error}")
            did = False
        if not did:
            if self.victim.process is None:
                self._start(self.victim)
            return None
        began = time.monotonic()
        alarms: list[str] = []
        if case.when == "running":
            outcome = self._watch(case, alarms, began)
            if not outcome.is_ok:
                return self._told(outcome, log_before, alarms)
            self._stop(self.victim)
        self._start(self.victim, is_sure=False)
        return self._told(self._watch(case, alarms, time.monotonic()), log_before, alarms)

    def heal(self) -> None:
        """After what did not mend by itself, so that the next one begins with a sound peer."""
        self.ring.kill(VICTIM)
        shutil.rmtree(self.victim.home, ignore_errors=True)
        shutil.copytree(self.sound, self.victim.home)
        self.victim.ended = None
        self._start(self.victim)
        if not self._until(lambda: not self._lacks([]), MENDED_S):
            raise FilesFailed("the sound copy of the home is not sound")

    def _watch(self, case: Case, alarms: list[str], began: float) -> Outcome:
        lacks = ["it did not start"]

        def is_whole() -> bool:
            lacks[:] = self._lacks(alarms)
            return not lacks

        is_ok = self._until(is_whole, MENDED_S)
        is_up = VICTIM in self.ring.statuses()
        after = time.monotonic() - began
        detail = "" if is_ok else "; ".join(lacks[:3])
        if self.victim.ended is not None:
            detail = f"ended with {self.victim.ended}: {self.victim.last_words}"
        return Outcome(
            case=case, is_up=is_up, is_whole=is_ok, after_s=round(after, 1), said="", detail=detail
        )

    def _lacks(self, alarms: list[str]) -> list[str]:
        """What is missing of a sound peer."""
        status = self.ring.statuses().get(VICTIM)
        if status is None:
            return ["no status"]
        alarms += [one for one in status["alarms"] if one not in alarms]
        store = status["store"]
        found = [f"store is {store['state']}"] if store["state"] != "open" else []
        found += [
            f"{name} is {store[name]}"
            for name in ("lost", "quarantined", "is_index_damaged", "problem")
            if store.get(name)
        ]
        if status["crawl"]["problem"]:
            found.append(f"crawl: {status['crawl']['problem']}")
        if store["captures"] < len(self.pages):
            found.append(f"{store['captures']} captures")
        if found:
            return found
        for (url, date), body in self.pages.items():
            if reading.raw(self.victim.http, url, date) != body:
                found.append(f"{url} has other bytes")
        for url in (page_url(0),):
            if reading.raw(self.victim.http, url, "2026") is not None:
                found.append(f"{url} was removed and is shown")
        if not found:
            try:
                verified: Any = facts(self.victim.home, "verify")
            except CommandFailed as error:
                return [str(error)]
            if not verified["is_sound"]:
                found.append(f"verify: {json.dumps(verified)[:300]}")
        return found

    def _told(self, outcome: Outcome, log_before: int, alarms: Sequence[str]) -> Outcome:
        home, name = self.victim.home, Path(outcome.case.path).name
        text = ""
        with suppress(OSError):
            text = (home / "log" / "herodotus.log").read_text(errors="replace")[log_before:]
        folder = outcome.case.path.split("/")[0]
        lines = [line for line in text.splitlines() if " WARNING " in line or " ERROR " in line]
        named = [line for line in lines if name in line or f"/{folder}" in line or folder in line]
        said = (named or list(alarms) or lines or [""])[0]
        return replace(outcome, said=said[:200])

    # -- starting and waiting

    def _start(self, one: SweptPeer, *, is_sure: bool = True) -> None:
        with suppress(OSError):
            (one.home / "log").mkdir(exist_ok=True)
        console = one.home / "log" / "console.log"
        if console.is_dir():
            console.rmdir()
        self.ring.start(one.number)
        if is_sure:
            self._must("the peer is up", lambda: one.number in self.ring.statuses())

    def _stop(self, one: SweptPeer) -> None:
        if one.process is not None:
            one.process.terminate()
            try:
                one.process.wait(20.0)
            except Exception:  # noqa: BLE001 - it is ended in any case
                one.process.kill()
                one.process.wait()
            one.process = None

    def _must(self, words: str, fact: Callable[[], bool]) -> None:
        if not self._until(fact, READY_S):
            raise FilesFailed(f"not within {READY_S:g} s: {words}")

    def _until(self, fact: Callable[[], bool], within_s: float) -> bool:
        """Of other processes, which send us no events."""
        end = time.monotonic() + within_s
        while not fact():
            self.ring.fallen()
            if self.victim.ended is not None or time.monotonic() > end:
                return False
            time.sleep(LOOK_EVERY_S)
        return True


def _is_no_file(folder: str, names: list[str]) -> set[str]:
    return {
        name for name in names if not (Path(folder) / name).is_file() and not (Path(folder) / name).is_dir()
    }


def _is_passing(path: Path) -> bool:
    return path.name.endswith((".new", ".part"))


def _seal(home: Path) -> None:
    archive = archive_at(home, unix_seconds)
    open_archive(archive)
    seal(archive)
    archive.close()


def _log_size(home: Path) -> int:
    with suppress(OSError):
        return len((home / "log" / "herodotus.log").read_text(errors="replace"))
    return 0


def page_url(number: int) -> str:
    return f"http://more.example/{number}"


def write_pages(file: Path, count: int, rng: random.Random) -> None:
    date = datetime(2026, 1, 1, tzinfo=UTC)
    with file.open("wb") as stream:
        for number in range(count):
            body = rng.randbytes(rng.choice((300, 2_000, 20_000)))
            stream.write(gzip.compress(warc_record(page_url(number), date, body)))


def _listed(home: Path, out: Path) -> list[tuple[str, str]]:
    from fastwarc.warc import ArchiveIterator, WarcRecordType

    out.unlink(missing_ok=True)
    command(home, "export", "--warc", str(out), "--quiet")
    found = []
    with out.open("rb") as stream:
        for record in ArchiveIterator(stream, record_types=WarcRecordType.response | WarcRecordType.revisit):
            date = "".join(one for one in record.headers["WARC-Date"] if one.isdigit())[:14]
            found.append((record.headers["WARC-Target-URI"].strip("<>"), date))
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="scripts/attack files", description=__doc__)
    parser.add_argument("--only", default="*", help="paths in the home that fit this pattern")
    parser.add_argument("--how", default=",".join(HOW))
    parser.add_argument("--when", default=",".join(WHEN))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=None, help="a line of JSON for each case")
    asked = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="herodotus-files-"))

    def say(words: str) -> None:
        print(words, file=sys.stderr, flush=True)

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the peers end with us
    say(f"homes and logs are in {folder}")
    ward = Hospital(folder, say, random.Random(asked.seed))
    outcomes: list[Outcome] = []
    with ward.archived():
        for path in ward.files():
            if not any(fnmatch.fnmatch(path, one) for one in asked.only.split(",")):
                continue
            for when in asked.when.split(","):
                for how in asked.how.split(","):
                    outcome = ward.hurt(Case(path=path, how=how, when=when))
                    if outcome is None:
                        continue
                    outcomes.append(outcome)
                    say(
                        f"{'ok' if outcome.is_ok else 'BROKEN':7}{path:40} {when:8}{how:7}"
                        f" {outcome.after_s:6} s  {outcome.detail or outcome.said}"
                    )
                    if asked.out:
                        with asked.out.open("a") as stream:
                            stream.write(json.dumps(asdict(outcome)) + "\n")
                    if not outcome.is_ok:
                        ward.heal()
    broken = [one for one in outcomes if not one.is_ok]
    say(f"{len(outcomes)} cases, {len(broken)} broken")
    if not broken:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
