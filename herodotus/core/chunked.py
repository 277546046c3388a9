"""Is a recorded body still cut into the chunks in which it travelled?

Some tools record the bytes from the wire, chunk sizes included. Others record the body alone, under the same header.
A body is joined only when it consists of chunks to its end (RFC 9112, 7.1). In doubt it stays as it is.
"""

import re

_CODING = re.compile(rb"^transfer-encoding[ \t]*:[^\r\n]*\bchunked[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)
_SIZE = re.compile(rb"([0-9a-fA-F]{1,8})[ \t]*(?:;[^\r\n]{0,4096})?\r?\n")
_TRAILER = re.compile(
    rb"(?:[!-9;-~]{1,256}:[^\r\n]{0,8192}\r?\n){0,100}(?:\r?\n)?"
)  # wget leaves out the last line end
CHUNKS_MAX = 4_000_000


def without_chunks(head: bytes, body: bytes) -> bytes:
    """The body itself; `body` as given when it is in no chunks, or not wholly so."""
    if not body or _CODING.search(head) is None:
        return body
    whole, is_all = dechunked(body)
    return whole if is_all else body


def dechunked(body: bytes) -> tuple[bytes, bool]:
    """The joined chunks of a body, as far as they go, and whether the body consists of chunks to its end."""
    pieces: list[bytes] = []
    at = 0
    while len(pieces) < CHUNKS_MAX and (line := _SIZE.match(body, at)) is not None:
        size = int(line[1], 16)
        if size == 0:
            trailer = _TRAILER.match(body, line.end())
            return b"".join(pieces), trailer is not None and trailer.end() == len(body)
        end = line.end() + size
        pieces.append(body[line.end() : end])
        at = end + (2 if body[end : end + 2] == b"\r\n" else 1)
        if body[at - 1 : at] != b"\n":
            break
    return b"".join(pieces), False
