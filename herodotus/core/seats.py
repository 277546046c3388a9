"""How are remembered seats kept over a restart? The bytes of `state/seats` (docs/protocol/seats.md).

`dht.core.seats` says what a seat is. A peer that forgot all of them asks others, as a newcomer does; so a damaged file
costs some datagrams, and the peer's own seat is in its last record.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

from dht.core.ids import IPV4_BYTES, IPV6_BYTES, IPV6_PREFIX_BYTES, PeerKey, anchor_of
from dht.core.records import Birth, is_birth
from dht.core.seats import DEAD_S, DEPARTED_S, OWN_MARGIN, SEATS_MAX, Remembered

MAGIC: Final = b"hoseats"
VERSION: Final = b"1"
CHECK_BYTES: Final = 8
_HEAD: Final = struct.Struct(">8sB5sI")
_ROW: Final = struct.Struct(">32sH5sBB")
FILE_BYTES_MAX: Final = _HEAD.size + (_ROW.size + IPV6_PREFIX_BYTES) * SEATS_MAX + CHECK_BYTES
_TIME_MAX: Final = (1 << 40) - 1


class DamagedSeatsError(Exception):
    """These bytes are no seats of a version that we read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedSeats:
    wall_s: int = 0
    """When they were written, by the calendar; 0: never."""
    has_departed: bool = False
    """The peer stopped then, and said goodbye."""
    known: Mapping[PeerKey, Remembered] = field(default_factory=dict)

    def keeps_own(self, now: float) -> bool:
        """Is our own seat still ours? The others forget it a little later than we do."""
        most = (DEPARTED_S if self.has_departed else DEAD_S) * OWN_MARGIN
        return bool(self.wall_s) and now - self.wall_s < most


def encode(saved: SavedSeats) -> bytes:
    content = _HEAD.pack(MAGIC + VERSION, saved.has_departed, _time(saved.wall_s), len(saved.known))
    for peer, one in sorted(saved.known.items()):
        host = anchor_of(one.birth.host)
        content += _ROW.pack(peer, one.birth.day, _time(one.gone_s), one.has_departed, len(host)) + host
    return content + blake2b(content, digest_size=CHECK_BYTES).digest()


def _time(seconds: int) -> bytes:
    return min(max(seconds, 0), _TIME_MAX).to_bytes(5, "big")


def is_of_newer_release(data: bytes) -> bool:
    return data[:7] == MAGIC and data[7:8] > VERSION


def decode(data: bytes) -> SavedSeats:
    """Raises DamagedSeatsError."""
    content, check = data[:-CHECK_BYTES], data[-CHECK_BYTES:]
    if len(content) < _HEAD.size or blake2b(content, digest_size=CHECK_BYTES).digest() != check:
        raise DamagedSeatsError("its checksum is wrong")
    magic, has_departed, wall, count = _HEAD.unpack_from(content)
    if magic != MAGIC + VERSION or count > SEATS_MAX:
        raise DamagedSeatsError("it is not of this format")
    known: dict[PeerKey, Remembered] = {}
    at = _HEAD.size
    for _ in range(count):
        if at + _ROW.size > len(content):
            raise DamagedSeatsError("it ends too early")
        key, day, gone, departed, length = _ROW.unpack_from(content, at)
        at += _ROW.size
        host = content[at : at + length]
        at += length
        if length == IPV6_PREFIX_BYTES:
            host = host.ljust(IPV6_BYTES, b"\0")
        if length not in (IPV4_BYTES, IPV6_PREFIX_BYTES) or not is_birth(host):
            raise DamagedSeatsError("a seat is from no host")
        known[PeerKey(key)] = Remembered(
            Birth(host=host, day=day), int.from_bytes(gone, "big"), bool(departed)
        )
    if at != len(content):
        raise DamagedSeatsError("it goes on behind its end")
    return SavedSeats(wall_s=int.from_bytes(wall, "big"), has_departed=bool(has_departed), known=known)
