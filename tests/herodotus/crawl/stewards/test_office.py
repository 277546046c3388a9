"""What does a steward refuse, and what does it give back? The office alone, in virtual time."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest
import trio.testing

from crawler.core.capture import Capture
from crawler.core.errors import UnreachableError
from crawler.core.lease_office import CallBack
from crawler.core.politeness import HostSteward, LeaseTerms, OptOutList, PolitenessPolicy, Wait
from crawler.ports import FetchRequest
from dht import Contact, EventsLost, Key, Subscription
from dht.core.arcs import Arc, Arcs
from dht.core.effects import ArcsChanged, Joined, PaceChanged, PeerChanged, RingChanged
from dht.core.ids import PeerKey
from dht.core.limits import Rate
from dht.node_types import RingEvent
from herodotus.crawl.stewards import office as office_module
from herodotus.crawl.stewards.ask_queue import Told
from herodotus.crawl.stewards.office import OfficeWorld, StewardOffice, Tenure, key_of_subject
from herodotus.crawl.stewards.ring_steward import RingSteward, StewardParts
from herodotus.crawl.stewards.wire import Answer, Ask, Deputy, Granted, No, NotYet, Return
from herodotus.peers.calls import RefusedError
from tests.herodotus.peers.table_ring import contact_of, link_peer

pytestmark = pytest.mark.anyio
TERMS = LeaseTerms.of(PolitenessPolicy(delay_floor_s=2.0))
OWN, ASKER, OTHER = bytes(32), b"\x01" * 32, b"\x02" * 32
ME = contact_of(link_peer(0))
HOST, ADDRESS = "host:h.example", "192.0.2.1"
PUBLIC_ADDRESS = "93.184.0.1"


@pytest.fixture
def anyio_backend() -> Any:
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


@dataclass
class Scene:
    """A steward of all hosts and addresses, which it has been for long."""

    address: str = PUBLIC_ADDRESS
    opted_out: tuple[str, ...] = ()
    is_new: bool = False
    left: list[str] = field(default_factory=list)
    """Windows of addresses that were given back."""
    called: list[CallBack] = field(default_factory=list)

    async def opened(self) -> StewardOffice:
        self.tenure = Tenure(TERMS.silent_s)
        self.tenure.change(~Arcs(), anyio.current_time())
        if not self.is_new:
            await anyio.sleep(TERMS.silent_s)
        self.office = StewardOffice(
            TERMS,
            self.tenure,
            OfficeWorld(
                own_key=OWN,
                address_of=self._address_of,
                ask_elsewhere=self._ask,
                return_elsewhere=self._take_back,
                call_back=lambda subject, deputy: self.called.append(deputy),
                rules_number=lambda host: 1,
                knows_rules=lambda origin: True,
                may_visit_private=False,
                opted_out=OptOutList.of(self.opted_out),
                sign=lambda asker, subject, answer: answer,
            ),
        )
        return self.office

    async def _address_of(self, host: str) -> str | Wait:
        await anyio.lowlevel.checkpoint()
        return self.address

    async def _ask(self, ask: Ask) -> Told:
        now = anyio.current_time()
        return Told(await self.office.grant(OWN, ask), now, now)

    def _take_back(self, steward: Contact | None, returned: Return) -> None:
        assert steward is None
        self.left.append(returned.subject)
        self.office.take_back(OWN, returned)


def ask(subject: str = HOST, purpose: str = "http://h.example") -> Ask:
    return Ask(subject=subject, wanted=3, purpose=purpose)


async def test_a_host_is_granted_to_whoever_asks_for_one_of_its_origins() -> None:
    office = await Scene().opened()
    assert isinstance(await office.grant(ASKER, ask()), Granted)
    assert isinstance(await office.grant(OTHER, ask(purpose="https://other.example")), No)


async def test_a_new_steward_grants_nothing_until_all_leases_of_another_are_over() -> None:
    office = await Scene(is_new=True).opened()
    answer = await office.grant(ASKER, ask())
    assert isinstance(answer, NotYet)
    assert answer.wait_ms == 1000 * TERMS.silent_s
    await anyio.sleep(TERMS.silent_s - 1)
    assert isinstance(await office.grant(ASKER, ask()), NotYet)
    await anyio.sleep(1)
    assert isinstance(await office.grant(ASKER, ask()), Granted)


async def test_what_is_another_stewards_is_not_granted() -> None:
    scene = Scene()
    office = await scene.opened()
    key = key_of_subject(HOST)
    only_it = Arcs([Arc(type(key)((int.from_bytes(key, "big") - 1).to_bytes(20, "big")), key)])
    scene.tenure.change(~only_it, anyio.current_time())
    assert await office.grant(ASKER, ask()) == No("not-steward")
    assert isinstance(await office.grant(ASKER, ask("host:i.example", "http://i.example")), Granted)


async def test_a_peer_that_was_the_steward_until_now_is_sent_to_its_successor() -> None:
    """Else it took a host for closed for an hour, as it was just asking for robots.txt when the ring changed."""
    office = await Scene().opened()
    assert await office.grant(OTHER, ask(purpose="")) == No("not-steward")


@pytest.mark.parametrize("address", ["10.0.0.1", "127.0.0.1", "169.254.169.254", "::1", "fe80::1"])
async def test_nobody_is_sent_into_a_private_network(address: str) -> None:
    office = await Scene(address=address).opened()
    assert await office.grant(ASKER, ask()) == No("not-public")
    assert await office.grant(ASKER, ask(f"address:{address}", "1 host:h.example")) == No("not-public")
    assert office.refused == {"not-public": 2}


async def test_hosts_that_opted_out_are_granted_to_nobody() -> None:
    office = await Scene(opted_out=("example",)).opened()
    assert await office.grant(ASKER, ask()) == No("opted-out")
    assert isinstance(await office.grant(ASKER, ask("host:h.other", "http://h.other")), Granted)


async def test_who_asks_too_much_is_told_when_to_come_back_and_others_are_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(office_module, "ASKS", Rate(per_second=2.0, burst=10.0))
    office = await Scene().opened()
    office.charge(ASKER, 7)
    with pytest.raises(RefusedError) as refused:
        office.charge(ASKER, 6)
    assert refused.value.retry_after_s == 1.5
    office.charge(OTHER, 10)
    await anyio.sleep(1.5)
    office.charge(ASKER, 6)
    assert office.refused == {"too-many": 1}


async def test_an_address_is_free_again_when_its_hosts_window_comes_back() -> None:
    scene = Scene()
    office = await scene.opened()
    granted = await office.grant(ASKER, ask())
    assert isinstance(granted, Granted)
    assert office.statistics().windows == 2  # the host's, and within it the address's
    returned = Return(HOST, granted.number, 1, 200, 100)
    office.take_back(ASKER, returned)
    assert scene.left == [f"address:{PUBLIC_ADDRESS}"]
    assert office.statistics().windows == 0


def there(address: str | None) -> Ask:
    return Ask(subject=HOST, wanted=3, purpose="http://h.example", address=address)


async def test_a_lease_covers_the_address_that_the_asker_will_connect_to() -> None:
    scene = Scene()
    office = await scene.opened()
    granted = await office.grant(ASKER, there("93.184.0.9"))
    assert isinstance(granted, Granted)
    assert granted.addresses == ["93.184.0.9"]
    assert office.elsewhere == 1
    assert "address:93.184.0.9" in office.books.subjects()
    assert f"address:{PUBLIC_ADDRESS}" not in office.books.subjects()


async def test_an_asker_that_says_nothing_gets_the_address_that_the_steward_sees() -> None:
    granted = await (await Scene().opened()).grant(ASKER, there(None))
    assert isinstance(granted, Granted)
    assert granted.addresses == [PUBLIC_ADDRESS]


async def test_where_a_name_leads_nowhere_for_the_asker_no_address_is_covered() -> None:
    granted = await (await Scene().opened()).grant(ASKER, there(""))
    assert isinstance(granted, Granted)
    assert granted.addresses == []


async def test_an_asker_whose_name_leads_elsewhere_by_now_leaves_the_first_address() -> None:
    scene = Scene()
    office = await scene.opened()
    first = await office.grant(ASKER, there("93.184.0.9"))
    second = await office.grant(ASKER, there("93.184.0.8"))
    assert isinstance(first, Granted)
    assert isinstance(second, Granted)
    assert (second.number, second.addresses) == (first.number, ["93.184.0.8"])
    assert scene.left == ["address:93.184.0.9"]


@pytest.mark.parametrize("address", ["10.0.0.1", "::ffff:10.0.0.1", "::ffff:93.184.0.9", "93.184.0.09", "x"])
async def test_nobody_is_sent_to_a_private_address_or_to_one_in_a_spelling_of_its_own(address: str) -> None:
    """In two spellings an address had two stewards, and twice the cap."""
    office = await Scene().opened()
    assert await office.grant(ASKER, there(address)) == No("not-public")
    assert await office.grant(ASKER, ask(f"address:{address}", "1 host:h.example")) == No("not-public")


class NewsOfTheRing:
    """All keys are ours to begin with; what is told of changes is up to the test."""

    def __init__(self) -> None:
        self.news = Subscription()
        self.owned = ~Arcs()
        self.says: list[bool] = []

    async def prompt_owner(self, key: Key) -> Contact:
        raise NotImplementedError

    def prompt_arcs(self) -> tuple[Arc, ...]:
        return tuple(self.owned)

    def positions(self) -> tuple[Contact, ...]:
        return ()

    def life_of(self, peer: PeerKey) -> int | None:
        return 1

    def say_slow(self, *, is_slow: bool) -> None:
        self.says.append(is_slow)

    def events(self) -> AbstractContextManager[Subscription]:
        return nullcontext(self.news)


class Somewhere:
    """As much of a fetcher as a steward of one host needs."""

    async def fetch(self, request: FetchRequest) -> Capture:
        raise UnreachableError(request.url, "nobody there")

    async def address_of(self, host: str) -> str:
        del host
        return ""


def steward_in(ring: NewsOfTheRing) -> RingSteward:
    return RingSteward(
        StewardParts(
            own_key=OWN,
            terms=TERMS,
            fetcher=Somewhere(),
            product_token="Herodotus",
            wall_clock=lambda: 1.0,
            slept_s=lambda: 0.0,
            ring=lambda: ring,
            calls=lambda: pytest.fail("nobody is called"),
            may_visit_private=False,
            network=bytes(8),
            sign=lambda statement: bytes(64),
        ),
        HostSteward(PolitenessPolicy(delay_floor_s=2.0)),
    )


@pytest.mark.parametrize(
    ("event", "is_heard"),
    [
        (ArcsChanged(arcs=()), True),
        (RingChanged(contact=ME), True),  # where all hold everything, this is all that is said
        (EventsLost(), True),
        (PeerChanged(peer=ME.peer, clock="unreachable"), True),  # copies by place: its keys are another's now
        (PaceChanged(peer=ME.peer), True),
        (Joined(contact=ME), False),
    ],
)
async def test_a_steward_looks_at_its_keys_again_when_they_may_have_changed(
    event: RingEvent, is_heard: bool
) -> None:
    ring = NewsOfTheRing()
    steward = steward_in(ring)
    async with steward.running():
        await anyio.sleep(TERMS.silent_s)
        assert isinstance(await steward.office.grant(OWN, ask(purpose="")), Granted)
        ring.owned = Arcs()
        ring.news.put(event)
        await anyio.sleep(1)
        answer = await steward.office.grant(OWN, ask(purpose=""))
        assert answer == No("not-steward") if is_heard else isinstance(answer, Granted)


async def test_a_steward_that_missed_news_of_the_ring_is_silent_like_a_new_one() -> None:
    """What is its own now may have been another's meanwhile, which granted it."""
    ring = NewsOfTheRing()
    steward = steward_in(ring)
    robots = ask(purpose="")
    async with steward.running():
        await anyio.sleep(TERMS.silent_s)
        assert isinstance(await steward.office.grant(OWN, robots), Granted)
        ring.news.put(ArcsChanged(arcs=()))
        await anyio.sleep(1)
        assert isinstance(await steward.office.grant(OWN, robots), Granted)
        ring.news.put(EventsLost())
        await anyio.sleep(1)
        assert isinstance(await steward.office.grant(OWN, robots), NotYet)
        await anyio.sleep(TERMS.silent_s)
        assert isinstance(await steward.office.grant(OWN, robots), Granted)


async def test_a_steward_sees_within_a_minute_that_members_came_of_age() -> None:
    """The day's boundary gives keys to others, and no event tells of it."""
    ring = NewsOfTheRing()
    steward = steward_in(ring)
    async with steward.running():
        await anyio.sleep(TERMS.silent_s)
        assert isinstance(await steward.office.grant(OWN, ask(purpose="")), Granted)
        ring.owned = Arcs()
        await anyio.sleep(office_module.AGES_LOOK_S + 1)
        assert await steward.office.grant(OWN, ask(purpose="")) == No("not-steward")


AT = f"address:{PUBLIC_ADDRESS}"


async def other_at_the_address(scene: Scene) -> Answer:
    """An ask of another steward, for a host of its own."""
    return await scene.office.grant(OTHER, Ask(AT, 3, lasts_ms=5_000, purpose="1 host:i.example"))


async def test_whoever_asks_alone_for_an_address_keeps_its_book_for_an_hour() -> None:
    scene = Scene()
    await scene.opened()
    assert await other_at_the_address(scene) == Deputy(3_600_000)
    answer = await scene.office.grant(ASKER, Ask(AT, 3, lasts_ms=5_000, purpose="1 host:j.example"))
    assert answer == NotYet(250, "its address is another steward's")
    assert [deputy.peer for deputy in scene.called] == [OTHER]


async def test_a_steward_whose_own_host_is_there_makes_nobody_deputy() -> None:
    scene = Scene()
    office = await scene.opened()
    assert isinstance(await office.grant(ASKER, ask()), Granted)
    assert isinstance(await other_at_the_address(scene), Granted)
    assert scene.called == []


@dataclass
class DeputyScene(Scene):
    """The address is another peer's, which makes us its deputy, and counts how often it is asked."""

    life: int | None = 7
    asked: int = 0

    async def _ask(self, ask: Ask) -> Told:
        now = anyio.current_time()
        answer = self.office.grant_as_deputy(ask, OTHER, self.life)
        if answer is None:
            self.asked += 1
            self.office.become_deputy(ask.subject, Deputy(3_600_000), OTHER, self.life, now)
            answer = self.office.grant_as_deputy(ask, OTHER, self.life)
        return Told(answer, now, now)

    async def fetch_once(self, asker: bytes = ASKER) -> None:
        granted = await self.office.grant(asker, ask())
        assert isinstance(granted, Granted), granted
        await anyio.sleep(granted.starts_in_ms / 1000)
        self.office.take_back(asker, Return(HOST, granted.number, 1, 200, 100))


async def test_a_deputy_asks_once_for_an_hour_of_windows() -> None:
    scene = DeputyScene()
    await scene.opened()
    for _ in range(20):
        await scene.fetch_once()
    assert scene.asked == 1
    await anyio.sleep(3_600)
    await scene.fetch_once()
    assert scene.asked == 2


async def test_a_deputy_of_a_steward_that_started_again_asks_it_again() -> None:
    scene = DeputyScene()
    await scene.opened()
    await scene.fetch_once()
    scene.life = 8
    await scene.fetch_once()
    assert scene.asked == 2


async def test_a_deputy_that_cannot_see_whether_its_steward_started_again_asks_in_each_life_of_a_lease() -> (
    None
):
    scene = DeputyScene(life=None)
    await scene.opened()
    await scene.fetch_once()
    await anyio.sleep(TERMS.life_s)
    await scene.fetch_once()
    assert scene.asked == 2


async def test_a_deputy_keeps_the_cap_of_the_address() -> None:
    scene = DeputyScene()
    office = await scene.opened()
    hosts = [Ask(f"host:{name}.example", 3, purpose=f"http://{name}.example") for name in "abc"]
    found = [await office.grant(ASKER, one) for one in hosts]
    assert [one.starts_in_ms for one in found[:2] if isinstance(one, Granted)] == [0, 0]
    assert not isinstance(found[2], Granted) or found[2].starts_in_ms > 0


async def test_a_deputy_that_is_called_back_says_when_its_windows_are_over_and_grants_no_more() -> None:
    scene = DeputyScene()
    office = await scene.opened()
    granted = await office.grant(ASKER, ask())
    assert isinstance(granted, Granted)
    (end_s,) = office.end_mandate(OTHER, AT)
    assert end_s >= granted.lasts_ms / 1000 + 105.0
    assert office.end_mandate(OTHER, AT) == [end_s], "its first answer may have been lost"
    assert office.grant_as_deputy(Ask(AT, 1, lasts_ms=5_000, purpose="2 host:h.example"), OTHER, 7) is None


async def test_only_its_own_steward_ends_what_a_deputy_may_do() -> None:
    scene = DeputyScene()
    await scene.opened()
    await scene.fetch_once()
    scene.office.end_mandate(ASKER, AT)
    await scene.fetch_once()
    assert scene.asked == 1


async def test_a_deputy_that_slept_or_started_again_knows_not_what_is_out_and_says_so() -> None:
    scene = DeputyScene()
    office = await scene.opened()
    await scene.fetch_once()
    await anyio.sleep(10.0)
    office.forget_mandates()
    assert office.end_mandate(OTHER, AT) == [165.0, 165.0], "a life of a lease, and the longest fetch"
    await anyio.sleep(65.0)
    assert office.end_mandate(OTHER, AT) == [100.0, 100.0]
    await anyio.sleep(1.0)
    await scene.fetch_once()
    assert scene.asked == 2
    office.forget_mandates()
    await anyio.sleep(10.0)
    await scene.fetch_once()
    assert scene.asked == 3


async def test_changes_of_the_ring_leave_a_deputy_its_books() -> None:
    scene = DeputyScene()
    office = await scene.opened()
    granted = await office.grant(ASKER, ask())
    assert isinstance(granted, Granted)
    scene.tenure.change(Arcs(), anyio.current_time())
    office.forget_others()
    assert len(office.end_mandate(OTHER, AT)) == 1
    office.forget_others()
    assert len(office.end_mandate(OTHER, AT)) == 1, "they count to their end, deputy or not"
    await anyio.sleep(200.0)
    office.forget_others()
    assert office.books.subjects() == []


async def test_who_was_called_back_is_no_deputy_by_an_answer_that_was_on_its_way() -> None:
    scene = DeputyScene()
    office = await scene.opened()
    asked = anyio.current_time()
    assert office.end_mandate(OTHER, AT) == []
    office.become_deputy(AT, Deputy(3_600_000), OTHER, 7, asked)
    window = Ask(AT, 1, lasts_ms=5_000, purpose="1 host:h.example")
    assert office.grant_as_deputy(window, OTHER, 7) is None
    office.end_mandate(ASKER, AT)
    office.become_deputy(AT, Deputy(3_600_000), OTHER, 7, asked + 1)
    assert isinstance(office.grant_as_deputy(window, OTHER, 7), Granted)
