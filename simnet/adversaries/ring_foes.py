"""Which attacks on a ring are there? Each is a story told to a `Siege`: it attacks, looks each minute, gives figures.

A story raises `SiegeBrokenError` with a sentence as soon as something does not hold that must hold.
"""

from collections import Counter
from collections.abc import Sequence
from random import Random

from msgspec.structs import replace

from dht.core.host import MachineHost
from dht.core.ids import CIRCLE, KEY_BYTES, Key, PeerKey, distance, position_of
from dht.core.machine import RingMachine
from dht.core.membership import MemberTable
from dht.core.messages import Message, Ping, ProbeReply, Rumour
from dht.core.places import place_at
from dht.core.records import (
    SLOTS,
    VIRTUAL_NODES_MAX,
    Address,
    Contact,
    Death,
    Line,
    Notary,
    PeerRecord,
    SignedRecord,
)
from dht.core.round_trips import TIMEOUT_MAX_S
from dht.core.rules import RingRules
from simnet.adversaries.members import LONG_AGO_DAYS, PORT, POSITIONS_MAX, bought_hosts
from simnet.adversaries.siege import MINUTE_S, Siege, SiegeBrokenError
from simnet.rings import SimulatedNotary, twisted
from simnet.scenarios import Figures

MANY = 32
"""Keys of eight positions are all that a table takes in of a place."""
THIRD_PARTY = bytes((199, 77, 7, 0))
"""A network in which no member is."""
THIRD_PARTY_A_MINUTE = 16
"""Datagrams from one member to a network that never answered, whatever made it send."""
TRICKLED_TO = 8
"""Honest members, by each of those that drip, a minute."""
BELIEVED_OF_A_LIAR = 1
"""Three liars in three places may be three of the four helpers of one who asks, until that one knows them."""


# -- many keys ---------------------------------------------------------------------------------------------


def many_keys(siege: Siege, keys: int, places: int, areas: int, *, is_of_age: bool, for_s: float) -> Figures:
    """They join, behave as the best of members, and vanish. With `places` 0 all of them are at one address."""
    hosts = bought_hosts(keys, max(places, 1), areas, siege.chance)
    seats = (
        [(host, 0) for host in hosts] if places else [(hosts[0], slot) for slot in range(min(keys, SLOTS))]
    )
    allowed = min(max(places, 1), areas * siege.rules.holders.area_max()) if is_of_age else 0
    figures: Figures = {"holders of one key, at most": 0.0, "positions of a place, at most": 0.0}

    def guard() -> None:
        for one in siege.some_honest():
            _check_admission(siege, one, figures)
            table = siege.table_of(one)
            found = max(siege.theirs_among(table, key) for key in siege.keys)
            figures["holders of one key, at most"] = max(figures["holders of one key, at most"], found)
            if found > allowed:
                raise SiegeBrokenError(f"the keys of {places or 1} places are {found} holders of one key")

    positions = POSITIONS_MAX if keys <= MANY else -(-MANY * POSITIONS_MAX // keys)  # a table admits no more
    siege.join(seats, since_days=LONG_AGO_DAYS if is_of_age else 0, positions=positions)
    siege.pass_time(for_s, guard)
    siege.vanish()
    siege.pass_time(10 * MINUTE_S)
    return figures | {"keys": float(len(seats)), "whole again after": siege.calm()}


def _check_admission(siege: Siege, one: RingMachine, figures: Figures) -> None:
    weights: Counter[bytes] = Counter()
    addresses: Counter[bytes] = Counter()
    for contact in one.table.contacts:
        addresses[contact.address.host] += 1
        weights[place_at(contact.address.host, siege.rules.places)] += 1
    most, at_one = max(weights.values()), max(addresses.values())
    figures["positions of a place, at most"] = max(figures["positions of a place, at most"], most)
    if most > siege.rules.places.admitted_per_place or at_one > VIRTUAL_NODES_MAX:
        raise SiegeBrokenError(f"a table has {most} positions of a place, {at_one} of an address")


# -- members that do not exist -----------------------------------------------------------------------------


def phantoms(siege: Siege, count: int, liars: int, *, for_s: float) -> Figures:
    """Members of age have invented ones in their tables, tell of them, and swear that they answer. All are said to be
    in a third party's network."""
    chance, invented = siege.chance, list[SignedRecord]()
    foes = siege.corrupt(liars)
    own = foes[0].own_record
    for number in range(count):
        address = Address(host=THIRD_PARTY[:3] + bytes((1 + number % 254,)), port=PORT)
        peer = PeerKey(chance.randbytes(32))
        record = replace(
            own,
            peer=peer,
            lines=(Line.at(address),),
            slot=number // 254 % SLOTS,
            virtual_nodes=1,
            since=1,
            trail=(),
            seat=None,
        )
        invented.append(SimulatedNotary(peer).sign_record(record))
    names = {signed.peer for signed in invented}
    for foe in foes:
        for signed in invented:
            foe.table.put(signed)
    sent = siege.watch(THIRD_PARTY)
    believed = 0
    allowed = 0 if liars < 3 else BELIEVED_OF_A_LIAR * liars

    def swear(_sender: PeerKey, _to: Contact, message: Message) -> Message:
        if isinstance(message, ProbeReply):
            return ProbeReply(id=message.id, is_alive=True)
        return message

    def guard() -> None:
        nonlocal believed
        for foe in foes:
            for one in siege.some_honest(8):
                some = tuple(chance.sample(invented, 7))
                siege.say(foe, one.me, Rumour(id=chance.getrandbits(32), news=some))
        counted = max(sum(peer in names for peer in one.table.records) for one in siege.honest)
        believed = max(believed, counted)
        if counted > allowed:
            raise SiegeBrokenError(f"a table has {counted} of {count} members that do not exist")
        most = max(sent.values(), default=0)
        if most > THIRD_PARTY_A_MINUTE:
            raise SiegeBrokenError(
                f"a member sends {most} datagrams a minute to a network that never answered"
            )

    siege.bend = swear
    siege.pass_time(for_s, guard)
    return {
        "invented": float(count),
        "believed at once, at most": float(believed),
        "a member's datagrams to the third party, at most a minute": float(max(sent.values(), default=0)),
    }


# -- records of before -------------------------------------------------------------------------------------


def old_records(siege: Siege, *, for_s: float) -> Figures:
    """A member keeps every record that it ever saw, and tells them again: of some that restarted, and that left."""
    chance, kept = siege.chance, dict[tuple[PeerKey, int], SignedRecord]()
    foe = siege.corrupt(1)[0]
    told = 0

    def collect() -> None:
        for one in (foe, *siege.some_honest(2)):
            for signed in one.table.records.values():
                kept[signed.peer, signed.record.incarnation] = signed

    def guard() -> None:
        nonlocal told
        collect()
        for one in siege.honest:
            for _ in range(2):
                some = tuple(chance.sample(sorted(kept.values(), key=_identity), min(7, len(kept))))
                siege.say(foe, one.me, Rumour(id=chance.getrandbits(32), news=some))
                told += len(some)
        for one in siege.honest:
            for peer in one.table.records:
                known = seen.get((one.me.peer, peer), (-1, None))
                number = one.table.records[peer].record.incarnation
                if number < known[0] and known[1] is one:
                    raise SiegeBrokenError("a member took a record for newer that was older")
                seen[one.me.peer, peer] = number, one

    seen: dict[tuple[PeerKey, PeerKey], tuple[int, RingMachine | None]] = {}
    collect()
    restarted, gone = siege.some_honest(2)
    siege.fail(restarted.me.peer, MINUTE_S)
    siege.leave(gone.me.peer)
    siege.pass_time(for_s, guard)
    whole_s = siege.calm()
    back = {peer for one in siege.honest for peer in siege.left if peer in one.table.records}
    if back:
        raise SiegeBrokenError(f"{len(back)} members that left are back in tables")
    return {
        "records told again": float(told),
        "members that left": float(len(siege.left)),
        "whole again after": whole_s,
    }


def _identity(signed: SignedRecord) -> tuple[bytes, int]:
    return signed.peer, signed.record.incarnation


class Forgetful(MemberTable):
    """A planted bug: it takes any record for news."""

    __slots__ = ()

    def refusal(self, signed: SignedRecord) -> str | None:
        found = super().refusal(signed)
        return None if found == "old" and signed.peer in self.records else found


class ForgetfulMachine(RingMachine):
    def __init__(self, *, record: PeerRecord, rules: RingRules, notary: Notary, random: Random) -> None:
        super().__init__(record=record, rules=rules, notary=notary, random=random)
        self.table.__class__ = Forgetful


# -- beside a key ------------------------------------------------------------------------------------------


def beside_a_key(siege: Siege, keys: int, places: int, *, is_of_age: bool, for_s: float) -> Figures:
    """The attacker's keys take the seats behind a victim's key, in the minute in which its owner fails."""
    victim = Key(siege.chance.randbytes(KEY_BYTES))
    spots = _seats_behind(victim, keys, places, siege.chance)
    allowed = min(places, places * siege.rules.holders.area_max()) if is_of_age else 0
    owner = siege.table_of(siege.some_honest(1)[0]).of(victim)[0]
    siege.fail(owner.peer)
    siege.join(spots, since_days=LONG_AGO_DAYS if is_of_age else 0, positions=1)
    figures: Figures = {"their holders, at most": 0.0, "their seats before the first honest one": 0.0}

    def guard() -> None:
        for one in siege.some_honest():
            table = siege.table_of(one)
            found = siege.theirs_among(table, victim)
            behind = _first_honest(siege, one, victim)
            figures["their seats before the first honest one"] = max(
                figures["their seats before the first honest one"], behind
            )
            figures["their holders, at most"] = max(figures["their holders, at most"], found)
            if found > allowed:
                raise SiegeBrokenError(f"{found} of the holders of the victim's key are the attacker's")

    siege.pass_time(for_s, guard)
    siege.vanish()
    siege.pass_time(5 * MINUTE_S)
    return figures | {"whole again after": siege.calm()}


def _seats_behind(key: Key, count: int, places: int, chance: Random) -> list[tuple[bytes, int]]:
    """(address, slot) of the positions nearest behind a key that these places offer: one for each key."""
    found = []
    for host in bought_hosts(places, places, places, chance):
        for last in range(1, 255):
            here = host[:3] + bytes((last,))
            found += [
                (distance(key, position_of(here, PORT, slot, 0, "ip")), here, slot) for slot in range(SLOTS)
            ]
    return [(host, slot) for _, host, slot in sorted(found)[:count]]


def _first_honest(siege: Siege, one: RingMachine, key: Key) -> int:
    for place, contact in enumerate(one.table.clockwise(key)):
        if contact.peer not in siege.foes:
            return place
    return len(one.table.contacts)


# -- answers at the last moment ----------------------------------------------------------------------------


def slow_drip(siege: Siege, share: int, *, for_s: float) -> Figures:
    """One member in `share` says everything as late as it may, and trickles questions at honest members. Honest ones
    that fail meanwhile must be noticed all the same, and nobody else be taken for dead."""
    chance, asked, noticed = siege.chance, 0, list[float]()
    foes = siege.corrupt(len(siege.members) // share)
    victim = siege.some_honest(1)[0].me.peer
    questions, missing, looks, failed_at = 0, 0, 0, 0.0

    def trickle() -> None:
        nonlocal asked
        for foe in foes:
            if foe.me.peer in siege.world.machines:
                for one in siege.some_honest(TRICKLED_TO):
                    siege.say(foe, one.me, Ping(id=chance.getrandbits(64)))
                    asked += 1

    def guard() -> None:
        nonlocal questions, missing, looks
        trickle()
        living = [one for one in siege.members if one.me.peer not in siege.left]
        questions = max(questions, *(len(one._host.questions) for one in living))
        refused = sum(one._host.counts["questions refused"] for one in living)
        if refused:
            raise SiegeBrokenError(f"{refused} questions of honest members were not asked")
        for one in living:
            looks += len(living)
            missing += sum(other.me.peer not in one.table.records for other in living)
        is_known = any(victim in one.table.records for one in living)
        if not noticed and not is_known and victim not in siege.world.machines:
            noticed.append(siege.world.now - failed_at)

    siege.world.held_back_s = lambda sender: (
        chance.uniform(0.7, 1.0) * TIMEOUT_MAX_S if sender in siege.foes else 0.0
    )
    siege.pass_time(2 * MINUTE_S, guard)
    siege.fail(victim, for_s)
    failed_at = siege.world.now
    siege.pass_time(for_s - MINUTE_S, guard)
    if not noticed:
        raise SiegeBrokenError(f"a member that failed is not noticed within {for_s - MINUTE_S:.0f} s")
    siege.vanish()
    return {
        "slow": float(len(foes)),
        "questions trickled": float(asked),
        "questions open at once, at most": float(questions),
        "honest members missing, share of tables": missing / max(looks, 1),
        "noticed a failure after": noticed[0],
        "whole again after": siege.calm(),
    }


class Patient(MachineHost):
    """A planted bug: it waits for an answer as long as anybody likes."""

    __slots__ = ()

    def _timeout(self, peer: PeerKey) -> float:
        return 100 * super()._timeout(peer)


class PatientMachine(RingMachine):
    def __init__(self, *, record: PeerRecord, rules: RingRules, notary: Notary, random: Random) -> None:
        super().__init__(record=record, rules=rules, notary=notary, random=random)
        self._host.__class__ = Patient


# -- a sixth of all places ---------------------------------------------------------------------------------


def colluding_sixth(siege: Siege, share: int, spares: int, *, for_s: float) -> Figures:
    """One place in `share` lies about neighbours, owners and deaths, and then all of them are gone at once."""
    chance = siege.chance
    foes = siege.corrupt(len(siege.members) // share)
    victims = [one.me.peer for one in siege.some_honest(3)]
    ours = [one.me for one in foes]
    figures: Figures = {"colluding": float(len(foes)), "victims missing, share of tables": 0.0}
    missing, looks = 0, 0

    def lie(_sender: PeerKey, _to: Contact, message: Message) -> Message:
        return (
            twisted(message, chance.sample(ours, min(6, len(ours))), 6) if chance.random() < 0.5 else message
        )

    def guard() -> None:
        nonlocal missing, looks
        for victim in victims:
            machine = siege.world.machines.get(victim)
            if machine is not None:
                _declare_dead(siege, machine, foes)
        for one in siege.honest:
            for victim in victims:
                if victim in siege.world.machines:
                    looks += 1
                    missing += victim not in one.table.records

    siege.bend = lie
    siege.pass_time(for_s, guard)
    figures["victims missing, share of tables"] = missing / max(looks, 1)
    lost, spared = _all_theirs(siege, 0), _all_theirs(siege, spares)
    siege.bend = None
    siege.vanish()
    figures |= {"keys with six copies gone, of a million": 1e6 * lost, "with spares": 1e6 * spared}
    if spared:
        raise SiegeBrokenError(f"all copies of {1e6 * spared:.0f} keys in a million were theirs")
    return figures | {"whole again after": siege.calm()}


def _declare_dead(siege: Siege, victim: RingMachine, foes: Sequence[RingMachine]) -> None:
    living = [one for one in foes if one.me.peer in siege.world.machines]
    if len(living) < 2:
        return
    one, other = siege.chance.sample(living, 2)
    number = victim.own_record.incarnation
    death = Death(
        peer=victim.me.peer,
        incarnation=number,
        accuser=one.me.peer,
        accuser_signature=SimulatedNotary(one.me.peer).sign_death(victim.me.peer, number),
        confirmer=other.me.peer,
        confirmer_signature=SimulatedNotary(other.me.peer).sign_death(victim.me.peer, number),
    )
    for listener in siege.some_honest(10):
        siege.say(one, listener.me, Rumour(id=siege.chance.getrandbits(32), news=(death,)))


def _all_theirs(siege: Siege, slack: int) -> float:
    """The part of all keys of which all holders are the attacker's, as an honest member sees it."""
    table = siege.table_of(siege.some_honest(1)[0])
    found = 0
    for stretch in range(len(table)):
        if all(contact.peer in siege.foes for contact in table.holders(stretch, slack)):
            arc = table.arc(stretch)
            found += distance(arc.start, arc.end)
    return found / CIRCLE
