"""An owner and a helper: what is handed out, what is believed, and what a helper does that is late, lies or leaves."""

import dataclasses
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
import trio.testing
from msgspec.structs import replace

from crawler.core.capture import Capture
from crawler.core.errors import AnotherTimeError
from crawler.core.politeness import NoWay, Wait
from crawler.core.robots import parse_robots
from crawler.core.scope import Territory
from crawler.core.urls import STANDARD
from crawler.ports import FetchRequest, Skipped
from dht.core.records import Line as RecordLine
from herodotus.crawl.helpers import HelpedFetcher, WorkDesk
from herodotus.crawl.helpers.desk import FETCH_S
from herodotus.crawl.helpers.helping import Times, families_of
from herodotus.crawl.helpers.wire import (
    BODY_BYTES_MAX,
    GIVE,
    IPV4,
    IPV6,
    Item,
    Result,
    Work,
    encode_give,
    encode_take,
)
from herodotus.peers.calls import RefusedError
from tests.herodotus.crawl.helpers.working import (
    ADDRESS,
    HELPER,
    NOW_S,
    OWNER,
    Line,
    Owner,
    SmallRing,
    Web,
    contact,
    desk_at,
    helping_with,
    honest,
    wall,
    window_for,
    work_by_hand,
)

pytestmark = pytest.mark.anyio
URL = "http://a.example/"


@pytest.fixture
def anyio_backend() -> Any:
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("herodotus.core.helpers.CHECKS_MANY", 0.0)


def checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("herodotus.core.helpers.CHECKS_MANY", 1.0)


async def work_honestly(work: Work) -> Sequence[Result]:
    await anyio.sleep(0.1)
    return [honest(item, index) for index, item in enumerate(work.items)]


# --- the owner's side


async def test_a_waiting_helper_fetches_and_the_capture_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unchecked(monkeypatch)
    desk, web = desk_at(tmp_path), Web()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(work_by_hand, Line(desk), work_honestly)
        await anyio.wait_all_tasks_blocked()
        found = await Owner(desk, web).fetch(URL)
    assert isinstance(found, Capture)
    assert (found.url, found.body, found.fetched_by) == (URL, URL.encode(), HELPER.hex())
    assert NOW_S <= found.requested_at <= wall()
    assert found.remote_ip == ADDRESS
    assert web.asked == []
    assert (desk.status().given, desk.status().brought) == (1, 1)


async def test_without_a_helper_that_waits_the_owner_fetches(tmp_path: Path) -> None:
    desk, web = desk_at(tmp_path), Web()
    found = await Owner(desk, web).fetch(URL)
    assert isinstance(found, Capture)
    assert found.fetched_by == ""
    assert web.times("owner") == 1


async def test_a_check_that_agrees_stores_what_the_helper_brought(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked(monkeypatch)
    desk, web = desk_at(tmp_path), Web()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(work_by_hand, Line(desk), work_honestly)
        await anyio.wait_all_tasks_blocked()
        found = await Owner(desk, web).fetch(URL)
    assert isinstance(found, Capture)
    assert found.fetched_by == HELPER.hex()
    assert web.times("owner") == 1
    assert (desk.status().checked, desk.status().differed) == (1, 0)


async def test_what_the_origin_does_not_say_is_not_stored_and_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked(monkeypatch)
    desk, web = desk_at(tmp_path), Web()

    async def lie(work: Work) -> Sequence[Result]:
        return [honest(item, index, b"altered") for index, item in enumerate(work.items)]

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(work_by_hand, Line(desk), lie)
        await anyio.wait_all_tasks_blocked()
        found = await Owner(desk, web).fetch(URL)
    assert isinstance(found, Capture)
    assert (found.body, found.fetched_by) == (URL.encode(), "")
    assert web.times("owner") == 2
    assert (desk.status().checked, desk.status().differed) == (1, 1)


async def test_three_lies_end_the_trust_and_a_restart_does_not_bring_it_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked(monkeypatch)
    desk, web = desk_at(tmp_path), Web()

    async def lie(work: Work) -> Sequence[Result]:
        return [honest(item, index, b"altered") for index, item in enumerate(work.items)]

    async with desk.kept():
        for number in range(3):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(work_by_hand, Line(desk), lie)
                await anyio.wait_all_tasks_blocked()
                await Owner(desk, web).fetch(f"{URL}{number}")
    assert list(desk.status().barred) == [HELPER.hex()]
    again = desk_at(tmp_path)
    with pytest.raises(RefusedError, match="untrusted"):
        await again.take(HELPER, encode_take(want=1, wait_ms=0))


@pytest.mark.parametrize(
    "content", [b"", b"rubbish", b'{"format":9}', b'{"format":1,"helpers":{"xyz":{"first_s":1}}}']
)
async def test_a_damaged_file_is_forgotten(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "helpers.json").write_bytes(content)
    assert desk_at(tmp_path).status().barred == {}


async def test_a_page_that_changes_each_time_accuses_nobody_and_our_own_look_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked(monkeypatch)
    desk = desk_at(tmp_path)
    web = Web(body_of=lambda who, url, times: f"{times}".encode())
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(work_by_hand, Line(desk), work_honestly)
        await anyio.wait_all_tasks_blocked()
        found = await Owner(desk, web).fetch(URL)
    assert isinstance(found, Capture)
    assert (found.body, found.fetched_by) == (b"2", "")
    assert (desk.status().differed, desk.status().changing) == (0, 1)


async def test_what_cannot_be_looked_at_is_dropped_and_fetched_by_the_owner_the_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked(monkeypatch)
    desk, web = desk_at(tmp_path), Web()
    owner = Owner(desk, web, has_more_leases=False)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(work_by_hand, Line(desk), work_honestly)
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(AnotherTimeError):
            await owner.fetch(URL)
        tasks.start_soon(work_by_hand, Line(desk), work_honestly)
        await anyio.wait_all_tasks_blocked()
        found = await owner.fetch(URL)
        tasks.cancel_scope.cancel()
    assert isinstance(found, Capture)
    assert found.fetched_by == ""


@pytest.mark.parametrize(
    "bad",
    [
        Result(0, 0, word="UnreachableError"),
        Result(0, 503, b"HTTP/1.1 503 X\r\n\r\n", b"", ADDRESS),
        Result(0, 429, b"HTTP/1.1 429 X\r\nRetry-After: 86400\r\n\r\n", b"", ADDRESS),
        Result(0, 403, b"HTTP/1.1 403 X\r\n\r\n", b"", ADDRESS),
        Result(0, 200, b"HTTP/1.1 404 X\r\n\r\n", b"", ADDRESS),
        Result(0, 200, b"no head\r\n\r\n", b"", ADDRESS),
        Result(0, 200, b"HTTP/1.1 200 X\r\n\r\nand more", b"", ADDRESS),
        Result(0, 200, b"HTTP/1.1 200 X\r\n\r\n", b"", "192.0.2.99"),
        Result(0, 200, b"HTTP/1.1 200 X\r\n\r\n", b"cut", ADDRESS, word="length"),
        Result(0, 200, b"HTTP/1.1 200 X\r\n\r\n", b"cut", ADDRESS, word="nonsense"),
    ],
)
async def test_a_helper_speaks_ill_of_no_host_and_brings_nothing_odd(tmp_path: Path, bad: Result) -> None:
    desk, web = desk_at(tmp_path), Web()

    async def act(work: Work) -> Sequence[Result]:
        del work
        await anyio.lowlevel.checkpoint()
        return [bad]

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(work_by_hand, Line(desk), act)
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(AnotherTimeError):
            await Owner(desk, web).fetch(URL)
    assert web.asked == []
    is_declined = bad.status in (0, 403, 429, 503)
    assert (desk.status().lost, desk.status().declined) == (not is_declined, is_declined)


@pytest.mark.parametrize(("after_s", "is_fault"), [(18.0, False), (25.0, True)])
async def test_a_helper_says_soon_that_it_has_nothing(tmp_path: Path, after_s: float, is_fault: bool) -> None:
    desk, web = desk_at(tmp_path), Web()

    async def act(work: Work) -> Sequence[Result]:
        del work
        await anyio.sleep(after_s)
        return [Result(0, 0, word="late")]

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(work_by_hand, Line(desk), act)
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(AnotherTimeError):
            await Owner(desk, web).fetch(URL)
    assert (desk.status().lost, desk.status().declined) == (is_fault, not is_fault)


async def test_a_helper_that_never_answers_costs_its_window_and_rests_after_three(tmp_path: Path) -> None:
    desk, web = desk_at(tmp_path), Web()

    async def forget(work: Work) -> Sequence[Result]:
        del work
        return ()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: work_by_hand(Line(desk), forget, rounds=4))
        for number in range(3):
            await anyio.wait_all_tasks_blocked()
            began = anyio.current_time()
            with pytest.raises(AnotherTimeError):
                await Owner(desk, web).fetch(f"{URL}{number}")
            assert 15.0 + FETCH_S <= anyio.current_time() - began <= 15.0 + FETCH_S + 1.0
        await Owner(desk, web).fetch(f"{URL}again")
        tasks.cancel_scope.cancel()
    assert web.times("owner") == 1
    assert desk.status().lost == 3
    assert desk.status().out == 0


async def test_late_and_second_results_and_those_for_other_urls_count_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unchecked(monkeypatch)
    desk, web = desk_at(tmp_path), Web()
    batches: list[bytes] = []

    async def twice(work: Work) -> Sequence[Result]:
        batches.append(work.batch)
        first = honest(work.items[0], 0)
        return [first, replace(first, body=b"second"), replace(first, index=5)]

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(work_by_hand, Line(desk), twice)
        await anyio.wait_all_tasks_blocked()
        found = await Owner(desk, web).fetch(URL)
    assert isinstance(found, Capture)
    assert found.body == URL.encode()
    assert desk.status().late == 2
    late = encode_give(batches[0], [Result(0, 200, b"HTTP/1.1 200 X\r\n\r\n", b"late", ADDRESS)])
    assert await desk.give(HELPER, late) == b"\x92\x01\x00"
    assert await desk.give(b"x" * 32, late) == b"\x92\x01\x00"
    assert desk.status().late == 4


async def test_nobody_gives_in_another_helper_s_name(tmp_path: Path) -> None:
    desk, web = desk_at(tmp_path), Web()
    thief = Line(desk, caller=b"t" * 32)

    async def steal(work: Work) -> Sequence[Result]:
        await thief.call(contact(OWNER), GIVE, encode_give(work.batch, [honest(work.items[0], 0, b"stolen")]))
        return ()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(work_by_hand, Line(desk), steal)
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(AnotherTimeError):
            await Owner(desk, web).fetch(URL)


async def test_a_helper_that_leaves_before_it_is_told_costs_nothing(tmp_path: Path) -> None:
    desk, web = desk_at(tmp_path), Web()
    async with anyio.create_task_group() as tasks:
        scope = anyio.CancelScope()

        async def asks() -> None:
            with scope:
                await desk.take(HELPER, encode_take(want=5, wait_ms=50_000))

        async def leaves() -> None:
            await anyio.sleep(0.1)
            scope.cancel()

        tasks.start_soon(asks)
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(leaves)
        began = anyio.current_time()
        found = await Owner(desk, web).fetch(URL)
    assert isinstance(found, Capture)
    assert found.fetched_by == ""
    assert anyio.current_time() - began < 1.0
    assert desk.status().given == 0


class Without:
    """A machine without IPv4."""

    async def address_of(self, host: str) -> str | Wait:
        await anyio.lowlevel.checkpoint()
        return NoWay(until=600.0, reason=f"no way to {host}", address=ADDRESS)

    async def fetch(self, request: FetchRequest) -> Capture | Skipped:
        raise AssertionError(request.url)


async def test_where_an_owner_has_no_way_to_a_helper_may_have_one(tmp_path: Path) -> None:
    desk = desk_at(tmp_path, addresses=())
    fetcher = HelpedFetcher(Without(), desk)
    assert isinstance(await fetcher.address_of("a.example"), NoWay)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask_for_work, desk, b"6" * 32, IPV6)
        await anyio.wait_all_tasks_blocked()
        assert isinstance(await fetcher.address_of("a.example"), NoWay)
        tasks.start_soon(ask_for_work, desk, HELPER, IPV4)
        await anyio.wait_all_tasks_blocked()
        assert await fetcher.address_of("a.example") == ADDRESS
        tasks.cancel_scope.cancel()


async def test_a_helper_without_ipv6_has_no_work_at_such_addresses(tmp_path: Path) -> None:
    desk, web = desk_at(tmp_path, addresses=()), Web()
    request = dataclasses.replace(Owner(desk, web).request(URL), address="2001:db8::1")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask_for_work, desk, HELPER, IPV4)
        await anyio.wait_all_tasks_blocked()
        assert desk.hand_out(request) is None
        tasks.start_soon(ask_for_work, desk, b"6" * 32, IPV6)
        await anyio.wait_all_tasks_blocked()
        six, four = desk.hand_out(request), desk.hand_out(Owner(desk, web).request(URL))
        assert six is not None
        assert four is not None
        assert (six.helper, four.helper) == (b"6" * 32, HELPER)
        tasks.cancel_scope.cancel()


async def ask_for_work(desk: WorkDesk, peer: bytes, families: int) -> None:
    await desk.take(peer, encode_take(want=5, wait_ms=50_000, families=families))


async def test_a_helper_names_the_families_of_its_own_addresses() -> None:
    for hosts, families in (([bytes(4)], IPV4), ([bytes(16)], IPV6), ([bytes(16), bytes(4)], 3), ([], 3)):
        lines = [RecordLine(host=host, udp=1, tcp=1) for host in hosts]
        assert families_of(SmallRing(contact(OWNER), record=_leaf(lines=lines))) == families


async def test_peers_that_own_urls_are_no_helpers_and_one_has_two_questions(tmp_path: Path) -> None:
    desk = desk_at(tmp_path, owns=lambda peer: peer == OWNER)
    with pytest.raises(RefusedError, match="no work"):
        await desk.take(OWNER, encode_take(want=1, wait_ms=0))
    with pytest.raises(RefusedError, match="malformed"):
        await desk.take(HELPER, b"rubbish")
    async with anyio.create_task_group() as tasks:
        for _ in range(2):
            tasks.start_soon(desk.take, HELPER, encode_take(want=1, wait_ms=50_000))
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(RefusedError, match="busy"):
            await desk.take(HELPER, encode_take(want=1, wait_ms=50_000))
        tasks.cancel_scope.cancel()
    assert desk.status().waiting == 0


# --- the helper's side


def item(url: str = URL, **changed: Any) -> Item:
    return replace(Item(url, "", "", 6_500, ADDRESS, BODY_BYTES_MAX, window_for(url)), **changed)


RING = SmallRing(contact(OWNER))


async def test_a_helper_fetches_nothing_but_what_the_host_s_steward_knows_of() -> None:
    helping = helping_with(Web())
    assert helping.refusal(item(), OWNER, RING) == ""
    assert helping.refusal(item(), b"x" * 32, RING) == "signature"
    other = window_for("http://b.example/")
    assert helping.refusal(item(window=other), OWNER, RING) == "signature"
    assert helping.refusal(item(window=window_for(URL, granted_s=int(wall()) - 900)), OWNER, RING) == "window"
    assert helping.refusal(item(address="192.0.2.9"), OWNER, RING) == "address"
    assert helping.refusal(item(address=""), OWNER, RING) == "address"
    assert helping.refusal(item(), OWNER, SmallRing(contact(OWNER), stewards=(b"x" * 32,))) == "steward"


@pytest.mark.parametrize(
    "url",
    [
        "http://a.example",
        "ftp://a.example/",
        "http://a.example/robots.txt",
        "http://a.example:22/",
        "nonsense",
    ],
)
async def test_a_helper_fetches_no_odd_urls(url: str) -> None:
    odd = replace(item(), url=url)
    assert helping_with(Web()).refusal(odd, OWNER, RING) == "url"


async def test_a_helper_keeps_to_the_charter_and_to_its_own_opt_outs() -> None:
    narrow = helping_with(Web(), territory=Territory.of(("b.example",), STANDARD))
    assert narrow.refusal(item(), OWNER, RING) == "scope"
    closed = helping_with(Web(), closed=["a.example"])
    assert closed.refusal(item(), OWNER, RING) == "opt-out"


def times(starts_in_s: float = 10.0) -> Times:
    now = anyio.current_time()
    return Times(got=now, starts_by=now + starts_in_s, due=now + starts_in_s + FETCH_S)


async def test_a_helper_heeds_robots_txt() -> None:
    web = Web()
    rules = parse_robots(b"User-agent: *\nDisallow: /closed", "Herodotus")
    helping = helping_with(web, rules=rules)
    assert (await helping.fetched(0, item(f"{URL}closed/page"), times())).word == "robots"
    assert (await helping.fetched(1, item(), times())).status == 200
    assert [url for _, url, _ in web.asked] == [URL]


async def test_a_helper_rests_between_two_fetches_whoever_asked_for_them() -> None:
    web = Web()
    helping = helping_with(web)
    async with anyio.create_task_group() as tasks:
        for number in range(4):
            tasks.start_soon(helping.fetched, number, item(f"{URL}{number}"), times())
    starts = sorted(at for _, _, at in web.asked)
    assert len(starts) == 4
    assert min(after - before for before, after in itertools.pairwise(starts)) >= 1.0


async def test_a_helper_keeps_no_connection_when_the_window_may_go_back() -> None:
    web = Web()
    await helping_with(web).fetched(0, item(), times())
    request = web.requests[0]
    assert (request.address, request.body_bytes_max) == (ADDRESS, BODY_BYTES_MAX)
    assert request.stay is not None
    assert request.stay.is_over


async def test_what_has_no_time_left_is_not_fetched() -> None:
    web = Web()
    helping = helping_with(web)
    assert (await helping.fetched(0, item(), times(0.0))).status == 200
    assert (await helping.fetched(1, item(), times(0.1))).word == "late"
    await anyio.sleep(10)
    assert (await helping.fetched(2, item(), times(-0.1))).word == "late"
    assert len(web.asked) == 1


async def test_a_fetch_that_lasts_too_long_ends_when_its_result_is_late() -> None:
    helping = helping_with(Web(takes_s=100.0))
    began = anyio.current_time()
    assert (await helping.fetched(0, item(), times(1.0))).word == "late"
    assert anyio.current_time() - began <= 1.0 + FETCH_S + 0.01


def test_a_helper_counts_from_the_earliest_moment_of_the_answer() -> None:
    work = Work(1, b"batch001", 50_000, 40_000, [])
    found = Times.of(work, Item("", "", "", 10_000, "", 1, window_for_nobody()), asked=100.0, got=153.0)
    assert (found.starts_by, found.due) == (160.0, 190.0)
    hurried = Times.of(work, Item("", "", "", 10_000, "", 1, window_for_nobody()), asked=100.0, got=101.0)
    assert (hurried.starts_by, hurried.due) == (111.0, 141.0)


def window_for_nobody() -> Any:
    return None


# --- both


async def test_the_two_together_fetch_each_page_once_apart_from_checks(tmp_path: Path) -> None:
    desk, web = desk_at(tmp_path), Web()
    helping = helping_with(web)
    ring = SmallRing(contact(OWNER), record=_leaf())
    owner = Owner(desk, web)
    async with helping.running(ring, Line(desk)):
        await anyio.sleep(1.0)
        for number in range(100):
            await owner.fetch(f"http://h{number}.example/")
    status, told = desk.status(), helping.status()
    assert told.is_helper
    assert told.fetched == web.times("helper") == status.given == status.brought >= 8
    assert told.owners == 1
    assert web.times("owner") == 100 - status.given + status.checked
    assert status.differed == status.lost == status.late == 0


async def test_an_altering_helper_has_no_work_in_the_end_and_no_altered_page_that_was_looked_at_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked(monkeypatch)
    web = Web(body_of=lambda who, url, times: b"altered" if who == "helper" else url.encode())
    desk = desk_at(tmp_path)
    helping = helping_with(web)
    owner = Owner(desk, web)
    async with helping.running(SmallRing(contact(OWNER), record=_leaf()), Line(desk)):
        await anyio.sleep(1.0)
        found = [await owner.fetch(f"http://h{number}.example/") for number in range(30)]
        await anyio.sleep(120.0)  # its next question is refused
    assert web.times("helper") == 3
    assert helping.status().distrusted == 1
    assert all(isinstance(one, Capture) and one.body == one.url.encode() for one in found)
    assert list(desk.status().barred) == [HELPER.hex()]


async def test_a_peer_with_a_share_of_its_own_asks_for_no_work(tmp_path: Path) -> None:
    desk = desk_at(tmp_path)
    helping = helping_with(Web())
    async with helping.running(SmallRing(contact(OWNER), record=_leaf(flags=0)), Line(desk)):
        await anyio.sleep(60.0)
        assert desk.status().waiting == 0
    assert not helping.status().is_helper


class _Signed:
    def __init__(self, flags: int, lines: Sequence[RecordLine]) -> None:
        self.record = self
        self.flags, self.lines = flags, lines


def _leaf(flags: int = 1, lines: Sequence[RecordLine] = ()) -> Any:
    return _Signed(flags, lines)
