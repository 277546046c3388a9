"""Is a recorded body still cut into the chunks in which it travelled, and what does its head say of that?

Some tools record the bytes from the wire, chunk sizes included. Others record the body alone, under the same header.
This is decided once, when a record comes into the archive, and never again: a body of a record with our own digest is
in no chunks. A body of others is joined only when it consists of chunks from its first byte to its last (RFC 9112,
7.1). In doubt it stays as it is: a script that begins with a hexadecimal digit is no chunk.

The archive keeps heads as they came, with a `Transfer-Encoding` that no longer holds. Other tools would believe it, so
a record that leaves the archive has the field under the name by which web archives tell what a server said.
"""

import re

_CODING = re.compile(rb"^transfer-encoding[ \t]*:[^\r\n]*\bchunked[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)
# With bare line feeds too many lists of numbers would be chunks.
_SIZE = re.compile(rb"([0-9a-fA-F]{1,8})[ \t]*(?:;[^\r\n]{0,4096})?\r\n")
_TRAILER = re.compile(rb"(?:[!-9;-~]{1,256}:[^\r\n]{0,8192}\r\n){0,100}(?:\r\n)?")
CHUNKS_MAX = 4_000_000
ORIGINAL = "X-Archive-Orig-"
_TOLD = re.compile(rb"^(?=transfer-encoding[ \t]*:)", re.IGNORECASE | re.MULTILINE)
_TOLD_ASIDE = re.compile(rb"^x-archive-orig-(?=transfer-encoding[ \t]*:)", re.IGNORECASE | re.MULTILINE)


def without_chunks(head: bytes, body: bytes) -> bytes:
    """The body itself; `body` as given when it is in no chunks, or not wholly so."""
    if not body or _CODING.search(head) is None:
        return body
    whole = _joined(body)
    return body if whole is None else whole


def _joined(body: bytes) -> bytes | None:
    pieces: list[bytes] = []
    at = 0
    while len(pieces) < CHUNKS_MAX and (line := _SIZE.match(body, at)) is not None:
        size = int(line[1], 16)
        if size == 0:
            trailer = _TRAILER.match(body, line.end())
            is_all = trailer is not None and trailer.end() == len(body)
            # wget leaves out the last line end. Without any chunk before, that would be a text of one digit.
            return b"".join(pieces) if is_all and (pieces or body.endswith(b"\r\n\r\n")) else None
        end = line.end() + size
        pieces.append(body[line.end() : end])
        if body[end : end + 2] != b"\r\n":
            return None
        at = end + 2
    return None


def told_aside(head: bytes) -> bytes:
    """A head for other tools, which take a body apart whose head says that it is in chunks."""
    return _TOLD.sub(ORIGINAL.encode(), head)


def told_again(head: bytes) -> bytes:
    """The head as it came, of a record that left an archive of ours: a signature is of these bytes."""
    return _TOLD_ASIDE.sub(b"", head)
