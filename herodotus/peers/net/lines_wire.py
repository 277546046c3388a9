"""How do peers and relays speak of arranged lines? The messages of `docs/protocol/lines.md`, in MessagePack."""

from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from dht.core.frames import Address as SocketAddress
from dht.endpoint import packed_address, socket_address
from herodotus.core.errors import MalformedError
from herodotus.core.relays import Mapping, Way
from herodotus.peers.calls import encode, reader
from herodotus.peers.net.arranged import TOKEN_BYTES

WAIT: Final = "lines.wait"
TELL: Final = "lines.tell"
KNOCK: Final = "lines.knock"
VERSION: Final = 1
LINES_MAX: Final = 4

PortField = Annotated[int, Meta(ge=0, lt=1 << 16)]
HostField = Annotated[bytes, Meta(min_length=4, max_length=16)]
KeyField = Annotated[bytes, Meta(min_length=32, max_length=32)]
TokenField = Annotated[bytes, Meta(min_length=TOKEN_BYTES, max_length=TOKEN_BYTES)]
VersionField = Annotated[int, Meta(ge=VERSION, le=VERSION)]


class WireLine(Struct, array_like=True, frozen=True):
    host: HostField
    port: Annotated[int, Meta(ge=1, lt=1 << 16)]


LinesField = Annotated[tuple[WireLine, ...], Meta(max_length=LINES_MAX)]


class Waiting(Struct, array_like=True, frozen=True):
    """Body of `lines.wait` and `lines.tell`: how the asker's router shows its port, as far as the asker knows."""

    mapping: Mapping
    version: VersionField = VERSION


class Alive(Struct, array_like=True, frozen=True, tag=0):
    """The line is kept."""


class Seen(Struct, array_like=True, frozen=True, tag=1):
    """Where the relay sees the asker."""

    host: HostField
    port: PortField


class Knocked(Struct, array_like=True, frozen=True, tag=2):
    """Somebody wants to speak to the peer that waits."""

    token: TokenField
    caller: KeyField
    lines: LinesField
    way: Way


class Knock(Struct, array_like=True, frozen=True):
    """Body of `lines.knock`."""

    called: KeyField
    port: PortField
    """Ours, as our router shows it; 0 where it does not matter."""
    mapping: Mapping
    wanted: Way | None
    """JOIN: other ways to this peer were in vain lately."""
    version: VersionField = VERSION


class Arranged(Struct, array_like=True, frozen=True):
    """The answer to a knock."""

    token: TokenField
    lines: LinesField
    """Where the called peer is seen."""
    way: Way
    version: VersionField = VERSION


read_waiting = reader(Waiting)
Piece = Alive | Seen | Knocked
_pieces: msgspec.msgpack.Decoder[Piece] = msgspec.msgpack.Decoder(Piece)
read_knock = reader(Knock)
read_arranged = reader(Arranged)
pack = encode


def read_piece(body: bytes) -> Piece:
    """Raises MalformedError."""
    try:
        return _pieces.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedError(str(error)[:200]) from error


def wire_lines(lines: tuple[SocketAddress, ...]) -> tuple[WireLine, ...]:
    return tuple(WireLine(at.host, at.port) for at in map(packed_address, lines[:LINES_MAX]))


def socket_lines(lines: tuple[WireLine, ...]) -> tuple[SocketAddress, ...]:
    """Of what another peer says; a host of an odd length is left out."""
    return tuple(socket_address(one.host, one.port) for one in lines if len(one.host) in (4, 16))
