"""Does a running peer bear any bytes, at every way in? One real peer, each way for its share of the time, by a seed.

    scripts/sweep fuzz --seconds 300 --seed 7
    scripts/sweep fuzz --only http --seconds 60

After each batch the peer must answer, with no mistake of ours in its log; in the end it must not have grown by more
than its bounds allow. The decoders of the ring are searched more deeply, without a peer, by `scripts/fuzz ring`.
"""

import argparse
import dataclasses
import gzip
import http.client
import io
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from random import Random
from urllib.parse import urlsplit

from herodotus.core.charter import TEST_CHARTER
from herodotus.core.errors import HerodotusError
from herodotus.core.orders import Import
from herodotus.home.folder import Home
from herodotus.operate.cli import main as herodotus
from herodotus.operate.lab_ring import make_home
from herodotus.operate.order_socket import ask_at_door
from herodotus.peers.net.wire import ALPN
from scripts.sweeps.judging import Verdict
from scripts.sweeps.mutating import mutated
from tests.dht.vectors import vectors

BATCH = 50
"""Inputs between two looks at the peer."""
ANSWER_S = 10.0
SILENT_S = 0.05
"""Longer than a peer of this machine takes to close what it does not like; it need not."""
GROWTH_MIB_MAX = 48.0
"""Caches and tables that have bounds are filled by what comes; docs/look-up/limits.md has them."""
DESCRIPTORS_MAX = 16
WARM_SHARE = 0.2
_MISTAKES = ("Traceback (most recent", "a mistake of ours")

_FORM = b"Content-Type: application/x-www-form-urlencoded"
_JSON = b"Content-Type: application/json"
_PAGE = b"http://example.org/1"


def _request(line: bytes, *fields: bytes, body: bytes = b"") -> bytes:
    head = (line + b" HTTP/1.1", b"Host: localhost", *fields)
    return b"\r\n".join((*head, b"", body))


_REQUESTS = [
    _request(b"GET /"),
    _request(b"GET /web/*/" + _PAGE, b"Accept: application/json"),
    _request(b"GET /web/20260101000000id_/" + _PAGE, b"Range: bytes=0-5"),
    _request(b"GET /web/2026/" + _PAGE, b"Accept-Datetime: Thu, 01 Jan 2026 00:00:00 GMT"),
    _request(b"GET /cdx/search/cdx?url=example.org/*&matchType=domain&limit=5&filter=status:200&page=1"),
    _request(b"GET /api/v1/captures?limit=10&url=" + _PAGE, b"Accept-Encoding: gzip"),
    _request(b"GET /api/v1/stream?from=0&to=ff"),
    _request(b"GET /web/timemap/link/" + _PAGE),
    _request(b"GET /web/diff/2025/2026/" + _PAGE),
    _request(b"GET /status", b"Referer: http://localhost/web/2026/" + _PAGE),
    _request(b"POST /status/orders", _FORM, b"Content-Length: 20", body=b"secret=a&order=pause"),
    _request(b"POST /api/v1/imports", _JSON, b"Transfer-Encoding: chunked", body=b"2\r\n{}\r\n0\r\n\r\n"),
]


class Broken(Exception):
    """What happened, and where the inputs of that batch are kept."""


class Target:
    """One peer, looked at between the batches."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "peer"
        make_home(Home(self.home), dataclasses.replace(TEST_CHARTER, name="fuzzed"))
        self._process: subprocess.Popen[str] | None = None
        self.http = ""

    def start(self) -> None:
        reader, writer = os.pipe()
        command = [
            sys.executable,
            "-m",
            "herodotus",
            "run",
            "--home",
            str(self.home),
            "--ready-fd",
            str(writer),
        ]
        console = (self.home / "log" / "console.log").open("a")
        with console, os.fdopen(reader) as ready:
            self._process = subprocess.Popen(
                [*command, "--quiet", "--listen", f"127.0.0.1:{_free_port()}"], pass_fds=[writer], text=True,
                stdin=subprocess.DEVNULL, stdout=console, stderr=console,
            )  # fmt: skip
            os.close(writer)
            self.http = json.loads(ready.readline())["http"]

    @property
    def ring(self) -> tuple[str, int]:
        """Where datagrams and calls go."""
        address = str(self._status()["ring"]["address"])
        return "127.0.0.1", int(address.rpartition(":")[2])

    def check(self) -> None:
        """Raises Broken."""
        assert self._process is not None
        if self._process.poll() is not None:
            raise Broken(f"the peer ended with {self._process.returncode}")
        self._status()
        for log in sorted((self.home / "log").glob("*.log*")):
            if any(word in log.read_text(encoding="utf-8", errors="replace") for word in _MISTAKES):
                raise Broken(f"a mistake of ours is in {log}")

    def _status(self) -> Mapping[str, Mapping[str, object]]:
        connection = http.client.HTTPConnection(urlsplit(self.http).netloc, timeout=ANSWER_S)
        try:
            connection.request("GET", "/api/v1/status")
            found: Mapping[str, Mapping[str, object]] = json.loads(connection.getresponse().read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Broken(f"the peer does not answer: {error}") from error
        finally:
            connection.close()
        return found

    def size(self) -> tuple[float, int]:
        """Resident MiB, and descriptors."""
        assert self._process is not None
        proc = Path("/proc") / str(self._process.pid)
        lines = (proc / "status").read_text().splitlines()
        resident = next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))
        return resident / 1024, len(list((proc / "fd").iterdir()))

    def end(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# -- the ways in ------------------------------------------------------------------------------------------


def datagrams(target: Target, folder: Path) -> tuple[list[bytes], Callable[[bytes], None]]:
    del folder
    place = target.ring
    samples = [data for _, data in vectors()]
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    def send(data: bytes) -> None:
        with suppress(OSError):  # too long for a datagram
            sender.sendto(data[:60_000], place)

    return samples, send


def calls(target: Target, folder: Path) -> tuple[list[bytes], Callable[[bytes], None]]:
    """Half of them inside TLS, where a peer expects frames."""
    del folder
    place = target.ring
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols([ALPN])
    frames = [
        bytes((kind,)) + len(data).to_bytes(4, "big") + data for kind in range(1, 9) for _, data in vectors()
    ]
    hello = bytes.fromhex("16030100c8010000c40303") + bytes(193)

    def send(data: bytes) -> None:
        with suppress(OSError), socket.create_connection(place, timeout=ANSWER_S) as plain:
            if data[:1] == b"\x16":
                _exchange(plain, data)
                return
            with context.wrap_socket(plain) as sealed:
                _exchange(sealed, data)

    return [*frames, *[hello] * len(frames)], send


def requests(target: Target, folder: Path) -> tuple[list[bytes], Callable[[bytes], None]]:
    del folder
    parts = urlsplit(target.http)
    place = (str(parts.hostname), int(parts.port or 80))

    def send(data: bytes) -> None:
        with suppress(OSError), socket.create_connection(place, timeout=ANSWER_S) as connection:
            _exchange(connection, data)

    return _REQUESTS, send


def _exchange(connection: socket.socket, data: bytes) -> None:
    connection.sendall(data)
    connection.settimeout(SILENT_S)
    connection.recv(65_536)


def imports(target: Target, folder: Path) -> tuple[list[bytes], Callable[[bytes], None]]:
    """Into the running peer, as the command orders it."""
    good = folder / "good.warc.gz"
    _make_warc(good)
    file = folder / "bent.warc.gz"

    packed = good.read_bytes()
    samples = [packed, gzip.decompress(packed)]

    def send(data: bytes) -> None:
        file.write_bytes(data)
        try:
            ask_at_door(Home(target.home), Import(files=(str(file),)), lambda _: None)
        except HerodotusError as error:
            if any(word in str(error) for word in _MISTAKES):
                raise Broken(f"the import said: {error}") from error

    return samples, send


def settings(target: Target, folder: Path) -> tuple[list[bytes], Callable[[bytes], None]]:
    """Of a second home, which no peer runs on; `config show` reads what `run` would."""
    home = folder / "bent"
    make_home(Home(home), TEST_CHARTER)
    files = [home / "config.toml", home / "network.toml"]
    good = {file: file.read_bytes() for file in files}
    turn = 0
    del target

    def send(data: bytes) -> None:
        nonlocal turn
        turn += 1
        bent = files[turn % 2]
        for file in files:
            file.write_bytes(data if file is bent else good[file])
        _command("config", "show", "--home", str(home))

    return [*good.values(), b'[http]\nlisten = "127.0.0.1:80"\n[crawl]\nconnections = 4\n'], send


def _command(*words: str) -> None:
    """In this process: a new one takes longer than what is to be tried."""
    said = io.StringIO()
    with redirect_stdout(io.StringIO()), redirect_stderr(said), suppress(SystemExit):
        herodotus(list(words), prog_name="herodotus")
    if any(word in said.getvalue() for word in _MISTAKES):
        raise Broken(f"`herodotus {words[0]}` said: {said.getvalue()[-300:]}")


def _make_warc(file: Path) -> None:
    body = b"<title>one</title><a href='/2'>two</a>"
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    record = (
        b"WARC/1.1\r\nWARC-Type: response\r\nWARC-Target-URI: http://example.org/1\r\n"
        b"WARC-Date: 2026-01-01T00:00:00Z\r\nWARC-Record-ID: <urn:uuid:00000000-0000-4000-8000-000000000001>\r\n"
        b"Content-Type: application/http; msgtype=response\r\nContent-Length: %d\r\n\r\n" % len(answer)
    )

    file.write_bytes(gzip.compress(record + answer + b"\r\n\r\n"))


WAYS: Mapping[str, Callable[[Target, Path], tuple[list[bytes], Callable[[bytes], None]]]] = {
    "datagrams": datagrams,
    "calls": calls,
    "http": requests,
    "import": imports,
    "settings": settings,
}


# -- the program ------------------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="scripts/sweep fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0, help="all ways in together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=sorted(WAYS), action="append")
    asked = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="herodotus-fuzz-"))
    target = Target(folder)
    ways = asked.only or list(WAYS)
    try:
        target.start()
        verdicts = [_fuzzed(target, folder, way, asked.seconds / len(ways), asked.seed) for way in ways]
    finally:
        target.end()
    for one in verdicts:
        print(f"fuzz: {'holds' if one.is_ok else 'BROKEN'}: {one.name}: {one.detail}", file=sys.stderr)
    is_ok = all(one.is_ok for one in verdicts)
    print(
        json.dumps(
            {"seed": asked.seed, "ok": is_ok, "checkers": [dataclasses.asdict(one) for one in verdicts]}
        )
    )
    if is_ok:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        print(f"fuzz: home, log and the last inputs are kept in {folder}", file=sys.stderr)
    return 0 if is_ok else 1


def _fuzzed(target: Target, folder: Path, way: str, seconds: float, seed: int) -> Verdict:
    random = Random(f"{seed} {way}")
    count, warm = 0, None
    batch: list[bytes] = []
    began = time.monotonic()
    try:
        samples, send = WAYS[way](target, folder)
        while (passed := time.monotonic() - began) < seconds:
            batch = []
            until = time.monotonic() + min(5.0, seconds)
            while len(batch) < BATCH and time.monotonic() < until:
                batch.append(mutated(random, samples))
                send(batch[-1])
            count += len(batch)
            target.check()
            if warm is None and passed >= WARM_SHARE * seconds:
                warm = target.size()
        grown = _growth(warm or target.size(), target.size())
    except Broken as broken:
        kept = folder / f"{way}.inputs"
        kept.write_text("\n".join(one.hex() for one in batch), encoding="ascii")
        return Verdict(
            name=way, is_ok=False, detail=f"after {count:,} inputs: {broken}; the last are in {kept}"
        )
    mib, descriptors = grown
    return Verdict(
        name=way,
        is_ok=count > 0 and mib <= GROWTH_MIB_MAX and descriptors <= DESCRIPTORS_MAX,
        detail=f"{count:,} inputs; the peer grew by {mib:.1f} MiB and {descriptors} descriptors",
    )


def _growth(before: tuple[float, int], after: tuple[float, int]) -> tuple[float, int]:
    return after[0] - before[0], after[1] - before[1]


if __name__ == "__main__":
    sys.exit(main())
