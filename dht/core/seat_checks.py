"""Is it so that this member has that seat?  Others are asked where we do not remember it ourselves.

A member that is younger than a seat has not seen it taken, and a record is only its owner's word.  So five members of
age in five places, drawn at random, are asked what they remember, and all but one must remember the same:

    its position follows from its address anyway   it is in the table; out again if two remember another seat
    it sits where a seat of other days puts it     it enters when all but one of the five agree; else it is dropped,
                                                   this claim for ten minutes, and never read as another position

Seats are asked about by the dozen, so that a newcomer learns a whole table in five datagrams for eighty members.  Where
nobody can be asked, as in a ring of two, the record is believed.

A member asks about its own seat too, now and then.  Tables that have forgotten it, after a week of which it was on the
other side of a torn network, refuse its records, and nobody would tell it.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from dht.core.effects import SeatOver
from dht.core.host import MachineHost
from dht.core.ids import PeerKey
from dht.core.membership import MemberTable
from dht.core.messages import SEATS_ASKED_MAX, AskSeats, Reply, SeatsKnown
from dht.core.records import Birth, Contact, PeerRecord, SignedRecord
from dht.core.seats import NO_SEAT, Claim, SeatMemory, mark_of

WITNESSES: Final = 5
DISSENTERS_MAX: Final = 1
"""Of three and more: one may lie, or have been away."""
GATHER_S: Final = 1.0
"""What comes with one table is asked about together."""
PATIENCE_S: Final = 10.0
"""For members to ask: a newcomer's table fills with those that sit where they are."""
REFUSED_S: Final = 600.0
WAITING_MAX: Final = 4_096
REFUSED_MAX: Final = 4_096
UNKNOWN, THIS, OTHER = 0, 1, 2  # what a witness remembers
OWN_EVERY_S: Final = 6 * 3_600.0
"""Records are renewed twice as rarely, and refused then."""

Hear = Callable[[SignedRecord, float, bool], object]


@dataclass(slots=True)
class _Doubt:
    signed: SignedRecord
    is_rumour: bool
    is_in: bool
    """It is in the table meanwhile."""
    since_s: float
    is_asked: bool = False
    words: list[int] = field(default_factory=list)


class SeatChecks:
    __slots__ = (
        "_doubts",
        "_drop",
        "_hear",
        "_host",
        "_is_due",
        "_refused",
        "_table",
        "_unwell",
        "memory",
    )

    def __init__(
        self,
        host: MachineHost,
        table: MemberTable,
        memory: SeatMemory,
        unwell: Collection[PeerKey],
        hear: Hear,
        drop: Callable[[PeerKey], None],
    ) -> None:
        """`hear(signed, now, is_rumour)` is told each record that waited, once its seat is remembered; `drop` takes a
        member out of the table."""
        self._host, self._table, self._unwell = host, table, unwell
        self.memory = memory
        self._hear, self._drop = hear, drop
        self._doubts: OrderedDict[PeerKey, _Doubt] = OrderedDict()
        self._refused: OrderedDict[tuple[PeerKey, Birth], float] = OrderedDict()
        self._is_due = False

    def start(self, now: float) -> None:
        if self._host.rules.places.by == "prefix":
            self._host.at(now + self._host.jittered(OWN_EVERY_S), self._ask_about_us)

    def _ask_about_us(self, now: float) -> None:
        self._host.at(now + self._host.jittered(OWN_EVERY_S), self._ask_about_us)
        own = self._table.records.get(self._host.me.peer)
        witnesses = self._witnesses(now)
        if own is None or own.record.seat is None or len(witnesses) < WITNESSES:
            return
        words: list[int] = []
        marks = (mark_of(own.peer, own.record.seat),)
        for witness in witnesses:
            request = AskSeats(id=self._host.new_id(), marks=marks)
            self._host.ask(witness, request, partial(self._told_about_us, words), now, is_favour=True)

    def _told_about_us(self, words: list[int], reply: Reply | None, _now: float) -> None:
        """Four of five must have answered, and one at most remember us."""
        is_word = isinstance(reply, SeatsKnown) and len(reply.words) == 1
        words.append(reply.words[0] if isinstance(reply, SeatsKnown) and is_word else -1)
        said = [word for word in words if word >= 0]
        if len(words) < WITNESSES or len(said) < WITNESSES - DISSENTERS_MAX:
            return
        if said.count(THIS) <= DISSENTERS_MAX:
            self._host.counts["own seat forgotten"] += 1
            self._host.effects.append(SeatOver(birth=None))

    def refusal(self, record: PeerRecord, now: float) -> str | None:
        """Why this record is not worth a look at its signature."""
        if self._host.rules.places.by == "peer":
            return None
        if now < self._refused.get((record.peer, record.seat or NO_SEAT), 0.0):
            return "seat unproven"
        match self._claim(record):
            case Claim.LEFT:
                return "moved"
            case Claim.TAKEN:
                return "seat taken"
            case _:
                return None

    def must_wait(self, signed: SignedRecord, now: float, *, is_rumour: bool) -> bool:
        """True: it does not enter now.  Its signature is good, and its peer answers there."""
        if self._host.rules.places.by == "peer":
            return False
        claim = self._claim(signed.record)
        if claim is Claim.SOUND:
            return False
        is_harmless = claim is Claim.HARMLESS
        doubt = self._doubts.get(signed.peer)
        if doubt is not None and doubt.signed.record.seat == signed.record.seat:
            if not doubt.is_in:
                doubt.signed = signed
        elif doubt is None and len(self._doubts) < WAITING_MAX:
            self._doubts[signed.peer] = _Doubt(signed, is_rumour, is_harmless, now)
            self._ask_soon(now, GATHER_S)
        return not is_harmless

    def entered(self, record: PeerRecord) -> None:
        """It is in the table."""
        if record.peer not in self._doubts:
            self.memory.note(record)

    def answer(self, request: AskSeats, asker: Contact) -> None:
        known = (self.memory.knows(mark) for mark in request.marks)
        words = bytes(UNKNOWN if one is None else THIS if one else OTHER for one in known)
        self._host.send(asker, SeatsKnown(id=request.id, words=words))

    def is_sound(self, contact: Contact) -> bool:
        """Does a member sit where somebody says?  Nobody is believed about a seat that we do not remember."""
        if not contact.birth:
            return True
        birth = self.memory.of(contact.peer)
        return birth is not None and birth.host == contact.birth

    def _claim(self, record: PeerRecord) -> Claim:
        held = self._table.records.get(record.peer) or self._table.records.get(PeerKey(record.previous))
        return self.memory.claim(record, held.record if held is not None else None, self._host.rules.places)

    # --- questions

    def _ask_soon(self, now: float, delay_s: float) -> None:
        if not self._is_due:
            self._is_due = True
            self._host.at(now + delay_s, self._ask)

    def _ask(self, now: float) -> None:
        self._is_due = False
        fresh = [doubt for doubt in self._doubts.values() if not doubt.is_asked]
        if not fresh:
            return
        witnesses = self._witnesses(now)
        if len(witnesses) < WITNESSES and now < fresh[0].since_s + PATIENCE_S:
            self._ask_soon(now, GATHER_S)
            return
        asked = fresh[:SEATS_ASKED_MAX]
        for doubt in asked:
            doubt.is_asked = True
        if len(fresh) > len(asked):
            self._ask_soon(now, GATHER_S)
        if not witnesses:
            self._judge(asked, [], now)
        open_ones = list(witnesses)
        marks = tuple(mark_of(one.signed.peer, _seat(one)) for one in asked)
        for witness in witnesses:
            request = AskSeats(id=self._host.new_id(), marks=marks)
            done = partial(self._answered, asked, witness, witnesses, open_ones)
            self._host.ask(witness, request, done, now, is_favour=True)

    def _witnesses(self, now: float) -> list[Contact]:
        """Members of age in places of their own, at random."""
        contacts, day = self._table.contacts, self._host.rules.places.day_of(now)
        standings = self._table.standings(day)
        taken: set[bytes] = set()
        found: list[Contact] = []
        peers = {self._host.me.peer}
        for one in self._host.random.sample(contacts, min(len(contacts), 16 * WITNESSES)):
            known = standings.get(one.peer)
            if len(found) == WITNESSES:
                break
            if known is None or not known.is_of_age or one.peer in peers or one.peer in self._unwell:
                continue
            if known.is_apart(taken):
                taken.update(known.places)
                peers.add(one.peer)
                found.append(one)
        return found

    def _answered(
        self,
        asked: list[_Doubt],
        witness: Contact,
        witnesses: list[Contact],
        open_ones: list[Contact],
        reply: Reply | None,
        now: float,
    ) -> None:
        open_ones.remove(witness)
        words = reply.words if isinstance(reply, SeatsKnown) and len(reply.words) == len(asked) else b""
        for doubt, word in zip(asked, words, strict=False):
            if doubt.signed.peer != witness.peer:  # its own word is what we doubt
                doubt.words.append(word)
        if not open_ones:
            self._judge(asked, witnesses, now)

    def _judge(self, asked: list[_Doubt], witnesses: list[Contact], now: float) -> None:
        for doubt in asked:
            peer = doubt.signed.peer
            if self._doubts.get(peer) is not doubt:
                continue
            del self._doubts[peer]
            others = sum(witness.peer != peer for witness in witnesses)
            if doubt.is_in:
                is_believed = doubt.words.count(OTHER) < min(DISSENTERS_MAX + 1, max(others, 1))
            else:
                is_believed = doubt.words.count(THIS) >= others - (DISSENTERS_MAX if others > 2 else 0)
            self._settle(doubt, is_believed, now)

    def _settle(self, doubt: _Doubt, is_believed: bool, now: float) -> None:
        record = doubt.signed.record
        if not is_believed:
            self._host.counts["seats unproven"] += 1
            self._refused[record.peer, _seat(doubt)] = now + REFUSED_S
            if len(self._refused) > REFUSED_MAX:
                self._refused.popitem(last=False)
        elif doubt.is_in:
            self.memory.note(record)
        else:
            self.memory.learn(record.peer, _seat(doubt))
            self._hear(doubt.signed, now, doubt.is_rumour)
        if doubt.is_in:
            self._settle_held(record, is_believed, now)

    def _settle_held(self, record: PeerRecord, is_believed: bool, now: float) -> None:
        """The table may have a later one by now: a member takes its first seat seconds after we have met it. Of that
        nobody was asked."""
        held = self._table.records.get(record.peer)
        if held is None or held.record.seat == record.seat:
            if not is_believed:
                self._drop(record.peer)
        elif is_believed and self.memory.claim(held.record, record, self._host.rules.places) is Claim.SOUND:
            self.memory.note(held.record)
        else:
            self._doubts[record.peer] = _Doubt(held, is_rumour=False, is_in=True, since_s=now)
            self._ask_soon(now, GATHER_S)


def _seat(doubt: _Doubt) -> Birth:
    return doubt.signed.record.seat or NO_SEAT
