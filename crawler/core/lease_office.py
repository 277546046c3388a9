"""Who may fetch from this host, and when? The books that a steward keeps of the hosts and addresses it looks after.

A book holds windows that lie ahead. No two of them overlap (for an address: at most so many at a time). The answer to
an ask is the window that the asker has already, a new one, or "not yet". A waiting asker keeps its place in a queue, by
its first ask: asking more often does not help, and the more askers wait, the shorter is each window. So peers with
little to do are done first, and the rest is shared equally. No window outlives a lease's life, so a successor knows how
long to be silent. Pure: every method takes the time.

Where one peer alone asks for an address, it becomes the steward's *deputy* there: it keeps the address's book for its
own hosts and asks no more, until its time is over or the steward calls it back, because another peer has come.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from crawler.core.politeness import (
    STARTS_MAX,
    Holder,
    LeaseTerms,
    OriginReport,
    Wait,
    Window,
    measured_delay_max_s,
)

SUBJECTS_MAX = 200_000
"""About 100 MB. Beyond it books at rest are forgotten, which costs them nothing, and new ones wait for space."""
FULL_S = 5.0
"""Time between two searches for books at rest, because each looks at all of them."""
QUEUE_MAX = 1_024
"""Peers that wait for one host; a later one gets no place and asks again."""
STRIKES_MAX = 10
"""Windows in a row that were never given back; from then on a window has one start anyway."""
DURATION_GUESS_S = 0.3
"""Of a fetch, before any report: only sets how many starts a window has room for."""
DOUBTS_MAX = 3
"""Failures in a row that no other peer had; after them a peer's word about failures has no weight."""
ASK_AGAIN_S = 0.25
UNCONFIRMED_REST_MAX_S = 3_600.0
"""The longest rest on the word of one peer. A peer that was told to stay away longer does so by itself."""
PEER_BYTES = 32
"""Of a holder: which peer it is. The rest is on whose behalf."""
PLACES_OF_ONE_MAX = 128
"""Of one peer, in the queue of an address."""
ON_TIME_MAX = 16
"""Promises beyond that are further away than a lease lives."""
ROUNDING_S = 1e-6
SENT_ROUNDED_S = 1e-3
"""Times travel in whole milliseconds."""
LATE_SHARE_MAX = 0.25
"""Of the longest window, for a holder's slow line: 7.5 s at the public floor. Slower lines cannot be polite here."""
ABREAST_MAX = 256
"""Windows at a time of a host that asks for no delay, in a network that asks for none: more than a tester has peers."""
OVERDUE_S = 105.0
"""So long a fetch may go on after its window: the longest that a fetcher waits for a connection, a head and a body. A
window of an address that was not given back keeps its place for as long, because somebody may still be connected."""
DEPUTY_S = 3_600.0
"""A deputy's time: a host of a hundred pages, which a hundred peers visit in the course of a day, then costs its
steward two dozen asks for the address instead of a hundred and as many returns."""
DEPUTED_TO_ONE_MAX = 4_096
"""Addresses: an eighth of an eighth of a quarter of a million, in a ring of eight. Their books cannot be forgotten
meanwhile, so no peer may have all of them."""
CALL_AGAIN_S = 5.0
"""After a deputy did not hear that it was called back."""


@dataclass(slots=True)
class _Place:
    """In the queue: asks again by then, or is forgotten."""

    returns_by: float


@dataclass(slots=True)
class _Deputy:
    """Who keeps the book of an address for its own hosts, in the steward's place."""

    peer: Holder
    number: int
    until: float = 0.0
    """With the last windows that it granted: nobody else is granted one before, unless it says how many it has."""
    call_at: float = 0.0
    """Not before that is it called back again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deputed:
    """The asker is the steward's deputy at the address."""

    lasts_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CallBack:
    """A deputy is there, and must say first what it has."""

    peer: Holder
    number: int
    wait: Wait
    is_time: bool
    """Else it was called a moment ago."""


@dataclass(slots=True)
class Book:
    """One host or one address."""

    places: int
    """Of an address."""
    delay_s: float
    spread_s: float = 0.0
    """Besides, between windows of different holders."""
    is_address: bool = False
    windows: list[Window] = field(default_factory=list)
    overdue: dict[tuple[Holder, int], float] = field(default_factory=dict)
    """Windows of an address that ended and did not come back: until when they are waited for."""
    on_time: int = 0
    """Windows of an address that came back before their end, since one did not; so far as that matters."""
    rests_until: float = 0.0
    duration_s: float = DURATION_GUESS_S
    failures: int = 0
    queue: OrderedDict[Holder, _Place] = field(default_factory=OrderedDict)
    strikes: dict[Holder, int] = field(default_factory=dict)
    failed_for: Holder = b""
    """The peer with the last failure, until some peer gets a good answer."""
    doubts: dict[Holder, int] = field(default_factory=dict)
    deputy: _Deputy | None = None
    shared_until: float = 0.0
    """Several peers asked for this address lately: nobody is made deputy."""

    @property
    def is_free(self) -> bool:
        """A host that nobody need wait for. While it fails, one peer at a time finds out whether it is back."""
        return not (self.is_address or self.delay_s or self.failures)

    @property
    def lanes(self) -> int:
        """How many windows may be at a time. Of a host that asks for a delay one: so its starts are apart."""
        if self.is_address:
            return self.places
        return ABREAST_MAX if self.is_free else 1

    def is_at_rest(self, now: float) -> bool:
        is_let = self.deputy is not None and now < self.deputy.until
        return not (self.windows or self.overdue or self.rests_until > now or self.failures or is_let)

    def holds(self, holder: Holder) -> Window | None:
        return next((window for window in self.windows if window.holder == holder), None)

    def free_from(self, at: float, holder: Holder) -> float:
        """From when on a lane is free for good."""
        ends = sorted([*(self.over_at(window, holder) for window in self.windows), *self.overdue.values()])
        if len(ends) < self.lanes:
            return max(at, self.rests_until)
        return max(at, self.rests_until, ends[-self.lanes] + self.delay_s)

    def first_gap(self, at: float, lasts_s: float) -> float:
        """From when on the only lane is free for so long, perhaps before a window that was promised already."""
        at, apart_s = max(at, self.rests_until), self.delay_s + self.spread_s
        for window in sorted(self.windows, key=lambda one: one.starts_at):
            if at + lasts_s + apart_s <= window.starts_at:
                break
            at = max(at, window.ends_at + apart_s)
        return at

    def over_at(self, window: Window, next_holder: Holder) -> float:
        """But for the delay. Requests of different holders come by ways of different length: one that left in time
        may arrive later than one that left after it.
        """
        return window.ends_at + (self.spread_s if window.holder != next_holder else 0.0)


@dataclass(frozen=True, slots=True)
class OfficeStatistics:
    subjects: int
    windows: int
    waiting: int
    granted: int
    lost: int
    """Windows that nobody gave back."""
    crowded: int
    """Asks for which the queue had no place."""
    backing_off: int
    overdue: int
    """Windows of addresses that ended, and are waited for."""


class LeaseOffice:
    """Used from one task at a time; the time must not run backwards."""

    def __init__(self, terms: LeaseTerms) -> None:
        self._terms = terms
        self._books: dict[str, Book] = {}
        self._numbers = 0
        self._granted = self._lost = self._crowded = 0
        self._full_until = 0.0
        self._deputed: Counter[Holder] = Counter()
        self._absent: dict[Holder, float] = {}
        """Deputies that are no members, and since when. While one is a member it may be at work, though it is deaf."""

    def ask(
        self,
        holder: Holder,
        subject: str,
        wanted: int,
        now: float,
        *,
        not_before: float = 0.0,
        lasts_s: float = 0.0,
        place: Holder = b"",
        late_s: float = 0.0,
    ) -> Window | Wait:
        """A window of so many starts; of an address (`lasts_s`), one of that length, where `place` is who stands in
        the queue. The caller has looked whether the subject is ours, and whether we are silent. `late_s`: what the
        holder's line takes of the window; a host's is longer by that, so that slow lines have a use of it.
        """
        book = self._book(subject, now)
        if book is None:
            self._crowded += 1
            return Wait(until=now + FULL_S, reason="its steward has too many hosts")
        self._tidy(book, now)
        held = book.holds(holder)
        if held is not None:
            # Perhaps it was begun and forgotten, by a process that was killed: as if a start were just over.
            return held if now < held.starts_at else replace(held, starts_at=now + held.spacing_s)
        place = place or holder
        ahead = self._ahead(book, place)
        others = len({*book.queue, *(window.holder for window in book.windows)} - {holder})
        count = self._count(book, holder, wanted, others)
        late_s = min(late_s, self._terms.window_s * LATE_SHARE_MAX)
        if book.is_free:
            # Nobody waits for it, so it begins now, and with its last fetch it lasts as long as a lease.
            lasts_s = self._terms.life_s - self.tail_s(subject)
        lasts_s = lasts_s or (count - 1) * self._step_s(book) + self._terms.slack_s + late_s
        lasts_s = min(lasts_s, self._window_max_s(book))
        # Each asker ahead is left one short window, though it may never come: a later asker waits a little longer and
        # takes nobody's turn. To count only those who did come would let the quickest caller win. Where lanes are free
        # for all of them and the asker, nobody waits: a window as long as a lease can begin now only.
        turn_s = (self._terms.slack_s + self._quantum(book) * self._step_s(book)) * ahead / book.lanes
        if ahead < book.lanes - len(book.windows) - len(book.overdue):
            turn_s = 0.0
        starts_at = max(not_before, book.free_from(now, holder) + turn_s)
        if book.lanes == 1 and not ahead and not book.is_address:
            # Windows come back early, as few peers have as much to do as their window lasts. Nobody is kept waiting by
            # who goes where others were to be.
            starts_at = min(starts_at, book.first_gap(max(now, not_before), lasts_s))
        # At its address the window is longer by its last fetch, and must not outlive a lease there either.
        beyond_s = 0.0 if book.is_address or book.is_free else self.tail_s(subject) + SENT_ROUNDED_S
        latest = now + self._terms.life_s - lasts_s - beyond_s
        promised = [window.starts_at for window in book.windows if window.starts_at > now]
        if book.is_address and starts_at > now and len(promised) >= book.lanes * (1 + book.on_time):
            # A promise is kept even if those before are late, and then both are connected. So an address of which
            # nothing came back in time yet has one for each lane, and twice its cap is open there at most.
            return self._wait(book, place, now, max(starts_at - latest, min(promised) - now))
        # No window may outlive `life_s` from now: a successor of this steward knows nothing of it, and is silent for
        # just as long. What begins too late for that is not promised; the asker keeps its place instead.
        if starts_at > latest or starts_at + lasts_s > now + self._terms.life_s:
            return self._wait(book, place, now, starts_at - latest)
        book.queue.pop(place, None)
        self._numbers += 1
        self._granted += 1
        window = Window(
            holder=holder,
            number=self._numbers,
            starts_at=starts_at,
            ends_at=starts_at + lasts_s,
            count=count,
            spacing_s=book.delay_s,
        )
        assert now <= window.starts_at < window.ends_at <= now + self._terms.life_s, "no longer than a lease"
        beside = sum(
            other.ends_at + book.delay_s > window.starts_at
            and other.starts_at < window.ends_at + book.delay_s
            for other in book.windows
        )
        assert beside < book.lanes, "a lane is free, and has rested, when the window begins"
        book.windows.append(window)
        return window

    def give_back(self, holder: Holder, subject: str, number: int, report: OriginReport, now: float) -> None:
        """The window is over now; one that is not its giver's, or long gone, is ignored.

        The steward learns nothing about addresses from this: an asker could keep all hosts there from being crawled.
        """
        book = self._books.get(subject)
        if book is not None and book.overdue.pop((holder, number), None) is not None:
            book.strikes.pop(holder[:PEER_BYTES], None)
            return
        held = book.holds(holder) if book is not None else None
        if book is None or held is None or held.number != number:
            return
        book.windows.remove(held)
        if held.starts_at <= now:
            book.on_time = min(book.on_time + 1, ON_TIME_MAX)
        book.strikes.pop(holder, None)
        if book.is_address or (now < held.starts_at and not report.fetches):
            return  # or it never began
        if report.fetches:
            self._learn(book, holder, report, now)
        book.rests_until = max(
            book.rests_until, now + book.delay_s
        )  # a connection that failed is no fetch, but felt

    # -- deputies of an address's steward

    def deputy_for(
        self, peer: Holder, subject: str, now: float, *, may_be: bool
    ) -> Deputed | CallBack | None:
        """Before each ask of an address: the asker is deputy if it may be one and is alone; or another is. None: it is
        granted windows one by one.
        """
        book = self._book(subject, now)
        if book is None:
            return None
        self._tidy(book, now)
        deputy = book.deputy
        if deputy is None and not (may_be and self._may_depute(book, peer, now)):
            return None
        if deputy is None:
            self._numbers += 1
            deputy = book.deputy = _Deputy(peer, self._numbers)
            self._deputed[peer] += 1
        elif deputy.peer != peer or now < book.shared_until:
            # Also one that others wait for, and that was deaf to us when we called.
            book.shared_until = now + DEPUTY_S
            is_time = now >= deputy.call_at
            if is_time:
                deputy.call_at = now + CALL_AGAIN_S
            wait = Wait(until=now + ASK_AGAIN_S, reason="its address is another steward's")
            return CallBack(peer=deputy.peer, number=deputy.number, wait=wait, is_time=is_time)
        deputy.until = now + DEPUTY_S + self.last_windows_s
        return Deputed(lasts_s=DEPUTY_S)

    def called_back(self, subject: str, number: int, ends_s: Sequence[float] | None, now: float) -> None:
        """The deputy says when its windows there are over; None: it did not answer."""
        book = self._books.get(subject)
        deputy = book.deputy if book is not None else None
        if book is None or deputy is None or deputy.number != number:
            return
        if ends_s is None:
            # It may be at work all the same, cut off from us. Nobody may keep an address by being deaf, so that time
            # is bounded as it is for windows that do not come back; from then on the cap may be passed, by as much.
            since = self._absent.get(deputy.peer, now)
            deputy.until = min(deputy.until, since + self.last_windows_s)
            return
        self._end_deputy(book)
        for at, end_s in enumerate(sorted(ends_s, reverse=True)[: book.lanes]):
            book.overdue[deputy.peer, -1 - at] = now + min(end_s, self.last_windows_s)

    def note_members(self, is_member: Callable[[Holder], bool], now: float) -> None:
        """Deputies that are gone grant nothing more: what they granted ends from now on."""
        gone = [peer for peer in self._deputed if not is_member(peer)]
        self._absent = {peer: self._absent.get(peer, now) for peer in gone}

    def ends_s(self, subject: str, now: float) -> list[float]:
        """In how many seconds is each of its windows over, with the last fetch in it?"""
        book = self._books.get(subject)
        if book is None:
            return []
        self._tidy(book, now)
        late_s = min(OVERDUE_S, self._terms.silent_s)
        ends = [*(window.ends_at + late_s for window in book.windows), *book.overdue.values()]
        return [end - now for end in ends]

    @property
    def last_windows_s(self) -> float:
        """All windows that were granted until now are over then, with the last fetch in them."""
        return self._terms.life_s + min(OVERDUE_S, self._terms.silent_s)

    def _may_depute(self, book: Book, peer: Holder, now: float) -> bool:
        if now < book.shared_until or book.windows or book.overdue or book.queue:
            return False
        if self._deputed[peer] >= DEPUTED_TO_ONE_MAX and now >= self._full_until:
            self._forget_resting(now)
            self._full_until = now + FULL_S
        return self._deputed[peer] < DEPUTED_TO_ONE_MAX and len(self._books) <= SUBJECTS_MAX // 2

    def _end_deputy(self, book: Book) -> None:
        deputy, book.deputy = book.deputy, None
        if deputy is not None:
            self._deputed[deputy.peer] -= 1
            if not self._deputed[deputy.peer]:
                del self._deputed[deputy.peer]

    def withdraw(self, holder: Holder, subject: str, number: int) -> None:
        """Takes back a window that no asker has heard of."""
        book = self._books.get(subject)
        held = book.holds(holder) if book is not None else None
        if book is not None and held is not None and held.number == number:
            book.windows.remove(held)

    def put_first(self, holder: Holder, subject: str, until: float, now: float) -> None:
        """The asker had its turn but could not use it for another reason: it need not queue again."""
        book = self._book(subject, now)
        if book is None:
            return
        book.queue[holder] = _Place(until + self._terms.life_s)
        book.queue.move_to_end(holder, last=False)

    def shift(
        self, holder: Holder, subject: str, number: int, starts_at: float, ends_at: float, now: float
    ) -> Window | None:
        """The window elsewhere in time, where that leaves room for all others and the life of a lease; None: it is
        left as it was. Nobody may have been told of it yet.
        """
        book = self._books.get(subject)
        assert starts_at < ends_at
        held = book.holds(holder) if book is not None else None
        if book is None or held is None or held.number != number or ends_at > now + self._terms.life_s:
            return None
        gap_s = book.delay_s + book.spread_s
        others = [window for window in book.windows if window is not held and not book.is_free]
        # Stricter than `free_from` where a book has several lanes: no other window may touch this one at all. A
        # refusal costs the asker nothing, as its window stays.
        if starts_at < book.rests_until or any(
            starts_at < other.ends_at + gap_s and other.starts_at < ends_at + gap_s for other in others
        ):
            return None
        moved = replace(held, starts_at=starts_at, ends_at=ends_at)
        book.windows[book.windows.index(held)] = moved
        return moved

    def set_crawl_delay(self, subject: str, crawl_delay_s: float, now: float) -> None:
        """What a robots.txt of the host asks for; the longest counts until the book is forgotten."""
        asked_s = min(crawl_delay_s, self._terms.policy.crawl_delay_max_s)
        book = self._book(subject, now)
        if book is not None and asked_s > book.delay_s:
            book.delay_s = asked_s
            book.rests_until = max(book.rests_until, now + asked_s)

    def duration_s(self, subject: str) -> float:
        """What a fetch took lately."""
        book = self._books.get(subject)
        return DURATION_GUESS_S if book is None else book.duration_s

    def tail_s(self, subject: str) -> float:
        """Of a host's window, at its address: the last fetch ends before others begin there."""
        # Where fetches take so long that nothing of a window would be left, no window would ever be granted again, and
        # nobody would learn that the host is well.
        return min(2 * self.duration_s(subject), self._terms.window_s / 2)

    def forget(self, subject: str, now: float) -> None:
        """It is another peer's now. Of an address, windows and deputy count to their end: it may come back before its
        deputy has heard of that, or we are its deputy ourselves.
        """
        book = self._books.get(subject)
        if book is None:
            return
        self._tidy(book, now)
        if not book.is_address or book.is_at_rest(now):
            del self._books[subject]

    def subjects(self) -> list[str]:
        return list(self._books)

    def statistics(self, now: float) -> OfficeStatistics:
        books = self._books.values()
        return OfficeStatistics(
            subjects=len(self._books),
            windows=sum(len(book.windows) for book in books),
            waiting=sum(len(book.queue) for book in books),
            granted=self._granted,
            lost=self._lost,
            crowded=self._crowded,
            backing_off=sum(book.failures > 0 and book.rests_until > now for book in books),
            overdue=sum(until >= now for book in books for until in book.overdue.values()),
        )

    # -- inside

    def _book(self, subject: str, now: float) -> Book | None:
        """None if there is no space for one more."""
        book = self._books.get(subject)
        if book is None:
            if len(self._books) >= SUBJECTS_MAX and now >= self._full_until:
                self._forget_resting(now)
                self._full_until = now + FULL_S
            if len(self._books) >= SUBJECTS_MAX:
                return None
            policy = self._terms.policy
            is_host = subject.startswith("host:")
            book = self._books[subject] = Book(
                places=policy.per_address_concurrency,
                delay_s=policy.delay_floor_s if is_host else 0.0,
                spread_s=self._terms.spread_s if is_host else 0.0,
                is_address=not is_host,
            )
        return book

    def _forget_resting(self, now: float) -> None:
        for book in self._books.values():
            self._tidy(book, now)
        self._books = {name: book for name, book in self._books.items() if not book.is_at_rest(now)}

    def _tidy(self, book: Book, now: float) -> None:
        """Windows that ended and were not given back, and places of those who did not come again."""
        if book.deputy is not None and now >= book.deputy.until:
            self._end_deputy(book)
        # Of an address also those that end now: a promise may begin at the same moment.
        for window in [one for one in book.windows if one.ends_at < now + (book.is_address and ROUNDING_S)]:
            book.windows.remove(window)
            self._lost += 1
            book.rests_until = max(book.rests_until, window.ends_at + book.spread_s + book.delay_s)
            who = window.holder
            if book.is_address:
                # Less for a peer that never gives anything back: else a few of them kept an address for themselves.
                who = who[:PEER_BYTES]
                book.on_time = 0
                late_s = min(OVERDUE_S, self._terms.silent_s) / 2 ** book.strikes.get(who, 0)
                book.overdue[window.holder, window.number] = window.ends_at + late_s
            if len(book.strikes) < QUEUE_MAX or who in book.strikes:
                book.strikes[who] = min(book.strikes.get(who, 0) + 1, STRIKES_MAX)
        for mark in [mark for mark, until in book.overdue.items() if until < now]:
            del book.overdue[mark]
        for holder in [one for one, place in book.queue.items() if place.returns_by < now]:
            del book.queue[holder]

    def _ahead(self, book: Book, holder: Holder) -> int:
        """How many come before; each is left room for a short window. Peers take turns: who asks on behalf of many
        hosts at an address, or says so, has one turn and not many in each round.
        """
        # A peer's n-th place belongs to round n, and rounds go one after another. So a place waits for one place of
        # each peer in each round up to its own, however many places the others took: many hosts buy no precedence.
        rounds: Counter[bytes] = Counter()
        turns: list[int] = []
        for one in book.queue:
            peer = one[:PEER_BYTES]
            if one == holder:
                return sum(turn <= rounds[peer] for turn in turns) + self._later(book, holder, rounds[peer])
            turns.append(rounds[peer])
            rounds[peer] += 1
        return sum(turn <= rounds[holder[:PEER_BYTES]] for turn in turns)

    def _later(self, book: Book, holder: Holder, turn: int) -> int:
        """How many came after, and yet have an earlier turn."""
        rounds: Counter[bytes] = Counter()
        found, is_after = 0, False
        for one in book.queue:
            found += is_after and rounds[one[:PEER_BYTES]] < turn
            rounds[one[:PEER_BYTES]] += 1
            is_after = is_after or one == holder
        return found

    def _window_max_s(self, book: Book) -> float:
        """Where no delay is agreed, a window of an address covers one of a free host."""
        is_short = self._terms.policy.delay_floor_s or not (book.is_address or book.is_free)
        return self._terms.window_s if is_short else self._terms.life_s

    def _count(self, book: Book, holder: Holder, wanted: int, others: int) -> int:
        # Each window that was never given back halves the next one. So a peer that only asks soon blocks a host for
        # one start at a time, and a peer that crashed once loses little. The first one given back clears it.
        share = max(self._quantum(book), self._room(book) // (1 + others))
        if book.is_free:  # nobody waits for what is left of it
            share = wanted = STARTS_MAX
        return max(1, min(wanted, share >> book.strikes.get(holder, 0), STARTS_MAX))

    def _room(self, book: Book) -> int:
        """How many starts the longest window has room for."""
        return int((self._terms.window_s - self._terms.slack_s) / max(self._step_s(book), 0.001)) + 1

    def _quantum(self, book: Book) -> int:
        """What each gets however many wait: less would be spent on the gaps between windows, and on calls."""
        return max(1, self._room(book) // 3)

    def _step_s(self, book: Book) -> float:
        """From one start to the next."""
        return book.delay_s + book.duration_s

    def _wait(self, book: Book, holder: Holder, now: float, too_early_s: float) -> Wait:
        until = now + max(too_early_s, ASK_AGAIN_S)
        reason = (
            "backing off" if book.failures else "resting" if book.rests_until > now else "others are before"
        )
        if holder in book.queue or self._has_place(book, holder):
            returns_by = until + self._terms.life_s
            place = book.queue.setdefault(holder, _Place(returns_by))
            place.returns_by = returns_by
        else:
            self._crowded += 1
        return Wait(until=until, reason=reason)

    def _has_place(self, book: Book, holder: Holder) -> bool:
        of_peer = sum(one.startswith(holder[:PEER_BYTES]) for one in book.queue)
        return len(book.queue) < QUEUE_MAX and of_peer < PLACES_OF_ONE_MAX

    def _is_believed(self, book: Book, holder: Holder, *, is_failure: bool) -> bool:
        """A peer that invents failures must not keep a host from being crawled by all."""
        # A failure is a claim that nobody else can see. It is checked by what comes next: a good answer for another
        # peer counts against the claim, a good answer for the same peer shows that the host does recover. To ask a
        # third peer at each failure would cost the failing host one more request.
        if is_failure:
            book.failed_for = holder
            return book.doubts.get(holder, 0) < DOUBTS_MAX
        if book.failed_for == holder:
            book.doubts.pop(holder, None)
        elif book.failed_for and (len(book.doubts) < QUEUE_MAX or book.failed_for in book.doubts):
            book.doubts[book.failed_for] = book.doubts.get(book.failed_for, 0) + 1
        book.failed_for = b""
        return True

    def _learn(self, book: Book, holder: Holder, report: OriginReport, now: float) -> None:
        policy = self._terms.policy
        is_failure = report.status in (None, 429, 503)
        is_confirmed = book.failed_for not in (b"", holder)
        if not self._is_believed(book, holder, is_failure=is_failure or bool(report.retry_after_s)):
            return
        # 0.3: one odd answer moves the guess by a third, and some six answers renew it. The report is a stranger's
        # word, so it is held to what a window can last.
        book.duration_s += 0.3 * (max(0.0, min(report.duration_s, self._terms.window_s)) - book.duration_s)
        # 30 doublings pass every longest rest; more of them would only overflow.
        book.failures = min(book.failures + 1, 30) if is_failure else 0
        rest_s = 0.0
        if policy.delay_floor_s:
            rest_s = min(policy.delay_factor * report.duration_s, measured_delay_max_s(policy))
        rest_s = max(rest_s, policy.rest_s(report, book.failures))
        if not is_confirmed:
            rest_s = min(rest_s, UNCONFIRMED_REST_MAX_S)
        book.rests_until = max(book.rests_until, now + rest_s)
