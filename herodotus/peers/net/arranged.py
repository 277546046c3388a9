"""How do two peers get a line where one of them, or neither, can be called? By arrangement, with a token from a relay.

Three ways (`docs/protocol/lines.md`): the called peer calls back; both open TCP to each other at once, from the ports
on which they listen, so that each one's packets open its own router for the other's; both dial the relay, which joins
the two connections. Each such connection begins, both ways, with `HLN1` and the token. What follows is the TLS of any
call, in which the called peer is the server, whoever opened TCP.

The ends do not agree on which connection it will be. Each way that is late runs beside the next one. The caller speaks
on the first connection whose token fits; the called peer answers on any.
"""

import errno
import os
import socket
import struct
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from random import Random
from typing import Final, TypeVar

import anyio
from anyio.abc import SocketStream

from dht.core.frames import Address as SocketAddress
from herodotus.core.relays import Arrangement, Way

MAGIC: Final = b"HLN1"
TOKEN_BYTES: Final = 16
PREAMBLE_BYTES: Final = len(MAGIC) + TOKEN_BYTES
OPEN_S: Final = 3.0
"""Both try so long at once: of 42 pairs of routers that let it pass, the slowest took 503 ms (20 ms a crossing)."""
AGAIN_MIN_S, AGAIN_MAX_S = 0.020, 0.120
"""After a refusal. By chance, or two routers that refuse in turn would do so for ever."""
JOIN_AFTER_S: Final = 1.0
"""Then the relay's line is opened beside: twice the slowest that worked."""
TOKEN_S: Final = 10.0
STAGGER_S: Final = 0.25
"""Between the lines of one peer (RFC 8305, 8)."""
AWAITED_MAX: Final = 256
_FOUND_MAX: Final = 4
JOINT_PIECE_BYTES: Final = 16 << 10
"""At a time and direction: what a relay holds of a joint."""
REMEMBERED_S: Final = 300.0
"""After its end a router may let in the host of a connection for so long (RFC 5382, REQ-5: four minutes at
least for one that is half closed)."""
DIALLED_MAX: Final = 64
"""A closed peer keeps lines at eight relays at most, and opens a few at once."""
_RESET = struct.pack("ii", 1, 0)
Tried = TypeVar("Tried")


Taker = Callable[[SocketStream], Awaitable[None]]
"""Takes over a connection that came to our port with the token; it has sent nothing yet."""


class AwaitedTokens:
    """Connections that our port expects, besides callers."""

    def __init__(self) -> None:
        self._takers: dict[bytes, Taker] = {}

    @contextmanager
    def awaiting(self, token: bytes, take: Taker) -> Iterator[None]:
        """Raises OSError where too many are awaited, or this one is."""
        if token in self._takers or len(self._takers) >= AWAITED_MAX:
            raise OSError(errno.EBUSY, "too many lines are being arranged")
        self._takers[token] = take
        try:
            yield
        finally:
            del self._takers[token]

    def taker(self, preamble: bytes) -> Taker | None:
        return self._takers.get(preamble[len(MAGIC) :]) if preamble.startswith(MAGIC) else None


async def first_of(
    lines: Sequence[Tried], opened: Callable[[Tried], Awaitable[bool]], stagger_s: float = STAGGER_S
) -> bool:
    """Tries one after the other, each `stagger_s` after the one before, until `opened` is true for one: a line that is
    late is not given up meanwhile. False when all have failed.
    """
    is_open = False
    async with anyio.create_task_group() as tasks:

        async def attempt(line: Tried, failed: anyio.Event) -> None:
            nonlocal is_open
            if await opened(line):
                is_open = True
                tasks.cancel_scope.cancel()
            failed.set()

        for line in lines:
            failed = anyio.Event()
            tasks.start_soon(attempt, line, failed)
            with anyio.move_on_after(stagger_s):
                await failed.wait()
    return is_open


class _Dialled:
    """The last connection from our port to a host."""

    __slots__ = ("is_over", "open_at", "sock")

    def __init__(self, sock: socket.socket) -> None:
        self.sock, self.is_over, self.open_at = sock, False, 0.0


class OwnPort:
    """The port on which we listen, as the place that arranged connections leave from."""

    def __init__(self, host: str, number: int, chance: Random) -> None:
        self._host, self._number, self._chance = host, number, chance
        self.awaited = AwaitedTokens()
        self._dialled: OrderedDict[str, _Dialled] = OrderedDict()  # by host

    async def found(self, arrangement: Arrangement, *, is_caller: bool) -> tuple[SocketStream, Way]:
        """The first connection to the other end, its preamble read, and how it came about.

        Runs until there is one, or is cancelled. Raises OSError where too many are awaited.
        """
        token, way, found = arrangement.token, arrangement.way, _Found()
        in_vain = anyio.Event()

        async def came(stream: SocketStream) -> None:
            await stream.send(MAGIC + token)
            await found.put(stream, way)

        async def call(line: SocketAddress) -> bool:
            return await self._tried(found, token, Way.CALL_BACK, anyio.connect_tcp(*line))

        async def call_lines() -> None:
            if not await first_of(arrangement.lines, call):
                in_vain.set()

        async def open_at_once(line: SocketAddress) -> None:
            with anyio.move_on_after(OPEN_S):
                await self._tried(found, token, Way.OPEN_AT_ONCE, self.open_at_once(line))

        async def join() -> None:
            with anyio.move_on_after(0 if way is Way.JOIN else JOIN_AFTER_S):
                await in_vain.wait()
            await self._tried(found, token, Way.JOIN, anyio.connect_tcp(*arrangement.relay))

        try:
            with self.awaited.awaiting(token, came):
                async with anyio.create_task_group() as tasks:
                    if way is Way.CALL_BACK and not is_caller:
                        tasks.start_soon(call_lines)
                    if way is Way.OPEN_AT_ONCE:
                        for line in arrangement.lines:
                            tasks.start_soon(open_at_once, line)
                        if not arrangement.lines:
                            in_vain.set()
                    tasks.start_soon(join)
                    first = await found.first()
                    tasks.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await found.close_others()
        return first

    async def _tried(
        self, found: "_Found", token: bytes, way: Way, opening: Coroutine[object, object, SocketStream]
    ) -> bool:
        try:
            stream = await opening
        except OSError:
            return False
        if not await _is_introduced(stream, token):
            return False
        await found.put(stream, way)
        return True

    async def open_at_once(self, line: SocketAddress) -> SocketStream:
        """A connection from our port to that one. It exists when both ends try, or when the other is just reached.

        One socket stays in SYN-SENT, so that the other's SYN meets it; only after a refusal there is a new one.
        """
        while True:
            sock = self.bound(line)
            try:
                if await _is_connected(sock, line):
                    return await SocketStream.from_socket(sock)
            except BaseException:
                sock.close()
                raise
            sock.close()
            await anyio.sleep(self._chance.uniform(AGAIN_MIN_S, AGAIN_MAX_S))

    async def dialled(self, line: SocketAddress) -> SocketStream:
        """A connection that leaves from our port, so that its other end sees how our router shows it.

        Raises OSError.
        """
        sock = self.bound(line)
        try:
            if await _is_connected(sock, line):
                return await SocketStream.from_socket(sock)
        except BaseException:
            sock.close()
            raise
        sock.close()
        raise ConnectionRefusedError(errno.ECONNREFUSED, "no connection from our own port")

    def has_dialled(self, host: str, now: float) -> bool:
        """Did a connection leave for it lately? The end of one that nobody saw end is taken to be now."""
        if host not in self._dialled:
            return False
        dialled = self._dialled[host]
        if not dialled.is_over:
            dialled.is_over, dialled.open_at = dialled.sock.fileno() < 0, now
        return now - dialled.open_at < REMEMBERED_S

    def bound(self, line: SocketAddress) -> socket.socket:
        """To our own port, in the line's family. Raises OSError."""
        family = socket.AF_INET6 if ":" in line[0] else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM)
        self._dialled[line[0]] = _Dialled(sock)
        self._dialled.move_to_end(line[0])
        if len(self._dialled) > DIALLED_MAX:
            self._dialled.popitem(last=False)
        try:
            sock.setblocking(False)
            share_port(sock)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            reset_at_close(sock)  # or the pair of ports would be taken for a minute
            is_ours = (":" in self._host) == (family == socket.AF_INET6)
            anywhere = "::" if family == socket.AF_INET6 else "0.0.0.0"  # noqa: S104  # the listener's own
            sock.bind((self._host if is_ours else anywhere, self._number))
        except OSError:
            sock.close()
            raise
        return sock


class _Found:
    """Connections whose token fits, in the order in which they came about."""

    def __init__(self) -> None:
        self._streams: list[tuple[SocketStream, Way]] = []
        self._came = anyio.Event()

    async def put(self, stream: SocketStream, way: Way) -> None:
        if len(self._streams) >= _FOUND_MAX:
            await anyio.aclose_forcefully(stream)
            return
        self._streams.append((stream, way))
        self._came.set()

    async def first(self) -> tuple[SocketStream, Way]:
        await self._came.wait()
        return self._streams.pop(0)

    async def close_others(self) -> None:
        for stream, _ in self._streams:
            await anyio.aclose_forcefully(stream)


async def _is_introduced(stream: SocketStream, token: bytes) -> bool:
    """Both ends say the token. Where the other says something else the stream is closed."""
    is_right = False
    try:
        await stream.send(MAGIC + token)
        is_right = await read_exactly(stream, PREAMBLE_BYTES) == MAGIC + token
    except (OSError, anyio.BrokenResourceError):
        pass
    finally:
        if not is_right:
            await anyio.aclose_forcefully(stream)
    return is_right


async def read_exactly(stream: SocketStream, size: int) -> bytes:
    """Raises OSError where the stream ends before."""
    got = b""
    try:
        while len(got) < size:
            got += await stream.receive(size - len(got))
    except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
        raise ConnectionResetError(errno.ECONNRESET, "the other end closed") from error
    return got


async def _is_connected(sock: socket.socket, line: SocketAddress) -> bool:
    """False where it was refused, or where the pair of ports is taken: then the other's SYN has met our listener."""
    return await _connect(sock, line) == 0 and sock.getsockname()[:2] != sock.getpeername()[:2]


async def _connect(sock: socket.socket, line: SocketAddress) -> int:
    """The number of what went wrong."""
    number = sock.connect_ex(line)
    if number == errno.EINPROGRESS:
        await anyio.wait_writable(sock)
        number = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    return number


async def connect_and_reset(line: SocketAddress) -> None:
    """Four packets, and nothing waits for more of them afterwards. Raises OSError."""
    with socket.socket(socket.AF_INET6 if ":" in line[0] else socket.AF_INET, socket.SOCK_STREAM) as sock:
        sock.setblocking(False)
        reset_at_close(sock)
        number = await _connect(sock, line)
        if number:
            raise OSError(number, os.strerror(number))


def share_port(sock: socket.socket) -> None:
    """Before it is bound: a listener and connections that leave from its port share the number."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)


def reset_at_close(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)


class TcpJoint:
    """Implements `Joint`: two connections of a relay with one token."""

    def __init__(self, one: SocketStream, other: SocketStream) -> None:
        self._ends = one, other
        self._is_moving = False

    async def carry(self, admits: Callable[[int], Awaitable[None]], idle_s: float) -> None:
        async with anyio.create_task_group() as tasks:

            async def pass_on(source: SocketStream, target: SocketStream) -> None:
                try:
                    while True:
                        data = await source.receive(JOINT_PIECE_BYTES)
                        self._is_moving = True
                        await admits(len(data))
                        await target.send(data)
                except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                    tasks.cancel_scope.cancel()

            one, other = self._ends
            tasks.start_soon(pass_on, one, other)
            tasks.start_soon(pass_on, other, one)
            while True:
                await anyio.sleep(idle_s)
                if not self._is_moving:
                    tasks.cancel_scope.cancel()
                self._is_moving = False


@asynccontextmanager
async def both_ends(awaited: AwaitedTokens, token: bytes) -> AsyncIterator[TcpJoint | None]:
    """Both have said the token to us; each is told it once the other is there. They are closed at the end.

    Raises OSError where too many are awaited.
    """
    ends: list[SocketStream] = []
    are_both = anyio.Event()

    async def came(stream: SocketStream) -> None:
        if len(ends) == 2:  # the token has had its use
            await anyio.aclose_forcefully(stream)
            return
        ends.append(stream)
        if len(ends) == 2:
            are_both.set()

    try:
        with awaited.awaiting(token, came), anyio.move_on_after(TOKEN_S):
            await are_both.wait()
        if not are_both.is_set():
            yield None
            return
        one, other = ends
        try:
            await one.send(MAGIC + token)
            await other.send(MAGIC + token)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            yield None
            return
        yield TcpJoint(one, other)
    finally:
        with anyio.CancelScope(shield=True):
            for stream in ends:
                await anyio.aclose_forcefully(stream)
