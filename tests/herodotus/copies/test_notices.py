"""Do notices come to everybody and do nothing there by themselves, whatever keys, floods, bent bytes and clocks do?"""

import random
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dht import Contact
from dht.core.holders import Table
from dht.core.ids import PeerKey
from dht.core.placement import Rule
from dht.core.records import Address
from herodotus.copies import notices as board_module
from herodotus.copies.notice_wire import LIST
from herodotus.copies.notices import NoticeBoard, NoticeParts
from herodotus.copies.shared_state import Parts, View
from herodotus.core import notices as core_notices
from herodotus.core.notices import OF_PLACE_A_DAY, Kept, Notice, draft, issue
from herodotus.core.orders import NoticeOrder, NoticeVerb, Remove
from herodotus.core.removals import DAY_S, Subject, subject_of
from herodotus.core.settings.sections import RemovalsSettings
from herodotus.home.notices import change_notices, read_notices, with_kept
from herodotus.home.removed import read_removed
from herodotus.peers.calls import PeerUnreachableError, RefusedError
from herodotus.store.holdings import ArchiveHoldings
from herodotus.store.performer import perform
from tests.herodotus.copies.world import key_number
from tests.herodotus.store.making import NOW_S, page
from tests.herodotus.store.memory_store import AtOnce, MemoryStore
from tests.herodotus.store.test_hiding import START_S, Clock

pytestmark = pytest.mark.anyio

FEW = 50
"""Stands for the thousandth, so that few pages suffice."""
NETWORK = b"network1"
COPIES = 6
HOST = "example.org"


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (core_notices, board_module):
        monkeypatch.setattr(module, "MUCH", FEW)


@dataclass
class Desk:
    """One peer, as far as notices go."""

    number: int
    net: "Net"
    state: Path
    settings: RemovalsSettings = field(default_factory=RemovalsSettings)
    clock: Clock = field(default_factory=Clock)
    bends: Callable[[str, bytes], bytes] | None = None
    young: set[bytes] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.key = key_number(self.number)
        self.me = PeerKey(self.key.public_key().public_bytes_raw())
        self.store = MemoryStore(lambda: self.clock.wall)
        self.start()

    def start(self) -> None:
        """A fresh process on the same disk."""
        self.parts = Parts(
            view=View(me=self.me, table=Table((), Rule(COPIES))),
            holdings=lambda: ArchiveHoldings(self.store),
            calls=lambda: self.net,
            workers=AtOnce(),
            sign=lambda deposit: deposit,
            random=random.Random(self.number),
        )
        self.net.show(self)
        self.board = NoticeBoard(
            self.parts,
            NoticeParts(
                state=self.state,
                key=self.key,
                network=NETWORK,
                settings=self.settings,
                clocks=self.clock,
                places=lambda: self.net.places,
                is_of_age=lambda peer: peer not in self.young,
                names_of=lambda peer: {peer.hex()},
            ),
            every_s=3_600.0,
        )

    async def remove(self, *names: str, kind: str = "host", is_told: bool = True) -> None:
        subjects = tuple((kind, subject_of(kind, name).name) for name in names)
        order = Remove(subjects=subjects, reason="legal", is_told=is_told)
        await perform(self.store, order, lambda _: None, self.state)

    async def decide(self, verb: NoticeVerb, id_: str = "") -> Any:
        order = NoticeOrder(verb=verb, id=id_)
        return (await perform(self.store, order, lambda _: None, self.state)).facts

    @property
    def seen(self) -> int:
        """Pages that readers are shown."""
        return sum(not self.store.is_removed(f"http://{HOST}/{n}") for n in range(self.net.pages))

    def states(self) -> list[str]:
        rules = read_removed(self.state).by_subject
        return [
            "hidden" if one.notice.subject in rules else "dismissed" if one.is_dismissed else "open"
            for one in read_notices(self.state).kept
        ]


class Net:
    """Calls between desks, at once."""

    def __init__(self, folder: Path, pages: int = 3) -> None:
        self._folder, self.pages = folder, pages
        self.desks: list[Desk] = []
        self.places: dict[bytes, bytes] = {}
        self.calls: list[str] = []
        self.asking = bytes(32)

    async def add(
        self, *, place: int | None = None, others: int = 0, follow: str = "ask", issuers: tuple[str, ...] = ()
    ) -> Desk:
        number = len(self.desks)
        state = self._folder / str(number)
        state.mkdir()
        settings = RemovalsSettings(follow=follow, issuers=issuers)
        desk = Desk(number, self, state, settings=settings)
        self.places[desk.me] = bytes([number if place is None else place])
        self.desks.append(desk)
        for one in self.desks:
            self.show(one)
        for n in range(self.pages):
            await desk.store.store(page(f"http://{HOST}/{n}", NOW_S, b"page %d" % n))
        for n in range(others):
            await desk.store.store(page(f"http://other.example/{n}", NOW_S, b"other %d" % n))
        return desk

    def show(self, desk: Desk) -> None:
        contacts = [
            Contact.at(one.me, Address(host=bytes((10, 0, one.number, 1)), port=4_484), 0, 0, "ip")
            for one in self.desks
        ]
        view = desk.parts.view
        view.contacts = {contact.peer: contact for contact in contacts}
        view.take(Table(contacts, Rule(COPIES)), view.contacts, 0.0)

    async def call(self, to: Contact, service: str, body: bytes, *, deadline_s: float = 30.0) -> bytes:
        await anyio.lowlevel.checkpoint()
        self.calls.append(service)
        desk = next(one for one in self.desks if one.me == to.peer)
        if desk.number < 0:
            raise PeerUnreachableError
        answer = await desk.board.services().calls[service](self.asking, body)
        return answer if desk.bends is None else desk.bends(service, answer)

    def stream(
        self, to: Contact, service: str, body: bytes
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        raise NotImplementedError

    async def round_of(self, desk: Desk) -> None:
        self.asking = desk.me
        await desk.board.round()

    async def rounds(self, count: int = 3) -> None:
        for _ in range(count):
            for desk in self.desks:
                desk.clock.run(1 / 24)
                await self.round_of(desk)


async def test_four_keys_that_remove_a_host_hide_nothing_elsewhere_and_everybody_is_told(
    tmp_path: Path,
) -> None:
    net = Net(tmp_path)
    honest = [await net.add() for _ in range(7)]
    keys = [await net.add(place=99) for _ in range(4)]
    for desk in keys:
        await desk.remove(HOST)
    await net.rounds()
    for desk in honest:
        assert desk.seen == 3
        assert desk.store.archive.captures == 3
        assert desk.states() == ["open"] * 4
        status = desk.board.status()
        assert (status.open, status.much, len(status.first)) == (4, 4, 4)
        assert not desk.parts.suspects.counts
    assert [desk.seen for desk in keys] == [0] * 4


async def test_the_operator_follows_dismisses_and_takes_back(tmp_path: Path) -> None:
    net = Net(tmp_path)
    issuer, follower, other = [await net.add() for _ in range(3)]
    await issuer.remove(HOST)
    await net.rounds()
    (shown,) = await follower.decide("list")
    id_ = shown["id"]
    assert (shown["state"], shown["reason"], shown["captures_there"]) == ("open", "legal", 3)
    assert (await follower.decide("show", id_[:6]))["captures_here"] == 3
    await follower.decide("follow", id_[:6])
    await other.decide("dismiss", id_)
    assert (follower.seen, other.seen) == (0, 3)
    await net.rounds()
    assert [desk.board.status().much for desk in net.desks] == [0, 0, 0]
    assert (await follower.decide("list"))[0]["erased_in_days"] == 30.0
    await follower.decide("undo", id_)
    assert follower.seen == 3
    await net.rounds()
    assert (follower.states(), follower.seen) == (["dismissed"], 3)
    assert follower.store.archive.captures == 3


async def test_trusted_issuers_are_followed_up_to_a_thousandth_a_day_and_never_after_an_undo(
    tmp_path: Path,
) -> None:
    net = Net(tmp_path, pages=4)
    trusted, stranger = await net.add(), await net.add()
    issuers = (trusted.me.hex(),)
    follower = await net.add(others=125, follow="issuers", issuers=issuers)  # two of 129 a day
    poor = await net.add(follow="issuers", issuers=issuers)
    for n in range(4):
        await (trusted if n < 3 else stranger).remove(f"http://{HOST}/{n}", kind="url")
    await net.rounds(4)
    assert follower.seen == 2
    assert poor.seen == 4, "its share of four is nothing"
    await net.rounds(20)
    assert follower.seen == 2, "the day is not over"
    await net.rounds(6)
    assert follower.seen == 1, "the stranger is not followed"
    first = (await follower.decide("list"))[-1]
    followed = next(one for one in await follower.decide("list") if one["state"] == "hidden")
    await follower.decide("undo", followed["id"])
    await net.rounds(30)
    assert follower.seen == 2
    assert first["id"]


@pytest.mark.parametrize(("followers", "is_hidden"), [(3, False), (4, True)])
async def test_holders_are_followed_by_places_that_were_watched_for_long(
    tmp_path: Path, followers: int, is_hidden: bool
) -> None:
    net = Net(tmp_path, pages=1)
    holders = [await net.add() for _ in range(5)]
    ours = await net.add(others=55, follow="holders")
    for desk in holders[:followers]:
        await desk.remove(f"http://{HOST}/0", kind="url")
    await net.rounds()
    assert ours.seen == (0 if is_hidden else 1)


async def test_who_wants_to_be_asked_is_asked_whoever_followed(tmp_path: Path) -> None:
    net = Net(tmp_path, pages=1)
    holders = [await net.add() for _ in range(5)]
    issuers = tuple(desk.me.hex() for desk in holders)
    ours = await net.add(others=1_100, follow="ask", issuers=issuers)
    for desk in holders:
        await desk.remove(f"http://{HOST}/0", kind="url")
    await net.rounds()
    assert (ours.seen, ours.board.status().open) == (1, 5)


async def test_what_the_operator_shows_again_by_its_name_is_not_followed_again(tmp_path: Path) -> None:
    net = Net(tmp_path, pages=1)
    issuer = await net.add()
    ours = await net.add(others=1_100, follow="issuers", issuers=(issuer.me.hex(),))
    await issuer.remove(f"http://{HOST}/0", kind="url")
    await net.rounds()
    assert ours.seen == 0
    again = Remove(subjects=(("url", subject_of("url", f"http://{HOST}/0").name),), is_forgotten=True)
    await perform(ours.store, again, lambda _: None, ours.state)
    assert ours.seen == 1
    await net.rounds(30)
    assert ours.seen == 1, "also a day later, when there is room for another removal"


@pytest.mark.parametrize("how", ["one place", "young"])
async def test_keys_of_one_place_or_met_lately_are_not_followed(tmp_path: Path, how: str) -> None:
    net = Net(tmp_path, pages=1)
    holders = [await net.add(place=7 if how == "one place" else None) for _ in range(5)]
    ours = await net.add(others=55, follow="holders")
    if how == "young":
        ours.young = {desk.me for desk in holders[:2]}
    for desk in holders:
        await desk.remove(f"http://{HOST}/0", kind="url")
    await net.rounds()
    assert ours.seen == 1
    assert ours.board.status().open == 5
    ours.young = set()
    for number, desk in enumerate(holders):
        net.places[desk.me] = bytes([50 + number])
    await net.rounds()
    assert ours.seen == 0


async def test_a_notice_with_a_bent_signature_is_refused_and_its_bearer_named(tmp_path: Path) -> None:
    net = Net(tmp_path)
    issuer, victim = await net.add(), await net.add()
    await issuer.remove(HOST)
    await issuer.board.round()
    sound = read_notices(issuer.state).kept[0].notice.signature
    bent = bytes([sound[0] ^ 1]) + sound[1:]
    issuer.bends = lambda service, answer: answer.replace(sound, bent)
    await net.rounds(1)
    assert victim.states() == []
    assert victim.seen == 3
    assert [*victim.parts.suspects.counts] == [issuer.me]
    issuer.bends = None
    await net.rounds(1)
    assert victim.states() == ["open"], "nothing of what was refused stands in the way"


@pytest.mark.parametrize("answer", [b"x", b"x" * 16 * 10_001, b"\xff" * 16 * 300])
async def test_wrong_lists_do_no_harm(tmp_path: Path, answer: bytes) -> None:
    net = Net(tmp_path)
    liar, victim = await net.add(), await net.add()
    liar.bends = lambda service, said: answer if service == LIST else said
    await net.rounds(1)
    assert victim.states() == []
    assert len(net.calls) < 20
    for service in victim.board.services().calls.values():
        if len(answer) % 16:
            with pytest.raises(RefusedError):
                await service(liar.me, answer) if service != victim.board._list else await _refused()


async def _refused() -> bytes:
    raise RefusedError("malformed")


def _flood(count: int, *, issued: float) -> list[Notice]:
    found = []
    for number in range(count):
        key = Ed25519PrivateKey.from_private_bytes(number.to_bytes(32, "big"))
        said = draft(
            Subject("host", f"h{number}.example"), reason="", text="", contact="", issued=int(issued), count=1
        )
        found.append(issue(key, NETWORK, said))
    return found


async def test_a_flood_from_a_thousand_keys_takes_the_room_of_one_place_and_no_more(tmp_path: Path) -> None:
    net = Net(tmp_path)
    flooder, victim, honest = [await net.add() for _ in range(3)]
    flood = {notice.id: notice for notice in _flood(1_000, issued=START_S)}
    kept_there = [Kept(notice=notice, heard_s=0.0, place=b"x") for notice in flood.values()]
    change_notices(flooder.state, lambda file: with_kept(file, kept_there))
    await honest.remove(HOST)
    await net.rounds(12)
    kept = {one.notice.id for one in read_notices(victim.state).kept}
    assert len(kept & flood.keys()) == OF_PLACE_A_DAY
    assert len(kept - flood.keys()) == 1, "who is known has room of its own"
    assert victim.seen == 3
    assert not victim.parts.suspects.counts


async def test_a_notice_about_a_million_captures_costs_no_more_than_a_look(tmp_path: Path) -> None:
    net = Net(tmp_path, pages=50)
    issuer, victim = await net.add(), await net.add(others=200)
    await issuer.remove("http://example.org/", kind="prefix")
    asked: list[int] = []
    covered = ArchiveHoldings.covered

    async def counted(holdings: ArchiveHoldings, subject: Subject, most: int) -> list[bytes]:
        found = await covered(holdings, subject, most)
        asked.append(len(found))
        return found

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ArchiveHoldings, "covered", counted)
        await net.rounds(2)
    assert asked, "it was looked at"
    assert max(asked) == 250 // FEW + 1, "as many as few are, and one more"
    assert victim.board.status().much == 1
    assert victim.seen == 50


async def test_a_clock_of_2100_neither_takes_nor_forgets_notices(tmp_path: Path) -> None:
    net = Net(tmp_path)
    issuer, victim, late = [await net.add() for _ in range(3)]
    await issuer.remove(HOST)
    await net.rounds(1)
    await victim.decide("dismiss", (await victim.decide("list"))[0]["id"])
    assert victim.states() == ["dismissed"]
    for desk in (victim, late):
        desk.clock.wall += 74 * 365 * DAY_S
        desk.start()
    await net.rounds(3)
    assert victim.states() == ["dismissed"]
    victim.clock.wall = START_S
    await net.rounds(1)
    assert victim.states() == ["dismissed"]


@pytest.mark.parametrize("at", ["note_removed", "change_notices"])
async def test_following_that_was_killed_between_two_files_is_whole_afterwards(
    tmp_path: Path, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = Net(tmp_path, pages=1)
    trusted = await net.add()
    ours = await net.add(others=55, follow="issuers", issuers=(trusted.me.hex(),))
    await trusted.remove(f"http://{HOST}/0", kind="url")
    await trusted.board.round()

    class KilledError(BaseException):
        pass

    follow_one = NoticeBoard._follow_one

    def killed(board: NoticeBoard, notice: Notice, captures: int) -> None:
        def dies(*_: object, **__: object) -> None:
            raise KilledError

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(board_module, at, dies)
            follow_one(board, notice, captures)

    with monkeypatch.context() as patched:
        patched.setattr(NoticeBoard, "_follow_one", killed)
        with pytest.raises(KilledError):
            await net.rounds(1)
    ours.start()
    await net.rounds(2)
    assert (ours.states(), read_removed(ours.state).rules[0].state) == (["hidden"], "hidden")
    await ours.decide("undo", (await ours.decide("list"))[0]["id"])
    await net.rounds(2)
    assert ours.seen == 1, "what was undone is not followed again"


async def test_a_notice_that_was_signed_and_not_noted_is_not_sent_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = Net(tmp_path)
    issuer, other = await net.add(), await net.add()
    await issuer.remove(HOST)

    class KilledError(BaseException):
        pass

    def dies(*_: object) -> None:
        raise KilledError

    with monkeypatch.context() as patched:
        patched.setattr(board_module, "alter", dies)
        with pytest.raises(KilledError):
            await issuer.board.round()
    issuer.start()
    await net.rounds(2)
    assert len(read_notices(other.state).kept) == 1
    (rule,) = read_removed(issuer.state).rules
    assert rule.notice == read_notices(other.state).kept[0].notice.id.hex()


async def test_without_a_notice_nobody_is_told(tmp_path: Path) -> None:
    net = Net(tmp_path)
    silent, other = await net.add(), await net.add()
    await silent.remove(HOST, is_told=False)
    await net.rounds(2)
    assert (silent.seen, other.states(), silent.board.status().issued) == (0, [], 0)


async def test_state_files_are_replaced_and_never_half_written(tmp_path: Path) -> None:
    net = Net(tmp_path)
    issuer = await net.add()
    await issuer.remove(HOST)
    await issuer.board.round()
    content = (issuer.state / "notices.json").read_bytes()
    assert content.startswith(b'{"format":1,')
    assert msgspec.json.decode(content)["kept"][0]["notice"][3:5] == ["host", HOST]
    assert (issuer.state / "notices.json").stat().st_mode & 0o777 == 0o600


async def test_news_is_asked_for_at_once_and_the_same_lists_keep_quiet(tmp_path: Path) -> None:
    net = Net(tmp_path)
    issuer, *others = [await net.add() for _ in range(10)]
    await issuer.remove(HOST)
    rounds = 0
    await net.round_of(issuer)  # signed, and told to four
    due = [issuer]
    while due:
        due = [desk for desk in net.desks if desk.board._has_news or desk.board._told_by]
        for desk in due:
            await net.round_of(desk)
            rounds += 1
    assert all(desk.states() == ["open"] for desk in others)
    assert rounds <= 4 * len(net.desks), "it ends by itself"
    net.calls.clear()
    await net.rounds(1)
    assert set(net.calls) == {LIST}, "nobody has news"
    assert not any(desk.board._has_news or desk.board._told_by for desk in net.desks)


async def test_lists_that_will_always_differ_make_no_storm(tmp_path: Path) -> None:
    net = Net(tmp_path)
    flooder, first, second = [await net.add() for _ in range(3)]
    kept_there = [Kept(notice=one, heard_s=0.0, place=b"x") for one in _flood(300, issued=START_S)]
    change_notices(flooder.state, lambda file: with_kept(file, kept_there))
    await net.rounds(3)
    net.calls.clear()
    await net.rounds(2)
    assert not any(desk.board._has_news or desk.board._told_by for desk in (first, second))
    assert len(net.calls) <= 2 * 3 * 2 * 2
