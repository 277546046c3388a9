"""Do two peers hold the same captures? The thesis's digest of a directory: SHA-1 over its sorted members.

A directory is 16 bits of the ring and one day. A member is 12 bytes of the position, four of the time and
three of the content's digest, exactly the index's key, so computing one reads no record. As in the thesis,
peers may have fetched different content for the same day: `ignoring_content` leaves the content out of the
comparison.
"""

import hashlib
from collections.abc import Iterable

MEMBER_BYTES = 16


def directory_digest(members: Iterable[bytes], *, ignoring_content: bool = False) -> bytes:
    chosen = {member[:MEMBER_BYTES] for member in members} if ignoring_content else set(members)
    return hashlib.sha1(b"".join(sorted(chosen)), usedforsecurity=False).digest()
