"""Do the rules of a host come with its first window? A peer that asks, a steward that answers, and both in a ring."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import anyio
import pytest
import trio.testing

from crawler.core.capture import Capture
from crawler.core.errors import UnreachableError
from crawler.core.politeness import HostSteward, Lease, LeaseTerms, PolitenessPolicy, Wait
from crawler.core.robots import RobotsRules
from crawler.core.urls import Origin
from crawler.ports import Fetcher, FetchRequest
from dht import Contact, Key
from herodotus.crawl.stewards import wire
from herodotus.crawl.stewards.ring_steward import CARRIED_PATIENCE_S, RingSteward, StewardParts
from herodotus.crawl.stewards.wire import (
    Answer,
    Ask,
    CarriedRules,
    Granted,
    NewRules,
    No,
    NotYet,
    RulesAnswer,
    SameRules,
    ToldRules,
)
from herodotus.peers.calls import CALL_DEADLINE_S, Questions
from herodotus.peers.net.short_calls import ShortFirst
from simnet.peers import Peers, run_peers
from simnet.scenarios.steward import NO_WEB, add_sites, crowd, settings_of
from simnet.web import Web as SimulatedWeb
from tests.herodotus.crawl.stewards.test_office import NewsOfTheRing
from tests.herodotus.peers.table_ring import contact_of, link_peer

pytestmark = pytest.mark.anyio
ME, STEWARD = contact_of(link_peer(0)), contact_of(link_peer(1))
ORIGIN, OTHER_ORIGIN = Origin("http://h.example"), Origin("http://h.example:81")
ADDRESS = "93.184.0.1"
NO_SECRETS = NewRules(7, 60_000, b"12345678", True, b"user-agent: *\ndisallow: /secret\n")
WINDOW = Granted(1, 0, 20_000, 8, 2_000, 7, addresses=[ADDRESS])
POLICY = PolitenessPolicy(delay_floor_s=2.0)


@pytest.fixture
def anyio_backend() -> Any:
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


class HostsOf(NewsOfTheRing):
    def __init__(self, steward: Contact) -> None:
        super().__init__()
        self.steward = steward

    async def prompt_owner(self, key: Key) -> Contact:
        await anyio.lowlevel.checkpoint()
        return self.steward


class Told:
    """A steward that says this of windows, and of rules with them and alone."""

    def __init__(self, answer: Answer, carried: ToldRules | None, alone: RulesAnswer = NO_SECRETS) -> None:
        self.answer, self.carried, self.alone = answer, carried, alone
        self.asked: list[str] = []
        self.asks: list[Ask] = []

    async def call(
        self, to: Contact, service: str, body: bytes, *, deadline_s: float = CALL_DEADLINE_S
    ) -> bytes:
        await anyio.sleep(0.1)
        self.asked.append(service)
        if service == "leases.rules":
            return wire.encode_rules(self.alone)
        asks = wire.decode_asks(body).asks
        self.asks += asks
        carried = [CarriedRules(at, self.carried) for at in range(len(asks)) if self.carried is not None]
        return wire.encode_answers([self.answer] * len(asks), carried)


class Web:
    """Nobody answers, sooner or later."""

    def __init__(self, answers_in_s: float = 0.0) -> None:
        self.answers_in_s = answers_in_s

    async def fetch(self, request: FetchRequest) -> Capture:
        await anyio.sleep(self.answers_in_s)
        raise UnreachableError(request.url, "nobody there")

    async def address_of(self, host: str) -> str:
        del host
        return ADDRESS


def steward_with(ring: NewsOfTheRing, fetcher: Fetcher, calls: Questions | None = None) -> RingSteward:
    return RingSteward(
        StewardParts(
            own_key=ME.peer,
            terms=LeaseTerms.of(POLICY),
            fetcher=fetcher,
            product_token="Herodotus",
            wall_clock=lambda: 1.0,
            slept_s=lambda: 0.0,
            ring=lambda: ring,
            calls=lambda: calls or pytest.fail("nobody is called"),
            may_visit_private=False,
            network=bytes(8),
            sign=lambda statement: bytes(64),
        ),
        HostSteward(POLICY),
    )


async def test_one_call_brings_the_rules_and_the_window_of_the_first_fetch() -> None:
    told = Told(WINDOW, NO_SECRETS)
    async with (peer := steward_with(HostsOf(STEWARD), Web(), told)).running():
        rules = await peer.rules(ORIGIN)
        assert isinstance(rules, RobotsRules)
        assert not rules.allows("/secret")
        assert rules.allows("/")
        assert isinstance(await peer.lease(ORIGIN, ADDRESS), Lease)
    assert told.asked == ["leases.ask"]
    assert (told.asks[0].known, told.asks[0].purpose, told.asks[0].address) == (b"", ORIGIN, ADDRESS)


async def test_rules_that_had_no_room_are_called_for() -> None:
    told = Told(WINDOW, None)
    async with (peer := steward_with(HostsOf(STEWARD), Web(), told)).running():
        assert isinstance(await peer.rules(ORIGIN), RobotsRules)
        assert isinstance(await peer.lease(ORIGIN, ADDRESS), Lease)
    assert told.asked == ["leases.ask", "leases.rules"]


async def test_a_question_that_no_fetch_follows_takes_no_window() -> None:
    """A helper fetches in the windows of those that it helps."""
    told = Told(WINDOW, NO_SECRETS)
    async with (peer := steward_with(HostsOf(STEWARD), Web(), told)).running():
        assert isinstance(await peer.rules_alone(ORIGIN), RobotsRules)
    assert told.asked == ["leases.rules"]


async def test_a_peer_waits_while_its_steward_looks_for_the_rules() -> None:
    told = Told(NotYet(500, "robots.txt comes first"), None)
    async with (peer := steward_with(HostsOf(STEWARD), Web(), told)).running():
        rules = await peer.rules(ORIGIN)
    assert isinstance(rules, Wait)
    assert rules.reason == "robots.txt comes first"
    assert told.asked == ["leases.ask"]


async def test_rules_of_a_host_that_has_no_window_now_are_known_all_the_same() -> None:
    told = Told(NotYet(5_000, "others are before"), NO_SECRETS)
    async with (peer := steward_with(HostsOf(STEWARD), Web(), told)).running():
        assert isinstance(await peer.rules(ORIGIN), RobotsRules)


async def test_a_site_that_its_steward_refuses_is_closed() -> None:
    told = Told(No("opted-out"), NO_SECRETS)
    async with (peer := steward_with(HostsOf(STEWARD), Web(), told)).running():
        rules = await peer.rules(ORIGIN)
    assert isinstance(rules, RobotsRules)
    assert rules.problem == "its steward says: opted-out"


async def test_rules_that_are_to_be_those_that_nobody_had_are_called_for() -> None:
    told = Told(WINDOW, SameRules(7, 60_000))
    async with (peer := steward_with(HostsOf(STEWARD), Web(), told)).running():
        assert isinstance(await peer.rules(ORIGIN), RobotsRules)
    assert told.asked == ["leases.ask", "leases.rules"]


async def test_old_rules_are_named_and_stay_when_the_steward_says_so() -> None:
    told = Told(WINDOW, NO_SECRETS)
    async with (peer := steward_with(HostsOf(STEWARD), Web(), told)).running():
        first = await peer.rules(ORIGIN)
        await anyio.sleep(70)  # their time is over, and the window went back
        told.carried = SameRules(7, 60_000)
        assert await peer.rules(ORIGIN) == first
    known = [ask.known for ask in told.asks]
    assert known[0] == b""
    assert known[1]
    assert len(known) == 2


async def test_what_was_not_asked_for_changes_no_rules() -> None:
    """Else any answer about a window could close, or open, what is known already."""
    told = Told(WINDOW, NewRules(7, 60_000, b"12345678", True, b""))
    async with (peer := steward_with(HostsOf(STEWARD), Web(), told)).running():
        told.alone = NO_SECRETS
        await peer.rules_alone(ORIGIN)
        await peer.lease(ORIGIN, ADDRESS)
        rules = await peer.rules(ORIGIN)
    assert isinstance(rules, RobotsRules)
    assert not rules.allows("/secret")


async def test_two_origins_of_a_host_ask_for_one_window() -> None:
    """The second answer would be the same window once more, with all its starts unused."""
    told = Told(WINDOW, NO_SECRETS)
    async with (
        (peer := steward_with(HostsOf(STEWARD), Web(), told)).running(),
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(peer.rules, ORIGIN)
        tasks.start_soon(peer.rules, OTHER_ORIGIN)
    assert sorted(told.asked) == ["leases.ask", "leases.rules"]
    assert len(told.asks) == 1


async def answers_of(
    steward: RingSteward, *asks: Ask
) -> tuple[Sequence[Answer], dict[int, ToldRules], float]:
    """To one call of another peer, and how long it took."""
    began = anyio.current_time()
    body = await steward.services.calls["leases.ask"](bytes(31) + b"\x01", wire.encode_asks(asks, []))
    told = wire.decode_answers(body, expected=len(asks))
    return told.answers, {one.at: one.rules for one in told.carried}, anyio.current_time() - began


def ask_for(name: str, known: bytes | None) -> Ask:
    return Ask(f"host:{name}", 3, purpose=f"http://{name}", address=ADDRESS, known=known)


async def test_a_steward_gives_the_rules_that_it_has_to_those_that_ask_for_them() -> None:
    steward = steward_with(HostsOf(ME), Web())
    async with steward.running():
        await anyio.sleep(LeaseTerms.of(POLICY).silent_s)
        now = anyio.current_time()
        for name in ("a.example", "b.example"):
            steward.core.set_rules(Origin(f"http://{name}"), RobotsRules(), now)
        _, rules, _ = await answers_of(steward, ask_for("a.example", b""), ask_for("b.example", None))
        assert list(rules) == [0]
        first = rules[0]
        assert isinstance(first, NewRules)
        _, rules, _ = await answers_of(steward, ask_for("a.example", first.version))
        assert isinstance(rules[0], SameRules)
        # Of a host that is not the subject's, or an address's, it says nothing.
        stranger = Ask("host:b.example", 3, purpose="http://a.example", address=ADDRESS, known=b"")
        answers, rules, _ = await answers_of(steward, stranger)
        assert (answers, rules) == ([No("malformed")], {})
        for purpose in ("http://a.example", "1 host:a.example", "http://["):
            _, rules, _ = await answers_of(steward, Ask(f"address:{ADDRESS}", 3, purpose=purpose, known=b""))
            assert rules == {}


async def test_a_slow_robots_txt_keeps_asks_of_the_same_call_waiting_for_a_moment_only() -> None:
    steward = steward_with(HostsOf(ME), Web(answers_in_s=30.0))
    async with steward.running():
        await anyio.sleep(LeaseTerms.of(POLICY).silent_s)
        steward.core.set_rules(Origin("http://quick.example"), RobotsRules(), anyio.current_time())
        asks = ask_for("slow.example", b""), ask_for("quick.example", b"")
        answers, rules, took_s = await answers_of(steward, *asks)
    assert isinstance(answers[0], NotYet)
    assert isinstance(answers[1], Granted)
    assert list(rules) == [1]
    assert 0 < took_s <= CARRIED_PATIENCE_S


@pytest.mark.timeout(120)
def test_only_a_long_robots_txt_is_called_for_in_a_ring(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Counter[str]()
    plain = ShortFirst.call

    async def call(
        self: ShortFirst, to: Contact, service: str, body: bytes, *, deadline_s: float = CALL_DEADLINE_S
    ) -> bytes:
        asked[service] += 1
        return await plain(self, to, service, body, deadline_s=deadline_s)

    async def story(world: Peers) -> None:
        short, long = add_sites(world, "short.example", "long.example")
        short.robots = "user-agent: *\ndisallow: /secret\n"
        long.robots = "user-agent: *\n" + "".join(f"disallow: /secret/of/{n}\n" for n in range(200))
        await crowd(world, each=3)
        await anyio.sleep(200)
        for site in (short, long):
            urls = [start.url for start in world.origins.starts[site.name]]
            assert len(urls) == 4 * 3 + 1
            assert sum(url.endswith("/robots.txt") for url in urls) == 1
        assert not world.origins.rude
        assert asked["leases.rules"] == 3, "the long one, by each but its steward"

    monkeypatch.setattr(ShortFirst, "call", call)
    run_peers(story, settings_of(4), SimulatedWeb(NO_WEB), seed=3)
