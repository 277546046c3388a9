"""What does a stranger see first? `scripts/run` ends here: a made-up web of this machine, archived on two days, and a
peer that shows it, until Ctrl-C. In a home of one's own (HERODOTUS_HOME) only the peer is started.

The days of the demonstration's network are ten seconds long. What was archived stays in `.demo/`, so that the
second start takes no time; remove that folder to see it all again.
"""

import dataclasses
import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import socket
from typing import Any, NoReturn
from urllib.parse import urlsplit

from herodotus.core.charter import TEST_CHARTER

DEMO = Path(__file__).parents[1] / ".demo"
HERODOTUS = str(Path(sys.executable).with_name("herodotus"))
SIMNET = str(Path(sys.executable).with_name("simnet"))
CHARTER = dataclasses.replace(TEST_CHARTER, name="demo", day_length_s=10)
PORTAL = "127.0.0.1:5484"  # the port is the portal's by contract; the demo stays on this machine
SITES, PAGES_MAX, FETCHES_MAX = 3, 30, 150


class DemoFailed(Exception):
    """The peer is started all the same, and says how to go on without the demonstration."""


def main(arguments: list[str]) -> NoReturn:
    own_home = os.environ.get("HERODOTUS_HOME")
    home = own_home or str(DEMO / "peer")
    where = [] if "--http" in arguments else ["--http", PORTAL]
    _make_home(home, is_demo=not own_home)
    if not own_home:
        _show(home, address=PORTAL if where else arguments[arguments.index("--http") + 1])
    sys.stdout.flush()
    # This process becomes the peer, so that Ctrl-C and the service manager's signals reach it alone.
    os.execv(HERODOTUS, [HERODOTUS, "run", "--home", home, *where, *arguments])


def _make_home(home: str, *, is_demo: bool) -> None:
    if (Path(home) / "state" / "home.json").exists():
        return
    network = "test"
    if is_demo:
        DEMO.mkdir(exist_ok=True)
        network = str(DEMO / "network.toml")
        Path(network).write_text(CHARTER.to_toml(), encoding="utf-8")
    command = [HERODOTUS, "init", "--home", home, "--network", network, "--preset", "test"]
    code = subprocess.run(command, check=False).returncode
    if code:
        sys.exit(code)


def _show(home: str, address: str) -> None:
    done = DEMO / "archived"
    try:
        if not done.exists():
            page = _archive_two_days(home)
            _call("pause", home)  # the made-up web is gone, and the peer would look for it every ten seconds
            done.write_text(page, encoding="utf-8")
        page = done.read_text(encoding="utf-8")
    except DemoFailed as error:
        _say(f"without the made-up web: {error}")
        return
    _say("when the peer is ready, read what the archive holds:")
    _say(f"    http://{address}/web/*/{page}   the history of its first page")
    _say(f"    http://{address}/web/{page}   the page itself, with links into the archive")


def _archive_two_days(home: str) -> str:
    with _made_up_web() as (page, control):
        _say(f"a made-up web of {SITES} sites is up at {page}; archiving it")
        first = _crawl(home, page, "--scope", "any", "--limit", str(FETCHES_MAX))
        _say(f"day one: {first['stored']} documents archived, {first['links']['found']} links seen")
        _wait_for_tomorrow()
        _turn_the_day(control)
        second = _crawl(home, "--resume", "--limit", str(FETCHES_MAX))
        _say(
            f"day two: {second['fetched']} visited, {second['unchanged']} unchanged, {second['stored']} archived"
        )
    return page


@contextmanager
def _made_up_web() -> Iterator[tuple[str, str]]:
    """Its first page, and the address to turn its days with."""
    command = [
        SIMNET,
        "web",
        "--port",
        str(_free_port()),
        "--hosts",
        str(SITES),
        "--pages-max",
        str(PAGES_MAX),
        "--tidy",
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


def _crawl(home: str, *arguments: str) -> Any:
    return _call("crawl", home, *arguments)


def _call(name: str, home: str, *arguments: str) -> Any:
    command = [HERODOTUS, name, "--home", home, "--json", "--quiet", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if done.returncode:
        raise DemoFailed(f"`{' '.join(command)}` ended with {done.returncode}")
    return json.loads(done.stdout.splitlines()[-1])


def _wait_for_tomorrow() -> None:
    _say(f"waiting for the next day, which in this network comes every {CHARTER.day_length_s} s")
    time.sleep(CHARTER.day_length_s - time.time() % CHARTER.day_length_s)


def _turn_the_day(control: str) -> None:
    connection = http.client.HTTPConnection(urlsplit(control).netloc, timeout=10)
    try:
        connection.request("POST", "/day/next")
        answer = connection.getresponse()
    except OSError as error:
        raise DemoFailed(f"{control} does not answer: {error}") from error
    finally:
        connection.close()
    if answer.status != http.HTTPStatus.OK:
        raise DemoFailed(f"{control}day/next answered {answer.status}")


def _say(line: str) -> None:
    print(f"demo: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit(130)
