"""The steward of a peer alone: how it comes by robots.txt, and whom it leaves alone on the way."""

from dataclasses import replace
from itertools import pairwise

import anyio
import pytest

from crawler.core.capture import Capture, FetchOutcome, Truncation, payload_digests
from crawler.core.errors import TooLateError, UnreachableError
from crawler.core.politeness import HostSteward, Lease, OptOutList, OriginReport, PolitenessPolicy, Wait
from crawler.core.robots import REDIRECTS_MAX, RobotsRules
from crawler.core.urls import Origin
from crawler.ports import FetchRequest
from crawler.steward import LocalSteward
from tests.crawler.memory import MemorySink

pytestmark = pytest.mark.anyio

A, B = Origin("http://a.example"), Origin("http://b.example")
HERE, THERE = f"{A}/robots.txt", f"{B}/elsewhere.txt"
ADDRESS = "192.0.2.1"
CLOSES = b"user-agent: *\ndisallow: /closed\ncrawl-delay: 40\n"


def answer(
    url: str, body: bytes = b"", *, status: int = 200, fields: bytes = b"", redirect_to: str | None = None
) -> Capture:
    sha256, sha1 = payload_digests(body)
    return Capture(
        url=url,
        requested_at=1.0,
        duration_s=0.1,
        request=b"",
        status=status,
        head=b"HTTP/1.1 %d X\r\n%b\r\n" % (status, fields),
        body=body,
        sha256=sha256,
        sha1=sha1,
        remote_ip=ADDRESS,
        redirect_to=redirect_to,
    )


class Fetcher:
    """Answers by a table and remembers what it was asked for."""

    def __init__(self, *answers: Capture) -> None:
        self.asked: list[str] = []
        self._answers = {one.url: one for one in answers}

    async def fetch(self, request: FetchRequest) -> Capture:
        self.asked.append(request.url)
        return self._answers[request.url]

    async def address_of(self, host: str) -> str:
        del host
        return ADDRESS


def steward_of(fetcher: Fetcher, *opted_out: str, policy: PolitenessPolicy | None = None) -> LocalSteward:
    core = HostSteward(policy or PolitenessPolicy())
    return LocalSteward(
        core, fetcher, product_token="Herodotus", wall_clock=lambda: 1.0, opted_out=OptOutList.of(opted_out)
    )


async def rules_of(steward: LocalSteward) -> RobotsRules:
    found = await steward.rules(A)
    assert isinstance(found, RobotsRules)
    return found


async def test_a_redirect_to_another_host_waits_for_that_hosts_permission_and_then_goes_on() -> None:
    fetcher = Fetcher(answer(HERE, status=301, redirect_to=THERE), answer(THERE, CLOSES))
    steward = steward_of(fetcher)
    lease = await steward.lease(B, "")
    assert isinstance(lease, Lease)
    assert isinstance(await steward.rules(A), Wait)
    assert isinstance(await steward.rules(A), Wait)
    assert fetcher.asked == [HERE]  # once, however often it has to wait
    await steward.give_back(lease, OriginReport(status=None, duration_s=0.0, fetches=0))
    assert not (await rules_of(steward)).allows("/closed")
    assert fetcher.asked == [HERE, THERE]
    assert isinstance(await steward.lease(B, ""), Wait)  # it rests like after any request


async def test_a_redirect_of_robots_txt_that_leads_where_it_led_is_noted_and_not_stored_again() -> None:
    sink = MemorySink()
    fetcher = Fetcher(
        answer(HERE, status=301, fields=b"Location: /elsewhere.txt\r\n", redirect_to=THERE), answer(THERE)
    )
    for _ in range(2):
        core = HostSteward(PolitenessPolicy())
        steward = LocalSteward(core, fetcher, product_token="Herodotus", wall_clock=lambda: 1.0, sink=sink)
        await rules_of(steward)
    found = [one.outcome for one in sink.captures if one.url == HERE]
    assert found == [FetchOutcome.STORED, FetchOutcome.SAME_DIGEST]


async def test_a_redirect_to_a_host_that_opted_out_is_not_followed() -> None:
    fetcher = Fetcher(answer(HERE, status=301, redirect_to=THERE), answer(THERE))
    rules = await rules_of(steward_of(fetcher, "b.example"))
    assert (rules.is_reachable, rules.problem) == (False, "robots.txt is at a host that is not visited")
    assert fetcher.asked == [HERE]


async def test_a_host_that_opted_out_is_not_even_asked_for_its_robots_txt() -> None:
    fetcher = Fetcher(answer(HERE))
    assert not (await rules_of(steward_of(fetcher, "*.a.example"))).is_reachable
    assert fetcher.asked == []


async def test_asking_for_robots_txt_counts_for_the_cap_of_its_address() -> None:
    fetcher = Fetcher(answer(HERE))
    steward = steward_of(fetcher, policy=PolitenessPolicy(per_address_concurrency=1))
    lease = await steward.lease(B, ADDRESS)
    assert isinstance(lease, Lease)
    wait = await steward.rules(A)
    assert isinstance(wait, Wait)
    assert (wait.reason, fetcher.asked) == ("its address is busy", [])


async def test_the_crawl_delay_counts_from_the_request_that_told_it() -> None:
    steward = steward_of(Fetcher(answer(HERE, CLOSES)))
    before = anyio.current_time()
    await rules_of(steward)
    wait = await steward.lease(A, "")
    assert isinstance(wait, Wait)
    assert wait.until >= before + 40


class Silent(Fetcher):
    """Takes every request and ends without an answer."""

    async def fetch(self, request: FetchRequest) -> Capture:
        self.asked.append(request.url)
        raise UnreachableError(request.url, "the connection ended without an answer")


async def test_a_host_that_does_not_answer_for_robots_txt_has_its_rest_all_the_same() -> None:
    fetcher = Silent()
    steward = steward_of(fetcher, policy=PolitenessPolicy(delay_floor_s=20.0))
    before = anyio.current_time()
    first = await steward.rules(A)
    assert isinstance(first, Wait)
    assert first.until >= before + 20  # more than before the second try
    other = await steward.rules(Origin(f"{A}:8080"))
    assert isinstance(other, Wait)
    assert other.until >= before + 20
    assert fetcher.asked == [HERE]
    assert isinstance(steward.core.lease(A, before + 25, address=ADDRESS), Lease)  # it did not back off


@pytest.mark.parametrize(
    "found",
    [
        answer(HERE, CLOSES, fields=b"Content-Encoding: gzip\r\n"),
        answer(HERE, CLOSES, fields=b"Content-Encoding: lzma\r\n"),
        answer(HERE, status=304),
    ],
)
async def test_a_robots_txt_that_cannot_be_read_forbids_everything_for_now(found: Capture) -> None:
    rules = await rules_of(steward_of(Fetcher(found)))
    assert (rules.is_reachable, rules.allows("/")) == (False, False)


@pytest.mark.parametrize("how", [Truncation.TIME, Truncation.DISCONNECT])
async def test_half_a_robots_txt_forbids_everything_for_now(how: Truncation) -> None:
    """What is forbidden may have been in the half that did not come."""
    rules = await rules_of(steward_of(Fetcher(replace(answer(HERE, CLOSES), truncated=how))))
    assert (rules.is_reachable, rules.allows("/open")) == (False, False)
    assert rules.problem == "robots.txt broke off"


async def test_of_a_robots_txt_that_a_limit_cut_the_beginning_counts() -> None:
    rules = await rules_of(steward_of(Fetcher(replace(answer(HERE, CLOSES), truncated=Truncation.LENGTH))))
    assert (rules.allows("/open"), rules.allows("/closed")) == (True, False)


async def test_a_robots_txt_that_redirects_for_ever_is_left_after_five_redirects() -> None:
    hosts = [f"http://{number}.example/robots.txt" for number in range(9)]
    chain = [HERE, *hosts]
    fetcher = Fetcher(*(answer(url, status=302, redirect_to=to) for url, to in pairwise(chain)))
    rules = await rules_of(steward_of(fetcher))
    assert fetcher.asked == chain[: 1 + REDIRECTS_MAX]
    assert rules.allows("/")  # as if there were none (RFC 9309, 2.3.1.2)


async def test_a_robots_txt_that_was_too_late_is_asked_for_again_and_is_no_failure() -> None:
    class Late(Fetcher):
        times = 2
        starts_by: float | None = None

        async def fetch(self, request: FetchRequest) -> Capture:
            self.starts_by = request.starts_by
            if self.times:
                self.times -= 1
                raise TooLateError(request.url, 1.0)
            return await super().fetch(request)

    class Limited(LocalSteward):
        async def lease(self, origin: Origin, address: str) -> Lease | Wait:
            found = await super().lease(origin, address)
            return replace(found, starts_by=7.0) if isinstance(found, Lease) else found

    fetcher = Late(answer(HERE, CLOSES))
    core = HostSteward(PolitenessPolicy())
    steward = Limited(core, fetcher, product_token="Herodotus", wall_clock=lambda: 1.0)
    assert not (await rules_of(steward)).allows("/closed")
    assert (fetcher.asked, fetcher.starts_by) == ([HERE], 7.0)
