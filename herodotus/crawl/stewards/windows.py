"""Which windows does this peer hold, and what did it do with them? One of a host at a time, from that host's steward.

Without a window the peer asks for one; it asks for as many starts as the last ones were used for. A window goes back
when it is used up, after a failure, or when the crawl no longer needs it. A returned window is not used again,
whatever an earlier answer says.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import anyio

from crawler.core.lease_office import LATE_SHARE_MAX
from crawler.core.politeness import HeldWindow, LeaseRefusal, LeaseTerms, OriginReport, Stay, Wait
from dht import Contact
from herodotus.core.pacer import OwnQueue
from herodotus.core.signatures import SignedWindow
from herodotus.crawl.stewards.ask_queue import AskSteward
from herodotus.crawl.stewards.office import subject_of
from herodotus.crawl.stewards.wire import SIGNATURE_BYTES, Ask, Granted, No, NotYet, Return, to_ms

ASK_AGAIN_S = 1.0
ASK_LATER_S = 0.25
"""After a window that was over when it came: the next one is asked for by what the way takes now."""
WANTED_FIRST, WANTED_MAX = 4, 256
HOSTS_NOTED_MAX = 100_000
"""Beyond, hosts of which no window is held are forgotten: some 30 MB."""
IDLE_LOOK_S, IDLE_S = 0.5, 2.0
"""A window that could have been used for so long goes back."""
WAIT_MAX_S = 600.0
"""Whatever the steward says, it is asked again by then: it may be another one, or have lied."""
SLOW_AFTER_S = 600.0
"""A host that waits so long for its steward, without being told of a rest, is shown to the operator."""
_FINAL = frozenset({"opted-out", "not-public", "malformed"})
_RESTS = frozenset({"resting", "backing off"})

ReturnTo = Callable[[Contact | None, Return], None]


@dataclass(slots=True)
class HostNote:
    """What this peer holds and knows of a host."""

    host: str
    window: HeldWindow | None = None
    address: str = ""
    """The one that the window covers."""
    stay: Stay = field(default_factory=Stay)
    """There, for as long as there is a window."""
    steward: Contact | None = None
    """Whose window it is; None: our own."""
    rules: int = 0
    returned: int = -1
    wanted: int = WANTED_FIRST
    round_trip_s: float = 0.0
    """Of the last ask, with all that was queued in our line then."""
    way_s: float = 0.0
    """What lately passed between a permission and its request: a place to wait for, a slow connection."""
    waits_since: float | None = None
    is_out: bool = False
    """A fetch is under way."""
    doubted: int = -1
    """The window on whose word the rules were asked for again."""
    signed: tuple[SignedWindow, ...] = ()
    """The last two that we had, the newest first: a capture may be stored after its window went back."""


def signed_window(steward: bytes, answer: Granted) -> SignedWindow:
    """As the answer tells it."""
    return SignedWindow(
        steward=steward,
        number=answer.number,
        granted_s=answer.granted_s,
        starts_ms=answer.starts_in_ms,
        lasts_ms=answer.lasts_ms,
        count=answer.count,
        addresses=answer.addresses,
        signature=answer.signature or bytes(SIGNATURE_BYTES),
    )


def soon(reason: str, in_s: float = ASK_AGAIN_S) -> Wait:
    return Wait(until=anyio.current_time() + in_s, reason=reason)


class Windows:
    def __init__(
        self,
        terms: LeaseTerms,
        ask_steward: AskSteward,
        return_to: ReturnTo,
        *,
        own_key: bytes,
        own_queue: OwnQueue | None = None,
    ) -> None:
        self._terms = terms
        self._own_queue = own_queue or OwnQueue()
        self._own_key = own_key
        self._ask_steward = ask_steward
        self._return_to = return_to
        self._notes: dict[str, HostNote] = {}
        self._has_windows = anyio.Event()

    def signed(self, host: str, time_s: float) -> SignedWindow | None:
        """The newest that covers the time."""
        note = self._notes.get(host)
        return next((one for one in note.signed if one.covers(time_s)), None) if note is not None else None

    async def get(
        self, host: str, purpose: str, address: str, *, known: bytes | None = None
    ) -> HostNote | Wait | LeaseRefusal:
        """A note with a window that is not over and covers the address, held already or asked for now. `known`: an ask
        is also one for the rules of `purpose`, of which we have that version.
        """
        note = self._note(host)
        if note.window is not None:
            self._note_late(note, note.window)
        if note.window is not None and (note.address != address or note.window.is_over(anyio.current_time())):
            self.end(note)
        if note.window is None:
            # The way of the answer and that of the last request are lost to us: the window is asked for so much longer.
            late_s = 2 * self._late_s(note) + note.way_s
            ask = Ask(
                subject=subject_of(host),
                wanted=note.wanted,
                lasts_ms=to_ms(late_s),
                purpose=purpose,
                address=address,
                known=known,
            )
            found = await self._ask(note, ask)
            if found is not None:
                return found
        if note.window is None or note.window.is_over(anyio.current_time()):
            return soon("the window is over", ASK_LATER_S)
        return note

    def _note_late(self, note: HostNote, window: HeldWindow) -> None:
        """Where starts need not be apart, it does not matter when they arrive."""
        if window.spacing_s:
            window.late_s, window.way_s = self._late_s(note), note.way_s

    def _late_s(self, note: HostNote) -> float:
        """What a request may take to arrive: an ask came and went in that time, or our line has filled since."""
        queue = self._own_queue
        is_seen = anyio.current_time() < queue.seen_until
        return max(note.round_trip_s, queue.wait_s if is_seen else 0.0)

    def start(self, note: HostNote) -> Wait | None:
        """None: a fetch starts now."""
        now, window = anyio.current_time(), note.window
        assert window is not None, "`get` gave it a moment ago"
        if now < window.opens_at():
            return Wait(until=window.opens_at(), reason="its turn has not come")
        note.waits_since = None
        note.is_out = True
        window.start(now)
        return None

    def starts_by(self, host: str) -> float | None:
        """Nothing departs later under the window that is held: it would arrive after its end."""
        note = self._notes.get(host)
        return note.window.departs_by if note is not None and note.window is not None else None

    def ended(self, host: str, report: OriginReport, next_at: float) -> float:
        """A fetch ended; says when the next may start, as far as the window tells."""
        note = self._notes.get(host)
        if note is None:
            return next_at
        note.is_out = False
        # An eighth of it is forgotten with each fetch: a slow moment does not lengthen windows for ever.
        note.way_s = min(max(report.late_s, note.way_s * 7 / 8), LATE_SHARE_MAX * self._terms.window_s)
        window = note.window
        if window is None:
            return next_at
        if report.fetches:
            window.note(report)
        is_failure = bool(report.fetches) and report.status in (None, 429, 503)
        # Others wait for a host that asks for a delay; a window of another one is kept, for links that come yet.
        is_left = not report.fetches and bool(window.spacing_s)
        if is_left or is_failure or window.is_over(max(anyio.current_time(), next_at)):
            self.end(note)
            return next_at
        return max(next_at, window.opens_at())

    def end(self, note: HostNote) -> None:
        """The window goes back, with what became of it."""
        window = note.window
        if window is None:
            return
        note.window = None
        note.stay.end()
        note.returned = window.number
        if window.is_used_up():
            note.wanted = min(2 * note.wanted, WANTED_MAX)
        elif window.fetches:
            note.wanted = max(WANTED_FIRST, window.fetches)
        self._return_to(
            note.steward,
            Return(
                subject_of(note.host),
                window.number,
                window.fetches,
                window.status or 0,
                to_ms(window.duration_s, up=True),
                -1 if window.retry_after_s is None else to_ms(window.retry_after_s, up=True),
            ),
        )

    def end_unused(self, host: str) -> None:
        """It was for others, who wait for it."""
        note = self._notes.get(host)
        if note is not None and not note.is_out:
            self.end(note)

    def end_all(self) -> None:
        """Whatever we hold may be over by everybody else's clock."""
        for note in self._notes.values():
            self.end(note)

    async def return_idle(self) -> None:
        """For as long as the peer lives: a crawl that was paused, or ended, does not keep others waiting."""
        while True:
            await self._has_windows.wait()
            await anyio.sleep(IDLE_LOOK_S)
            if not self.held:
                self._has_windows = anyio.Event()
            now = anyio.current_time()
            for note in self._notes.values():
                window = note.window
                if window is not None and not note.is_out and window.is_idle(now, IDLE_S):
                    self.end(note)

    @property
    def held(self) -> int:
        return sum(note.window is not None for note in self._notes.values())

    @property
    def slow(self) -> int:
        since = anyio.current_time() - SLOW_AFTER_S
        return sum(note.waits_since is not None and note.waits_since < since for note in self._notes.values())

    async def _ask(self, note: HostNote, ask: Ask) -> Wait | LeaseRefusal | None:
        """None: there is a window now."""
        answer, asked, got, steward, _ = await self._ask_steward(ask)
        note.round_trip_s = got - asked
        if isinstance(answer, Granted):
            if ask.address and ask.address not in answer.addresses:
                return self._waits(note, soon("its steward says nothing of its address", WAIT_MAX_S))
            if note.steward is None or steward is None or note.steward.peer != steward.peer:
                note.returned = -1
            if answer.number == note.returned:
                return soon("the steward has not heard yet that its window was given back")
            life_s = self._terms.life_s
            if answer.starts_in_ms / 1000 >= life_s:
                return self._waits(
                    note, soon("its steward's window is further away than a lease lives", life_s)
                )
            note.steward, note.rules = steward, answer.rules
            if len(answer.signature) == SIGNATURE_BYTES:
                peer = self._own_key if steward is None else steward.peer
                note.signed = (signed_window(peer, answer), *note.signed[:1])
            note.window = HeldWindow.received(
                answer.number,
                answer.starts_in_ms / 1000,
                min(answer.lasts_ms, 1000 * life_s - answer.starts_in_ms) / 1000,
                answer.count,
                max(answer.spacing_ms / 1000, self._terms.policy.delay_floor_s),
                asked=asked,
                got=got,
            )
            self._note_late(note, note.window)
            note.address, note.stay = ask.address or "", Stay()
            self._has_windows.set()
            return None
        wait = soon("its steward does not answer")
        if isinstance(answer, NotYet):
            wait_s = min(max(answer.wait_ms / 1000, 0.01), WAIT_MAX_S)
            wait = Wait(until=got + wait_s, reason=answer.reason)
        elif isinstance(answer, No):
            if answer.reason in _FINAL:
                return LeaseRefusal(reason=answer.reason)
            wait = soon(answer.reason)
        return self._waits(note, wait)

    def _waits(self, note: HostNote, wait: Wait) -> Wait:
        if wait.reason in _RESTS:
            note.waits_since = None
        elif note.waits_since is None:
            note.waits_since = anyio.current_time()
        return wait

    def _note(self, host: str) -> HostNote:
        note = self._notes.get(host)
        if note is None:
            if len(self._notes) >= HOSTS_NOTED_MAX:
                self._notes = {name: one for name, one in self._notes.items() if one.window is not None}
            note = self._notes[host] = HostNote(host)
        return note
