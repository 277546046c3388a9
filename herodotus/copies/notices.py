"""How do the peers learn what others removed, and why? They fetch notices from each other; operators decide.

Every hour, and soon after it learnt something new, a peer asks some others which notices they have and takes those that
it lacks; it says when it has news, and is asked back. So a notice comes to everybody within minutes, and nobody can be
made to take many: a hundred a day from one place, ten thousand in all.
What it then does is up to `core.notices` and the operator. The files are the truth (`home.notices`, `home.removed`): a
peer that is killed anywhere here begins its round again.
"""

import logging
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio
import msgspec
from cachetools import FIFOCache
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dht import Contact
from dht.core import ids
from herodotus.copies.notice_wire import (
    ANSWERED_MAX,
    FOLLOWED,
    GET,
    GIVEN_MAX,
    LIST,
    decode_flags,
    decode_ids,
    decode_notices,
    decode_question,
    digest_of_ids,
    encode_ids,
    encode_notices,
    encode_question,
)
from herodotus.copies.shared_state import Parts
from herodotus.core.errors import HerodotusError, MalformedError
from herodotus.core.notices import (
    MUCH,
    Holder,
    Kept,
    Notice,
    PeerKey,
    admitted,
    budget_left,
    draft,
    has_room_today,
    have_followed,
    is_genuine,
    is_timely,
    issue,
    unexpired,
)
from herodotus.core.ports import Clocks, Lane
from herodotus.core.removals import CREDIT_MAX_S, Subject, credit_s
from herodotus.core.settings.sections import RemovalsSettings
from herodotus.core.status import NoticesStatus
from herodotus.home.notices import NoticesFile, change_notices, with_kept
from herodotus.home.removed import RemovedFile, Rule, alter, note_removed, read_removed, removals_in
from herodotus.peers.calls import CallError, RefusedError, Services

logger = logging.getLogger(__name__)

ROUNDS = 24
"""In the time between two comparisons with one peer."""
ROUND_MIN_S = 2.0
SOON_S = 15.0
"""Between two rounds, however much is new: news of a removal is with a thousand members within some minutes."""
TOLD_MAX = 16
"""Peers that said that they have news, and wait to be asked."""
ASKED_AT_ONCE = 4
"""Peers of one round."""
TAKEN_MAX = 4 * GIVEN_MAX
"""Notices from one peer in a round."""
REFUSED_KEPT = 4_096
WEIGHED_AT_ONCE = 200
"""Notices whose captures are counted in one round."""
CONSIDERED_MAX = ANSWERED_MAX
UNKNOWN_PLACE = b"?"
"""Of issuers that this peer does not know as members: together they have the room of one place."""
FILES = Lane("notices of removals", 1)
SHOWN_MAX = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeParts:
    state: Path
    key: Ed25519PrivateKey
    network: bytes
    settings: RemovalsSettings
    clocks: Clocks
    places: Callable[[], Mapping[PeerKey, bytes]]
    """Of the members; asked once a round."""
    is_of_age: Callable[[PeerKey], bool]
    """As this peer has seen itself."""
    names_of: Callable[[PeerKey], Collection[str]]
    """By which the operator may name an issuer."""


class NoticeBoard:
    def __init__(self, copies: Parts, parts: NoticeParts, *, every_s: float) -> None:
        """`every_s`: as `copies.compare_s`."""
        self._copies, self._parts = copies, parts
        self._every_s = max(ROUND_MIN_S, every_s / ROUNDS)
        self._places: Mapping[PeerKey, bytes] = {}
        self._file = NoticesFile()
        self._removed = RemovedFile()
        self._rules: Mapping[Subject, Rule] = {}
        self._named: dict[bytes, int] = {}
        """How many captures here an open notice names, up to a little more than few."""
        self._refused: FIFOCache[bytes, None] = FIFOCache(REFUSED_KEPT)
        self._refused_s = 0.0
        self._lived_before: float | None = None
        self._hurried = anyio.Event()
        self._has_news = False
        self._told_by: dict[ids.PeerKey, None] = {}

    def services(self) -> Services:
        return Services(calls={LIST: self._list, GET: self._get, FOLLOWED: self._have_followed})

    def hurry(self) -> None:
        """Something was removed or decided here."""
        self._hurried.set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._run)
            try:
                yield
            finally:
                tasks.cancel_scope.cancel()

    async def _run(self) -> None:
        while True:
            self._hurried = anyio.Event()
            try:
                await self.round()
            except (HerodotusError, OSError) as error:
                logger.warning("no round of notices error=%s", error)
            await anyio.sleep(min(SOON_S, self._every_s) * (0.5 + self._copies.random.random() / 2))
            if not (self._has_news or self._told_by):
                with anyio.move_on_after(self._every_s * (0.5 + self._copies.random.random())):
                    await self._hurried.wait()

    async def round(self) -> None:
        self._places = self._parts.places()
        await self._in_thread(self._look)
        await self._in_thread(self._issue)
        has_news, self._has_news = self._has_news, False
        for contact in self._asked():
            try:
                await self._pull(contact, has_news=has_news)
            except MalformedError as error:
                self._copies.suspects.note(contact.peer, str(error) or "malformed notices")
            except CallError:
                continue
        if self._copies.holdings() is not None:
            await self._weigh()
            await self._follow()

    async def _in_thread(self, work: Callable[[], None]) -> None:
        await self._copies.workers.work(work, FILES)

    # -- files --------------------------------------------------------------------------------------------

    def _look(self) -> None:
        """What is kept and removed now, and how far the clock of lived time is."""
        now, elapsed_s = self._parts.clocks.unix_s(), self._parts.clocks.elapsed_s()
        most_s = CREDIT_MAX_S if self._lived_before is None else elapsed_s - self._lived_before
        self._lived_before = elapsed_s

        def moved(file: NoticesFile) -> NoticesFile:
            if not file.kept:
                return file
            lived_s = file.lived_s + credit_s(file.seen_s, now, most_s)
            kept = unexpired(file.kept, lived_s)
            return msgspec.structs.replace(file, lived_s=lived_s, seen_s=now, kept=kept)

        self._file = change_notices(self._parts.state, moved)
        self._know(read_removed(self._parts.state))
        if self._file.lived_s - self._refused_s > CREDIT_MAX_S:
            self._refused.clear()  # there may be room today
            self._refused_s = self._file.lived_s

    def _know(self, removed: RemovedFile) -> None:
        self._removed, self._rules = removed, removed.by_subject

    def _issue(self) -> None:
        """Notices of what was removed here, for the others. They are kept first: killed between, the next round
        finds its own."""
        untold = [rule for rule in self._removed.rules if rule.telling is not None]
        for rule in untold:
            known = (one for one in self._file.kept if one.is_own and one.notice.subject == rule.subject)
            notice = next((one.notice for one in known if one.notice.issued >= rule.removed), None)
            if notice is None:
                notice = self._issued(rule)
                self._keep(Kept(notice=notice, heard_s=self._file.lived_s, was_followed=True))
            told = partial(msgspec.structs.replace, notice=notice.id.hex(), telling=None)
            self._know(alter(self._parts.state, [rule.subject], told))

    def _issued(self, rule: Rule) -> Notice:
        assert rule.telling is not None
        said = draft(
            rule.subject,
            reason=rule.telling.reason,
            text=rule.telling.text,
            contact=rule.telling.contact,
            issued=max(rule.removed, int(self._parts.clocks.unix_s())),
            count=rule.captures,
        )
        return issue(self._parts.key, self._parts.network, said)

    def _keep(self, own: Kept) -> None:
        def with_own(file: NoticesFile) -> NoticesFile:
            kept = admitted(file.kept, own)
            return file if kept is None else self._with_kept(file, kept)

        self._file = change_notices(self._parts.state, with_own)

    def _with_kept(self, file: NoticesFile, kept: list[Kept]) -> NoticesFile:
        """The clock of lived time begins with the first notice."""
        seen_s = file.seen_s or self._parts.clocks.unix_s()
        self._has_news = True
        return msgspec.structs.replace(file, kept=kept, seen_s=seen_s)

    # -- what others have ---------------------------------------------------------------------------------

    def _asked(self) -> list[Contact]:
        """Some of all members, drawn anew each time, and before them those with news."""
        view = self._copies.view
        others = sorted(peer for peer in view.contacts if peer != view.me)
        drawn = self._copies.random.sample(others, min(ASKED_AT_ONCE, len(others)))
        told_by, self._told_by = self._told_by, {}
        return [view.contacts[peer] for peer in dict.fromkeys((*told_by, *drawn)) if peer in view.contacts]

    async def _pull(self, contact: Contact, *, has_news: bool) -> None:
        calls, known = self._copies.calls(), self._file.by_id
        answer = await calls.call(contact, LIST, encode_question(known, has_news=has_news))
        lacking = [one for one in decode_ids(answer) if one not in known and one not in self._refused]
        for at in range(0, min(len(lacking), TAKEN_MAX), GIVEN_MAX):
            asked = lacking[at : at + GIVEN_MAX]
            found = decode_notices(await calls.call(contact, GET, encode_ids(asked)))
            if any(notice.id not in asked for notice in found):
                raise MalformedError("a notice that nobody asked for")
            await self._in_thread(partial(self._take, found))

    def _take(self, found: Sequence[Notice]) -> None:
        """All or none. Cheap checks come first: a flood costs no signatures."""
        now, refused = self._parts.clocks.unix_s(), set[bytes]()

        def with_new(file: NoticesFile) -> NoticesFile:
            kept, known = file.kept, {*file.by_id}
            for notice in found:
                place = self._places.get(notice.issuer, UNKNOWN_PLACE)
                if notice.id in known or notice.issuer == self._copies.view.me:
                    continue
                is_wanted = is_timely(notice, now) and has_room_today(kept, place, file.lived_s)
                if is_wanted and not is_genuine(self._parts.network, notice):
                    raise MalformedError("a notice with a wrong signature")
                new = Kept(notice=notice, heard_s=file.lived_s, place=place)
                more = admitted(kept, new) if is_wanted else None
                if more is None:
                    refused.add(notice.id)
                else:
                    kept = more
            return file if kept is file.kept else self._with_kept(file, kept)

        self._file = change_notices(self._parts.state, with_new)
        for id_ in sorted(refused):
            self._refused[id_] = None

    # -- what is done here --------------------------------------------------------------------------------

    def _open(self) -> list[Kept]:
        """Neither followed nor dismissed; what was removed here already needs no decision."""
        rules = self._rules
        return [one for one in self._file.kept if not one.is_dismissed and one.notice.subject not in rules]

    async def _weigh(self) -> None:
        """How much of what is held does each open notice name?"""
        still_open = {one.notice.id: one.notice for one in self._open() if not one.is_own}
        self._named = {id_: count for id_, count in self._named.items() if id_ in still_open}
        unweighed = [id_ for id_ in still_open if id_ not in self._named]
        # What was stored since counts too: after the new ones, some of the others are counted again.
        again = self._copies.random.sample(sorted(self._named), min(len(self._named), WEIGHED_AT_ONCE // 4))
        for id_ in [*unweighed, *again][:WEIGHED_AT_ONCE]:
            self._named[id_] = len(await self._covered(still_open[id_]))

    async def _covered(self, notice: Notice) -> list[bytes]:
        """Keys of captures here; more than few are not needed."""
        holdings = self._copies.opened()
        return await holdings.covered(notice.subject, holdings.captures // MUCH + 1)

    async def _follow(self) -> None:
        policy = self._parts.settings.follow
        if policy == "ask":
            return
        due = [
            one.notice
            for one in self._open()
            if not (one.is_own or one.was_followed) and self._named.get(one.notice.id, 0)
        ][:CONSIDERED_MAX]
        claims = await self._claims(due) if policy == "holders" else {}
        for notice in due:
            keys = await self._covered(notice)  # counted anew: it may be more by now
            left = budget_left(self._file.kept, self._copies.opened().captures, self._file.lived_s)
            if not keys or len(keys) > left:
                continue
            if self._is_trusted(notice) if policy == "issuers" else self._is_agreed(notice, keys, claims):
                await self._in_thread(partial(self._follow_one, notice, len(keys)))
                self._copies.opened().hide(removals_in(self._removed))

    def _is_trusted(self, notice: Notice) -> bool:
        return not {*self._parts.settings.issuers}.isdisjoint(self._parts.names_of(notice.issuer))

    def _is_agreed(
        self, notice: Notice, keys: Sequence[bytes], claims: Mapping[PeerKey, Collection[bytes]]
    ) -> bool:
        """Of each capture that it names here, by itself."""
        view = self._copies.view
        return all(
            have_followed(
                [
                    Holder(
                        place=self._places.get(peer, UNKNOWN_PLACE),
                        has_followed=notice.id in claims.get(peer, ()),
                        is_of_age=self._parts.is_of_age(peer),
                    )
                    for peer in view.holders(key)
                    if peer != view.me
                ],
                view.copies,
            )
            for key in keys
        )

    async def _claims(self, notices: Sequence[Notice]) -> dict[PeerKey, set[bytes]]:
        """Which of these the other holders followed, by their own word."""
        if not notices:
            return {}
        asked, found = [notice.id for notice in notices], dict[PeerKey, set[bytes]]()
        for peer in self._copies.view.others():
            contact = self._copies.contact(peer)
            if contact is None:
                continue
            try:
                answer = await self._copies.calls().call(contact, FOLLOWED, encode_ids(asked))
                flags = decode_flags(answer, len(asked))
            except CallError:
                continue
            except MalformedError as error:
                self._copies.suspects.note(peer, str(error) or "malformed notices")
                continue
            found[peer] = {id_ for id_, flag in zip(asked, flags, strict=True) if flag}
        return found

    def _follow_one(self, notice: Notice, captures: int) -> None:
        """The rule first: killed between, it is hidden, and counted the next time that somebody looks."""
        now, lived_s = self._parts.clocks.unix_s(), self._file.lived_s
        self._know(
            note_removed(
                self._parts.state, [notice.subject], now=now, notice=notice.id.hex(), captures=captures
            )
        )
        mark = partial(
            msgspec.structs.replace, was_followed=True, followed_s=lived_s, followed_captures=captures
        )
        self._file = change_notices(
            self._parts.state,
            lambda file: with_kept(
                file, [mark(one) if one.notice.id == notice.id else one for one in file.kept]
            ),
        )
        logger.warning(
            "removed what a notice names subject=%s issuer=%s captures=%d undo=%s",
            str(notice.subject),
            notice.issuer.hex()[:16],
            captures,
            f"herodotus notices undo {notice.id.hex()[:8]}",
        )

    # -- answering others ---------------------------------------------------------------------------------

    async def _list(self, sender: PeerKey, body: bytes) -> bytes:
        """Nothing where the sender has the same."""
        try:
            digest, has_news = decode_question(body)
        except MalformedError as error:
            raise RefusedError("malformed") from error
        known = self._file.by_id
        if digest == digest_of_ids(known):
            return b""
        if has_news and sender in self._copies.view.contacts and len(self._told_by) < TOLD_MAX:
            self._told_by[ids.PeerKey(sender)] = None
            self._hurried.set()
        return encode_ids(sorted(known))

    async def _get(self, sender: PeerKey, body: bytes) -> bytes:
        del sender
        known = self._file.by_id
        asked = _ids(body, GIVEN_MAX)
        return encode_notices([known[one].notice for one in asked if one in known])

    async def _have_followed(self, sender: PeerKey, body: bytes) -> bytes:
        del sender
        known, rules = self._file.by_id, self._rules
        return bytes(one in known and known[one].notice.subject in rules for one in _ids(body, ANSWERED_MAX))

    def status(self) -> NoticesStatus:
        open_ones = [one for one in self._open() if not one.is_own]
        holdings = self._copies.holdings()
        held = 0 if holdings is None else holdings.captures
        much = sorted(one.notice.id.hex() for one in open_ones if self._is_much(one.notice.id, held))
        return NoticesStatus(
            kept=len(self._file.kept),
            open=len(open_ones),
            issued=sum(one.is_own for one in self._file.kept),
            much=len(much),
            first=tuple(one[:8] for one in much[:SHOWN_MAX]),
            hidden=sum(rule.state == "hidden" for rule in self._removed.rules),
            erased=sum(rule.state != "hidden" for rule in self._removed.rules),
        )

    def _is_much(self, id_: bytes, held: int) -> bool:
        return self._named.get(id_, 0) * MUCH > held


def _ids(body: bytes, count_max: int) -> list[bytes]:
    try:
        return decode_ids(body, count_max)
    except MalformedError as error:
        raise RefusedError("malformed") from error
