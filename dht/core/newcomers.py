"""Does a peer that we only hear of exist?  Before its record enters the table, it has to answer at its address.

A record costs its signer nothing, so a liar can tell of thousands that are nobody.  What others tell of a stranger is
therefore no news until the stranger has spoken:

    heard of ── it says anything to us, from that host ──────────────► proven: the record enters, and is passed on
    heard of ── our ping is answered ────────────────────────────────► proven
    heard of ── silent to us, but three of four helpers in four areas say
                that it answers them (our way to it may be broken) ──► proven
    heard of ── silent ──────────────────────────────────────────────► refused, this incarnation for ten minutes
                                                                       (one of another family for one)

Nobody has to be believed for that, so a newcomer with an empty table, and two rings that meet, need no member that both
sides trust.  The price is one handshake for each pair of members in their life at an address.

Helpers are drawn by us, of age where there are any.  Who said twice in a day that somebody lives who was gone again and
never spoke to us is no helper for a day: it lied, or its way is as odd as ours.

A ring must not be a weapon: what leaves for addresses that never answered is bounded in the link (`unanswered.py`).
What it refuses looks like silence here.  So we ask for less than it lets through, and an honest newcomer whose turn has
come is really asked: of one place (a prefix, where the charter counts by it) so many wait or were silent in the last
minute and no more, few of these are asked at a time, and each once in ten minutes.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from dht.core.dials import RETRIES_S
from dht.core.host import MachineHost
from dht.core.ids import PeerKey
from dht.core.membership import MemberTable
from dht.core.messages import Ping, ProbeReply, ProbeRequest, Reply
from dht.core.places import place_at, standing_at, standing_of
from dht.core.records import LEAF, Contact, PeerRecord, SignedRecord, first_contact_of
from dht.core.round_trips import TIMEOUT_MAX_S
from dht.core.rules import TRIES

WAITING_MAX: Final = 1_024
OF_A_PLACE_MAX: Final = 12
"""That wait, of a place: four full peers are far fewer.  The link lets 16 datagrams through, some for helpers' asks."""
ASKED_OF_A_PLACE_MAX: Final = 6
"""At a time; the link has 8 handshakes open to a network."""
PLACE_AGAIN_S: Final = 60.0
"""For so long one that stayed silent counts against its place."""
ASKED_MAX: Final = 24
"""At a time; the link has 32 open.  With 100 ms there and back, a table of 1,000 is proven in seconds."""
ASKED_S: Final = sum(RETRIES_S)
"""As long as the link keeps the handshake open: the next one is asked when there is room for it."""
SILENT_S: Final = 600.0
APART_S: Final = 60.0
"""One without an address of our family is asked through a relay alone: that is no address's burden, and a relay that
passes something on may be there a moment later."""
REMEMBERED_MAX: Final = 8_192
HELPERS: Final = 4
"""Of 50 members with 8 liars three of four are liars once in 70, two of three once in 15."""
HELPERS_MIN: Final = 2
DRAWN_MAX: Final = 64
"""Members from which they are chosen."""
VOUCHED_MAX: Final = 256
WRONG_MAX: Final = 2
"""Newcomers who were gone again; an honest helper's may have left in the same minute."""
WRONG_S: Final = 24 * 3600.0
HELPED_MAX: Final = 4
"""Newcomers for which others are asked, at a time: each costs its address three more pings."""

Hear = Callable[[SignedRecord, float, bool], object]


def needed_of(helpers: int) -> int:
    """So many must say yes: three of four, and two of the three or two that a small ring has."""
    return max(HELPERS_MIN, helpers - 1)


class _Waiting(NamedTuple):
    signed: SignedRecord
    is_rumour: bool
    place: bytes
    """In which it was counted; empty: in none."""


class Newcomers:
    __slots__ = (
        "_asked",
        "_asked_of",
        "_hear",
        "_helped",
        "_host",
        "_of_place",
        "_proven",
        "_silent",
        "_table",
        "_vouched",
        "_wrong",
        "waiting",
    )

    def __init__(self, host: MachineHost, table: MemberTable, hear: Hear) -> None:
        """`hear(signed, now, is_rumour)` is told each record that waited, once its peer is proven."""
        self._host = host
        self._table = table
        self._hear = hear
        self.waiting: OrderedDict[PeerKey, _Waiting] = OrderedDict()
        self._of_place: Counter[bytes] = Counter()  # of those that wait
        self._proven: OrderedDict[tuple[PeerKey, bytes], None] = OrderedDict()  # key and host
        # Key and incarnation -> until when, and the host at which nobody answered.
        self._silent: OrderedDict[tuple[PeerKey, int], tuple[float, bytes]] = OrderedDict()
        self._asked: set[PeerKey] = set()
        self._asked_of: Counter[bytes] = Counter()
        self._helped = 0
        # Newcomers that never spoke to us, and the helpers that said they live.
        self._vouched: OrderedDict[PeerKey, tuple[PeerKey, ...]] = OrderedDict()
        # Helpers, and when each was wrong the last times.
        self._wrong: OrderedDict[PeerKey, tuple[float, ...]] = OrderedDict()

    # --- questions

    def refusal(self, signed: SignedRecord, now: float) -> str | None:
        """Why this record is not worth a look at its signature."""
        if self._is_proven(signed):
            return None
        until, _ = self._silent.get((signed.peer, signed.record.incarnation), (now, b""))
        if now < until:
            return "silent"
        if signed.peer not in self.waiting and self._is_full(self._place_of(signed)):
            self._host.counts["newcomers refused"] += 1
            return "too many"
        return None

    def _is_full(self, place: bytes) -> bool:
        return len(self.waiting) >= WAITING_MAX or (bool(place) and self._of_place[place] >= OF_A_PLACE_MAX)

    def silent_hosts(self, now: float) -> list[bytes]:
        """Where nobody answered in the last ten minutes, once for each peer that should be there."""
        return [host for until, host in self._silent.values() if now < until]

    def must_wait(self, signed: SignedRecord, now: float, *, is_rumour: bool) -> bool:
        """True: it does not enter now, and is asked, or refused where too many wait.  Its signature is good."""
        if self._is_proven(signed):
            return False
        peer, place = signed.peer, self._place_of(signed)
        waiting = self.waiting.get(peer)
        if waiting is not None:
            # One at another address has to come again: this one is being asked where it was, and counted there.
            before, after = waiting.signed.record, signed.record
            if before.incarnation < after.incarnation and before.address == after.address:
                self.waiting[peer] = _Waiting(signed, is_rumour or waiting.is_rumour, waiting.place)
            return True
        if self._is_full(place):
            return True
        self.waiting[peer] = _Waiting(signed, is_rumour, place)
        self._of_place[place] += 1
        self._ask_more(now)
        return True

    def _is_proven(self, signed: SignedRecord) -> bool:
        record = signed.record
        if not self._host.rules.proves_newcomers or record.flags & LEAF:
            return True  # a leaf owns nothing, and cannot be asked
        held = self._table.records.get(record.peer) or self._table.records.get(PeerKey(record.previous))
        host = record.lines[0].host
        if held is not None and held.record.lines[0].host == host and not held.record.flags & LEAF:
            return True
        if len(host) in self._host.families:
            return (record.peer, host) in self._proven
        # We have no address of the family that its positions follow from: members that have one see to that.
        return any((record.peer, line.host) in self._proven for line in record.lines)

    def _contact_of(self, record: PeerRecord) -> Contact:
        """Where we can ask it: on the line that its positions follow from, if that is of a family of ours."""
        contact = first_contact_of(record, self._host.rules.id_check)
        if len(contact.address.host) in self._host.families:
            return contact
        for line in record.lines:
            if line.udp and len(line.host) in self._host.families:
                return Contact.at(record.peer, line.address, record.slot, 0, self._host.rules.id_check)
        return contact

    def _place_of(self, signed: SignedRecord) -> bytes:
        """Empty, without a bound: by peer our own network, as all peers of a laboratory may be in it."""
        rules = self._host.rules.places
        place = place_at(signed.record.lines[0].host, rules)
        is_ours = rules.by == "peer" and place == place_at(self._host.me.address.host, rules)
        return b"" if is_ours else place

    # --- proof

    def spoke(self, sender: Contact, now: float) -> None:
        """Its session proves key and host."""
        self._vouched.pop(sender.peer, None)
        self.prove(sender.peer, sender.address.host)
        waiting = self.waiting.get(sender.peer)
        if waiting is not None and self._is_proven(waiting.signed):
            self._end(sender.peer, now)

    def prove(self, peer: PeerKey, host: bytes) -> None:
        """This key has answered from this host."""
        if not self._host.rules.proves_newcomers:
            return
        self._proven[peer, host] = None
        self._proven.move_to_end((peer, host))
        if len(self._proven) > REMEMBERED_MAX:
            self._proven.popitem(last=False)

    def _ask_more(self, now: float) -> None:
        for peer, (signed, _, place) in self.waiting.items():
            if len(self._asked) >= ASKED_MAX:
                return
            if peer not in self._asked and not (place and self._asked_of[place] >= ASKED_OF_A_PLACE_MAX):
                self._asked.add(peer)
                self._asked_of[place] += 1
                contact = self._contact_of(signed.record)
                asked = partial(self._answered, contact)
                ping = Ping(id=self._host.new_id())
                self._host.ask(contact, ping, asked, now, timeout_s=ASKED_S / TRIES, is_favour=True)

    def _answered(self, contact: Contact, reply: Reply | None, now: float) -> None:
        if contact.peer not in self.waiting:
            return  # it spoke meanwhile
        if reply is not None:
            self._vouched.pop(contact.peer, None)
            self.prove(contact.peer, contact.address.host)
            self._end(contact.peer, now)
            return
        helpers = self._helpers(contact, now)
        if self._helped >= HELPED_MAX or len(helpers) < HELPERS_MIN:
            self._end(contact.peer, now)
            return
        self._helped += 1
        answers: dict[PeerKey, bool] = {}
        for helper in helpers:
            request = ProbeRequest(id=self._host.new_id(), target=contact)
            done = partial(self._helper_said, contact, helper.peer, answers, len(helpers))
            self._host.ask(helper, request, done, now, timeout_s=TIMEOUT_MAX_S * TRIES, is_favour=True)

    def _helper_said(
        self,
        contact: Contact,
        helper: PeerKey,
        answers: dict[PeerKey, bool],
        asked: int,
        reply: Reply | None,
        now: float,
    ) -> None:
        answers[helper] = isinstance(reply, ProbeReply) and reply.is_alive
        if len(answers) < asked:
            return
        self._helped -= 1
        vouchers = tuple(one for one, is_yes in answers.items() if is_yes)
        if len(vouchers) >= needed_of(asked) and contact.peer in self.waiting:
            self._vouched[contact.peer] = vouchers
            if len(self._vouched) > VOUCHED_MAX:
                self._vouched.popitem(last=False)
            self.prove(contact.peer, contact.address.host)
        self._end(contact.peer, now)

    def _helpers(self, newcomer: Contact, now: float) -> list[Contact]:
        """Members in different areas, or at least places, none of them the newcomer's or ours; of age before young."""
        self._blame(now)
        contacts, rules, random = self._table.contacts, self._host.rules.places, self._host.random
        ours = standing_at(self._host.me.peer, self._host.me.address.host, rules)
        its = standing_at(newcomer.peer, newcomer.address.host, rules)
        drawn = random.sample(range(len(contacts)), min(DRAWN_MAX, len(contacts)))
        day = rules.day_of(now)
        known = [
            (contacts[one], standing_of(self._table.records[contacts[one].peer].record, rules, day))
            for one in drawn
            if contacts[one].peer != newcomer.peer and not self._is_wrong(contacts[one].peer, now)
        ]
        known.sort(key=lambda pair: not pair[1].is_of_age)
        found: dict[PeerKey, Contact] = {}
        places, areas = {ours.place, its.place}, {ours.area, its.area}
        for must_be_apart in (True, False):
            for one, standing in known:
                is_apart = not must_be_apart or standing.area not in areas
                if len(found) < HELPERS and is_apart and standing.is_apart(places):
                    places.update(standing.places)
                    areas.add(standing.area)
                    found[one.peer] = one
        return list(found.values())

    def _blame(self, now: float) -> None:
        """Those that vouched for somebody who is gone again without a word to us."""
        for gone in [one for one in self._vouched if one not in self._table.records]:
            for helper in self._vouched.pop(gone):
                self._wrong[helper] = (*self._wrong.get(helper, ()), now)[-WRONG_MAX:]
                self._wrong.move_to_end(helper)
        while len(self._wrong) > REMEMBERED_MAX:
            self._wrong.popitem(last=False)

    def _is_wrong(self, helper: PeerKey, now: float) -> bool:
        times = self._wrong.get(helper, ())
        return len(times) == WRONG_MAX and now - times[0] < WRONG_S

    def _end(self, peer: PeerKey, now: float) -> None:
        """It is proven, or refused for a while."""
        if peer not in self.waiting:
            return
        signed, is_rumour, place = self.waiting.pop(peer)
        if peer in self._asked:
            self._asked.remove(peer)
            self._asked_of[place] -= 1
            if not self._asked_of[place]:
                del self._asked_of[place]
        if self._is_proven(signed):
            self._release(place, now)
            self._hear(signed, now, is_rumour)
        else:
            self._host.at(now + PLACE_AGAIN_S, partial(self._release, place))
            self._host.counts["newcomers silent"] += 1
            hosts = [line.host for line in signed.record.lines]
            is_apart = all(len(host) not in self._host.families for host in hosts)
            self._silent[peer, signed.record.incarnation] = (
                now + (APART_S if is_apart else SILENT_S),
                hosts[0],
            )
            if len(self._silent) > REMEMBERED_MAX:
                self._silent.popitem(last=False)
        assert len(self.waiting) <= WAITING_MAX
        self._ask_more(now)

    def _release(self, place: bytes, _now: float) -> None:
        self._of_place[place] -= 1
        if not self._of_place[place]:
            del self._of_place[place]
