"""How does the operator, and nobody else, give a running peer orders? Over a socket in the home, not on the network.

`import`, `export`, `verify` and others work on an archive that a running peer holds open: they give their order to
that peer. The socket lies in a folder that only its owner may enter. One exchange is a line of JSON with the order,
lines of JSON with the progress, and a last line with the report; a capture's bytes follow it.
"""

import json
import logging
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import asdict
from functools import partial
from typing import Any

import anyio
import anyio.abc
import msgspec
from anyio.streams.buffered import BufferedByteReceiveStream

from herodotus.core.errors import HerodotusError, WorldFailure
from herodotus.core.orders import NAMES, ORDERS, Order, OrderReport, Say
from herodotus.home.folder import Home

logger = logging.getLogger(__name__)

ORDER_BYTES_MAX = 1_000_000
_REPORT_BYTES_MAX = 64_000_000  # a line: a long history has some 200 bytes a version
_SAID_MAX = 64  # progress that nobody has read yet; older lines are worthless
_CONNECT_S = 5.0
_LEAVE_S = 5.0

Perform = Callable[[Order, Say], Awaitable[OrderReport]]


class NoDoor(WorldFailure):
    def __init__(self, home: Home, reason: str) -> None:
        super().__init__(f"the process that runs on {home.path} takes no orders: {reason}; stop it first")


class OrderRefused(HerodotusError):
    """What the running peer answered instead of a report."""

    def __init__(self, sentence: str, exit_code: int) -> None:
        self.exit_code = exit_code  # type: ignore[misc]  # the family is that of the error over there
        super().__init__(sentence)


@contextmanager
def _short_path(home: Home) -> Iterator[str]:
    """A socket's path has 108 bytes at most; a home may lie deeper, so a descriptor names its folder."""
    folder = os.open(home.state, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        plain = str(home.door)
        yield plain if len(os.fsencode(plain)) < 100 else f"/proc/self/fd/{folder}/{home.door.name}"
    finally:
        os.close(folder)


# -- the peer's side --------------------------------------------------------------------------------------


@asynccontextmanager
async def open_door(home: Home, perform: Perform) -> AsyncIterator[None]:
    """Takes orders inside the block; leaving it cancels those under way."""
    try:
        with _short_path(home) as path:
            listener = await anyio.create_unix_listener(path, mode=0o600, backlog=8)
    except OSError as error:  # a file system without sockets: everything else works
        logger.warning("no socket for orders error=%s", error)
        yield
        return
    try:
        async with listener, anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, partial(_exchange, perform))
            yield
            tasks.cancel_scope.cancel()
    finally:
        with suppress(FileNotFoundError):
            os.unlink(home.door)  # noqa: PTH108  # at once: nothing may be awaited while we are cancelled


async def _exchange(perform: Perform, stream: anyio.abc.SocketStream) -> None:
    async with stream:
        with suppress(anyio.BrokenResourceError, anyio.IncompleteRead, anyio.DelimiterNotFound):
            received = BufferedByteReceiveStream(stream)
            line = await received.receive_until(b"\n", ORDER_BYTES_MAX)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_end_when_left, received, tasks.cancel_scope)
                await _answer(perform, line, stream)
                await stream.send_eof()
                # The asker closes now by itself; cancelling the watch at that very moment upsets uvloop.
                tasks.cancel_scope.deadline = anyio.current_time() + _LEAVE_S


async def _end_when_left(received: BufferedByteReceiveStream, scope: anyio.CancelScope) -> None:
    """Ctrl-C over there ends the order here."""
    with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
        while True:
            await received.receive()
    scope.cancel()


async def _answer(perform: Perform, line: bytes, stream: anyio.abc.SocketStream) -> None:
    words, heard = anyio.create_memory_object_stream[str](_SAID_MAX)

    def say(text: str) -> None:
        with suppress(anyio.WouldBlock):
            words.send_nowait(text)

    async def pass_on() -> None:
        async for text in heard:
            await stream.send(_line({"progress": text}))

    content = b""
    with heard:
        async with anyio.create_task_group() as tasks, words:
            tasks.start_soon(pass_on)
            try:
                report = await perform(_order(line), say)
                content = report.content
                last = {"facts": report.facts, "content_bytes": len(content)}
            except HerodotusError as error:
                last = {"error": str(error), "exit_code": error.exit_code}
            except OSError as error:
                last = {
                    "error": f"{error.filename or 'the disk'}: {(error.strerror or '').lower()}",
                    "exit_code": 1,
                }
            except Exception as error:  # a failing order must not end the peer
                logger.exception("order failed")
                last = {"error": f"a mistake of ours: {type(error).__name__}: {error}", "exit_code": 1}
    await stream.send(_line(last) + content)


def _order(line: bytes) -> Order:
    try:
        message = msgspec.json.decode(line, type=dict[str, Any])
        return msgspec.convert(message["arguments"], type=ORDERS[message["order"]])
    except (msgspec.MsgspecError, UnicodeDecodeError, KeyError) as error:
        raise OrderRefused(
            f"the peer does not understand this order, its release may be another: {error}", 1
        ) from error


def _line(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, default=str).encode("utf-8", "replace") + b"\n"


# -- the command's side -----------------------------------------------------------------------------------


def ask_at_door(home: Home, order: Order, say: Say) -> OrderReport:
    """Blocks until the peer has performed the order."""
    with _connected(home) as connection, connection.makefile("rwb") as channel:
        try:
            channel.write(_line({"order": NAMES[type(order)], "arguments": asdict(order)}))
            channel.flush()
            while line := channel.readline(_REPORT_BYTES_MAX):
                message = msgspec.json.decode(line, type=dict[str, Any])
                if "progress" in message:
                    say(str(message["progress"]))
                elif "error" in message:
                    raise OrderRefused(str(message["error"]), int(message["exit_code"]))
                else:
                    content = channel.read(int(message["content_bytes"]))
                    return OrderReport(facts=message["facts"], content=content)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError, KeyError) as error:
            raise NoDoor(home, str(error)) from error
    raise NoDoor(home, "it ended before the order was performed")


@contextmanager
def _connected(home: Home) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(_CONNECT_S)
        try:
            with _short_path(home) as path:
                connection.connect(path)
        except OSError as error:
            raise NoDoor(home, (error.strerror or str(error)).lower()) from error
        connection.settimeout(None)  # verifying a terabyte takes its time
        yield connection
