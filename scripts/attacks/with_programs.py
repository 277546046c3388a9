"""What does somebody do who writes programs for it? Invented members, invented history, and more readers than fit."""

import gzip
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

from herodotus.core.admission import AdmissionLimits
from scripts.attacks.siege import HONEST, Siege
from scripts.demos import reading

INVENTED, INVENTED_NETWORK, INVENTED_PORT = 2_000, "10.200.0.0/24", 9_999
"""A third party's network, in which the invented members are said to be."""
INVENTED_MAX_DATAGRAMS = 16
"""In a minute, from each peer: what a network that never answered may get."""
PHANTOMS_S = 120.0
COPIED, COPIED_TO = 1_000, 4
"""Pages, and honest peers: of the six holders one may be the attacker, and the last copies wait for timers."""
COPIED_S = 600.0
SETTLED_S, REST_S = 45.0, 5.0
COPIED_TURNS = 2
SPEED_SHARE_MIN = 0.8
FORGED_URLS = 50
FORGED_S = 60.0
RESIDENT_MIB_MAX = 300.0
CONNECTIONS = 128
DRIP_S, DRIP_GIVEN_S = 60.0, 20.0
"""So long it drips; and so long a peer has to close what it does not want."""
DRIPPING_AT_PORTALS_MAX = 32
DRIPPING_AT_PEERS_MAX = AdmissionLimits.for_one_machine(CONNECTIONS).unproven_per_prefix
"""Of one address at a time; eight times what a public network allows, as peers here have private addresses."""
DRIP_PAGES = 100
_HALF_GET = b"GET / HTTP/1.1\r\nHost: drip.example\r\nX-Drip: "
_HALF_HELLO = bytes.fromhex("1603010200010001fc0303")
"""The begin of a TLS handshake of 512 bytes."""


def phantoms(siege: Siege) -> None:
    """A member tells of 2,000 others that do not exist, at addresses of a third party."""
    with _third_party(siege) as third_party, _telling(siege):
        siege.linger(PHANTOMS_S)
        siege.judge_alarm("member")
        members = {number: one["ring"]["members"] for number, one in siege.statuses().items()}
        siege.note("nobody counts them as members", max(members.values()) <= HONEST + 1, f"members {members}")
        most = third_party.most_in_a_minute()
        siege.note(
            "the third party is left alone",
            most <= HONEST * INVENTED_MAX_DATAGRAMS,
            f"{most} datagrams in its worst minute, {third_party.bytes:,} bytes in all",
        )
        siege.judge_pages()
        siege.judge_memory(RESIDENT_MIB_MAX)


def phantom_copies(siege: Siege) -> None:
    """Copies are made while 2,000 invented members are told of, and beside the same member when it tells of none."""
    quiet = _copies_a_second(siege, "nobody attacks")
    mute: list[float] = []
    told: list[float] = []
    with _third_party(siege):
        for turn in range(1, COPIED_TURNS + 1):
            for count, pace in ((0, mute), (INVENTED, told)):
                with _telling(siege, count):
                    siege.linger(SETTLED_S)
                    pace.append(_copies_a_second(siege, f"{count} invented {turn}"))
    siege.note(
        f"copying keeps {SPEED_SHARE_MIN:.0%} of its speed",
        max(told) >= SPEED_SHARE_MIN * max(mute),
        f"{max(told):.1f} copies/s among invented members, {max(mute):.1f} beside the same member telling of none: "
        f"{max(told) / max(mute):.0%}; {quiet:.1f} before it came",
    )


def _copies_a_second(siege: Siege, name: str) -> float:
    """How fast pages that one peer imports come to the others: to as many as hold them whoever else is a member.

    Of two turns the better ones are compared: other programs on the machine only make it slower, and so do the
    archives, which grow.
    """
    host = f"{name.replace(' ', '-')}.example"
    file = siege.folder / f"{host}.warc.gz"
    write_forged(file, [f"http://{host}/{number}" for number in range(COPIED)], [datetime.now(UTC)])
    wanted = sum(siege.captures().values()) + COPIED * COPIED_TO
    siege.command(siege.honest[0], "import", str(file), "--quiet")
    began, before, cpu_s = time.monotonic(), sum(siege.captures().values()), siege.cpu_s()
    siege.must(f"{COPIED} pages are copied", lambda: sum(siege.captures().values()) >= wanted, COPIED_S)
    took_s = time.monotonic() - began
    made = sum(siege.captures().values()) - before
    each_ms = 1_000 * (siege.cpu_s() - cpu_s) / max(made, 1)
    told = f"{made:,} copies in {took_s:.1f} s after the import, {made / took_s:.1f}/s, {each_ms:.1f} ms CPU each"
    siege.say(f"{name}: {told}")
    siege.until(lambda: _is_at_rest(siege), COPIED_S)
    return made / took_s


def _is_at_rest(siege: Siege) -> bool:
    """What goes to the attacker waits for ever."""
    before = sum(siege.captures().values())
    siege.linger(REST_S)
    return sum(siege.captures().values()) == before


def forged(siege: Siege) -> None:
    """A peer brings in captures of 1970, of yesterday and of 2100, of pages that others archived."""
    attacker = siege.join(1)[0]
    urls = sorted({one.url for one in siege.wanted})[:FORGED_URLS]
    now = datetime.now(UTC)
    dates = [datetime(1970, 1, 2, tzinfo=UTC), now - timedelta(days=1), datetime(2100, 1, 1, tzinfo=UTC)]
    file = siege.folder / "forged.warc.gz"
    digests = write_forged(file, urls, dates)
    siege.command(attacker, "import", str(file), "--quiet")
    siege.say(f"{len(digests)} invented captures were brought in at the attacker's peer")
    siege.linger(FORGED_S)
    shown = [
        f"{url} through {one.http}"
        for one in siege.honest
        for url in urls
        if any(
            version.digest.removeprefix("sha256:") in digests for version in reading.versions(one.http, url)
        )
    ]
    told = "; ".join((f"{len(shown)} histories", *shown[:3]))
    siege.note("no honest peer shows them as history", not shown, told)
    siege.judge_pages()


def readers(siege: Siege) -> None:
    """One address holds 128 connections to the portal of each honest peer, and asks nothing."""
    held: list[socket.socket] = []
    try:
        for one in siege.honest:
            with suppress(OSError):  # refused: that is what we are here to see
                held.extend(_connections(one.http))
        siege.say(f"{len(held)} connections are open")
        answers = Counter(_status_seen_from(siege, HONEST - 1, one.http) for one in siege.honest[:-1])
        siege.note("readers at another address are answered", set(answers) == {"200"}, f"{dict(answers)}")
    finally:
        for connection in held:
            connection.close()
    siege.judge_pages()


def drip(siege: Siege) -> None:
    """One address opens 128 connections to each portal and each peer's port, and sends a byte a second on each."""
    portals = {urlsplit(one.http).netloc: _HALF_GET for one in siege.honest}
    ports = {one.peer: _HALF_HELLO for one in siege.honest}
    dripping = {place: _Drip(place, begins) for place, begins in {**portals, **ports}.items()}
    copied = siege.captures()
    file = siege.folder / "meanwhile.warc.gz"
    write_forged(
        file, [f"http://meanwhile.example/{number}" for number in range(DRIP_PAGES)], [datetime.now(UTC)]
    )
    began, most = time.monotonic(), Counter[str]()
    siege.command(siege.honest[0], "import", str(file), "--quiet")
    try:
        while time.monotonic() < began + DRIP_S:
            for place, one in dripping.items():
                one.fall()
                if time.monotonic() > began + DRIP_GIVEN_S:  # what is open now was opened while others were
                    most[place] = max(most[place], one.open)
            siege.linger(1.0)
        answers = Counter(_status_seen_from(siege, HONEST - 1, one.http) for one in siege.honest[:-1])
        siege.note("readers at another address are answered", set(answers) == {"200"}, f"{dict(answers)}")
        for kind, places, bound in (
            ("portal", portals, DRIPPING_AT_PORTALS_MAX),
            ("peer's port", ports, DRIPPING_AT_PEERS_MAX),
        ):
            kept = max(most[place] for place in places)
            siege.note(f"no {kind} keeps over {bound} of one address", kept <= bound, f"at most {kept}")
    finally:
        for one in dripping.values():
            one.close()
    made = sum(siege.captures().values()) - sum(copied.values())  # our own address was the one that dripped
    siege.note(
        "copies are made meanwhile",
        made >= DRIP_PAGES * COPIED_TO,
        f"{made} captures of {DRIP_PAGES} pages when it ended",
    )
    siege.judge_pages()
    siege.judge_memory(RESIDENT_MIB_MAX)


class _Drip:
    """Connections that send a byte a second of something that never ends; those that are closed are opened again."""

    def __init__(self, place: str, begins: bytes) -> None:
        host, _, port = place.rpartition(":")
        self._place, self._begins = (host, int(port)), begins
        self._held: list[socket.socket] = []

        self.open = 0
        """Of those of a second ago, what the other end has not closed."""

    def fall(self) -> None:
        self._held = [one for one in self._held if _takes(one, b"a")]
        self.open = len(self._held)
        with suppress(OSError):
            while len(self._held) < CONNECTIONS:
                one = socket.create_connection(self._place, timeout=1.0)
                one.sendall(self._begins)
                one.setblocking(False)
                self._held.append(one)

    def close(self) -> None:
        for one in self._held:
            one.close()


def _takes(connection: socket.socket, data: bytes) -> bool:
    with suppress(OSError):
        connection.send(data)
        try:
            while connection.recv(4_096):
                pass  # a refusal is an answer, and an end after it
        except BlockingIOError:
            return True
    connection.close()
    return False


def _connections(portal: str) -> Iterator[socket.socket]:
    place = urlsplit(portal)
    for _ in range(CONNECTIONS):
        yield socket.create_connection((place.hostname or "", place.port or 80), timeout=5.0)


_READ = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=10).status)"


def _status_seen_from(siege: Siege, number: int, portal: str) -> str:
    assert siege.ring.lines is not None, "each peer has its own"
    command = [*siege.ring.lines.command(number), sys.executable, "-c", _READ, f"{portal}/api/v1/status"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


@contextmanager
def _telling(siege: Siege, count: int = INVENTED) -> Iterator[None]:
    assert siege.ring.lines is not None, "each peer has its own"
    attacker = siege.attackers[0]
    command = [
        *siege.ring.lines.command(HONEST),
        *(sys.executable, "-m", "scripts.attacks.phantoms", "--home", str(attacker.home)),
        *("--listen", attacker.peer, "--join", siege.honest[0].peer),
        *("--network", INVENTED_NETWORK, "--port", str(INVENTED_PORT), "--count", str(count)),
    ]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        siege.say(process.stdout.readline().strip() or "the attacker could not begin")
        yield
    finally:
        process.kill()
        process.wait()


class _ThirdParty:
    """Counts what honest peers send to its network: what the attacker sends, it could send without them."""

    def __init__(self, own: socket.socket, honest: Collection[str]) -> None:
        self._own = own
        self._honest = honest
        self._minutes: Counter[int] = Counter()
        self.bytes = 0

    def listen(self) -> None:
        while True:
            try:
                data, sender = self._own.recvfrom(65_535)
            except OSError:
                return  # closed
            if sender[0] in self._honest:
                self.bytes += len(data)
                self._minutes[int(time.monotonic() // 60)] += 1

    def most_in_a_minute(self) -> int:
        return max(self._minutes.values(), default=0)


@contextmanager
def _third_party(siege: Siege) -> Iterator[_ThirdParty]:
    route = ["ip", "route", "add", "local", INVENTED_NETWORK, "dev", "lo"]
    subprocess.run(route, check=True, stdin=subprocess.DEVNULL)
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as own:
        own.bind(("", INVENTED_PORT))
        third_party = _ThirdParty(own, {one.peer.rpartition(":")[0] for one in siege.honest})
        threading.Thread(
            target=third_party.listen, daemon=True
        ).start()  # it ends with the socket, or with us
        yield third_party


def write_forged(file: Path, urls: Sequence[str], dates: Sequence[datetime]) -> set[str]:
    """The SHA-256 of each body."""
    digests = set()
    with file.open("wb") as stream:
        for url in urls:
            for date in dates:
                body = f"<!doctype html><title>Invented</title><p>{url} as of {date:%Y-%m-%d}".encode()
                stream.write(gzip.compress(warc_record(url, date, body)))
                digests.add(sha256(body).hexdigest())
    return digests


def warc_record(url: str, date: datetime, body: bytes) -> bytes:
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + body
    fields = (
        "WARC/1.1",
        "WARC-Type: response",
        f"WARC-Record-ID: <urn:uuid:{uuid4()}>",
        f"WARC-Date: {date:%Y-%m-%dT%H:%M:%SZ}",
        f"WARC-Target-URI: {url}",
        "Content-Type: application/http; msgtype=response",
        f"Content-Length: {len(answer)}",
    )
    return "\r\n".join((*fields, "", "")).encode() + answer + b"\r\n\r\n"
