"""What does an overlay node keep for others, and what does it refuse?

Only valid records of networks it knows, under the one key they belong to, until they expire by their own
word (a republished copy lives no longer). Bounded: keys, records per key, bytes per record, one record per
wide prefix.
"""

from collections.abc import Callable, Iterator

from dht.discovery.addresses import wide_prefix
from dht.discovery.rendezvous import PublishedRecord, Validate, shard_key, shard_of

RECORD_BYTES_MAX = 1000
"""A record has 150 to 560 B, and a handshake takes no more than 900."""
RECORDS_PER_KEY_MAX = 6
KEYS_MAX = 10_000
LIFE_MAX_S = 25 * 3600.0
"""Records live 24 h; an hour more forgives clocks that are wrong. Longer claims would hold a place for
ever.
"""


class RecordStore:
    """By key; a value is one record."""

    def __init__(self, validate: Validate, wall_clock: Callable[[], float]) -> None:
        self._validate = validate
        self._wall_clock = wall_clock
        self._records: dict[bytes, list[tuple[PublishedRecord, bytes]]] = {}

    def __len__(self) -> int:
        return sum(len(held) for held in self._records.values())

    def offer(self, key: bytes, value: bytes) -> bool:
        """Take the record if it is valid, belongs here and there is room; whether it is held now."""
        facts = self.check(value)
        if facts is None or key != shard_key(facts.network, shard_of(facts.first_position)):
            return False
        held = self._alive(key)
        for index, (known, _) in enumerate(held):
            if known.peer_id == facts.peer_id:
                if facts.incarnation > known.incarnation:
                    held[index] = (facts, value)
                return facts.incarnation >= known.incarnation
        rival = self._rival(held, facts)
        if rival is not None:
            if held[rival][0].expires_at >= facts.expires_at:
                return False
            held[rival] = (facts, value)
            return True
        if not held and len(self._records) >= KEYS_MAX and not self._make_room():
            return False
        held.append((facts, value))
        assert len(held) <= RECORDS_PER_KEY_MAX
        self._records[key] = held
        return True

    def check(self, value: bytes) -> PublishedRecord | None:
        """The facts of a record that is valid and alive now."""
        if len(value) > RECORD_BYTES_MAX:
            return None
        facts = self._validate(value)
        if facts is None or not facts.addresses:
            return None
        now = self._wall_clock()
        return facts if now < facts.expires_at <= now + LIFE_MAX_S else None

    @staticmethod
    def _rival(held: list[tuple[PublishedRecord, bytes]], facts: PublishedRecord) -> int | None:
        """Who would have to go: the same wide prefix first, or else the next to expire where all is full."""
        prefix = wide_prefix(facts.addresses[0][0])
        for index, (known, _) in enumerate(held):
            if wide_prefix(known.addresses[0][0]) == prefix:
                return index
        if len(held) < RECORDS_PER_KEY_MAX:
            return None
        return min(range(len(held)), key=lambda index: (held[index][0].expires_at, held[index][0].peer_id))

    def _alive(self, key: bytes) -> list[tuple[PublishedRecord, bytes]]:
        now = self._wall_clock()
        held = [pair for pair in self._records.get(key, []) if pair[0].expires_at > now]
        if held:
            self._records[key] = held
        else:
            self._records.pop(key, None)
        return held

    def _make_room(self) -> bool:
        for key in list(self._records):
            self._alive(key)
        return len(self._records) < KEYS_MAX

    def records(self, key: bytes) -> list[bytes]:
        return [value for _, value in self._alive(key)]

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        for key in list(self._records):
            for value in self.records(key):
                yield key, value
