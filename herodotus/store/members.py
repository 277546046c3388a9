"""How are records compressed, and how are compressed members taken apart without trusting them?

A member is one gzip member or one zstd frame. Each decodes alone, so a record is found by its offset and a
damaged one costs only itself. Decoding is bounded by the caller: a bomb ends as an error, not as a full
memory.
"""

import hashlib
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from threading import local
from typing import IO, Any, cast

import zstandard
from isal import igzip_lib, isal_zlib

from herodotus.core.errors import MalformedRecordError
from herodotus.core.layout import Compression
from herodotus.core.warc import BLOCK_BYTES_MAX, COMPANIONS_BYTES_MAX
from herodotus.store.spools import Lying, OnDisk

GZIP_MAGIC, ZSTD_MAGIC = Compression.GZIP.magic, Compression.ZSTD.magic
MEMBER_BYTES_MAX = (
    BLOCK_BYTES_MAX + 2 * COMPANIONS_BYTES_MAX
)  # a capture with all that belongs to it, and heads
LARGE_BYTES = 8 << 20
"""A member that holds more is not decoded as a whole."""
DICTIONARY_MAGIC = b"\x5d\x2a\x4d\x18"
DICTIONARY_BYTES_MAX = 4 * 1024 * 1024
_SAMPLES_MIN = 100  # fewer, and the dictionary costs more than it saves
ZSTD_LEVEL = 3  # above 6 costs 4 to 40 times the time for 1 to 6 percent
GZIP_WBITS = 31
_SMALL_BYTES = 1_024
_PLAIN_GZIP = GZIP_MAGIC + b"\0"
_PACKED_SHARE, _PACKED_BYTES = 64, 512
"""A member has so much more than what it holds, at most. What does not pack takes 23 bytes more and 5 for 64 kB; of
less than a kilobyte, `gzip_quickly` makes up to 373 bytes more."""
GzipError = cast("type[Exception]", igzip_lib.IsalError)  # its stub calls the class an instance
_READ_BYTES = 64 * 1024
_PASSED_BYTES = 256 * 1024
_FRAME_HEAD_BYTES = 18
_WINDOW_BYTES = 32 * 1024  # a member of a page has about 3 kB
_PIECE_BYTES = 4 * 1024 * 1024
_TRIED_BYTES = 1024 * 1024
_WINDOW_BYTES_MAX = 128 * 1024 * 1024  # what `zstd -d` accepts without being asked

_per_thread = local()  # zstandard's objects must not be shared between threads


class MemberTooLargeError(MalformedRecordError):
    """It holds more than its reader takes at once."""


class CutOffError(MalformedRecordError):
    """So far nothing is wrong, but there is more of it elsewhere, or nowhere."""


def checksum(data: bytes) -> int:
    """CRC-32, seven times as fast as zlib's."""
    return isal_zlib.crc32(data)


def gzip_member(data: bytes) -> bytes:
    """ISA-L's level 1: four times zlib's speed, a tenth more bytes; sealing compresses again and better."""
    return isal_zlib.compress(data, 1, GZIP_WBITS)


def gzip_quickly(data: bytes) -> bytes:
    """For the log: of a small record nearly all the time at level 1 is preparation (8 us; level 0 takes 1)."""
    return isal_zlib.compress(data, 0 if len(data) < _SMALL_BYTES else 1, GZIP_WBITS)


def gzip_stored(data: bytes) -> bytes:
    """For bytes that are compressed already: gzip without compression."""
    deflate = zlib.compressobj(0, zlib.DEFLATED, GZIP_WBITS)
    return deflate.compress(data) + deflate.flush()


def gzip_in_parts(parts: Iterable[bytes], *, is_stored: bool) -> Iterator[bytes]:
    """As the two above, of a record that is too large to be put together."""
    deflate = zlib.compressobj(0, zlib.DEFLATED, GZIP_WBITS) if is_stored else _isal_deflate()
    for part in parts:
        yield deflate.compress(part)
    yield deflate.flush()


def _isal_deflate() -> Any:
    return isal_zlib.compressobj(1, isal_zlib.DEFLATED, GZIP_WBITS)


def member_of_codec(codec: Compression, data: bytes) -> bytes:
    """As a segment has it when nothing is known of the content."""
    match codec:
        case Compression.GZIP:
            return gzip_member(data)
        case Compression.ZSTD:
            return zstd_frame(data)


class Dictionary:
    """The common content of a segment's frames, stored once at its start (IIPC's `.warc.zst`)."""

    __slots__ = ("_data", "_of_thread", "content")

    def __init__(self, content: bytes) -> None:
        """Raises MalformedRecordError if it is not a record."""
        self.content = content
        try:
            self._data = zstandard.ZstdCompressionDict(content, dict_type=zstandard.DICT_TYPE_FULLDICT)
            zstandard.ZstdDecompressor(dict_data=self._data)
        except (zstandard.ZstdError, ValueError) as error:
            raise MalformedRecordError(f"broken dictionary: {error}") from error
        self._of_thread = local()

    @classmethod
    def train(cls, samples: Sequence[bytes], bytes_max: int) -> "Dictionary | None":
        """None when there is too little to learn from."""
        if len(samples) < _SAMPLES_MIN:
            return None
        try:
            return cls(zstandard.train_dictionary(bytes_max, list(samples)).as_bytes())
        except (zstandard.ZstdError, MalformedRecordError):
            return None

    @property
    def sha256(self) -> bytes:
        return hashlib.sha256(self.content).digest()

    @property
    def frame(self) -> bytes:
        """As the file begins: a frame that every zstd decoder passes over."""
        return DICTIONARY_MAGIC + len(self.content).to_bytes(4, "little") + self.content

    def encode(self, data: bytes) -> bytes:
        compressor: zstandard.ZstdCompressor | None = getattr(self._of_thread, "compressor", None)
        if compressor is None:
            compressor = self._of_thread.compressor = zstandard.ZstdCompressor(
                level=ZSTD_LEVEL, dict_data=self._data, write_checksum=True, write_content_size=True
            )
        return compressor.compress(data)

    def decompressor(self) -> zstandard.ZstdDecompressor:
        found: zstandard.ZstdDecompressor | None = getattr(self._of_thread, "decompressor", None)
        if found is None:
            found = self._of_thread.decompressor = self.new_decompressor()
        return found

    def new_decompressor(self) -> zstandard.ZstdDecompressor:
        return zstandard.ZstdDecompressor(dict_data=self._data, max_window_size=_WINDOW_BYTES_MAX)


def dictionary_bytes_at_start(read_at: Callable[[int, int], bytes]) -> bytes | None:
    """Of a file that begins with one."""
    head = read_at(0, 8)
    if len(head) < 8 or not head.startswith(DICTIONARY_MAGIC):
        return None
    size = int.from_bytes(head[4:], "little")
    return read_at(8, size) if size <= DICTIONARY_BYTES_MAX else None


def zstd_frame(data: bytes, level: int = ZSTD_LEVEL) -> bytes:
    """One frame that states its content's size and carries a checksum, readable by `zstd -dc` with nothing
    else."""
    name = f"compressor{level}"
    compressor: zstandard.ZstdCompressor | None = getattr(_per_thread, name, None)
    if compressor is None:
        compressor = zstandard.ZstdCompressor(level=level, write_checksum=True, write_content_size=True)
        setattr(_per_thread, name, compressor)
    return compressor.compress(data)


def decode_member(
    data: bytes, bytes_max: int = MEMBER_BYTES_MAX, dictionary: Dictionary | None = None
) -> tuple[bytes, int]:
    """The content of the member that `data` starts with, and how many bytes the member has."""
    if data.startswith(GZIP_MAGIC):
        return _decode_gzip(data, bytes_max)
    if data.startswith(ZSTD_MAGIC):
        return _decode_zstd(data, bytes_max, dictionary)
    raise MalformedRecordError("neither a gzip member nor a zstd frame")


def plain_members(data: bytes, bytes_max: int, count_max: int) -> list[tuple[bytes, bytes]] | None:
    """Each gzip member and what it holds, where they are as this archive writes them: no name, comment or extra field
    at which nobody would look, and packed. None otherwise, and where they hold more than `bytes_max`.

    By zlib, as by other tools: ISA-L's also reads some streams that zlib does not."""
    found: list[tuple[bytes, bytes]] = []
    left = bytes_max
    while data:
        if not data.startswith(_PLAIN_GZIP) or len(found) >= count_max:
            return None
        inflate = zlib.decompressobj(GZIP_WBITS)
        try:
            content = inflate.decompress(data, left + 1)
        except zlib.error:
            return None
        left -= len(content)
        if not inflate.eof or left < 0:
            return None
        rest = inflate.unused_data
        member = data[: len(data) - len(rest)]
        if len(member) > len(content) + len(content) // _PACKED_SHARE + _PACKED_BYTES:
            return None
        found.append((member, content))
        data = rest
    return found or None


def check_members(data: bytes, dictionary: Dictionary | None = None) -> None:
    """MalformedRecordError unless it is nothing but whole members."""
    while data:
        data = data[decode_member(data, dictionary=dictionary)[1] :]


def first_bytes(data: bytes, count: int, dictionary: Dictionary | None = None) -> bytes:
    """The first bytes of the content of the member at the start of `data`. Fewer or none if it is not a member."""
    try:
        if data.startswith(GZIP_MAGIC):
            return isal_zlib.decompressobj(GZIP_WBITS).decompress(data, count)
        whole = _zstd_decompressor() if dictionary is None else dictionary.decompressor()
        with whole.stream_reader(data, read_across_frames=False) as reader:
            found: bytes = reader.read(count)
            return found
    except (GzipError, zstandard.ZstdError):
        return b""


def is_within(lying: Lying, bytes_max: int) -> bool:
    """Whether the gzip members that `data` is made of hold no more than that; read only so far. What is broken is left
    to its reader."""
    if len(lying) > bytes_max + bytes_max // 64 + 64 * 1024:
        return False  # only what does not pack is as long
    rest: bytes | bytearray | memoryview = lying[:] if isinstance(lying, OnDisk) else lying
    left = bytes_max
    try:
        while rest and left >= 0:
            inflate = isal_zlib.decompressobj(GZIP_WBITS)
            while not inflate.eof and rest and left >= 0:
                left -= len(inflate.decompress(rest, left + 1))
                rest = inflate.unconsumed_tail
            rest = inflate.unused_data
    except GzipError:
        pass
    return left >= 0


def decoded_sizes(
    read_at: Callable[[int, int], bytes], start: int, end: int, dictionary: Dictionary | None = None
) -> Iterator[int]:
    """How many bytes the member at a place holds, piece by piece and as far as it is whole; the asker can stop."""
    source = _Source(read_at, start, end)
    magic = read_at(start, len(ZSTD_MAGIC))
    try:
        if magic.startswith(GZIP_MAGIC):
            yield from _gzip_sizes(source)
        elif magic == ZSTD_MAGIC:
            whole = _zstd_decompressor() if dictionary is None else dictionary.decompressor()
            with whole.stream_reader(
                cast("IO[bytes]", source), read_size=_WINDOW_BYTES, read_across_frames=False
            ) as reader:
                while found := reader.read(_TRIED_BYTES):
                    yield len(found)
    except (GzipError, zstandard.ZstdError):
        return


class _Source:
    """A part of a file, from its start on."""

    def __init__(self, read_at: Callable[[int, int], bytes], start: int, end: int) -> None:
        self._read_at, self._at, self._end = read_at, start, end

    def read(self, size: int) -> bytes:
        data = self._read_at(self._at, min(size, self._end - self._at))
        self._at += len(data)
        return data


def _gzip_sizes(source: _Source) -> Iterator[int]:
    inflate = isal_zlib.decompressobj(GZIP_WBITS)
    while not inflate.eof and (data := inflate.unconsumed_tail or source.read(_WINDOW_BYTES)):
        yield len(inflate.decompress(data, _TRIED_BYTES))


def _decode_gzip(data: bytes, bytes_max: int) -> tuple[bytes, int]:
    inflate = isal_zlib.decompressobj(GZIP_WBITS)
    try:
        content = inflate.decompress(data, bytes_max + 1)
    except GzipError as error:
        raise MalformedRecordError(f"broken gzip member: {error}") from error
    if len(content) > bytes_max:
        raise MemberTooLargeError(f"the member holds more than {bytes_max} bytes")
    if not inflate.eof:
        raise CutOffError("the gzip member is cut off")
    return content, len(data) - len(inflate.unused_data)


def _decode_zstd(data: bytes, bytes_max: int, dictionary: Dictionary | None) -> tuple[bytes, int]:
    try:
        whole = _zstd_decompressor() if dictionary is None else dictionary.decompressor()
        size = zstandard.frame_content_size(data)
        if size > bytes_max:
            raise MemberTooLargeError(f"the member holds more than {bytes_max} bytes")
        decompressor = whole.decompressobj()
        content = decompressor.decompress(data) if size >= 0 else _decode_unsized(whole, data, bytes_max)
    except zstandard.ZstdError as error:
        raise MalformedRecordError(f"broken zstd frame: {error}") from error
    if size >= 0:
        if not decompressor.eof or len(content) != size:
            raise CutOffError("the zstd frame is cut off")
        return content, len(data) - len(decompressor.unused_data)
    return content, zstd_frame_length(data)


def _zstd_decompressor() -> zstandard.ZstdDecompressor:
    decompressor: zstandard.ZstdDecompressor | None = getattr(_per_thread, "decompressor", None)
    if decompressor is None:
        decompressor = zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES_MAX)
        _per_thread.decompressor = decompressor
    return decompressor


def _decode_unsized(decompressor: zstandard.ZstdDecompressor, data: bytes, bytes_max: int) -> bytes:
    """A frame that does not state its size could hold anything: read it up to the bound."""
    with decompressor.stream_reader(data, read_across_frames=False) as reader:
        content: bytes = reader.read(bytes_max + 1)
    if len(content) > bytes_max:
        raise MemberTooLargeError(f"the member holds more than {bytes_max} bytes")
    return content


class PassingMember:
    """The content of the member at a place, in pieces; `end` and `size` are of what was read. The pieces come once."""

    def __init__(
        self, data: Lying, at: int, bytes_max: int = MEMBER_BYTES_MAX, dictionary: Dictionary | None = None
    ) -> None:
        self._data, self.end, self._left = data, at, bytes_max
        self._limit = len(data)
        self.size = 0
        magic = bytes(data[at : at + len(ZSTD_MAGIC)])
        self._pieces = self._bounded(self._zstd(dictionary) if magic == ZSTD_MAGIC else self._gzip())

    def __iter__(self) -> Iterator[bytes]:
        return self._pieces

    def _bounded(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            self.size += len(piece)
            if self.size > self._left:
                raise MemberTooLargeError(f"the member holds more than {self._left} bytes")
            if piece:
                yield piece

    def read(self, size: int) -> bytes:
        """Of the compressed bytes, what comes next."""
        data = bytes(self._data[self.end : min(self._limit, self.end + min(size, _READ_BYTES))])
        self.end += len(data)
        return data

    def _gzip(self) -> Iterator[bytes]:
        inflate = isal_zlib.decompressobj(GZIP_WBITS)
        rest = b""
        try:
            while not inflate.eof:
                rest = rest or self.read(_READ_BYTES)
                if not rest:
                    raise CutOffError("the gzip member is cut off")
                yield inflate.decompress(rest, _PASSED_BYTES)
                rest = inflate.unconsumed_tail
        except GzipError as error:
            raise MalformedRecordError(f"broken gzip member: {error}") from error
        self.end -= len(inflate.unused_data)

    def _zstd(self, dictionary: Dictionary | None) -> Iterator[bytes]:
        # Its reader goes on to the next frame, if it is given any of it.
        self._limit = self.end + zstd_frame_length(_from(self._data, self.end))
        size = zstandard.frame_content_size(bytes(self._data[self.end : self.end + _FRAME_HEAD_BYTES]))
        # Not the thread's own, which others use between two pieces.
        whole = (
            zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES_MAX)
            if dictionary is None
            else dictionary.new_decompressor()
        )
        try:
            with whole.stream_reader(cast("IO[bytes]", self)) as reader:
                while piece := reader.read(_PASSED_BYTES):
                    yield piece
        except zstandard.ZstdError as error:
            raise MalformedRecordError(f"broken zstd frame: {error}") from error
        if size >= 0 and self.size != size:
            raise CutOffError("the zstd frame is cut off")


def _from(data: Lying, at: int) -> OnDisk:
    return OnDisk(lambda offset, length: bytes(data[at + offset : at + offset + length]), len(data) - at)


def zstd_frame_in_pieces(content: Iterable[bytes], size: int, level: int = ZSTD_LEVEL) -> Iterator[bytes]:
    """As `zstd_frame`, of content of that size."""
    compressor = zstandard.ZstdCompressor(level=level, write_checksum=True, write_content_size=True)
    compress = compressor.compressobj(size=size)
    for piece in content:
        yield compress.compress(piece)
    yield compress.flush()


def zstd_frame_length(data: Lying) -> int:
    """The length of the frame that `data` starts with, by walking its blocks (RFC 8878, 3.1.1) without
    decoding."""
    try:
        head = bytes(data[:_FRAME_HEAD_BYTES])
        parameters = zstandard.get_frame_parameters(head)
        at = zstandard.frame_header_size(head)
    except zstandard.ZstdError as error:
        raise MalformedRecordError(f"broken zstd frame: {error}") from error
    while True:
        header = data[at : at + 3]
        if len(header) < 3:
            raise CutOffError("the zstd frame is cut off")
        bits = int.from_bytes(header, "little")
        is_last, block_type, size = bits & 1, bits >> 1 & 3, bits >> 3
        if block_type == 3:
            raise MalformedRecordError("broken zstd frame: reserved block type")
        at += 3 + (1 if block_type == 1 else size)
        if is_last:
            break
    at += 4 if parameters.has_checksum else 0
    if at > len(data):
        raise CutOffError("the zstd frame is cut off")
    return at


def is_skippable(data: bytes) -> bool:
    """A zstd skippable frame (a dictionary of `.warc.zst` files lies in one)."""
    return data[1:4] == b"\x2a\x4d\x18" and data[0] & 0xF0 == 0x50


def scan_members(
    read_at: Callable[[int, int], bytes],
    start: int,
    end: int,
    dictionary: Dictionary | None = None,
    bytes_max: int = MEMBER_BYTES_MAX,
) -> Iterator[tuple[int, int, bytes]]:
    """Offset, length and content of each member between two offsets; raises at the first that is not whole."""
    for at, length, content in scan_passing(read_at, start, end, dictionary, bytes_max, bytes_max):
        assert content is not None, "none is too large to be held"
        yield at, length, content


def scan_passing(
    read_at: Callable[[int, int], bytes],
    start: int,
    end: int,
    dictionary: Dictionary | None = None,
    bytes_max: int = MEMBER_BYTES_MAX,
    held_max: int = LARGE_BYTES,
) -> Iterator[tuple[int, int, bytes | None]]:
    """The same; of a member that is too large to be held the content was checked by the codec, and is not given.

    Bytes are taken in large pieces and offered to the decoder in small windows, as a decoder copies what it
    leaves over; a window grows only for a member that does not fit. A dictionary at the start is passed over.
    """
    if dictionary is not None and start < len(dictionary.frame):
        start = len(dictionary.frame)
    piece_at, piece = start, b""
    at = start
    while at < end:
        window = _WINDOW_BYTES
        decoded: tuple[bytes | None, int] | None = None
        while decoded is None:
            if at + window > piece_at + len(piece) and piece_at + len(piece) < end:
                piece_at, piece = at, read_at(at, min(max(window, _PIECE_BYTES), end - at))
                if not piece:
                    raise MalformedRecordError("the file ends early")
            offered = piece[at - piece_at : at - piece_at + window]
            try:
                decoded = decode_member(offered, held_max, dictionary)
            except CutOffError:
                if at + len(offered) >= end or window > MEMBER_BYTES_MAX:
                    raise
                window *= 4
                if window > held_max < bytes_max:
                    decoded = None, _passed(read_at, at, end, dictionary, bytes_max)
            except MemberTooLargeError:
                if held_max >= bytes_max:
                    raise
                decoded = None, _passed(read_at, at, end, dictionary, bytes_max)
        content, length = decoded
        yield at, length, content
        at += length


def _passed(
    read_at: Callable[[int, int], bytes], at: int, end: int, dictionary: Dictionary | None, bytes_max: int
) -> int:
    """The length of a member that is read piece by piece."""
    lying = OnDisk(lambda offset, length: read_at(at + offset, length), end - at)
    member = PassingMember(lying, 0, bytes_max, dictionary)
    for _ in member:
        pass
    return member.end
