"""How does everybody come to know everybody?  Rumours for the new, digests for the missed, graves for the
split.

Fresh news is offered to random members (`rumours`).  Once in a while two members compare the sums of 256
buckets and pull what differs; where very much differs, the shell fetches the whole table.  A dead peer
is pinged now and then: if a split ring healed, its answer starts the merge.  A death that reaches us with a
table (and not as a rumour) may come from the other side of such a split, so the accused is told first and
has time to refute it.

When gossip costs more than its budget we slow down once, and then keep a sample of the ring instead of all
of it.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Literal

from dht.core import rules as bounds
from dht.core.contests import Contests
from dht.core.detector import Detector
from dht.core.effects import PaceChanged
from dht.core.host import MachineHost
from dht.core.ids import PeerKey
from dht.core.membership import MemberTable
from dht.core.messages import (
    BUCKETS,
    FOLDS,
    HAVE_MAX,
    NEWS_MAX,
    Digest,
    DigestDiffers,
    MemberRecords,
    Ping,
    Pull,
    Reply,
    Rumour,
)
from dht.core.newcomers import Newcomers
from dht.core.records import (
    U32,
    Contact,
    Death,
    Departure,
    News,
    SignedRecord,
    first_contact_of,
    is_passed_over,
    plausible_incarnation,
    record_fault,
)
from dht.core.rumours import Rumours
from dht.core.seat_checks import SeatChecks
from dht.core.seats import SeatMemory
from dht.core.thrift import NEWS_BYTES, SEALED_BYTES, Thrift, keep_sample
from dht.core.witnesses import REFUTED_WITHIN_S, Refutations

Way = Literal["rumour", "table"]

LOOK_AFTER_SEATS_S: Final = 1_800.0
"""Seats end after a day, at the earliest."""


class Gossip:
    def __init__(
        self,
        host: MachineHost,
        table: MemberTable,
        refute: Callable[[int, float], None],
        near: Callable[[Contact], bool],
        table_changed: Callable[[SignedRecord], None],
        place_taken: Callable[[SignedRecord], None],
        seats: SeatMemory,
    ) -> None:
        self._host = host
        self._table = table
        self._refute = refute  # somebody holds us for dead
        self._is_near = near  # one of our ring neighbours?
        self._table_changed = table_changed
        self._place_taken = place_taken  # ours, by an older claim
        self.detector = Detector(host, table, self.hear)
        self.contests = Contests(host, table, self._lost_place)
        self.graves: deque[Contact] = deque(maxlen=bounds.GRAVES_MAX)
        self.seeds: deque[Contact] = deque(maxlen=bounds.SEEDS_MAX)
        self.thrift = Thrift(host)
        self.rumours = Rumours(host, table, self.thrift, self._anybody, self.hear)
        self.refutations = Refutations()
        self.newcomers = Newcomers(host, table, self._hear_proven)
        self.seats = SeatChecks(host, table, seats, self.detector.unwell, self._hear_proven, self._drop)
        self._refuted_at = float("-inf")  # a death of ours
        self._is_eager = True
        self._is_hastened = False
        self._was_equal = False  # the table that we compared with last
        self._swept_to = PeerKey(b"")  # how far a sweep for expired records has come; empty between sweeps
        self._pulls: deque[tuple[Contact, int]] = deque()
        self._pulling = 0
        self._deaths: deque[tuple[float, PeerKey]] = deque()
        self._takes_part = False  # not before we are a member

    def start(self, now: float) -> None:
        self._takes_part = True
        self.thrift.start(now)
        self._host.at(now + self._host.random.uniform(0, self._digest_period()), self._compare)
        self._host.at(now + self._host.jittered(self._host.rules.graveyard_s), self._visit_grave)
        self._host.at(now + LOOK_AFTER_SEATS_S, self._look_after_seats)
        self.seats.start(now)

    @property
    def level(self) -> int:
        """0 full table, 1 slower, 2 sampled."""
        return self.thrift.level

    # --- news

    def hear(self, news: News, now: float, way: Way = "rumour") -> bool:
        """Check and apply; fresh rumours are told on.  True when it was news."""
        if news.peer == self._host.me.peer:
            return self._hear_of_me(news, now)
        is_news = (
            self._enter(news, now, way) if isinstance(news, SignedRecord) else self._bury(news, now, way)
        )
        if is_news and way == "rumour":
            self.tell(news.peer, now)
        return is_news

    def tell(self, peer: PeerKey, now: float) -> None:
        self.rumours.tell(peer, now)

    def _hear_of_me(self, news: News, now: float) -> bool:
        own = self._table.records.get(self._host.me.peer)
        if isinstance(news, Death) and own is not None and news.incarnation >= own.record.incarnation:
            if not self._is_sound(news):
                return False
            if self.refutations.is_discredited(news, now) and now - self._refuted_at < bounds.REFUTE_AGAIN_S:
                # The others do not believe it either, and two liars must not fill the ring with our records.
                self._host.counts["deaths discredited"] += 1
                return False
            self._refuted_at = now
            self.refutations.refuted(news, now)
            self._refute(news.incarnation, now)
            return True
        return False

    def _hear_proven(self, signed: SignedRecord, now: float, is_rumour: bool) -> None:
        self.hear(signed, now, "rumour" if is_rumour else "table")

    def _enter(self, signed: SignedRecord, now: float, way: Way) -> bool:
        record = signed.record
        if self._table.records.get(record.peer) is signed:
            return False
        # The signature last: it costs more than all other checks, and most of what we hear we know already.
        fault = record_fault(record, self._host.rules.network, now) or self._table.refusal(signed)
        fault = fault or self.newcomers.refusal(signed, now) or self.seats.refusal(record, now)
        if fault is None and not self._host.notary.is_record_signed(signed):
            fault = "forged"
        elif fault is None and record.previous == self._host.me.peer:
            fault = "rotate our own key"  # an operator did so elsewhere: nobody will listen to us any more
        # Before we are a member the place is not ours to defend: a member that heard of our claim would give way to us,
        # while we give way to it.
        if fault == "position taken" and self._takes_part and self._host.notary.is_record_signed(signed):
            self.contests.begin(signed, now)
        if fault is not None:
            self._host.counts[f"records {fault}"] += 1
            return False
        is_rumour = way == "rumour"
        if self.newcomers.must_wait(signed, now, is_rumour=is_rumour):
            return False
        if self.seats.must_wait(signed, now, is_rumour=is_rumour):
            return False
        if record.previous:
            self._rotate(signed, now)
        tomb, until = self._table.tombs.get(record.peer, (None, 0.0))
        if isinstance(tomb, Death) and now <= until - bounds.TOMB_LIFE_S + REFUTED_WITHIN_S:
            self.refutations.refuted(tomb, now)
        before = self._table.records.get(record.peer)
        self._table.put(signed)
        if (before is not None and is_passed_over(before.record)) != is_passed_over(record):
            self._host.effects.append(PaceChanged(peer=record.peer))
        self.seats.entered(record)
        assert self._table.records[record.peer] is signed
        # The signer of a newer record is alive, even if it has not spoken to us.
        self.detector.heard(record.peer)
        self._table_changed(signed)
        return True

    def _drop(self, peer: PeerKey) -> None:
        """Out of the table: it claimed a seat that others remember otherwise."""
        signed = self._table.remove(peer)
        if signed is not None:
            self._table_changed(signed)

    def _lost_place(self, claimant: SignedRecord, rival: SignedRecord, now: float) -> None:
        if rival.record.peer == self._host.me.peer:
            self._place_taken(claimant)
            return
        self._table.remove(rival.record.peer)
        self._table_changed(rival)
        if self.hear(claimant, now):
            self._host.counts["positions lost"] += 1

    def _rotate(self, signed: SignedRecord, now: float) -> None:
        """The new key takes the old one's place in the table; our lists follow when the old one stays silent."""
        old = self._table.rotate(signed, now)
        if old is not None:
            assert old.peer not in self._table.records, "of two keys of one peer at most one counts"
            self.detector.died(old.peer, "rotated")
            self._table_changed(old)

    def _bury(self, news: Death | Departure, now: float, way: Way, *, is_seen: bool = False) -> bool:
        if news.incarnation < self._table.incarnation(news.peer) or news.peer in self._table.tombs:
            return False
        if news.peer in self._table.key_tombs:
            return False  # it lives on under another key
        signed = self._table.records.get(news.peer)
        is_ours = (
            isinstance(news, Death) and news.accuser == self._host.me.peer
        )  # what we found ourselves we believe
        if self._is_implausible(news, now):
            self._host.counts["deaths implausible"] += 1
            return False
        if not self._is_sound(news):
            self._host.counts["deaths forged"] += 1
            return False
        if isinstance(news, Death) and not is_ours and self.refutations.is_discredited(news, now):
            self._host.counts["deaths discredited"] += 1
            return False
        if signed is not None and isinstance(news, Death) and not is_seen and not self._is_witnessed(news):
            self._see_for_ourselves(news, signed, now)
            return False
        if signed is not None and self._may_refute(news, signed, way, now):
            return False
        self._table.bury(news, now)
        assert news.peer not in self._table.records
        if signed is not None:
            contact = first_contact_of(signed.record, self._host.rules.id_check)
            self.detector.died(news.peer, "dead" if isinstance(news, Death) else "left")
            if isinstance(news, Death):
                self.graves.append(contact)
                self._deaths.append((now, news.peer))
            self._table_changed(signed)
        return True

    def _may_refute(self, news: Death | Departure, signed: SignedRecord, way: Way, now: float) -> bool:
        """Tell the accused; True when we wait for its answer before we believe it.

        A death in a table may be from the other half of a ring that was split: both halves have buried each other, and
        all of them live. To believe it at once would bury the half that has just been found. A rumour is fresh: its
        witnesses have just asked.
        """
        if not isinstance(news, Death) or news.accuser == self._host.me.peer:
            return False
        contact = first_contact_of(signed.record, self._host.rules.id_check)
        if way == "table" or self._is_near(contact):
            self._host.send(contact, Rumour(id=self._host.new_id(), news=(news,)))
        if way == "table" and news.peer not in self.detector.unwell:
            self._host.at(now + self._host.rules.suspicion_s, partial(self._believe, news))
            return True
        return False

    def _is_implausible(self, news: Death | Departure, now: float) -> bool:
        """A death in an incarnation that its peer never had: it could not raise its own above that."""
        known = self._table.incarnation(news.peer)
        return isinstance(news, Death) and news.incarnation > max(known, plausible_incarnation(now))

    def _is_witnessed(self, news: Death) -> bool:
        """By us, or by somebody of our table; keys that we never heard of cost nothing to make."""
        witnesses = (news.accuser, news.confirmer)
        return news.peer in self.detector.unwell or any(peer in self._table.records for peer in witnesses)

    def _see_for_ourselves(self, news: Death, signed: SignedRecord, now: float) -> None:
        contact = first_contact_of(signed.record, self._host.rules.id_check)

        def pinged(reply: Reply | None, later: float) -> None:
            if reply is not None:
                self._host.counts["deaths disbelieved"] += 1
            elif self._bury(news, later, "rumour", is_seen=True):
                self.tell(news.peer, later)

        self._host.ask(contact, Ping(id=self._host.new_id()), pinged, now, is_favour=True)

    def _believe(self, news: Death, now: float) -> None:
        """Time to refute is over: only a newer incarnation has saved it."""
        if self._table.incarnation(news.peer) <= news.incarnation:
            self._bury(news, now, "rumour")

    def _is_sound(self, news: Death | Departure) -> bool:
        if isinstance(news, Departure):
            return self._host.notary.is_departure_signed(news)
        if news.accuser == news.confirmer or news.peer in (news.accuser, news.confirmer):
            return False
        is_signed, death = self._host.notary.is_death_signed, (news.peer, news.incarnation)
        if not is_signed(*death, news.accuser, news.accuser_signature):
            return False
        if not is_signed(*death, news.confirmer, news.confirmer_signature):
            return False
        return news.peer not in self._table.records or self._are_near(news)

    def _are_near(self, news: Death) -> bool:
        """Were the witnesses neighbours, as far as we know them?"""
        known = [peer for peer in (news.accuser, news.confirmer) if peer in self._table.records]
        if news.peer == self._host.me.peer:
            return True
        return all(self.detector.is_witness(peer, news.peer) for peer in known)

    # --- digests

    def _anybody(self) -> Contact | None:
        contacts, random = self._table.contacts, self._host.random
        for _ in range(8 if contacts else 0):
            contact = contacts[random.randrange(len(contacts))]
            if contact.peer != self._host.me.peer and contact.peer not in self.detector.unwell:
                return contact
        return None

    def _compare(self, now: float) -> None:
        self._host.at(now + self._host.jittered(self._digest_period()), self._compare)
        self._expire_some(now)
        self._keep_budget(now)
        if self.level < 2:
            target = self._anybody()
            if target is not None:
                self.exchange(target, now)

    def exchange(self, target: Contact, now: float) -> None:
        """Folded where nothing was found at the last time: in a quiet ring, nearly always."""
        self._exchange(target, FOLDS if self._was_equal else BUCKETS, now)

    def _exchange(self, target: Contact, parts: int, now: float) -> None:
        request = Digest(id=self._host.new_id(), sums=folded(self._table.sums, parts))
        self.thrift.spend(SEALED_BYTES + 4 * parts)
        self._host.ask(target, request, partial(self._compared, target, parts), now)

    def answer_digest(self, request: Digest, asker: Contact, now: float) -> None:
        parts, theirs = len(request.sums), request.sums
        mine = folded(self._table.sums, parts)
        differing: tuple[int, ...] = ()
        if mine != theirs:
            differing = tuple(part for part in range(parts) if mine[part] != theirs[part])
        self._host.send(asker, DigestDiffers(id=request.id, buckets=differing))
        self.thrift.spend(SEALED_BYTES + 2 * len(differing))
        if self.level < 2 and (parts == BUCKETS or not differing):  # else the asker asks again
            self._catch_up(asker, differing, now)

    def _compared(self, target: Contact, parts: int, reply: Reply | None, now: float) -> None:
        if not isinstance(reply, DigestDiffers):
            return
        self._was_equal = not reply.buckets
        if reply.buckets and parts < BUCKETS:
            self._exchange(target, BUCKETS, now)
        else:
            self._catch_up(target, reply.buckets, now)

    def _catch_up(self, source: Contact, buckets: tuple[int, ...], now: float) -> None:
        news_on_its_way = len(self.rumours.waiting) + len(self._table) // bounds.MEMBERS_PER_NEWS
        # In a ring where peers come and go, some buckets always differ because rumours are still on their way; pulling
        # these would fetch what arrives anyway. More differences than that are worth comparing sooner.
        self._is_eager = len(buckets) > news_on_its_way
        if len(buckets) > bounds.URGENT_BUCKETS and not self._is_hastened:
            self._is_hastened = True
            self._host.at(now + self._host.jittered(bounds.DIGEST_URGENT_S), self._compare_again)
        if not self._pulls:
            self._pulls.extend((source, bucket) for bucket in buckets)
            self._pull_more(now)

    def _compare_again(self, now: float) -> None:
        """Much differed: we are part of a merge, or fell far behind.  Others are too; do not wait a period."""
        self._is_hastened = False
        target = self._anybody()
        if target is not None and self.level == 0:
            self.exchange(target, now)

    def _pull_more(self, now: float) -> None:
        while self._pulls and self._pulling < bounds.PULLS_MAX:
            self._pulling += 1
            self._pull(*self._pulls.popleft(), b"", now)

    def _pull(self, source: Contact, bucket: int, after: bytes, now: float, page: int = 1) -> None:
        have = tuple(self._table.fingerprints(bucket)[:HAVE_MAX])
        request = Pull(id=self._host.new_id(), bucket=bucket, after=after, have=have)
        self.thrift.spend(SEALED_BYTES + 5 * len(have))
        self._host.ask(source, request, partial(self._pulled, source, request, page), now)

    def _pulled(self, source: Contact, request: Pull, page: int, reply: Reply | None, now: float) -> None:
        if isinstance(reply, MemberRecords):
            for news in reply.news:
                self.hear(news, now, "table")
            last = reply.news[-1].peer if reply.more and reply.news else PeerKey(b"")
            # Pages must go forward and are counted, or a liar could let us pull for ever.
            if last > request.after and page < bounds.PULL_PAGES_MAX:
                self._pull(source, request.bucket, last, now, page + 1)
                return
        self._pulling -= 1
        assert 0 <= self._pulling < bounds.PULLS_MAX
        self._pull_more(now)

    def answer_pull(self, request: Pull, asker: Contact) -> None:
        news, more = self._table.news_in(request.bucket, request.after, frozenset(request.have), NEWS_MAX)
        self._host.send(asker, MemberRecords(id=request.id, news=tuple(news), more=more))
        self.thrift.spend(SEALED_BYTES + NEWS_BYTES * len(news))

    # --- graves, expiry, departures

    def _visit_grave(self, now: float) -> None:
        self._host.at(now + self._host.jittered(self._host.rules.graveyard_s), self._visit_grave)
        places = self.places_remembered()
        if places:
            grave = self._host.random.choice(places)
            risen = partial(self._risen, grave)  # that it is silent is no news: a favour
            self._host.ask(grave, Ping(id=self._host.new_id()), risen, now, is_favour=True)
        while self._deaths and self._deaths[0][0] <= now - bounds.DEPARTED_AFTER_S:
            peer = self._deaths.popleft()[1]
            if peer in self._table.tombs:
                self.detector.died(peer, "departed")
        if len(self._deaths) > bounds.TOMBS_MAX:
            self._deaths.popleft()

    def places_remembered(self) -> list[Contact]:
        """Where somebody may be again that is not in our table: graves, and those we joined by."""
        unknown = [
            c for c in self.seeds if c.peer not in self._table.records and c.peer != self._host.me.peer
        ]
        return [*self.graves, *unknown]

    def _risen(self, grave: Contact, reply: Reply | None, now: float) -> None:
        if reply is None:
            return
        if grave in self.graves:
            self.graves.remove(grave)
        if self.level < 2:
            tomb = self._table.tombs.get(grave.peer)
            if tomb is not None:
                self._host.send(grave, Rumour(id=self._host.new_id(), news=(tomb[0],)))
            self.exchange(grave, now)
        else:
            self._table.hint(grave)

    def _expire_some(self, now: float) -> None:
        self._table.open_old_tombs(now)
        for peer in [peer for peer in self.detector.unwell if peer in self._table.key_tombs]:
            del self.detector.unwell[peer]  # a list still named it: it is silent for good
        table, expired = self._table, []
        if not self._swept_to:
            if now < table.expires_at_least_s:
                return
            table.expires_at_least_s = float("inf")  # until those who stay are seen, or enter
        peers = table.peers()
        place = bisect_right(peers, self._swept_to)
        step = bounds.SWEEP_STEP * (1 + len(peers) // 4096)
        for peer in peers[place : place + step]:
            signed = table.records.get(peer)
            if signed is None or peer == self._host.me.peer:
                continue
            if signed.record.expires_s <= now:
                expired.append(peer)
            else:
                table.expires_at_least_s = min(table.expires_at_least_s, signed.record.expires_s)
        self._swept_to = peers[place + step - 1] if place + step < len(peers) else PeerKey(b"")
        for peer in expired:
            signed = self._table.remove(peer)
            if signed is not None:
                self._host.counts["records expired"] += 1
                self._table_changed(signed)

    def _look_after_seats(self, now: float) -> None:
        """Of a ring that we know whole: else a member that we hear nothing of may be there."""
        self._host.at(now + LOOK_AFTER_SEATS_S, self._look_after_seats)
        if self.level < 2:
            departed = (peer for peer, (tomb, _) in self._table.tombs.items() if isinstance(tomb, Departure))
            self.seats.memory.look(self._table.records, departed, now)

    # --- budget

    def _digest_period(self) -> float:
        if self._is_eager and self.level == 0:
            return min(bounds.DIGEST_EAGER_S, self._host.rules.digest_s)
        return self._host.rules.digest_s * (1 + self.level)

    def _keep_budget(self, now: float) -> None:
        if self.thrift.judge(now):
            self.rumours.waiting.clear()
        if self.level == 2 and len(self._table) > 2 * bounds.SAMPLE_MAX:
            keep_sample(self._host, self._table)


def folded(sums: Sequence[int], parts: int) -> tuple[int, ...]:
    """Of so many neighbouring buckets each, that there are just these parts."""
    if parts == len(sums):
        return tuple(sums)
    size = len(sums) // parts
    return tuple(sum(sums[start : start + size]) % U32 for start in range(0, len(sums), size))
