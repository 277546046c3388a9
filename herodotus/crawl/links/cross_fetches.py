"""Did the owner really see what it stored? Of some of its captures this peer asks the origin by itself.

When a capture of today comes and is drawn, this peer, if it holds it, also fetches the URL today,
as if its owner were late: by the frontier, and so by leases, robots.txt and budgets. It compares the result with the
capture. If they differ, it looks once more after a while; if the origin then says the same to us again, the capture
counts against its signer. Both contents are stored, and so disputed. Once most of a signer's captures count against it,
the other holders are asked what they saw (`links.crossed`): it is named when two other places say the same.

It knows what came while it ran: open looks are dropped when a peer stops or a day ends.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import anyio
import anyio.lowlevel

from crawler.core.capture import Capture
from crawler.core.errors import MalformedUrlError
from crawler.core.link import Link
from crawler.core.recrawl import SEED_CHARS_MAX, Bounds, Known, Result
from crawler.core.scope import Territory
from crawler.core.urls import UrlKey, UrlRules, host_of, target_of
from crawler.frontier import LEFT
from dht.core import ids
from dht.core.ids import Key
from dht.core.limits import Buckets, Rate
from herodotus.core.captures import Deposit
from herodotus.core.errors import MalformedError
from herodotus.core.links.cross_fetches import PLACES_NEEDED, CrossTally, CrossVerdict, is_drawn, own_share
from herodotus.core.status import CrossFetchStatus
from herodotus.crawl.links import wire
from herodotus.crawl.links.outbox import Standby
from herodotus.crawl.links.owner import RingOwner
from herodotus.crawl.links.substitute import OwnFrontier
from herodotus.peers.calls import CallError, PeerKey, Questions, RefusedError, Services
from herodotus.peers.ring_view import RingView

UNDER_WAY_MAX: Final = 4_000
"""At 2 % of all, of 200,000 captures that came and whose hosts have not had their turn yet."""
PEERS_SHOWN: Final = 20
CROSSED: Final = "links.crossed"
QUESTIONS: Final = Rate(per_second=1 / 60, burst=256)
"""Of one peer: it asks about another once an hour, and suspects few."""
ASK_AGAIN_S: Final = 3_600.0
"""What others saw of a peer takes hours to change: they need as many looks as we."""
SLACK: Final = 2
"""Holders behind the first k, which were among them until lately."""
SHOWN_KEY: Final = 16
ACCUSATION: Final = "stores what the origin does not say to us"
Accuse = Callable[[PeerKey, str], None]


def nobody_accused(_peer: PeerKey, _how: str) -> None:
    """Nobody is told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossParts:
    view: RingView
    calls: Questions
    frontier: OwnFrontier
    standby: Standby
    owner: RingOwner
    rules: UrlRules
    territory: Territory
    share: float
    salt: bytes
    """Of this peer, and nobody else's to know."""
    wall_clock: Callable[[], float]
    accuse: Accuse


@dataclass(slots=True, kw_only=True)
class _Look:
    """Something that is looked at."""

    fetched_by: PeerKey
    digest: bytes
    """Of what it stored."""
    time_s: int
    day: int
    is_repeated: bool = False
    repeat_at: float | None = None
    """When to look once more."""


class CrossFetches:
    """Used from one task at a time; every call is short. Raises NotCrawling."""

    def __init__(self, parts: CrossParts, tally: CrossTally) -> None:
        self._parts = parts
        self._tally = tally
        self._under_way: dict[UrlKey, _Look] = {}
        self._doubted: dict[PeerKey, Key] = {}
        """Those that stand out here, and are not named yet. A capture of this key differs: its holders are asked."""
        self._ask_at: dict[PeerKey, float] = {}
        self._buckets = Buckets(4_096)

    @property
    def services(self) -> Services:
        return Services(calls={CROSSED: self.crossed})

    def came(self, deposit: Deposit, signer: PeerKey, day_starts: float, day_ends: float) -> None:
        """Another peer's capture was stored here."""
        parts, key, today = self._parts, Key(deposit.key), self._parts.frontier.today
        capture = deposit.capture
        if not day_starts - 1 < capture.time_s < day_ends or len(self._under_way) >= UNDER_WAY_MAX:
            return
        if not is_drawn(parts.salt, key, today, self._share(key, signer)):
            return
        # Others are not compared: of redirects the archive does not know the frontier's digest.
        if capture.status != 200 or capture.truncated or not self._is_sound(capture.url):
            return
        self._begin(UrlKey(key), capture, signer)

    def _share(self, key: Key, signer: PeerKey) -> float:
        view = self._parts.view
        if view.is_alone or signer == view.me.peer:
            return 0.0
        return own_share(view.live.of(key), signer, view.me.peer, self._parts.share)

    def _is_sound(self, url: str) -> bool:
        """Nobody has us ask for what is not the network's, nor for robots.txt, which stewards see to."""
        try:
            is_canonical = self._parts.rules.canonical(url) == url
        except (MalformedUrlError, UnicodeError):
            return False
        is_page = is_canonical and target_of(url) != "/robots.txt"
        return is_page and self._parts.territory.holds(url, host_of(url))

    def _begin(self, key: UrlKey, capture: Capture, signer: PeerKey) -> None:
        parts, today = self._parts, self._parts.frontier.today
        known = parts.frontier.known_of([key])[0]
        link = parts.standby.get(Key(key))
        was_visited = known is not None and known.last_day >= today
        # What its owner does not know, as a reader had it saved, would be fetched each day from then on.
        is_strange = known is None and link is None and parts.view.rank(Key(key)) == 0
        if was_visited or is_strange or key in self._under_way or not parts.owner.take_over(Key(key)):
            return
        parts.frontier.take_over([link or Link(capture.url, depth=1, bounds=_alone(capture.url))])
        if parts.frontier.look_for(key, capture.sha256):
            self._under_way[key] = _Look(
                fetched_by=signer, digest=capture.sha256, time_s=capture.time_s, day=today
            )

    # --- what came of it

    def settle(self) -> None:
        """To be called now and then: the frontier says which of our visits are over."""
        if not self._under_way:
            return
        keys = list(self._under_way)
        for key, known in zip(keys, self._parts.frontier.known_of(keys), strict=True):
            look = self._under_way[key]
            answer = self._answer(key, look, known)
            if answer is None:
                continue
            del self._under_way[key]
            by = look.fetched_by if self._parts.view.is_member(look.fetched_by) else None
            if not self._tally.note(by, answer):
                continue
            if self._is_shown(look.fetched_by):
                self._parts.accuse(look.fetched_by, ACCUSATION)
            else:
                self._doubted[look.fetched_by] = Key(key)

    # --- who is named

    async def ask(self) -> None:
        """To be called now and then: whoever stands out here is named once it does so in two other places."""
        now = anyio.current_time()
        for peer, key in list(self._doubted.items()):
            if now < self._ask_at.get(peer, now):
                continue
            self._ask_at[peer] = now + ASK_AGAIN_S
            await self._ask_about(peer, key)
            if self._is_shown(peer):
                del self._doubted[peer]
                self._parts.accuse(peer, ACCUSATION)

    async def _ask_about(self, peer: PeerKey, key: Key) -> None:
        view, known = self._parts.view, self._tally.witnesses(peer)
        for contact in view.live.of(key, SLACK):
            if contact.peer in (view.me.peer, peer) or contact.peer in known:
                continue
            try:
                if wire.decode_crossed(await self._parts.calls.call(contact, CROSSED, peer)):
                    self._tally.heard(peer, contact.peer)
            except (CallError, MalformedError):
                continue  # a peer that does not answer is no witness

    def _is_shown(self, peer: PeerKey) -> bool:
        """By so many places beside its own, of members that are there."""
        table, me = self._parts.view.live, self._parts.view.me.peer
        told = [one for one in sorted(self._tally.witnesses(peer)) if one in table.peers]
        return table.places_of(map(ids.PeerKey, (peer, me, *told))) > PLACES_NEEDED

    async def crossed(self, peer: PeerKey, body: bytes) -> bytes:
        """A peer's key: does it stand out here? It is not told of itself."""
        if len(body) != wire.PEER_BYTES:
            raise RefusedError("nonsense")
        if not self._parts.view.is_member(peer):
            raise RefusedError("no-member")
        if not self._buckets.take(peer, QUESTIONS, anyio.current_time()):
            raise RefusedError("busy", retry_after_s=60.0)
        await anyio.lowlevel.checkpoint()
        return wire.encode_crossed(stands_out=body != peer and self._tally.stands_out(body))

    # --- what a look found

    def _answer(self, key: UrlKey, look: _Look, known: Known | None) -> CrossVerdict | None:
        """None: not yet."""
        frontier = self._parts.frontier
        if look.day != frontier.today or known is None or known.due_day == LEFT:
            return CrossVerdict.UNCLEAR  # the day is over, or the URL is somebody else's now
        if look.repeat_at is not None:
            return self._repeated(key, look, known)
        if known.due_day <= frontier.today or frontier.is_out(key):
            return None
        return self._judged(look, known)

    def _judged(self, look: _Look, known: Known) -> CrossVerdict | None:
        is_same = known.last_result == Result.UNCHANGED.value
        is_other = known.last_result == Result.CHANGED.value and bool(known.digest)
        if look.is_repeated:  # the same again: it was other when the capture was made, or never so
            return (
                CrossVerdict.DIFFERS
                if is_same
                else CrossVerdict.CHANGES
                if is_other
                else CrossVerdict.UNCLEAR
            )
        if is_same:
            return CrossVerdict.AGREES
        if known.last_result == Result.GONE.value:
            return CrossVerdict.DIFFERS
        if not is_other or known.digest == look.digest:
            return (
                CrossVerdict.UNCLEAR
            )  # not answered; or read from our archive, after a crawl that an error ended
        now = self._parts.wall_clock()
        look.repeat_at = now + max(0.0, now - look.time_s)
        return None

    def _repeated(self, key: UrlKey, look: _Look, known: Known) -> CrossVerdict | None:
        if look.repeat_at is None or self._parts.wall_clock() < look.repeat_at:
            return None
        look.repeat_at, look.is_repeated = None, True
        return None if self._parts.frontier.look_for(key, known.digest) else CrossVerdict.UNCLEAR


def cross_status(tally: CrossTally) -> CrossFetchStatus:
    total = tally.total
    worst = sorted(tally.of_peer.items(), key=lambda item: (-item[1].differed, item[0]))[:PEERS_SHOWN]
    return CrossFetchStatus(
        made=total.checks + tally.unclear,
        agreed=total.agreed,
        differed=total.differed,
        changing=total.changing,
        unclear=tally.unclear,
        peers={
            peer.hex()[:SHOWN_KEY]: {
                "agreed": one.agreed,
                "differed": one.differed,
                "changing": one.changing,
            }
            for peer, one in worst
        },
    )


def _alone(url: str) -> Bounds | None:
    """How far the crawl goes from it others know: until they tell, no further."""
    return Bounds(url, "page") if len(url) <= SEED_CHARS_MAX else None
