"""How does the loopback web run as a process of its own?"""

import asyncio
from contextlib import ExitStack
from pathlib import Path

import click
import msgspec
import uvloop

from simnet.web.hosts import WebSettings
from simnet.web.serve import ServeError, WebServer, serve
from simnet.web.site import Web


def run_web(
    settings: WebSettings, *, day: int, day_length_s: float | None, log: Path | None, delay_factor: float
) -> None:
    web = Web(settings)
    with ExitStack() as stack:
        try:
            lines = stack.enter_context(log.open("ab")) if log else None
        except OSError as error:
            raise ServeError(f"cannot write --log {log}: {error.strerror}") from error
        server = WebServer(web, day=day, log=lines, delay_factor=delay_factor)

        def tell() -> None:
            ready = {
                "control": f"http://127.0.0.1:{settings.port}/",
                "first": f"{web.hosts.origin(0)}/",
                "hosts": settings.hosts,
                "day": day,
            }
            click.echo(msgspec.json.encode(ready).decode())

        runner = stack.enter_context(asyncio.Runner(loop_factory=uvloop.new_event_loop))
        runner.run(serve(server, day_length_s=day_length_s, when_ready=tell))
    click.echo(f"simnet web: {server.statistics.requests:,} requests answered", err=True)
