"""Where do archived pages come from, and what of them comes back there? A live web of a few sites, as a proxy.

Browsers ask it for all names but those of this machine. While a page is shown from an archive, whatever arrives is a
leak; so is a connection or a datagram at one of the two ears.
"""

import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from scripts.replays.pages import Thing

FIRST_WORD_S = 0.3


@dataclass
class Live:
    site: Mapping[str, Thing]
    asked: list[str] = field(default_factory=list)
    """What arrived since the last `forget`."""
    proxy: str = ""
    tcp_port: int = 0
    udp_port: int = 0

    def forget(self) -> None:
        self.asked.clear()


def _handler(live: Live) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            live.asked.append(f"{self.command} {self.path}")
            self.rfile.read(int(self.headers["Content-Length"] or 0))  # or it would begin the next request
            thing = live.site.get(self.path) or Thing(kind="text/plain", body=b"", status=404)
            self.send_response(thing.status)
            self.send_header("Content-Type", thing.kind)
            self.send_header("Content-Length", str(len(thing.body)))
            self.send_header("Access-Control-Allow-Origin", self.headers["Origin"] or "*")
            self.send_header("Access-Control-Allow-Credentials", "true")
            self.send_header("Timing-Allow-Origin", "*")
            if thing.location:
                self.send_header("Location", thing.location)
            self.end_headers()
            self.wfile.write(thing.body)

        do_POST = do_GET  # noqa: N815  # the name is http.server's

        def do_CONNECT(self) -> None:
            live.asked.append(f"CONNECT {self.path}")
            self.send_error(502)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name is http.server's
            pass

    return Handler


def _listen_tcp(live: Live, ear: socket.socket) -> None:
    with suppress(OSError):
        while True:
            connection, _ = ear.accept()
            live.asked.append("a TCP connection")
            connection.settimeout(FIRST_WORD_S)
            with suppress(OSError):  # which says nothing, or is gone
                live.asked.append(
                    f"at the ear: {connection.recv(200).partition(b' HTTP')[0].decode('latin-1')}"
                )
            connection.close()


def _listen_udp(live: Live, ear: socket.socket) -> None:
    with suppress(OSError):
        while data := ear.recv(2_048):
            live.asked.append(f"a datagram of {len(data)} bytes")


@contextmanager
def live_web(site: Mapping[str, Thing]) -> Iterator[Live]:
    live = Live(site=site)
    with (
        ThreadingHTTPServer(("127.0.0.1", 0), _handler(live)) as server,
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
    ):
        udp.bind(("127.0.0.1", 0))
        live.proxy = f"127.0.0.1:{server.server_port}"
        live.tcp_port, live.udp_port = tcp.getsockname()[1], udp.getsockname()[1]
        threads = [
            threading.Thread(target=server.serve_forever),
            threading.Thread(target=_listen_tcp, args=(live, tcp)),
            threading.Thread(target=_listen_udp, args=(live, udp)),
        ]
        for thread in threads:
            thread.start()
        try:
            yield live
        finally:
            server.shutdown()
            tcp.shutdown(socket.SHUT_RDWR)
            with suppress(OSError):
                udp.shutdown(socket.SHUT_RDWR)
            # An empty datagram ends its ear also where a socket without a peer cannot be shut down.
            with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
                last.sendto(b"", ("127.0.0.1", live.udp_port))
            for thread in threads:
                thread.join()
