"""Does a ring stay one while its peers are upgraded one after the other, and the new ones say more than the old know?

The next release is played by a translator between two of today's codecs: whatever an upgraded peer says is encoded,
gets all that `docs/protocol/ring.md` §8 lets a later release add, and is decoded by who does not know of it.
"""

from collections import Counter
from typing import Any

import msgspec
from msgspec.structs import replace

from dht.core.effects import Effect, LookupDone
from dht.core.ids import Key, PeerKey, key_from_number
from dht.core.machine import RingMachine
from dht.core.messages import NEWS_MAX, Message
from dht.core.records import Contact, first_contact_of
from dht.wire import MessageCodec, MessageRefused, encode_message
from simnet.rings import RingWorld, how_right, owner_in, peer_number, ring_of
from tests.dht.values import BYTES_MAX

CODEC = MessageCodec("ip")
PEERS = 12
NEWS_OF = {13: 2, 17: 2}  # Rumour, Records: where their news stand
CONTACT_FIELDS = (5, 6)
NEW_NEWS = 99
KEYS = [key_from_number((n << 160) // 8 + 1) for n in range(8)]


def is_contact(value: object) -> bool:
    return isinstance(value, list) and len(value) in CONTACT_FIELDS and isinstance(value[0], bytes)


def with_more(value: Any) -> Any:
    """Contacts, wherever they stand, with a field more."""
    if is_contact(value):
        seatless = [b""] if len(value) == min(CONTACT_FIELDS) else []
        return [*value, *seatless, "a field of the next release"]
    return [with_more(one) for one in value] if isinstance(value, list) else value


class Translator:
    def __init__(self) -> None:
        self.upgraded: set[PeerKey] = set()
        self.added: Counter[str] = Counter()

    def __call__(self, sender: PeerKey, to: Contact, message: Message) -> Message:
        data = encode_message(message)
        if sender in self.upgraded:
            data = self._said_by_the_next_release(data)
        heard = CODEC.decode(data, bytes_max=BYTES_MAX)
        assert not isinstance(heard, MessageRefused), (message, heard)
        if sender in self.upgraded:
            assert heard == message, "what both know means the same"
        return heard

    def _said_by_the_next_release(self, data: bytes) -> bytes:
        fields = msgspec.msgpack.decode(data)
        at = NEWS_OF.get(fields[0])
        if at is None:
            fields = with_more(fields)
        elif len(fields[at]) < NEWS_MAX:
            fields[at].insert(0, [NEW_NEWS, {"what": "nobody knows yet"}])
            self.added["news"] += 1
        self.added["fields"] += 1
        return msgspec.msgpack.encode([*fields, "one more", {"deep": [1]}])


class Ring:
    def __init__(self, seed: int) -> None:
        self.world = RingWorld(seed)
        self.world.ideal([peer_number(n) for n in range(PEERS)])
        self.translator = Translator()
        self.world.tamper = self.translator
        self._found: list[LookupDone] = []
        self.world.on_effect = self._note
        self.world.run(60)

    def _note(self, peer: PeerKey, effect: Effect) -> None:
        if isinstance(effect, LookupDone):
            self._found.append(effect)

    def upgrade(self, peer: PeerKey) -> None:
        """As `herodotus stop; herodotus run` does: away for some seconds, then back as a newer self."""
        record = self.world.machines[peer].own_record
        self.world.leave(peer)
        self.world.run(5)
        self.translator.upgraded.add(peer)
        others = [first_contact_of(one.own_record, "ip") for one in list(self.world.machines.values())[:3]]
        self.world.join(replace(record, incarnation=record.incarnation + 1), others)
        self.world.run(60)

    def owners_named_by(self, machine: RingMachine, keys: list[Key]) -> list[Contact | None]:
        named: list[Contact | None] = []
        for key in keys:
            self._found.clear()
            machine.lookup(key, self.world.now)
            self.world.settle(machine)
            self.world.run(3)
            (done,) = self._found
            named.append(done.holders[0] if done.holders else None)
        return named


def test_a_ring_of_two_releases_stays_one_while_all_are_upgraded_in_turn() -> None:
    ring = Ring(seed=1)
    peers = list(ring.world.machines)
    for number, peer in enumerate(peers):
        ring.upgrade(peer)
        assert how_right(ring.world) == (1, 1), f"after {number + 1} of {PEERS}"
        if number in (0, PEERS // 2):
            owners: list[Contact | None] = [owner_in(ring_of(ring.world), key) for key in KEYS]
            for one in (peers[-1], peer):  # an old and a new one
                assert ring.owners_named_by(ring.world.machines[one], KEYS) == owners
    for machine in ring.world.machines.values():
        assert len(machine.table) == PEERS, "nobody was lost to anybody"
    assert ring.translator.upgraded == set(peers)
    assert min(ring.translator.added["fields"], ring.translator.added["news"]) > 10
