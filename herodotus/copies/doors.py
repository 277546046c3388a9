"""May this capture of another peer come in? The doors of `core.doors`, with the ring, the clock, and the other holders.

What no owner brings in time must be with two holders in different places. The sender is one of them if it is a
holder; the others are asked for the very content (`copies/1/has`), many captures in one call. The window under which it
was fetched counts as the word of its steward and of its signer, if they are members. A holder may also say
that it never came, if it has held the key since before its date (`core.copies.tenure`). Where more places say so than
stand for it, it is a claim: somebody invented a past.
"""

import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Hashable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

import anyio
from cachetools import FIFOCache

from crawler.core.urls import host_of, target_of
from dht.core import ids
from dht.core.places import Standing
from herodotus.copies import wire
from herodotus.copies.shared_state import SHOWN_KEY, Parts
from herodotus.core.captures import CaptureId, Deposit
from herodotus.core.copies import PeerKey
from herodotus.core.copies.tenure import TENURE_FORMAT, Tenure, TenureFile
from herodotus.core.doors import (
    DAY_S,
    DECLINED_S,
    QUOTAS_FORMAT,
    SLACK,
    ClockDoubts,
    Declined,
    Door,
    Passage,
    Quotas,
    QuotasFile,
    TurnedAway,
    crawled_at,
    is_ahead,
    passage_in,
)
from herodotus.core.errors import FileSyntaxError, MalformedError, StorageFailure
from herodotus.core.index_rows import KEY_BYTES as POSITION_BYTES
from herodotus.core.index_rows import capture_key
from herodotus.core.reconciliation import member_of
from herodotus.core.signatures import (
    WINDOW,
    SignedWindow,
    is_signed_window,
    window_of_field,
    window_statement,
)
from herodotus.core.status import DoorStatus
from herodotus.home.state_files import read_state_file, write_state_file
from herodotus.peers.calls import CallError
from herodotus.store import Held

logger = logging.getLogger(__name__)

SENDERS_MAX: Final = 1_024
SENDERS_SHOWN: Final = 5
ASKED_AT_ONCE: Final = 256
ASK_S: Final = 10.0
"""For a holder's answer; without one the next holder is asked."""
GATHER_S: Final = 0.02
"""Captures of one parcel's neighbours are asked about together."""
PLACES_NEEDED: Final = 2
SETTLED_S: Final = 600.0
"""So long the same keys must be ours: a table of a peer that joins changes by the second."""
URL_SLASHES_MIN: Final = 3
STEWARD_RANK_MAX: Final = 2
"""The steward is the owner of its key; two members may have come before it since, or left."""
SIGNED_MAX: Final = 2_048
"""Windows whose signature was found right, 400 bytes each: those of some 30,000 captures."""
WINDOWS_MAX: Final = 8_192
"""Whose captures are counted, some 15 each: 10 MB."""
STANDINGS_S: Final = 60.0
"""Ages change once a day, and a table of 20,000 members takes half a millisecond to copy."""
SAVE_EVERY_S: Final = 60.0
QUOTAS_BYTES_MAX: Final = 4 << 20
TENURE_BYTES_MAX: Final = 1 << 20
NEWCOMERS_S: Final = 1.0
"""Where the peer that is asked about is not among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DoorRules:
    """What doors ask of the peer."""

    wall_s: Callable[[], float]
    spreads_imports: bool
    network: bytes
    """The first bytes of the charter's hash."""
    steward_key: Callable[[str], ids.Key]
    """The key whose owner is a host's steward: it signs windows, and fetches robots.txt."""
    quotas: Quotas
    standings: Callable[[], Mapping[ids.PeerKey, Standing]]
    """How each member counts."""
    tenure: Tenure = field(default_factory=Tenure)
    age_days: Callable[[bytes], int] = lambda _peer: 0
    """For how long we have known a member ourselves; of our own key, for how long we have watched at all."""
    founded_s: float | None = None
    """When the network began, where its charter says so."""
    sure_after_s: float = 86_400.0
    """What we hold is compared with all others' within this time."""


@dataclass(slots=True)
class _Question:
    """Does anybody else have this? `places` are those that do, or vouch for it by a window."""

    key: bytes
    sha256: bytes
    holders: Sequence[PeerKey]
    time_s: int
    places: set[Hashable] = field(default_factory=set)
    denied: set[Hashable] = field(default_factory=set)
    """Where it never came."""
    asked: set[PeerKey] = field(default_factory=set)
    is_unsure: bool = False
    """Somebody gave no answer."""
    answered: anyio.Event = field(default_factory=anyio.Event)


class Doors:
    def __init__(self, rules: DoorRules) -> None:
        self._rules = rules
        self.declined = Declined()
        self._clocks = ClockDoubts()
        self._came: Counter[str] = Counter()
        """Captures by their passage, since the start."""
        self._turned_away: Counter[TurnedAway] = Counter()
        self._by_sender: dict[PeerKey, Counter[TurnedAway]] = {}
        self._waiting: list[_Question] = []
        self._is_asking = False
        self._signed: FIFOCache[bytes, bool] = FIFOCache(SIGNED_MAX)
        self._by_window: FIFOCache[bytes, set[CaptureId]] = FIFOCache(WINDOWS_MAX)
        self._standings: Mapping[ids.PeerKey, Standing] = {}
        self._looked_at = float("-inf")
        self._share_since = float("inf")
        self._settled_s = min(SETTLED_S, rules.sure_after_s)
        self._is_young = False
        """Fewer places are of age than there are to be copies."""

    async def judge(
        self, parts: Parts, deposit: Deposit, signer: PeerKey, sender: PeerKey
    ) -> Passage | TurnedAway:
        """By which door this comes in. Its bytes and its signature were checked. Asks others where it must."""
        found = await self._judge(parts, deposit, signer, sender)
        return self._noted(parts, deposit, signer, sender, found)

    def judge_at_once(
        self, parts: Parts, deposit: Deposit, signer: PeerKey, sender: PeerKey
    ) -> Passage | TurnedAway | None:
        """As `judge`; None where others may have to be asked."""
        found = self._by_itself(parts, deposit, signer, sender)
        return None if found is None else self._noted(parts, deposit, signer, sender, found)

    def _noted(
        self, parts: Parts, deposit: Deposit, signer: PeerKey, sender: PeerKey, found: Passage | TurnedAway
    ) -> Passage | TurnedAway:
        if isinstance(found, Passage):
            counts = not found.is_healed  # repair does not
            if not counts or self._is_within_quota(parts, deposit, signer):
                return found
            found = TurnedAway.QUOTA
        self._note(sender, found)
        lasts_s = DECLINED_S.get(found)
        if lasts_s is not None:
            key = capture_key(deposit.id)
            self.declined.note(key[1:], member_of(key), sender, parts.now() + lasts_s, found)
        return found

    # -- since when do we hold what we hold? --------------------------------------------------------------

    def look(self, parts: Parts) -> None:
        """To be called every few minutes. While a peer joins, its table is none to go by."""
        now, view, holdings = parts.now(), parts.view, parts.holdings()
        if holdings is None or not view.others() or now - view.changed_at < self._settled_s:
            return
        self._share_since = min(self._share_since, now)
        self._rules.tenure.hold(view.share, int(self._rules.wall_s()), holdings.captures)

    def never_came(self, parts: Parts, position: bytes, time_s: int) -> bool:
        """Of a capture that is not here: it would be, if it were true."""
        rules, holdings = self._rules, parts.holdings()
        since_s = rules.tenure.since(position)
        sure_s = rules.sure_after_s  # a holder takes as long to fetch what it is to hold
        is_sure = since_s is not None and since_s + sure_s <= time_s < rules.wall_s() - sure_s
        had_room = not rules.tenure.may_have_turned_away(time_s, sure_s)
        has_compared = parts.now() - self._share_since >= rules.sure_after_s
        return is_sure and had_room and has_compared and holdings is not None and not holdings.lost

    def had_no_room(self) -> None:
        """For a capture that was offered to us, and is ours to hold."""
        self._rules.tenure.turned_away(int(self._rules.wall_s()))

    def _may_deny(self, parts: Parts, peer: PeerKey, time_s: int) -> bool:
        """A holder whom we have known since then, or for as long as we have watched."""
        days = (self._rules.wall_s() - time_s) // DAY_S
        return self._rules.age_days(peer) >= min(days, self._rules.age_days(parts.view.me))

    def _is_before_the_network(self, time_s: float) -> bool:
        return self._rules.founded_s is not None and time_s < self._rules.founded_s - DAY_S

    def _is_within_quota(self, parts: Parts, deposit: Deposit, signer: PeerKey) -> bool:
        place, now_s = self._place_of(parts, signer), self._rules.wall_s()
        return self._rules.quotas.is_within(signer, place, size_of(deposit), now_s)

    def came(
        self, parts: Parts, deposit: Deposit, signer: PeerKey, passage: Passage, *, is_new: bool
    ) -> None:
        """What became of one that `judge` let in."""
        if is_new:
            self._came[str(passage)] += 1
        elif not passage.is_healed:
            self._rules.quotas.give_back(signer, self._place_of(parts, signer), size_of(deposit))

    def _by_itself(
        self, parts: Parts, deposit: Deposit, signer: PeerKey, sender: PeerKey
    ) -> Passage | TurnedAway | None:
        """Where nobody else needs to be asked."""
        now_s, time_s = self._rules.wall_s(), deposit.capture.time_s
        if not self.is_member(parts, sender):
            return TurnedAway.STRANGER
        if is_ahead(time_s, now_s):
            self._clocks.came_ahead(self._place_of(parts, sender), parts.now())
            return TurnedAway.AHEAD
        door = crawled_at(time_s, now_s)
        if door is None or passage_in(deposit).first is Door.BROUGHT_IN:
            return None
        is_its_own = self._is_permitted(parts, deposit, signer) and self._is_fetcher(parts, deposit, signer)
        return Passage(door) if is_its_own else None

    async def _judge(
        self, parts: Parts, deposit: Deposit, signer: PeerKey, sender: PeerKey
    ) -> Passage | TurnedAway:
        found = self._by_itself(parts, deposit, signer, sender)
        if found is not None:
            return found
        rules, now_s, time_s = self._rules, self._rules.wall_s(), deposit.capture.time_s
        stated = passage_in(deposit)
        vouchers = set[Hashable]()
        is_old = crawled_at(time_s, now_s) is None and stated.first is not Door.BROUGHT_IN
        if is_old and self._is_permitted(parts, deposit, signer):
            vouchers = self._vouching(parts, deposit, signer)
        must_stay = stated.first is Door.BROUGHT_IN and not rules.spreads_imports
        if must_stay or (stated.first is not Door.BROUGHT_IN and self._is_before_the_network(time_s)):
            is_elsewhere: bool | None = await self._is_damaged_here(parts, deposit)
        else:
            is_elsewhere = await self._is_held_elsewhere(parts, deposit, sender, vouchers)
        if is_elsewhere:
            return Passage(stated.first, is_healed=True)
        if rules.spreads_imports and self._counts(parts, signer):
            return Passage(Door.BROUGHT_IN)
        if stated.first is Door.BROUGHT_IN and not rules.spreads_imports:
            return TurnedAway.BROUGHT_IN
        # A signer of whom nothing is known here may be a member of whom we shall hear soon.
        is_unsure = is_elsewhere is None or not self.is_member(parts, signer)
        return TurnedAway.UNASKED if is_unsure else TurnedAway.CLAIMED

    def admits(self, parts: Parts, sender: PeerKey) -> bool:
        """Only members may bring something, or ask for a second word."""
        if self.is_member(parts, sender):
            return True
        self._note(sender, TurnedAway.STRANGER)
        return False

    def is_member(self, parts: Parts, peer: PeerKey) -> bool:
        """Also one that holds nothing (a leaf), or is away for less than a day."""
        return peer in parts.view.table.peers or self._known_standing(parts, peer) is not None

    def _counts(self, parts: Parts, peer: PeerKey) -> bool:
        """Of age, or a member where too few places are: those of a new network are all young, and hold its keys."""
        return self.is_member(parts, peer) and (self._standing(parts, peer).is_of_age or self._is_young)

    def _place_of(self, parts: Parts, peer: PeerKey) -> bytes:
        return self._standing(parts, peer).place

    def _standing(self, parts: Parts, peer: PeerKey) -> Standing:
        return self._known_standing(parts, peer) or Standing(peer, peer, is_of_age=False)

    def _known_standing(self, parts: Parts, peer: PeerKey) -> Standing | None:
        """A member that is away for less than a day counts as it did."""
        now = parts.now()
        is_news = ids.PeerKey(peer) not in self._standings and now - self._looked_at >= NEWCOMERS_S
        if is_news or now - self._looked_at >= STANDINGS_S:
            members = parts.view.table.peers
            kept = {one: standing for one, standing in self._standings.items() if one in members}
            self._standings, self._looked_at = {**kept, **self._rules.standings()}, now
            of_age = {standing.place for standing in self._standings.values() if standing.is_of_age}
            self._is_young = len(of_age) < parts.view.copies
        return self._standings.get(ids.PeerKey(peer))

    def _is_fetcher(self, parts: Parts, deposit: Deposit, signer: PeerKey) -> bool:
        """Is the signer one of those that fetch this URL? A host's steward fetches its robots.txt."""
        if not self._counts(parts, signer):
            return False
        table, peer = parts.view.table, ids.PeerKey(signer)
        if table.rank(deposit.key, peer, SLACK) is not None:
            return True
        host = _host_of_robots(deposit.capture.url)
        return bool(host) and table.rank(self._rules.steward_key(host), peer, SLACK) is not None

    def _is_permitted(self, parts: Parts, deposit: Deposit, signer: PeerKey) -> bool:
        """Did the host's steward sign a window for this signer, at this time, and for no fewer captures than came?"""
        url, rules = deposit.capture.url, self._rules
        window = _window_in(deposit)
        host = _host_of(url)
        if window is None or not host or not window.covers(deposit.capture.time_s):
            return False
        is_old = crawled_at(deposit.capture.time_s, rules.wall_s()) is None
        is_steward = self._is_steward(parts, host, window.steward, is_old=is_old)
        if not self._counts(parts, window.steward) or not is_steward:
            return False
        if not self._is_signed(window, signer, f"host:{host}"):
            return False
        came = self._by_window.setdefault(window.signature, set())
        if deposit.id not in came and len(came) >= window.count:
            return False
        came.add(deposit.id)
        return True

    def _is_signed(self, window: SignedWindow, signer: PeerKey, subject: str) -> bool:
        """A window comes with some fifteen captures, and is verified once. Remembered is all that was signed."""
        said = window.signature + window_statement(window, self._rules.network, signer, subject)
        if said in self._signed:
            return True
        is_right = is_signed_window(window, self._rules.network, signer, subject)
        if is_right:
            self._signed[said] = True
        return is_right

    def _is_steward(self, parts: Parts, host: str, peer: PeerKey, *, is_old: bool) -> bool:
        """The steward is the first holder of its key that is there. Of the last week it may have been any of the first
        k + 2: while a ring was split, each part of it had its own. Of old days it is one of the first three, not
        counting those that are away, which keep their places in our table for a day, and in the ring for minutes."""
        ahead = 0
        for one in parts.view.table.of(self._rules.steward_key(host), SLACK):
            if one.peer == peer:
                return not is_old or ahead <= STEWARD_RANK_MAX
            ahead += one.peer not in parts.view.absent
        return False

    def _vouching(self, parts: Parts, deposit: Deposit, signer: PeerKey) -> set[Hashable]:
        """Places that say by an old window that the capture was made then: the steward's, and that of its signer. A
        key that is no member is in no place; a steward makes as many as it likes."""
        window = _window_in(deposit)
        assert window is not None, "it permits the capture"
        return {self._place_of(parts, peer) for peer in (window.steward, signer) if self._counts(parts, peer)}

    def _are_few(self, parts: Parts) -> bool:
        """Where there are no more places than copies, whoever was there first may have been all there was."""
        places = {self._place_of(parts, peer) for peer in parts.view.table.peers if self._counts(parts, peer)}
        return len(places) <= parts.view.copies

    # -- the second holder --------------------------------------------------------------------------------

    async def _is_damaged_here(self, parts: Parts, deposit: Deposit) -> bool:
        return (await parts.opened().held([capture_key(deposit.id)[1:]]))[0] is Held.HERE

    async def _is_held_elsewhere(
        self, parts: Parts, deposit: Deposit, sender: PeerKey, vouchers: set[Hashable]
    ) -> bool | None:
        """Do two places stand for it, and no fewer than say that it never came? None: somebody who might say yes does
        not answer."""
        key, me, place_of = capture_key(deposit.id)[1:], parts.view.me, partial(self._place_of, parts)
        holders = self._holders(parts, key)
        question = _Question(key, deposit.id.digest, holders, deposit.capture.time_s, places=vouchers)
        if sender in holders:
            question.places.add(place_of(sender))
        held = (await parts.opened().held([key]))[0]
        if held is Held.HERE:
            question.places.add(place_of(me))  # what we have is damaged
        elif held is Held.LACKING and self.never_came(parts, key, question.time_s):
            question.denied.add(place_of(me))
        question.asked |= {me, sender}
        elsewhere = {place_of(one) for one in holders} - {place_of(me)}
        needed = max(1, min(PLACES_NEEDED, len(elsewhere)))
        if vouchers and self._are_few(parts):
            needed = 1
        while not self._is_decided(parts, question, needed):
            question.answered = anyio.Event()
            self._waiting.append(question)
            if not self._is_asking:
                await self._ask(parts)
            await question.answered.wait()
        if len(question.denied - question.places) > len(question.places):
            return False
        if len(question.places) >= needed:
            return True
        return None if question.is_unsure or any(one in parts.view.absent for one in holders) else False

    def _holders(self, parts: Parts, key: bytes) -> list[PeerKey]:
        """Of the first k + 2, those that count."""
        found = parts.view.table.of(ids.Key(key[:POSITION_BYTES]), SLACK)
        return [one.peer for one in found if self._counts(parts, one.peer)]

    def _is_decided(self, parts: Parts, question: _Question, needed: int) -> bool:
        """Nobody who is left to be asked can change it."""
        left = {self._place_of(parts, one) for one in self._unasked(parts, question)}
        has, denied = len(question.places), len(question.denied - question.places)
        if not left:
            return True
        return (has >= needed and has >= denied + len(left)) or denied > has + len(left)

    def _next_holder(self, parts: Parts, question: _Question) -> PeerKey | None:
        return next(iter(self._unasked(parts, question)), None)

    def _unasked(self, parts: Parts, question: _Question) -> list[PeerKey]:
        return [
            peer
            for peer in question.holders
            if peer not in question.asked
            and self._place_of(parts, peer) not in question.places
            and peer not in parts.view.absent
        ]

    async def _ask(self, parts: Parts) -> None:
        """By the first of those that wait, for all of them: each continues when one more holder has answered."""
        self._is_asking = True
        taken: list[_Question] = []
        try:
            await anyio.sleep(GATHER_S)
            taken, self._waiting = self._waiting, []
            self._is_asking = False
            by_peer: dict[PeerKey, list[_Question]] = {}
            for question in taken:
                peer = self._next_holder(parts, question)
                if peer is not None:
                    question.asked.add(peer)
                    by_peer.setdefault(peer, []).append(question)
            async with anyio.create_task_group() as tasks:
                for peer, questions in sorted(by_peer.items()):
                    for at in range(0, len(questions), ASKED_AT_ONCE):
                        tasks.start_soon(self._ask_one, parts, peer, questions[at : at + ASKED_AT_ONCE])
        except BaseException:
            if not taken:  # cancelled before anybody was asked: the others begin anew
                taken, self._waiting, self._is_asking = self._waiting, [], False
            raise
        finally:
            for question in taken:
                question.answered.set()

    async def _ask_one(self, parts: Parts, peer: PeerKey, questions: Sequence[_Question]) -> None:
        has: Sequence[wire.Has] | None = None
        contact = parts.contact(peer)
        try:
            if contact is not None:
                body = wire.encode_contents([(one.key, one.sha256) for one in questions])
                answer = await parts.calls().call(contact, wire.HAS, body, deadline_s=ASK_S)
                has = wire.decode_has(answer, len(questions))
        except CallError:
            pass  # away just now
        except MalformedError:
            parts.suspects.note(peer, "malformed answer")
        finally:
            for at, question in enumerate(questions):
                question.is_unsure |= has is None
                if has is None:
                    continue
                if has[at] is wire.Has.YES:
                    question.places.add(self._place_of(parts, peer))
                if has[at] is wire.Has.NEVER and self._may_deny(parts, peer, question.time_s):
                    question.denied.add(self._place_of(parts, peer))

    # -- what is told of it -------------------------------------------------------------------------------

    def _note(self, sender: PeerKey, why: TurnedAway) -> None:
        self._turned_away[why] += 1
        known = self._by_sender.get(sender)
        if known is None:
            if len(self._by_sender) >= SENDERS_MAX:
                return
            known = self._by_sender[sender] = Counter()
        if not known[why]:
            logger.warning("a copy was turned away peer=%s why=%s", sender.hex()[:SHOWN_KEY], why.value)
        known[why] += 1

    def was_ahead(self, parts: Parts, peer: PeerKey) -> None:
        """It said so of a capture of ours."""
        self._clocks.was_ahead(self._place_of(parts, peer), parts.now())

    def status(self, parts: Parts) -> DoorStatus:
        worst = sorted(self._by_sender.items(), key=lambda item: (-item[1].total(), item[0]))
        return DoorStatus(
            came=dict(sorted(self._came.items())),
            turned_away={why.value: self._turned_away[why] for why in TurnedAway if self._turned_away[why]},
            peers={peer.hex()[:SHOWN_KEY]: _told(known) for peer, known in worst[:SENDERS_SHOWN]},
            clock=self._clock(parts),
            quotas_hit={
                peer.hex()[:SHOWN_KEY]: size
                for peer, size in sorted(
                    self._rules.quotas.hit(self._rules.wall_s()).items(), key=lambda item: (-item[1], item[0])
                )[:SENDERS_SHOWN]
            },
        )

    def _clock(self, parts: Parts) -> str:
        view = parts.view
        others = {self._place_of(parts, peer) for peer in view.table.peers} - {self._place_of(parts, view.me)}
        return self._clocks.ours(parts.now(), len(others))


def kept_quotas(file: Path) -> QuotasFile | None:
    """Of the peer's last life. A damaged file costs a day's counts and no more."""
    try:
        return read_state_file(file, QuotasFile, newest=QUOTAS_FORMAT, bytes_max=QUOTAS_BYTES_MAX)
    except (FileSyntaxError, StorageFailure) as error:
        logger.warning("the day's quotas are forgotten error=%s", error)
        return None


def kept_tenure(file: Path) -> TenureFile | None:
    """Of the peer's last life. Without it the peer cannot say what never came, until it has held its keys anew."""
    try:
        return read_state_file(file, TenureFile, newest=TENURE_FORMAT, bytes_max=TENURE_BYTES_MAX)
    except (FileSyntaxError, StorageFailure) as error:
        logger.warning("since when we hold our keys is forgotten error=%s", error)
        return None


@asynccontextmanager
async def keeping(quotas: Quotas, file: Path, tenure: Tenure, tenure_file: Path) -> AsyncIterator[None]:
    """Inside, what came today, and since when we hold our keys, are saved now and then; leaving saves them a last
    time."""

    def save_all() -> None:
        if quotas.is_changed:
            _save(file, quotas.keep())
        held = tenure.keep()
        if held is not None:
            _save(tenure_file, held)

    async def keep() -> None:
        while True:
            await anyio.sleep(SAVE_EVERY_S)
            save_all()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(keep)
        try:
            yield
        finally:
            tasks.cancel_scope.cancel()
            save_all()


def _save(file: Path, kept: QuotasFile | TenureFile) -> None:
    try:
        write_state_file(file, kept)
    except StorageFailure as error:
        logger.warning("a state file is not saved file=%s error=%s", file.name, error)


def size_of(deposit: Deposit) -> int:
    """As quotas count it."""
    return len(deposit.capture.head) + len(deposit.capture.body) + deposit.passed_bytes


def _told(known: Counter[TurnedAway]) -> str:
    return ", ".join(f"{why.value} ({number})" for why, number in known.most_common())


def _window_in(deposit: Deposit) -> SignedWindow | None:
    return window_of_field(next((value for name, value in deposit.extra if name == WINDOW), None))


def _host_of_robots(url: str) -> str:
    """Nothing for any other document."""
    host = _host_of(url)
    return host if host and target_of(url) == "/robots.txt" else ""


def _host_of(url: str) -> str:
    """Nothing where it is none of the web."""
    if not url.startswith(("http://", "https://")) or url.count("/") < URL_SLASHES_MIN:
        return ""
    try:
        return host_of(url)
    except ValueError:
        return ""
