"""When does one peer's deletion hold everywhere? Only when more than half of the k - 1 other holders deleted too.

Any peer can claim a deletion; if that were enough, one peer could delete the archive. So each holder's operator
decides about the own copy, and a peer follows when most of the others have deleted. If there are fewer hosts than
copies, it still takes more than half of the intended number: in a ring of two, no peer deletes for the other.
"""

from collections import Counter
from collections.abc import Collection
from contextlib import aclosing

from herodotus.copies import wire
from herodotus.copies.shared_state import Parts
from herodotus.core.copies import PeerKey
from herodotus.core.errors import MalformedError
from herodotus.core.index_rows import TOMBSTONE
from herodotus.core.reconciliation import member_of
from herodotus.peers.calls import CallError
from herodotus.store import Holdings

CLAIMS_MAX = 65_536
"""Days of URLs of which some holder deleted something, and we did not."""
CLAIMS_OF_ONE_MAX = CLAIMS_MAX // 4
"""So that a single peer cannot keep the others from being heard."""


class Deletions:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._claims: dict[bytes, set[PeerKey]] = {}
        self._count_of: Counter[PeerKey] = Counter()

    def __len__(self) -> int:
        return len(self._claims)

    def claim(self, peer: PeerKey, members: set[bytes]) -> None:
        """What a peer says it deleted, and we did not."""
        for member in sorted(members):
            peers = self._claims.get(member, set())
            if peer in peers or self._count_of[peer] >= CLAIMS_OF_ONE_MAX:
                continue
            if peers or len(self._claims) < CLAIMS_MAX:
                self._claims.setdefault(member, set()).add(peer)
                self._count_of[peer] += 1

    async def follow(self, holdings: Holdings) -> int:
        """Delete what most of the other holders deleted; how many captures went."""
        due = [member for member, peers in self._claims.items() if self._is_agreed(member, peers)]
        for member in due[: wire.ASKED_MAX]:
            deleted_by: dict[bytes, set[PeerKey]] = {}
            for peer in sorted(self._forget(member)):
                for key in await self._keys_at(peer, member):
                    deleted_by.setdefault(key, set()).add(peer)
            agreed = [key for key, peers in sorted(deleted_by.items()) if self._is_agreed(member, peers)]
            if agreed:
                await holdings.bury(agreed)
        return len(due)

    def _forget(self, member: bytes) -> set[PeerKey]:
        peers = self._claims.pop(member)
        self._count_of.subtract(peers)
        self._count_of += Counter()  # without those who claim nothing any more
        return peers

    def _is_agreed(self, member: bytes, peers: Collection[PeerKey]) -> bool:
        view = self._parts.view
        others = {peer for peer in view.holders(member) if peer != view.me}
        return len(others.intersection(peers)) > max(len(others), view.copies - 1) / 2

    async def _keys_at(self, peer: PeerKey, member: bytes) -> set[bytes]:
        contact = self._parts.contact(peer)
        if contact is None:
            return set()
        found: set[bytes] = set()
        try:
            async with (
                self._parts.calls().stream(contact, wire.TAKE, wire.encode_list([member])) as pieces,
                aclosing(wire.read_frames(pieces)) as frames,
            ):
                async for frame in frames:
                    is_key = frame.kind == wire.TOMBSTONE and len(frame.data) == wire.CAPTURE_KEY_BYTES
                    if is_key and member_of(TOMBSTONE + frame.data) == member:
                        found.add(frame.data)
        except (CallError, MalformedError):
            return set()
        return found
