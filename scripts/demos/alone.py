"""What can one peer show by itself? A made-up web of this machine, archived on two days.

The days of the demonstration's network are ten seconds long. What was archived stays in the folder, so that the
second start takes no time.
"""

import dataclasses
import json
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import socket

from herodotus.core.charter import TEST_CHARTER
from scripts.demos.frame import SIMNET, DemoFailed, call, say, turn_the_day

CHARTER = dataclasses.replace(TEST_CHARTER, name="demo", day_length_s=10)
SITES, PAGES_MAX, FETCHES_MAX = 3, 30, 150


def show_alone(folder: Path, home: str, address: str) -> None:
    """Before the peer is started on the home; `address` is where it will be read."""
    done = folder / "archived"
    try:
        if not done.exists():
            page = _archive_two_days(home)
            call("pause", "--home", home)  # the made-up web is gone, and the peer would look for it each day
            done.write_text(page, encoding="utf-8")
        page = done.read_text(encoding="utf-8")
    except DemoFailed as error:
        say(f"without the made-up web: {error}")
        return
    say("when the peer is ready, read what the archive holds:")
    say(f"    http://{address}/web/*/{page}   the history of its first page")
    say(f"    http://{address}/web/{page}   the page itself, with links into the archive")


def _archive_two_days(home: str) -> str:
    with _made_up_web() as (page, control):
        say(f"a made-up web of {SITES} sites is up at {page}; archiving it")
        first = call("crawl", "--home", home, page, "--scope", "any", "--limit", str(FETCHES_MAX))
        say(f"day one: {first['stored']} documents archived, {first['links']['found']} links seen")
        _wait_for_tomorrow()
        turn_the_day(control)
        second = call("crawl", "--home", home, "--resume", "--limit", str(FETCHES_MAX))
        say(
            f"day two: {second['fetched']} visited, {second['unchanged']} unchanged, {second['stored']} archived"
        )
    return page


@contextmanager
def _made_up_web() -> Iterator[tuple[str, str]]:
    """Its first page, and the address to turn its days with."""
    command = [
        *(SIMNET, "web", "--port", str(_free_port()), "--hosts", str(SITES)),
        *("--pages-max", str(PAGES_MAX), "--tidy"),
    ]
    # In a session of its own: Ctrl-C is this process's to answer.
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    ) as web:
        try:
            assert web.stdout is not None
            line = web.stdout.readline()
            if not line:
                raise DemoFailed(f"it did not start; `{' '.join(command)}` says why")
            ready = json.loads(line)
            yield ready["first"], ready["control"]
        finally:
            web.send_signal(signal.SIGTERM)


def _free_port() -> int:
    with socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for_tomorrow() -> None:
    say(f"waiting for the next day; in this network a day lasts {CHARTER.day_length_s} s")
    time.sleep(CHARTER.day_length_s - time.time() % CHARTER.day_length_s)
