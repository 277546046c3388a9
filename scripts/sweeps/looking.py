"""What is on the web today, who asked for it, and what do peers hold and show? Facts to be judged."""

import hashlib
import json
import subprocess
import sys
import urllib.parse
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fastwarc.warc import ArchiveIterator, WarcRecordType

from herodotus.operate import lab_web
from herodotus.operate.http_questions import ask
from scripts.demos import reading
from scripts.demos.frame import lines_of
from scripts.sweeps.judging import Content, Verdict, Visit

READERS = 8
_TESTER = "127.0.0.1"


def contents_today(control: str) -> Iterator[Content]:
    """What a made-up web shows to everybody, by its own word."""
    for url in lines_of(control, "/reachable"):
        facts = ask(control, f"/expect?url={urllib.parse.quote(url, safe='')}")
        if facts["status"] == 200:
            yield Content(url, facts["sha256"])


def visits_of(folder: Path, control: str) -> Iterator[tuple[Visit, str]]:
    """By the log of its server, with the URL."""
    port = control.rstrip("/").rpartition(":")[2]
    for text in lab_web.log_in(folder).read_text(encoding="utf-8").splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            continue  # the last one, still being written
        if line["host"] != _TESTER:
            client = line["client"].rpartition(":")[0] or line["client"]
            yield Visit(line["time"], line["host"], client), f"http://{line['host']}:{port}{line['path']}"


def exported(homes: Sequence[Path]) -> Counter[Content]:
    """By how many homes each content is held, as a library of others reads it from their exported files."""
    holders: Counter[Content] = Counter()
    for home in homes:
        out = home.with_suffix(".warc.gz")
        command = [sys.executable, "-m", "herodotus", "export", "--home", str(home), "--warc", str(out)]
        subprocess.run([*command, "--quiet"], check=True, stdin=subprocess.DEVNULL)
        holders.update(set(_contents_of(out)))
    return holders


def _contents_of(file: Path) -> Iterator[Content]:
    """Responses by their bytes; what has those of another one says so by its digest, and is read in earnest later."""
    with file.open("rb") as stream:
        for record in ArchiveIterator(stream):
            if record.record_type == WarcRecordType.response:
                digest = hashlib.sha256(record.reader.read()).hexdigest()
            elif "Herodotus-Payload-Digest" in record.headers:
                digest = str(record.headers["Herodotus-Payload-Digest"]).removeprefix("sha256:")
            else:
                continue  # a visit that found nothing new, and what is no capture
            yield Content(str(record.headers["WARC-Target-URI"]), digest)


def read_all(portals: Sequence[str], wanted: Sequence[Content]) -> Verdict:
    """Each content through each portal, to the byte."""
    tasks = [(portal, url) for portal in portals for url in sorted({one.url for one in wanted})]
    contents: dict[str, set[str]] = {}
    for one in wanted:
        contents.setdefault(one.url, set()).add(one.digest)
    with ThreadPoolExecutor(READERS) as readers:
        found = list(readers.map(lambda task: _unreadable(task[0], task[1], contents[task[1]]), tasks))
    bad = [why for whys in found for why in whys]
    total = len(portals) * len(wanted)
    return Verdict(
        name="everything is readable through each survivor",
        is_ok=bool(tasks) and not bad,
        detail=f"{total - len(bad):,} of {total:,}" + (f"; not {'; '.join(bad[:5])}" if bad else ""),
    )


def _unreadable(portal: str, url: str, digests: set[str]) -> list[str]:
    """Why, for each that is not read to the byte."""
    dates = {one.digest.removeprefix("sha256:"): one.date for one in reading.versions(portal, url)}
    why = []
    for digest in sorted(digests):
        body = reading.raw(portal, url, dates[digest]) if digest in dates else None
        if body is None or hashlib.sha256(body).hexdigest() != digest:
            reason = (
                "not in the history"
                if digest not in dates
                else "not given"
                if body is None
                else "other bytes"
            )
            why.append(f"{url} {digest[:12]} through {portal}: {reason}")
    return why
