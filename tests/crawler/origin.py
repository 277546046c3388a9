"""A server that answers with exactly the bytes a test wants, well-formed or not, on real loopback sockets."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Origin:
    port: int
    requests: list[bytes] = field(default_factory=list)
    connections: int = 0
    open: int = 0
    """Of these, those that neither side has ended."""
    is_secure: bool = False

    def url(self, target: str = "/", host: str = "127.0.0.1") -> str:
        return f"http{'s' * self.is_secure}://{host}:{self.port}{target}"


def says(answer: bytes) -> Answer:
    async def write(writer: asyncio.StreamWriter) -> None:
        writer.write(answer)

    return write


@asynccontextmanager
async def origin(
    answers: dict[str, Answer],
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[Origin]:
    """Each request gets its path's answer and, unless it says keep-alive, the end of the connection."""
    handlers: set[asyncio.Task[None]] = set()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        handlers.add(task)
        served.connections += 1
        served.open += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                served.requests.append(head)
                path = head.split(b" ")[1].decode("latin-1")
                await answers[path](writer)
                await writer.drain()
                if path.startswith("/once"):
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        except asyncio.CancelledError:
            pass  # the test is over
        finally:
            handlers.discard(task)
            served.open -= 1
            writer.close()

    served = Origin(port=0, is_secure=tls is not None)
    server = await asyncio.start_server(talk, host, port, ssl=tls, limit=2**20)
    served.port = server.sockets[0].getsockname()[1]
    try:
        yield served
    finally:
        server.close()
        for task in list(handlers):
            task.cancel()
        if handlers:
            await asyncio.wait(list(handlers))
        await server.wait_closed()
