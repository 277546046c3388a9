"""Who is alive?  Three clocks: unreachable (seconds, mine alone), dead (minutes, two witnesses), departed
(a day).

    well         ── three tries silent ──────────────────► unreachable
    unreachable  ── helpers cannot reach it either ──────► suspect
    suspect      ── time, and two signatures ────────────► dead
    dead         ── a day ───────────────────────────────► departed
    unreachable  ── minutes, and nobody has its record ──► departed

    unreachable, suspect  ── it says anything, or signs ─► well
    dead                  ── a higher incarnation ───────► well

Unreachable peers are skipped, nothing more.  A suspect is told, so that it can answer.  Only neighbours of
a position may witness its death, and a death is announced with the signatures of two hosts.  When nobody
whom we ask for help answers, we doubt our own network first: `health` then stretches our patience.  When
helpers do reach it, only our datagrams were lost, and we try again within seconds: while a living neighbour
is skipped, the ring is wrong.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import islice
from math import log10

from dht.core import rules as bounds
from dht.core.effects import Clock, PeerChanged
from dht.core.host import MachineHost
from dht.core.ids import Key, PeerKey
from dht.core.membership import MemberTable
from dht.core.messages import Accuse, AliveVerdict, Ping, ProbeReply, ProbeRequest, Reply
from dht.core.placement import first
from dht.core.records import Contact, Death
from dht.core.round_trips import TIMEOUT_MAX_S
from dht.core.witnesses import Refutations


@dataclass(slots=True, eq=False)
class Illness:
    contact: Contact
    clock: Clock = "unreachable"
    doubts: int = 0  # how often helpers did reach it, or none could be reached
    rounds_unknown: int = 0  # how often it stayed silent while we had no record of it
    is_examined: bool = False  # an examination, recheck or suspicion is under way


@dataclass(slots=True, eq=False)
class _Probe:
    """A ping on behalf of others, and who waits for it."""

    until: float
    askers: list[tuple[int, Contact]]
    is_alive: bool | None = None  # not known yet


class Detector:
    def __init__(
        self, host: MachineHost, table: MemberTable, announce: Callable[[Death, float], object]
    ) -> None:
        self._host = host
        self._table = table
        self._announce = announce
        self.unwell: dict[PeerKey, Illness] = {}
        self._accused_us = Refutations()
        self._checked: OrderedDict[PeerKey, float] = OrderedDict()  # accused by others, and pinged for that
        self._probes: OrderedDict[Contact, _Probe] = OrderedDict()  # for others; the oldest first

    # --- evidence

    def lost(self, contact: Contact, now: float) -> None:
        """Every try stayed unanswered."""
        if contact.peer == self._host.me.peer:
            return
        illness = self.unwell.get(contact.peer)
        if illness is None:
            if len(self.unwell) >= bounds.UNWELL_MAX:
                self._host.counts["unwell refused"] += 1
                return
            illness = self.unwell[contact.peer] = Illness(contact)
            self._report(contact.peer, "unreachable")
        # One examination at a time: a dead peer is asked by many parts of us, and each of them reports its silence.
        assert len(self.unwell) <= bounds.UNWELL_MAX
        if not illness.is_examined:
            self._examine(illness, now)

    def heard(self, peer: PeerKey) -> None:
        """It said something, so it lives."""
        if self.unwell.pop(peer, None) is not None:
            self._report(peer, "well")

    def died(self, peer: PeerKey, clock: Clock) -> None:
        self.unwell.pop(peer, None)
        self._report(peer, clock)

    # --- asking others

    def _examine(self, illness: Illness, now: float) -> None:
        helpers = self._helpers(illness.contact.peer)
        illness.is_examined = True
        if not helpers:
            self._recheck_later(illness, now)
            return
        answers: list[bool | None] = []
        for helper in helpers:
            request = ProbeRequest(id=self._host.new_id(), target=illness.contact)
            done = partial(self._probed, illness, answers, len(helpers))
            self._host.ask(helper, request, done, now, timeout_s=TIMEOUT_MAX_S * bounds.TRIES)
        # The list of answers is judged once: by whichever fills it, the last answer or the end of our patience.
        self._host.at(now + bounds.EXAMINED_S, partial(self._conclude, illness, answers, len(helpers)))

    def _helpers(self, suspect: PeerKey) -> list[Contact]:
        contacts, random = self._table.contacts, self._host.random
        found: dict[PeerKey, Contact] = {}
        for _ in range(4 * bounds.PROBES if contacts else 0):
            contact = contacts[random.randrange(len(contacts))]
            if contact.peer not in self.unwell and contact.peer not in (suspect, self._host.me.peer):
                found[contact.peer] = contact
                if len(found) == bounds.PROBES:
                    break
        return list(found.values())

    def _probed(
        self, illness: Illness, answers: list[bool | None], asked: int, reply: Reply | None, now: float
    ) -> None:
        if len(answers) < asked:
            answers.append(reply.is_alive if isinstance(reply, ProbeReply) else None)
            if len(answers) == asked:
                self._judge(illness, answers, now)

    def _conclude(self, illness: Illness, answers: list[bool | None], asked: int, now: float) -> None:
        """Helpers that have not answered by now may be dead themselves: we go by the others."""
        if len(answers) < asked:
            answers += [None] * (asked - len(answers))
            self._judge(illness, answers, now)

    def _judge(self, illness: Illness, answers: list[bool | None], now: float) -> None:
        if not self._is_current(illness):
            return
        assert answers, "an examination without helpers is put off, not judged"
        # A helper reached it, or not one helper answered: both speak against our own line, not against the suspect.
        if any(answers) or all(answer is None for answer in answers):
            self._host.health = min(self._host.health + 1, bounds.HEALTH_MAX)
            self._doubt(illness, now)
        else:
            self._suspect(illness, now)

    def _doubt(self, illness: Illness, now: float) -> None:
        """It probably lives, and only our datagrams were lost: see soon; less soon each time it stays silent."""
        delay_s = min(bounds.RECHECK_SOON_S * 2**illness.doubts, self._host.rules.recheck_s)
        illness.doubts = min(illness.doubts + 1, 8)
        self._host.at(now + self._host.jittered(delay_s), partial(self._recheck, illness))

    def _recheck_later(self, illness: Illness, now: float) -> None:
        self._host.at(now + self._host.jittered(self._host.rules.recheck_s), partial(self._recheck, illness))

    def _recheck(self, illness: Illness, now: float) -> None:
        if self._is_current(illness):
            illness.is_examined = False
            illness.clock = "unreachable"
            self._host.ask(illness.contact, Ping(id=self._host.new_id()), _ignore, now)

    # --- suspicion and death

    def _suspect(self, illness: Illness, now: float) -> None:
        signed = self._table.records.get(illness.contact.peer)
        if signed is None:
            self._pass_unknown(illness, now)
            return
        if not self.is_witness(self._host.me.peer, illness.contact.peer):
            self._recheck_later(illness, now)  # not ours to accuse: its neighbours will
            return
        assert illness.contact.peer != self._host.me.peer, "a peer does not accuse itself"
        illness.clock = "suspect"
        self._report(illness.contact.peer, "suspect")
        self._host.send(illness.contact, self._accusation(illness, signed.record.incarnation))
        # Longer in a large ring, where a refutation needs more rounds of rumours to reach us, and longer while our own
        # line is in doubt.
        patience = self._host.rules.suspicion_s * max(1.0, log10(len(self._table) + 1))
        self._host.at(now + patience * self._host.health, partial(self._gather, illness))

    def _pass_unknown(self, illness: Illness, now: float) -> None:
        """Without a record there is nothing that a death could be signed of: a list or a finger named it.
        After some rounds of silence it is forgotten. If it is named again, it is asked again.
        """
        illness.rounds_unknown += 1
        if illness.rounds_unknown < bounds.UNKNOWN_ROUNDS_MAX:
            self._recheck_later(illness, now)
        else:
            self._table.drop_hint(illness.contact)
            self.died(illness.contact.peer, "departed")

    def _accusation(self, illness: Illness, incarnation: int) -> Accuse:
        signature = self._host.notary.sign_death(illness.contact.peer, incarnation)
        return Accuse(
            id=self._host.new_id(), suspect=illness.contact, incarnation=incarnation, signature=signature
        )

    def _gather(self, illness: Illness, now: float) -> None:
        signed = self._table.records.get(illness.contact.peer)
        if not self._is_current(illness):
            return
        if signed is None:
            self._pass_unknown(illness, now)
            return
        witnesses = self._witnesses(illness.contact)
        if not witnesses:
            self._recheck_later(illness, now)
            return
        for witness in witnesses:
            accusation = self._accusation(illness, signed.record.incarnation)
            self._host.ask(witness, accusation, partial(self._judged, illness, accusation, witness), now)
        self._recheck_later(illness, now)

    def _judged(
        self, illness: Illness, accusation: Accuse, witness: Contact, reply: Reply | None, now: float
    ) -> None:
        if not isinstance(reply, AliveVerdict) or not reply.signature or not self._is_current(illness):
            return
        suspect = illness.contact.peer
        if not self._host.notary.is_death_signed(
            suspect, accusation.incarnation, witness.peer, reply.signature
        ):
            self._host.counts["verdicts forged"] += 1
            return
        assert witness.peer not in (suspect, self._host.me.peer), (
            "two signatures of different hosts, neither its own"
        )
        death = Death(
            peer=suspect,
            incarnation=accusation.incarnation,
            accuser=self._host.me.peer,
            accuser_signature=accusation.signature,
            confirmer=witness.peer,
            confirmer_signature=reply.signature,
        )
        self._announce(death, now)

    # --- helping others

    def probe(self, request: ProbeRequest, asker: Contact, now: float) -> None:
        target = request.target
        if target.peer == self._host.me.peer:
            self._host.send(asker, ProbeReply(id=request.id, is_alive=True))
        elif target.peer in self.unwell:
            self._host.send(asker, ProbeReply(id=request.id, is_alive=False))
        else:
            self._probe_for(request, asker, now)

    def _probe_for(self, request: ProbeRequest, asker: Contact, now: float) -> None:
        """One ping serves all that ask for some seconds: who asks a hundred peers must not aim them at one."""
        target, question = request.target, (request.id, asker)
        while self._probes and next(iter(self._probes.values())).until <= now:
            self._probes.popitem(last=False)
        known = self._probes.get(target)
        if known is not None and known.is_alive is not None:
            self._host.send(asker, ProbeReply(id=request.id, is_alive=known.is_alive))
        elif known is not None:
            if question not in known.askers and len(known.askers) < bounds.PROBE_ASKERS_MAX:
                known.askers.append(question)
        elif len(self._probes) >= bounds.PROBES_FOR_OTHERS_MAX:
            self._host.counts["probes refused"] += 1  # no answer speaks for nothing; "silent" would be a lie
        else:
            probe = self._probes[target] = _Probe(until=now + bounds.PROBED_S, askers=[question])

            def pinged(reply: Reply | None, _now: float) -> None:
                probe.is_alive = reply is not None
                for request_id, by in probe.askers:
                    self._host.send(by, ProbeReply(id=request_id, is_alive=probe.is_alive))

            # As a favour: were our own examination to follow, one death would set everybody probing.
            self._host.ask(target, Ping(id=self._host.new_id()), pinged, now, is_favour=True)

    def may_accuse(self, accusation: Accuse, asker: Contact) -> bool:
        """A member near the suspect, by its own signature: nobody else's word makes a death, or makes us send."""
        suspect, is_signed = accusation.suspect, self._host.notary.is_death_signed
        signed = self._table.records.get(suspect.peer)
        is_good = (
            asker.peer != suspect.peer
            and signed is not None
            and suspect in self._table.contacts_of(signed)
            and any(near.peer == asker.peer for near in self._neighbours(suspect.position))
            and is_signed(suspect.peer, accusation.incarnation, asker.peer, accusation.signature)
        )
        if not is_good:
            self._host.counts["accusations refused"] += 1
        return is_good

    def is_to_be_refuted(self, accuser: PeerKey, now: float) -> bool:
        """Shall the ring hear that we live, since this peer thinks that we do not?  It is counted."""
        us = self._host.me.peer
        if self._accused_us.is_worn_out(us, accuser, now):
            self._host.counts["accusations discredited"] += 1
            return False
        self._accused_us.note(us, accuser, now)
        return True

    def witness(self, accusation: Accuse, asker: Contact, now: float) -> None:
        """Confirm what we found ourselves; otherwise find out now and answer when asked again."""
        suspect = accusation.suspect
        signed = self._table.records.get(suspect.peer)
        is_ours = signed is not None and signed.record.incarnation == accusation.incarnation
        if not is_ours or not self.may_accuse(accusation, asker):
            self._host.send(asker, AliveVerdict(id=accusation.id, signature=b""))
        elif suspect.peer in self.unwell:
            # Only our own finding counts. To sign what the accuser says would make one liar's word two signatures.
            signature = self._host.notary.sign_death(suspect.peer, accusation.incarnation)
            self._host.send(asker, AliveVerdict(id=accusation.id, signature=signature))
        else:
            self._host.send(asker, AliveVerdict(id=accusation.id, signature=b""))
            if now - self._checked.get(suspect.peer, float("-inf")) >= self._host.rules.suspicion_s:
                self._checked[suspect.peer] = now
                self._checked.move_to_end(suspect.peer)
                if len(self._checked) > bounds.UNWELL_MAX:
                    self._checked.popitem(last=False)
                self._host.ask(suspect, Ping(id=self._host.new_id()), _ignore, now)

    def is_witness(self, witness: PeerKey, suspect: PeerKey) -> bool:
        """Does the witness sit near a position of the suspect, as far as our table shows?"""
        signed = self._table.records.get(witness)
        position = self._position_of(suspect)
        if signed is None or position is None:
            return False
        return any(contact.peer == witness for contact in self._neighbours(position))

    def _position_of(self, peer: PeerKey) -> Key | None:
        illness = self.unwell.get(peer)
        if illness is not None:
            return illness.contact.position
        signed = self._table.records.get(peer)
        contacts = self._table.contacts_of(signed) if signed else ()
        return contacts[0].position if contacts else None

    def _neighbours(self, position: Key) -> list[Contact]:
        reach = bounds.WITNESS_REACH + bounds.WITNESS_SLACK
        walks = self._table.clockwise(position), self._table.counterclockwise(position)
        return [contact for walk in walks for contact in islice(walk, reach)]

    def _witnesses(self, suspect: Contact) -> list[Contact]:
        near = self._neighbours(suspect.position)
        pool = first(near, len(near), {suspect.peer, self._host.me.peer, *self.unwell})
        return self._host.random.sample(pool, min(bounds.WITNESSES_ASKED, len(pool)))

    def _is_current(self, illness: Illness) -> bool:
        return self.unwell.get(illness.contact.peer) is illness

    def _report(self, peer: PeerKey, clock: Clock) -> None:
        self._host.effects.append(PeerChanged(peer=peer, clock=clock))


def _ignore(_reply: Reply | None, _now: float) -> None:
    """The answer, or its absence, was noted by the detector already."""
