"""What records does a WARC or ARC file of anybody hold? Read as a stream, trusting nothing.

Plain, gzip (one member to the record, or one for all) and zstd (also with the dictionary in its leading frame).
Memory is bounded, whatever sizes the file states. Broken parts are reported with their offset in the file, and
reading continues at the next apparent start of a member or a record.
"""

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Protocol

import zstandard

from herodotus.core.errors import MalformedRecordError
from herodotus.core.warc import (
    BLOCK_BYTES_MAX,
    HEAD_BYTES_MAX,
    WarcRecord,
    derive_record_id,
    format_date,
    parse_digits,
    split_head,
)
from herodotus.store.members import GZIP_MAGIC, ZSTD_MAGIC, is_skippable

PIECE_BYTES = 64 * 1024
OUTPUT_BYTES_MAX = 1024 * 1024  # decoded at a time, whatever the input expands to
DICTIONARY_BYTES_MAX = 16 * 1024 * 1024
_ARC_LINE = re.compile(rb"(\S{1,16384}) (\S{1,64}) (\d{8,14}) (\S{1,256})(?: \S+ \S+ \d+ \S+)? (\d{1,12})\n")
# Two, each with a beginning that is looked for quickly: a file of rubbish may be large.
_WARC_START = re.compile(rb"WARC/[01]\.\d+\r?\n")
_ARC_START = re.compile(rb"\n(?:https?|ftp|dns|filedesc):(?://?)?\S{1,16384} [0-9a-f.:]{1,64} \d{14} ")


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignRecord:
    record: WarcRecord
    offset: int
    """In the file: of the member where there are members, else of the record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    offset: int
    reason: str


class _Decoder(Protocol):
    @property
    def is_done(self) -> bool:
        """The member ended."""
        ...

    @property
    def unused(self) -> bytes: ...

    def decode(self, data: bytes) -> Iterator[bytes]: ...


class _Gzip:
    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(31)

    @property
    def is_done(self) -> bool:
        return self._inflate.eof

    @property
    def unused(self) -> bytes:
        return self._inflate.unused_data

    def decode(self, data: bytes) -> Iterator[bytes]:
        rest = data
        while True:
            yield self._inflate.decompress(rest, OUTPUT_BYTES_MAX)
            rest = self._inflate.unconsumed_tail
            if not rest or self._inflate.eof:  # at the end zlib still shows the next member there
                return


class _Zstd:
    """zstandard's push interface has no bound on its output, so little input is given at a time."""

    def __init__(self, dictionary: zstandard.ZstdCompressionDict | None) -> None:
        self._decompress = zstandard.ZstdDecompressor(
            dict_data=dictionary, max_window_size=128 * 1024 * 1024
        ).decompressobj()
        self._left = b""

    @property
    def is_done(self) -> bool:
        return self._decompress.eof

    @property
    def unused(self) -> bytes:
        return self._decompress.unused_data + self._left

    def decode(self, data: bytes) -> Iterator[bytes]:
        # A block of zstd expands to at most 128 KiB and takes at least 4 bytes.
        step = 32
        for at in range(0, len(data), step):
            if self._decompress.eof:
                self._left += data[at:]
                return
            yield self._decompress.decompress(data[at : at + step])


class RecordReader:
    """Iterate over it: records and broken places, in order. `offset` says how far the file was read."""

    def __init__(self, file: BinaryIO, start: int = 0) -> None:
        self._file = file
        self._input = b""
        self._at_end = False
        self._position = start
        """Of the input's first byte in the file."""
        self._decoder: _Decoder | None = None
        self._member_at = start
        self._marks: list[tuple[int, int]] = []
        """Where in all decoded bytes each member starts, and where in the file."""
        self._content = bytearray()
        self._content_at = 0
        """Of the content's first byte in all decoded bytes."""
        self._pieces: Iterator[bytes] | None = None
        self._dictionary: zstandard.ZstdCompressionDict | None = None
        if start:
            file.seek(0)
            head = file.read(PIECE_BYTES)
            if is_skippable(head):
                self._read_dictionary_from(file)
            file.seek(start)
        self._kind = self._sniff()

    # -- bytes --------------------------------------------------------------------------------------------

    def _sniff(self) -> str:
        self._read_input(18)
        if is_skippable(self._input):
            self._take_dictionary()
        if self._input.startswith(GZIP_MAGIC[:2]):
            return "gzip"
        return "zstd" if self._input.startswith(ZSTD_MAGIC) else "plain"

    def _read_dictionary_from(self, file: BinaryIO) -> None:
        file.seek(4)
        size = int.from_bytes(file.read(4), "little")
        self._set_dictionary(file.read(min(size, DICTIONARY_BYTES_MAX)))

    def _take_dictionary(self) -> None:
        size = int.from_bytes(self._input[4:8], "little")
        if size > DICTIONARY_BYTES_MAX:
            raise MalformedRecordError(f"a dictionary of {size} bytes")
        self._read_input(8 + size)
        self._set_dictionary(self._input[8 : 8 + size])
        self._drop_input(8 + size)
        self._member_at = self._position
        self._read_input(18)

    def _set_dictionary(self, data: bytes) -> None:
        try:
            if data.startswith(ZSTD_MAGIC):
                data = zstandard.ZstdDecompressor().decompress(data, max_output_size=DICTIONARY_BYTES_MAX)
            self._dictionary = zstandard.ZstdCompressionDict(data)
        except (zstandard.ZstdError, MemoryError) as error:
            raise MalformedRecordError(f"broken dictionary: {error}") from error

    def _read_input(self, wanted: int) -> None:
        while len(self._input) < wanted and not self._at_end:
            piece = self._file.read(max(PIECE_BYTES, wanted - len(self._input)))
            self._at_end = not piece
            self._input += piece

    def _drop_input(self, count: int) -> None:
        self._input = self._input[count:]
        self._position += count

    def _grow(self) -> bool:
        """Decode some more; False at the end of the file. Raises MalformedRecordError at a broken member."""
        while True:
            if self._pieces is not None:
                # Not by a `for`, which closes a generator that it leaves: there is more in it.
                while (piece := next(self._pieces, None)) is not None:
                    if piece:
                        self._content += piece
                        return True
                self._pieces = None
                if self._decoder is not None and self._decoder.is_done:
                    self._end_member(self._decoder)
            self._read_input(1)
            if not self._input:
                if self._decoder is not None:
                    self._decoder = None
                    raise MalformedRecordError("the file ends within a member")
                return False
            if self._kind == "plain":
                self._content += self._input
                self._drop_input(len(self._input))
                return True
            if self._decoder is None:
                self._begin_member()
            assert self._decoder is not None
            data, self._input = self._input, b""
            self._position += len(data)
            self._pieces = self._guarded(self._decoder.decode(data))

    def _guarded(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        try:
            yield from pieces
        except (zlib.error, zstandard.ZstdError) as error:
            raise MalformedRecordError(f"broken member: {error}") from error

    def _begin_member(self) -> None:
        self._read_input(18)
        magic = GZIP_MAGIC[:2] if self._kind == "gzip" else ZSTD_MAGIC
        if not self._input.startswith(magic):
            raise MalformedRecordError("no member starts here")
        self._member_at = self._position
        self._marks.append((self._content_at + len(self._content), self._member_at))
        self._decoder = _Gzip() if self._kind == "gzip" else _Zstd(self._dictionary)

    def _end_member(self, decoder: _Decoder) -> None:
        self._input = decoder.unused + self._input
        self._position -= len(decoder.unused)
        self._decoder = None

    def _need(self, count: int) -> bool:
        while len(self._content) < count:
            if not self._grow():
                return False
        return True

    def _consume(self, count: int) -> None:
        del self._content[:count]
        self._content_at += count

    def _offset(self) -> int:
        """In the file, of the content's first byte, or of the member it is in."""
        if self._kind == "plain":
            return self._position - len(self._content)
        while len(self._marks) > 1 and self._marks[1][0] <= self._content_at:
            self._marks.pop(0)
        return self._marks[0][1] if self._marks else self._member_at

    @property
    def offset(self) -> int:
        return self._position

    # -- records ------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[ForeignRecord | Broken]:
        while True:
            try:
                found = self._next()
            except MalformedRecordError as error:
                yield Broken(offset=self._offset(), reason=error.reason)
                self._resynchronise()
                continue
            if found is None:
                return
            if found.record.fields:
                yield found

    def _next(self) -> ForeignRecord | None:
        while True:
            if not self._need(1):
                return None
            if self._content[0] not in b"\r\n":
                break
            self._consume(1)  # line ends between records: two, or any number from a sloppy writer
        offset = self._offset()
        self._fill_head()
        if self._content.startswith(b"WARC/"):
            return ForeignRecord(record=self._warc(), offset=offset)
        return ForeignRecord(record=self._arc(), offset=offset)

    def _fill_head(self) -> None:
        """As much as a head may have, or up to its end."""
        while len(self._content) < HEAD_BYTES_MAX:
            content = bytes(self._content)
            if content.find(b"\r\n\r\n") >= 0 or content.find(b"\n\n") >= 0 or not self._grow():
                return

    def _warc(self) -> WarcRecord:
        fields, start, length = split_head(bytes(self._content[:HEAD_BYTES_MAX]))
        block = self._block(start, length)
        return WarcRecord(fields=fields, block=block)

    def _block(self, start: int, length: int) -> bytes:
        if length > BLOCK_BYTES_MAX:
            raise MalformedRecordError(f"a block of {length} bytes, more than {BLOCK_BYTES_MAX}")
        if not self._need(start + length):
            raise MalformedRecordError("the file ends within a record")
        block = bytes(self._content[start : start + length])
        self._consume(start + length)
        return block

    def _arc(self) -> WarcRecord:
        """ARC 1: a line with URL, address, date, type and length, then the response."""
        match = _ARC_LINE.match(self._content)
        if match is None:
            raise MalformedRecordError("neither a WARC nor an ARC record starts here")
        url, ip, date, mime, length = match.groups()
        block = self._block(match.end(), int(length))
        if url.startswith(b"filedesc:"):
            return WarcRecord(fields=(), block=b"")
        time_s = parse_digits(date.decode().ljust(14, "0"))
        is_http = url[:4].lower() == b"http"
        content_type = "application/http;msgtype=response" if is_http else mime.decode("latin-1")
        address = ip.decode("latin-1")
        return WarcRecord(
            fields=(
                ("WARC-Type", "response" if is_http else "resource"),
                ("WARC-Record-ID", derive_record_id(b"arc", url, date, block)),
                ("WARC-Date", format_date(time_s)),
                ("WARC-Target-URI", url.decode("utf-8", "surrogateescape")),
                *((("WARC-IP-Address", address),) if address != "0.0.0.0" else ()),  # noqa: S104 - "unknown" in ARC
                ("Content-Type", content_type),
            ),
            block=block,
        )

    def _resynchronise(self) -> None:
        """Skip to the next start of a record in the decoded bytes, otherwise of a member in the file."""
        self._decoder_resync() if self._kind != "plain" else self._plain_resync()

    def _plain_resync(self) -> None:
        self._consume(min(1, len(self._content)))
        while True:
            start = _next_start(self._content)
            if start is not None:
                self._consume(start)
                return
            self._consume(max(0, len(self._content) - 64))
            try:
                if not self._grow():
                    self._consume(len(self._content))
                    return
            except MalformedRecordError:
                return

    def _decoder_resync(self) -> None:
        """Give up the rest of the member, so that a bomb is not decoded to its end. Members that were decoded in
        search of a head's missing end are read again."""
        after = self._offset() + 1
        self._consume(len(self._content))
        self._marks.clear()
        self._pieces = None
        self._decoder = None
        if not self._file.seekable():
            after = self._position
        else:
            self._file.seek(after)
            self._input, self._at_end, self._position = b"", False, after
        magic = GZIP_MAGIC if self._kind == "gzip" else ZSTD_MAGIC
        while True:
            self._read_input(PIECE_BYTES)
            found = self._input.find(magic)
            if found >= 0:
                self._drop_input(found)
                self._member_at = self._position
                return
            self._drop_input(max(0, len(self._input) - 3) or len(self._input))
            if self._at_end and len(self._input) < len(magic):
                self._drop_input(len(self._input))
                return


def _next_start(content: bytearray) -> int | None:
    warc, arc = _WARC_START.search(content), _ARC_START.search(content)
    starts = [match.start() + skip for match, skip in ((warc, 0), (arc, 1)) if match is not None]
    return min(starts, default=None)
