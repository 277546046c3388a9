"""How fast does a peer answer readers? Beside pywb, a process of its own, on the same WARC in one run.

    scripts/bench portal [--seconds S] [--connections 1,8] [--only WORD,WORD] [--json FILE]

Each of ours is asked in two ways: as a reader who asks what was asked before, which the front answers, and the long
way, with a field that the front does not know. A bare aiohttp that sends a redirect of the same size shows what its
server alone can do.

114 addresses on five days are written once and read by both. The server has core 0, wrk core 1. pywb is GPL: it is
installed on demand into an environment of its own (.venv/pywb) and run as a program; it is measured with TCP_NODELAY,
without which every answer of its waits 40 ms. What counts is CPU time a request, of the server's process: wall time
moves with whatever else runs. Bodies are checked before anything is counted.
"""

import argparse
import json
import os
import random
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import anyio

from herodotus.core.warc import parse_digits
from herodotus.store.warc_export import export_warc
from scripts.benches.crawling.starting import CLIENT_CORE, ORIGIN_CORE, free_port, pinned
from tests.herodotus.deposits import make_deposit
from tests.herodotus.store.memory_store import MemoryStore

SITE = "http://bench.example"
DAYS = [f"2026010{day}060000" for day in range(1, 6)]
_TICKS = os.sysconf("SC_CLK_TCK")
_PYWB = Path(".venv/pywb")
LONG_WAY = "X-Bench: the long way"
_BARE = """
import sys
from aiohttp import web
async def moved(request):
    return web.Response(status=302, headers={"Location": "/web/x", "Link": "x" * 900, "X-Herodotus-Peer": "x"})
application = web.Application()
application.router.add_route("*", "/{path:.*}", moved)
import uvloop
uvloop.install()
web.run_app(application, host="127.0.0.1", port=int(sys.argv[1]), access_log=None, print=None)
"""
_WAYBACK = """
import socket, sys
import gevent.pywsgi as pywsgi
handle = pywsgi.WSGIServer.handle
def quick(self, connection, address):
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return handle(self, connection, address)
pywsgi.WSGIServer.handle = quick
from pywb.apps.cli import wayback
wayback(sys.argv[1:])
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    name: str
    ours: str
    theirs: str = ""
    """Without one pywb is not asked: it has no such page, or makes it in the browser."""
    status: int = 200


CASES = (
    *(
        Case(name=f"html {size} kB", ours=f"/web/{DAYS[2]}/{SITE}/{size}", theirs=f"/bench/{DAYS[2]}mp_/{SITE}/{size}")
        for size in (2, 29, 276)
    ),
    Case(name="html 29 kB raw", ours=f"/web/{DAYS[2]}id_/{SITE}/29", theirs=f"/bench/{DAYS[2]}id_/{SITE}/29"),
    Case(name="html 29 kB, scripts", ours=f"/web/{DAYS[2]}/{SITE}/scripts",
         theirs=f"/bench/{DAYS[2]}mp_/{SITE}/scripts"),
    Case(name="script 60 kB", ours=f"/web/{DAYS[2]}js_/{SITE}/script", theirs=f"/bench/{DAYS[2]}js_/{SITE}/script"),
    Case(name="script 400 kB", ours=f"/web/{DAYS[2]}js_/{SITE}/bundle", theirs=f"/bench/{DAYS[2]}js_/{SITE}/bundle"),
    Case(name="css 6 kB", ours=f"/web/{DAYS[2]}cs_/{SITE}/css", theirs=f"/bench/{DAYS[2]}cs_/{SITE}/css"),
    Case(name="image 6 kB", ours=f"/web/{DAYS[2]}im_/{SITE}/image", theirs=f"/bench/{DAYS[2]}im_/{SITE}/image"),
    Case(name="4 kB raw", ours=f"/web/{DAYS[2]}id_/{SITE}/four", theirs=f"/bench/{DAYS[2]}id_/{SITE}/four"),
    Case(name="CDX exact", ours=f"/cdx/search/cdx?url={SITE}/29", theirs=f"/bench/cdx?url={SITE}/29"),
    Case(name="CDX prefix, 100 rows", ours=f"/cdx/search/cdx?url={SITE}/p*&limit=100",
         theirs=f"/bench/cdx?url={SITE}/p*&limit=100"),
    Case(name="TimeMap", ours=f"/web/timemap/link/{SITE}/29", theirs=f"/bench/timemap/link/{SITE}/29"),
    Case(name="not archived", ours=f"/web/{DAYS[2]}/{SITE}/none", theirs=f"/bench/{DAYS[2]}mp_/{SITE}/none",
         status=404),
    Case(name="history", ours=f"/web/*/{SITE}/29"),
    Case(name="start page", ours="/"),
    Case(name="redirect to a date", ours=f"/web/20260103/{SITE}/29", theirs=f"/bench/20260103/{SITE}/29", status=0),
)  # fmt: skip


def html(size: int, day: str) -> bytes:
    """Text with a link or an image about every 300 bytes, as news pages have."""
    chance = random.Random(f"{size} {day}")
    words = ("archive", "ring", "page", "copy", "successor", "day", "history", "peer")
    parts = [f"<!DOCTYPE html><html><head><title>{day}</title><link rel=stylesheet href=/css></head><body>"]
    length = len(parts[0])
    while length < size * 1000:
        text = " ".join(chance.choice(words) for _ in range(35))
        number = chance.randrange(10_000)
        part = f'<p class="c{number % 9}">{text} <a href="/p{number}?a={number}&amp;b=1">{number}</a></p>\n'
        if number % 4 == 0:
            part += f'<img src="/img/{number}.png" width="40" alt="">'
        parts.append(part)
        length += len(part)
    return "".join([*parts, "</body></html>"]).encode()


def script(size: int) -> bytes:
    """As builds of applications have: long lines, a few imports, messages and places where it goes."""
    parts, length, number = ['import{a as r}from"./chunk.js";'], 0, 0
    while length < size:
        part = (
            f'function f{number}(e,t){{var n=e.items[{number}];if(!n)return t("no item");'
            f"return n.map(function(e){{return/^[a-z]+$/.test(e)?e.length/2:`${{e}}-{number}`}})}}"
        )
        if number % 50 == 0:
            part += f'const l{number}=()=>import("./part{number}.js");top.postMessage({{n:{number}}},"*");'
        if number % 200 == 0:
            part += f'document.getElementById("b").onclick=()=>{{location.href="/p{number}"}};'
        parts.append(part)
        length += len(part)
        number += 1
    return "".join(parts).encode()


def with_scripts(day: str) -> bytes:
    tags = (
        '<script src="/script"></script><script>window.dataLayer=[];location.hash&&f(location.hash)</script>'
    )
    return html(29, day).replace(b"</p>\n", b"</p>\n" + tags.encode(), 10)


def write_warc(target: Path) -> None:
    store = MemoryStore(now=lambda: float(parse_digits(DAYS[-1])))
    image = random.Random(6).randbytes(5_700)
    four = random.Random(4).randbytes(4_096)
    css = "".join(
        f".c{n} {{ color: #{n:06x}; background: url(/img/{n}.png) }}\n" for n in range(110)
    ).encode()
    pages = {f"{SITE}/{size}": size for size in (2, 29, 276)} | {f"{SITE}/p{n}": 2 for n in range(109)}

    async def fill() -> None:
        for day in DAYS:
            bodies = {url: (html(size, day), "text/html; charset=utf-8") for url, size in pages.items()}
            bodies[f"{SITE}/four"] = (four, "application/octet-stream")
            bodies |= {
                f"{SITE}/scripts": (with_scripts(day), "text/html; charset=utf-8"),
                f"{SITE}/script": (script(60_000), "text/javascript"),
                f"{SITE}/bundle": (script(400_000), "text/javascript"),
            }
            bodies |= {f"{SITE}/css": (css, "text/css"), f"{SITE}/image": (image, "image/png")}
            for url, (body, mime) in bodies.items():
                head = (
                    f"HTTP/1.1 200 OK\r\nContent-Type: {mime}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
                )
                await store.store(make_deposit(url=url, time_s=parse_digits(day), head=head, body=body))

    anyio.run(fill)
    out = BytesIO()
    export_warc(store.archive, out)
    target.write_bytes(out.getvalue())


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    name: str
    base: str
    pid: int


def quietly(command: list[str], place: Path | None = None) -> None:
    subprocess.run(command, cwd=place, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)


@contextmanager
def our_peer(folder: Path, warc: Path, python: Path = Path(sys.executable)) -> Iterator[Server]:
    """Of the checkout whose Python it is."""
    command = [str(python.with_name("herodotus"))]
    home = str(folder / "home")
    quietly([*command, "init", "--home", home, "--network", "test", "--preset", "test"])
    quietly([*command, "import", "--home", home, str(warc)])
    reader, writer = os.pipe()
    run = pinned([*command, "run", "--home", home, "--ready-fd", str(writer)], CLIENT_CORE)
    many = {**os.environ, "HERODOTUS_HTTP_CONNECTIONS_MAX": "512"}  # the preset's number is that of a test
    with subprocess.Popen(
        run, pass_fds=[writer], env=many, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        os.close(writer)
        with os.fdopen(reader) as channel:
            if not select.select([channel], [], [], 60)[0]:
                raise SystemExit("bench: the peer did not start")
            base = json.loads(channel.readline())["http"]
        try:
            yield Server(name="herodotus", base=base, pid=process.pid)
        finally:
            process.send_signal(signal.SIGTERM)


@contextmanager
def answering(run: list[str], name: str, port: int, path: str, place: Path | None = None) -> Iterator[Server]:
    """A program, once it answers something at that path."""
    with subprocess.Popen(run, cwd=place, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        server = Server(name=name, base=f"http://127.0.0.1:{port}", pid=process.pid)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and fetch(server, path)[0] == 0:
            select.select([], [], [], 0.2)
        try:
            yield server
        finally:
            process.send_signal(signal.SIGTERM)


@contextmanager
def pywb(folder: Path, warc: Path) -> Iterator[Server]:
    python = (_PYWB / "bin/python").absolute()
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(_PYWB)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", "pywb>=2.10,<2.11"], check=True)
    manager = str(python.with_name("wb-manager"))
    place = folder / "pywb"
    place.mkdir()
    quietly([manager, "init", "bench"], place)
    quietly([manager, "add", "bench", str(warc)], place)
    port = free_port()
    run = pinned([str(python), "-c", _WAYBACK, "-p", str(port), "-b", "127.0.0.1"], CLIENT_CORE)
    with answering(run, "pywb", port, "/", place) as server:
        yield server


@contextmanager
def nginx(folder: Path) -> Iterator[Server | None]:
    """A file of 4 kB from one worker; None where it is not installed."""
    program = shutil.which("nginx", path=f"{os.defpath}:/usr/sbin")
    if program is None:
        print("no nginx here: its row is left out")
        yield None
        return
    place, port = folder / "nginx", free_port()
    place.mkdir()
    (place / "four").write_bytes(random.Random(4).randbytes(4_096))
    (place / "conf").write_text(
        f"daemon off; pid {place}/pid; error_log {place}/errors; worker_processes 1; master_process off;\n"
        "events { worker_connections 512; }\n"
        f"http {{ access_log off; sendfile on; tcp_nopush on; keepalive_requests 10000000; "
        f"server {{ listen 127.0.0.1:{port}; root {place}; }} }}\n"
    )
    run = pinned([program, "-p", str(place), "-c", str(place / "conf")], CLIENT_CORE)
    with answering(run, "nginx", port, "/four") as server:
        yield server


@contextmanager
def bare_aiohttp() -> Iterator[Server]:
    port = free_port()
    run = pinned([sys.executable, "-c", _BARE, str(port)], CLIENT_CORE)
    with answering(run, "bare aiohttp", port, "/") as server:
        yield server


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None


_opener = urllib.request.build_opener(_Stay(), urllib.request.ProxyHandler({}))


def fetch(server: Server, path: str) -> tuple[int, int]:
    """Status and length; 0 where nobody answers."""
    try:
        with _opener.open(server.base + path, timeout=20) as answer:
            return answer.status, len(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, len(error.read())
    except OSError:
        return 0, 0


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def memory_mb(pid: int) -> float:
    text = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+)", text)
    return int(found[1]) / 1000 if found else 0.0


def measure(server: Server, path: str, connections: int, seconds: float, *fields: str) -> dict[str, float]:
    before = cpu_s(server.pid)
    command = [
        "wrk",
        "-t1",
        f"-c{connections}",
        f"-d{max(1, round(seconds))}s",
        "--latency",
        *(word for field in fields for word in ("-H", field)),
        server.base + path,
    ]
    done = subprocess.run(pinned(command, ORIGIN_CORE), capture_output=True, text=True, check=True)
    used = cpu_s(server.pid) - before
    requests = int(next(iter(re.findall(r"(\d+) requests in", done.stdout)), "0"))
    rate = float(next(iter(re.findall(r"Requests/sec:\s+([\d.]+)", done.stdout)), "0"))
    latency = {name: _ms(value) for name, value in re.findall(r"(50|99)%\s+([\d.]+\w+)", done.stdout)}
    return {
        "rate": rate, "cpu_us": 1e6 * used / max(requests, 1), "p50_ms": latency.get("50", 0.0),
        "p99_ms": latency.get("99", 0.0),
    }  # fmt: skip


def _ms(text: str) -> float:
    match = re.fullmatch(r"([\d.]+)(us|ms|s)", text)
    return float(match[1]) * {"us": 0.001, "ms": 1.0, "s": 1000.0}[match[2]] if match else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--connections", default="8")
    parser.add_argument("--only", default="")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    wanted = [word for word in chosen.only.split(",") if word]
    cases = [case for case in CASES if not wanted or any(word in case.name for word in wanted)]
    results: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        warc = folder / "bench.warc.gz"
        write_warc(warc)
        with (
            our_peer(folder, warc) as ours,
            pywb(folder, warc) as theirs,
            bare_aiohttp() as bare,
            nginx(folder) as files,
        ):
            print(
                "                        c   asked again   CPU us  the long way   CPU us  p50 ms"
                "      pywb   CPU us  p50 ms  CPU ratio (again, long)"
            )
            results += [
                row(case, connections, chosen.seconds, ours, theirs)
                for case in cases
                for connections in map(int, chosen.connections.split(","))
            ]
            for connections in map(int, chosen.connections.split(",")):
                for server, path, label in (
                    (bare, "/", "bare aiohttp, redirect"),
                    (files, "/four", "nginx, 4 kB"),
                ):
                    if server is None:
                        continue
                    alone = measure(server, path, connections, chosen.seconds)
                    print(f"{label:22}{connections:>3}  {alone['rate']:>11,.0f} {alone['cpu_us']:>8,.1f}")
                    results.append({"case": label, "connections": connections, "alone": alone})
            print(
                f"memory, peak: herodotus {memory_mb(ours.pid):.0f} MB, pywb {memory_mb(theirs.pid):.0f} MB"
            )
    print(f"load average {os.getloadavg()[0]:.1f}")
    if chosen.json:
        chosen.json.write_text(json.dumps(results, indent=1))


def check(case: Case, server: Server, path: str) -> None:
    """Ends the bench where the server does not answer as it should."""
    status, length = fetch(server, path)
    expected = (case.status,) if case.status else (302, 307, 200)
    if status not in expected or (status == 200 and not length):
        raise SystemExit(f"bench: {server.name} answered {status} with {length} bytes to {path}")


def row(case: Case, connections: int, seconds: float, ours: Server, theirs: Server) -> dict[str, object]:
    check(case, ours, case.ours)
    again, long = (measure(ours, case.ours, connections, seconds, *fields) for fields in ((), (LONG_WAY,)))
    if not case.theirs:
        print(
            f"{case.name:22}{connections:>3}  {again['rate']:>11,.0f} {again['cpu_us']:>8,.1f}  {long['rate']:>12,.0f} "
            f"{long['cpu_us']:>8,.0f} {long['p50_ms']:>7.1f}",
            flush=True,
        )
        return {"case": case.name, "connections": connections, "again": again, "long": long}
    check(case, theirs, case.theirs)
    other = measure(theirs, case.theirs, connections, seconds)
    ratios = "  ".join(f"{other['cpu_us'] / max(one['cpu_us'], 1):>6.1f}x" for one in (again, long))
    print(
        f"{case.name:22}{connections:>3}  {again['rate']:>11,.0f} {again['cpu_us']:>8,.1f}  {long['rate']:>12,.0f} "
        f"{long['cpu_us']:>8,.0f} {long['p50_ms']:>7.1f}  {other['rate']:>8,.0f} {other['cpu_us']:>8,.0f} "
        f"{other['p50_ms']:>7.1f}  {ratios}",
        flush=True,
    )
    return {"case": case.name, "connections": connections, "again": again, "long": long, "pywb": other}


if __name__ == "__main__":
    main()
