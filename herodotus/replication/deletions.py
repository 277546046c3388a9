"""Is what one peer deleted for good to go everywhere? Only when more than half of the other holders deleted it.

Anybody can say that something was deleted; if that were enough, one peer could delete the archive. So each holder's
operator decides for his own copy, and a peer follows when most of the others have.
"""

from collections import Counter
from contextlib import aclosing

from herodotus.archive.holding import bury
from herodotus.archive.store import ArchiveStore
from herodotus.calls import CallError
from herodotus.core.digests import MEMBER_BYTES
from herodotus.core.replication.places import PeerKey
from herodotus.replication import wire
from herodotus.replication.parts import Parts

CLAIMS_MAX = 65_536
"""Days of URLs of which some holder deleted something, and we did not."""


class Deletions:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._claims: dict[bytes, set[PeerKey]] = {}

    def __len__(self) -> int:
        return len(self._claims)

    def claim(self, peer: PeerKey, members: set[bytes]) -> None:
        """What a peer says it deleted, and we did not."""
        for member in members:
            if member in self._claims or len(self._claims) < CLAIMS_MAX:
                self._claims.setdefault(member, set()).add(peer)

    async def follow(self, store: ArchiveStore) -> int:
        """Delete what most of the other holders deleted; how many captures went."""
        due = [member for member, peers in self._claims.items() if self._is_agreed(member, len(peers))]
        for member in due[: wire.ASKED_MAX]:
            keys: Counter[bytes] = Counter()
            for peer in sorted(self._claims.pop(member)):
                keys.update(await self._keys_at(peer, member))
            agreed = [key for key, count in keys.items() if self._is_agreed(member, count)]
            if agreed:
                await store.work(lambda archive, intake, agreed=agreed: bury(archive, intake, agreed))  # type: ignore[misc]  # a loop's value
        return len(due)

    def _is_agreed(self, member: bytes, count: int) -> bool:
        view = self._parts.view
        others = [peer for peer in view.places.holders(member[:12] + bytes(8)) if peer != view.me]
        return count > len(others) / 2

    async def _keys_at(self, peer: PeerKey, member: bytes) -> set[bytes]:
        contact = self._parts.contact(peer)
        if contact is None:
            return set()
        found: set[bytes] = set()
        try:
            async with (
                self._parts.calls().stream(contact, wire.TAKE, wire.encode_members([member])) as pieces,
                aclosing(wire.read_frames(pieces)) as frames,
            ):
                async for frame in frames:
                    is_of_member = frame.data[:12] == member[:12] and len(frame.data) == MEMBER_BYTES + 3
                    if frame.kind == wire.TOMBSTONE and is_of_member:
                        found.add(frame.data)
        except (CallError, wire.MalformedMessageError):
            return set()
        return found
