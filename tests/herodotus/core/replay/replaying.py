"""A portal of few lines that replays what it is given, and a live web that notes who asks it anything.

Everything that matters comes from `herodotus.core.replay`; a browser is pointed at it.
"""

import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from herodotus.core import replay
from herodotus.core.replay import Flag, ReplayContext
from herodotus.portal.replay import our_script

BROWSER_S = 60
DATE = "20260102030405"
_MEMENTO = re.compile(r"/web/(\d{14})([a-z]{2}_)?/(.+)", re.DOTALL)


@dataclass
class World:
    pages: dict[str, tuple[str, bytes]]
    """By URL: type and body."""
    origin: str = ""
    is_framed: bool = False
    asked: list[tuple[str, str]] = field(default_factory=list)
    """Method and path of what reached the portal."""
    held_until: str = ""
    """`http://a.example/hold` is answered when a path that ends so was asked for: a page that has a picture from
    there is not loaded before."""
    news: threading.Condition = field(default_factory=threading.Condition)
    leaked: list[str] = field(default_factory=list)
    """What reached the live web."""
    live_port: int = 0

    def memento(self, url: str, flag: str = "") -> str:
        return f"{self.origin}/web/{DATE}{flag}/{url}"


def _portal(world: World) -> type[BaseHTTPRequestHandler]:  # noqa: C901 - several small methods, counted as one
    class Portal(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            with world.news:
                world.asked.append((self.command, self.path))
                world.news.notify_all()
            if (script := our_script(self.path)) is not None:
                self._send(200, replay.script_headers(), script.body)
            elif (memento := _MEMENTO.fullmatch(self.path)) is not None:
                self._replay(Flag(memento[2] or ""), memento[3])
            else:
                self._send(200, {"Content-Type": "text/plain"}, b"the portal's secret")

        do_POST = do_GET  # noqa: N815  # the name is http.server's

        def _context(self, flag: Flag, url: str = "http://a.example/", banner: bytes = b"") -> ReplayContext:
            return ReplayContext(
                page_url=url,
                timestamp=DATE,
                flag=flag,
                portal_origin=world.origin,
                banner=banner,
            )

        def _replay(self, flag: Flag, url: str) -> None:
            if url == "http://a.example/hold":
                with world.news:
                    world.news.wait_for(
                        lambda: any(path.endswith(world.held_until) for _, path in world.asked), 40
                    )
            context = self._context(flag, url)
            facts = replay.BannerFacts(previous="20260101000000")
            if world.is_framed and flag is Flag.PAGE and replay.wants_frame(dict(self.headers)):
                page = replay.frame_html(context, facts)
                self._send(200, replay.frame_headers(context) | {"Content-Type": "text/html"}, page)
                return
            if replay.is_worker_registration(dict(self.headers)):
                self._send(403, {}, b"")
                return
            context = self._context(flag, url, replay.banner_html(context, facts))
            kind, body = world.pages.get(url, ("text/plain", b"not archived"))
            rewriter = replay.rewriter_for(kind, flag, context)
            if rewriter is not None:
                body = rewriter.feed(body) + rewriter.close()
            status, fields = replay.replay_headers(200, [("Content-Type", kind)], context)
            self._send(
                status if url in world.pages else 404, dict(fields) | replay.isolation_headers(context), body
            )

        def _send(self, status: int, headers: dict[str, str], body: bytes) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name is http.server's
            pass

    return Portal


def _live(world: World) -> type[BaseHTTPRequestHandler]:
    class Live(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            world.leaked.append(f"{self.command} {self.headers['Host']}{self.path}")
            self.send_response(200)
            self.send_header("Access-Control-Allow-Origin", "*")
            self.send_header("Content-Length", "4")
            self.end_headers()
            self.wfile.write(b"live")

        do_POST = do_GET  # noqa: N815  # the name is http.server's

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name is http.server's
            pass

    return Live


@contextmanager
def replaying(pages: dict[str, tuple[str, bytes]], *, is_framed: bool = False) -> Iterator[World]:
    world = World(pages=pages, is_framed=is_framed)
    with (
        ThreadingHTTPServer(("127.0.0.1", 0), _portal(world)) as portal,
        ThreadingHTTPServer(("127.0.0.1", 0), _live(world)) as live,
    ):
        world.origin = f"http://127.0.0.1:{portal.server_port}"
        world.live_port = live.server_port
        threads = [threading.Thread(target=server.serve_forever) for server in (portal, live)]
        for thread in threads:
            thread.start()
        try:
            yield world
        finally:
            for server in (portal, live):
                server.shutdown()
            for thread in threads:
                thread.join()


def drawn(world: World, address: str, folder: Path, *arguments: str) -> str:
    """The page's markup after its scripts had five seconds of their time; every name leads to the live web."""
    command = [
        "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
        "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--virtual-time-budget=5000",
        f"--host-resolver-rules=MAP *.example 127.0.0.1:{world.live_port}, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
        f"--user-data-dir={folder / 'profile'}", "--enable-logging=stderr", *arguments, "--dump-dom", address,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=BROWSER_S, check=True, cwd=folder)
    return done.stdout
