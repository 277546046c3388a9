"""One ring machine among peers that a test invents: whom it knows, and what they answer."""

from collections.abc import Callable, Iterable
from random import Random

from msgspec.structs import replace

from dht.core.effects import Effect, Send
from dht.core.ids import distance
from dht.core.machine import RingMachine
from dht.core.messages import Message
from dht.core.records import Contact, Death, SignedRecord, first_contact_of
from dht.core.rules import RingRules
from simnet.rings import NETWORK, START_S, SimulatedNotary, learn, peer_number

NOW = START_S
RULES = RingRules(network=NETWORK, proves_newcomers=False)


def signed(number: int, incarnation: int = 1) -> SignedRecord:
    record = replace(
        peer_number(number), incarnation=incarnation, issued_s=int(NOW), expires_s=int(NOW) + 80_000
    )
    return SimulatedNotary(record.peer).sign_record(record)


def contact(number: int) -> Contact:
    return first_contact_of(peer_number(number), "ip")


def machine(known: int = 0) -> RingMachine:
    record = peer_number(0)
    one = RingMachine(record=record, rules=RULES, notary=SimulatedNotary(record.peer), random=Random(1))
    one.create(NOW)
    assert learn(one, [signed(number) for number in range(1, known + 1)], NOW) == known
    one.take_effects()
    return one


def member(numbers: Iterable[int]) -> RingMachine:
    """Knows these peers, and has its ring neighbours among them."""
    record = peer_number(0)
    one = RingMachine(record=record, rules=RULES, notary=SimulatedNotary(record.peer), random=Random(1))
    numbers = list(numbers)
    line = sorted(map(contact, numbers), key=lambda c: distance(one.me.position, c.position))
    one.restore([(line[-1], tuple(line[:16]))], NOW)
    assert learn(one, map(signed, numbers), NOW) == len(numbers)
    one.take_effects()
    return one


def counts(one: RingMachine) -> dict[str, int]:
    return dict(one.statistics().counts)


def converse(
    one: RingMachine, answer: Callable[[Contact, Message], Message | None], seconds: float
) -> list[Effect]:
    """Time passes; asked peers say what `answer` gives, or nothing.  Gives the effects."""
    now, end, effects = NOW, NOW + seconds, list[Effect]()
    while True:
        new = one.take_effects()
        effects += new
        for effect in new:
            reply = answer(effect.to, effect.message) if isinstance(effect, Send) else None
            if reply is not None and isinstance(effect, Send):
                one.receive(reply, effect.to, now)
        if not new:
            now = max(now, one.next_deadline() or end)
            if now >= end:
                return effects
            one.advance(now)


def death(number: int, accuser: int, confirmer: int, incarnation: int = 1) -> Death:
    peer, by, and_by = (peer_number(n).peer for n in (number, accuser, confirmer))
    return Death(
        peer=peer,
        incarnation=incarnation,
        accuser=by,
        accuser_signature=SimulatedNotary(by).sign_death(peer, incarnation),
        confirmer=and_by,
        confirmer_signature=SimulatedNotary(and_by).sign_death(peer, incarnation),
    )
