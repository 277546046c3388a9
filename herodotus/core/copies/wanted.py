"""Which captures do we lack, which peers have them, and which comes next? Fewest known copies first, then the oldest
day.

Several peers may have a member. Each is first asked for captures that few others can give. If one peer cannot give a
capture, it stays wanted from the others.
"""

from collections.abc import Iterable

from herodotus.core.copies import PeerKey
from herodotus.core.index_rows import KEY_BYTES

WANTED_MAX = 200_000
"""Members, some 300 bytes each. The next comparison finds the rest again."""


class Wanted:
    def __init__(self) -> None:
        self._sources: dict[bytes, set[PeerKey]] = {}
        self._by_source: dict[PeerKey, set[bytes]] = {}
        self._asked: dict[bytes, PeerKey] = {}
        self._queues: dict[PeerKey, list[bytes]] = {}
        """Sorted when they were made, the next one last; a capture missing in a list makes the list again."""
        self._cut: set[PeerKey] = set()
        """They have more than there was room for."""
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._sources)

    def __contains__(self, member: bytes) -> bool:
        return member in self._sources

    @property
    def is_full(self) -> bool:
        return len(self._sources) >= WANTED_MAX

    def add(self, members: Iterable[bytes], source: PeerKey) -> None:
        for member in members:
            if member not in self._sources and self.is_full:
                self.dropped += 1
                self._cut.add(source)
                continue
            self._sources.setdefault(member, set()).add(source)
            self._by_source.setdefault(source, set()).add(member)
        self._queues.pop(source, None)

    def sources(self) -> list[PeerKey]:
        """Peers that could be asked for something now."""
        return sorted(source for source in self._by_source if self._queue(source))

    def take(self, source: PeerKey, count: int) -> list[bytes]:
        """Up to `count` members to ask a peer for. No other peer is asked for them meanwhile."""
        taken: list[bytes] = []
        while len(taken) < count and (queue := self._queue(source)):
            member = queue.pop()
            self._asked[member] = source
            taken.append(member)
        return taken

    def _queue(self, source: PeerKey) -> list[bytes]:
        queue = self._queues.get(source)
        if queue is None:
            free = [member for member in self._by_source.get(source, ()) if member not in self._asked]
            free.sort(
                key=lambda member: (len(self._sources[member]), member[KEY_BYTES:], member), reverse=True
            )
            queue = self._queues[source] = free
        while queue and not self._is_free(queue[-1], source):
            queue.pop()
        return queue

    def _is_free(self, member: bytes, source: PeerKey) -> bool:
        return member not in self._asked and source in self._sources.get(member, ())

    def got(self, member: bytes) -> None:
        """It is here, wherever it came from."""
        self._asked.pop(member, None)
        for source in self._sources.pop(member, ()):
            self._leave(source, member)

    def failed(self, member: bytes, source: PeerKey) -> None:
        """The peer did not give it: it is not asked again until it says again that it has it."""
        if self._asked.get(member) == source:
            del self._asked[member]
        sources = self._sources.get(member)
        if sources is None or source not in sources:
            return
        sources.discard(source)
        self._leave(source, member)
        for other in sources:
            self._queues.pop(other, None)
        if not sources:
            del self._sources[member]

    def cut(self, source: PeerKey) -> None:
        """The peer has more than was given here."""
        self._cut.add(source)

    def has_more(self, source: PeerKey) -> bool:
        """Are all noted members of a peer settled, while the peer has more? True once."""
        if source in self._by_source or source not in self._cut:
            return False
        self._cut.discard(source)
        return True

    def lost(self, source: PeerKey) -> None:
        """The peer does not answer, or did not send the announced capture."""
        self._cut.discard(source)
        for member in list(self._by_source.get(source, ())):
            self.failed(member, source)

    def _leave(self, source: PeerKey, member: bytes) -> None:
        members = self._by_source.get(source)
        if members is not None:
            members.discard(member)
            if not members:
                del self._by_source[source]
                self._queues.pop(source, None)
