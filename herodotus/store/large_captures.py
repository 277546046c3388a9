"""How is a record read that is too large to be held? It passes by, in pieces, for each who asks."""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from io import BytesIO
from itertools import chain

from herodotus.core.captures import HTTP_HEAD_BYTES_MAX, LargeBody, end_of_http_head, stretch_of
from herodotus.core.errors import MalformedRecordError
from herodotus.core.index_rows import FilePlace
from herodotus.core.warc import HEAD_BYTES_MAX, WarcRecord, split_head
from herodotus.store.files import Files
from herodotus.store.members import PassingMember, decode_member
from herodotus.store.stored_records import OURS, PRIMARY, StoredCapture, checked_record

KEPT_BYTES_MAX = 64 * 1024
_HEADS_BYTES_MAX = HEAD_BYTES_MAX + HTTP_HEAD_BYTES_MAX


class LargeCapture(StoredCapture):
    """One whose body is not held. It was compared with its digest as it passed by, and passes by whenever it is asked
    for; `body` puts it together."""

    __slots__ = ("_data", "_sha1", "_sha256", "_tail", "block_sha1")

    def __init__(self, place: FilePlace, files: Files) -> None:
        """MalformedRecordError when it is not whole, or is none of ours."""
        self._data = files.lying(place)
        member = PassingMember(self._data, 0, dictionary=files.dictionary(place.file))
        start_bytes = bytearray()
        for piece in member:
            start_bytes += piece
            if len(start_bytes) >= _HEADS_BYTES_MAX:
                break
        begun = bytes(start_bytes)
        fields, start, length = split_head(begun)
        record = WarcRecord(fields=fields, block=b"")
        content_type = (record.get("Content-Type") or "").lower()
        is_http = record.kind == "response" and content_type.startswith("application/http")
        end = min(len(begun), start + length)
        self._split = end_of_http_head(begun, start, end) if is_http else start
        if place.skip or record.kind not in PRIMARY or record.kind == "revisit" or self._split >= end:
            raise MalformedRecordError("a large record that no peer writes")
        super().__init__(begun[: self._split], place, files, (record, start + length + 4))
        self._start, self._head, self._body = start, None, None
        sha256, sha1 = hashlib.sha256(), hashlib.sha1(usedforsecurity=False)
        block = hashlib.sha1(self.head, usedforsecurity=False)
        left, tail = length - (self._split - start), bytearray()
        for piece in chain((begun[self._split :],), member):
            own = piece[:left]
            for digest in (sha256, sha1, block):
                digest.update(own)
            tail += piece[len(own) :]
            left -= len(own)
        if left or not tail.startswith(b"\r\n\r\n"):
            raise MalformedRecordError("the block is shorter or longer than announced")
        self._sha256, self._tail = sha256.digest(), bytes(tail[4:])
        self.block_sha1, self._sha1 = block.digest(), sha1.digest()
        self._rest = self._data[member.end :]

    @property
    def is_passing(self) -> bool:
        return True

    @property
    def body(self) -> bytes:
        whole = BytesIO()
        for piece in self._pieces():
            whole.write(piece)
        return whole.getvalue()

    @property
    def payload(self) -> LargeBody:
        return LargeBody(self.body_bytes, self._pieces)

    def payload_digest(self, digest_of: Callable[[bytes], bytes]) -> bytes:
        del digest_of
        return self._sha256

    @property
    def payload_sha1(self) -> bytes:
        return self._sha1

    @property
    def own(self) -> bytes:
        return b"".join(self.own_pieces())

    def own_pieces(self) -> Iterator[bytes]:
        return self._stretch(0, self.following)

    @property
    def held_bytes(self) -> int:
        return len(self._content) + len(self._tail) + len(self._rest)

    @property
    def _beside(self) -> tuple[bytes, int]:
        return self._tail, 0

    def _pieces(self) -> Iterator[bytes]:
        return self._stretch(self._split, self.body_bytes)

    def _stretch(self, start: int, size: int) -> Iterator[bytes]:
        member = PassingMember(self._data, 0, dictionary=self._files.dictionary(self.place.file))
        try:
            yield from stretch_of(member, start, size)
        except FileNotFoundError as error:
            raise self._damaged(MalformedRecordError("its file was replaced meanwhile")) from error
        except MalformedRecordError as error:
            self._files.forget_large(self.place)
            raise self._damaged(error) from error


def read_large(files: Files, place: FilePlace) -> StoredCapture:
    known = files.known_large(place)
    if isinstance(known, LargeCapture):
        return known  # it was read as a whole lately, and is again as it passes by
    with suppress(MalformedRecordError):
        found = LargeCapture(place, files)
        if found.held_bytes <= KEPT_BYTES_MAX:
            files.know_large(place, found)
        return found
    # Damaged, or of another form than ours: the general way tells.
    data = files.read(place)
    content, length = decode_member(data, dictionary=files.dictionary(place.file))
    parsed = OURS.match(content, place.skip) or checked_record(content, place.skip)
    return StoredCapture(content, place, files, parsed, data[length:])
