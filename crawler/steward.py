"""Who permits fetches when a peer is alone? Its own steward: the pure `HostSteward`, and robots.txt fetched.

A redirect of robots.txt is followed up to five times, to other hosts too, as RFC 9309 asks (2.3.1.2). Each
request for it, redirected or not, is like any other: it passes the same guard, has a lease of the host that it
goes to, and leaves hosts alone whose owners opted out. What it gets is archived like a page: it says why other
pages are missing.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from cachetools import FIFOCache

from crawler.clocks import loop_clock
from crawler.core.capture import Capture, Decoded, FetchOutcome, Truncation, decoded
from crawler.core.errors import FetchError, ForbiddenAddressError, TooLateError, UnresolvableError
from crawler.core.politeness import HostSteward, Lease, OptOutList, OriginReport, Wait, retry_after_s
from crawler.core.robots import DISALLOW_ALL, REDIRECTS_MAX, ROBOTS_BYTES_MAX, RobotsRules, rules_of_answer
from crawler.core.urls import Origin, host_of, origin_of
from crawler.ports import CaptureSink, Fetcher, FetchRequest

CAPTURED_BYTES_MAX = 2 * ROBOTS_BYTES_MAX
"""Of a robots.txt: what lies behind the first half is not read, and a server may send 100 MB."""

SEARCHES_KEPT_MAX = 10_000
"""Searches that wait for a permission; a forgotten one starts again. A steward is asked on behalf of many."""

_NOT_ASKED = OriginReport(status=None, duration_s=0.0, fetches=0)


@dataclass(frozen=True, slots=True)
class _Search:
    """For one origin's rules: where they are asked for next, or what they turned out to be."""

    url: str
    hops: int = 0
    has_failed: bool = False
    """The last request had no answer, which may be an accident."""
    rules: RobotsRules | None = None


class LocalSteward:
    """A `StewardPort`. One task at a time works on an origin, so nothing here needs a lock."""

    def __init__(
        self,
        core: HostSteward,
        fetcher: Fetcher,
        *,
        product_token: str,
        wall_clock: Callable[[], float],
        sink: CaptureSink | None = None,
        opted_out: OptOutList | None = None,
    ) -> None:
        self.core = core
        self._now = loop_clock()
        self._fetcher = fetcher
        self._product_token = product_token
        self._wall_clock = wall_clock
        self._sink = sink
        self._opted_out = opted_out or OptOutList()
        self._searches = FIFOCache[Origin, _Search](SEARCHES_KEPT_MAX)
        """Of origins being crawled that wait for a permission."""

    async def rules(self, origin: Origin) -> RobotsRules | Wait:
        known = self.core.rules(origin, self._now())
        if known is not None:
            return known
        search = self._searches.pop(origin, None) or _Search(f"{origin}/robots.txt")
        while search.rules is None:
            address = await self._fetcher.address_of(host_of(search.url))
            lease = address if isinstance(address, Wait) else await self.lease(origin_of(search.url), address)
            if isinstance(lease, Wait):
                self._searches[origin] = search
                return lease
            report = _NOT_ASKED
            try:
                search, report = await self._ask(search, lease)
                if search.rules is not None:  # now, so that the rest after this request keeps a crawl-delay
                    self.core.set_rules(origin, search.rules, self._now())
            finally:
                again_at = await self.give_back(lease, report)
            if search.rules is None and search.has_failed:
                self._searches[origin] = search
                until = max(again_at, self._now() + self.core.robots_second_try_s)
                return Wait(until=until, reason="robots.txt is asked for again")
        return search.rules

    async def rules_alone(self, origin: Origin) -> RobotsRules | Wait:
        return await self.rules(origin)

    async def _ask(self, search: _Search, lease: Lease) -> tuple[_Search, OriginReport]:
        """One request further."""
        if self._opted_out.covers(host_of(search.url)):
            rules = replace(DISALLOW_ALL, problem="robots.txt is at a host that is not visited")
            return replace(search, rules=rules), _NOT_ASKED
        start = self._now()
        try:
            found, body = await self._get(search.url, lease)
        except TooLateError as error:
            return search, replace(_NOT_ASKED, late_s=error.late_s)
        except FetchError as error:
            is_final = search.has_failed or isinstance(error, ForbiddenAddressError)
            closed = replace(DISALLOW_ALL, problem=f"robots.txt could not be fetched: {error.reason}")
            report = OriginReport(status=None, duration_s=self._now() - start, is_excused=True)
            if isinstance(error, (ForbiddenAddressError, UnresolvableError)):
                report = _NOT_ASKED
            return replace(search, has_failed=True, rules=closed if is_final else None), report
        assert found.duration_s is not None, "only captures of an archive do not know it"
        retry_s = retry_after_s(found.header("Retry-After"), self._wall_clock())
        # A site that fails is asked every few minutes whether it is back. Those failures alone must not make it rest
        # for hours after it is; where it says for how long, it does.
        is_excused = found.status >= 500
        report = OriginReport(
            status=found.status, duration_s=found.duration_s, retry_after_s=retry_s, is_excused=is_excused
        )
        if found.redirect_to is not None and search.hops < REDIRECTS_MAX:
            return _Search(found.redirect_to, search.hops + 1), report
        return replace(search, rules=self._rules_of(found, body)), report

    def _rules_of(self, found: Capture, body: Decoded) -> RobotsRules:
        if found.truncated not in (None, Truncation.LENGTH):
            # Half a list of rules is worthless: the other half may have forbidden something.
            return replace(DISALLOW_ALL, problem="robots.txt broke off")
        is_known = found.outcome is not FetchOutcome.STORED
        is_there = is_known or 200 <= found.status < 300
        if is_there and not body.is_whole and found.truncated is None:
            return replace(DISALLOW_ALL, problem="robots.txt could not be unpacked")
        if found.status == 304 and not is_known:
            return replace(DISALLOW_ALL, problem="robots.txt was answered with 304 to a first request")
        return rules_of_answer(200 if is_known else found.status, body.content, self._product_token)

    async def _get(self, url: str, lease: Lease) -> tuple[Capture, Decoded]:
        """The answer, with the body that it stands for: a 304 stands for the archived one's."""
        last = None if self._sink is None else await self._sink.find(url, 0.0)
        request = FetchRequest(
            url=url,
            body_bytes_max=CAPTURED_BYTES_MAX,
            address=lease.address,
            stay=lease.stay,
            starts_by=lease.starts_by,
        )
        if last is not None and last.status == 200 and last.truncated is None:
            etag, modified = last.header("ETag") or "", last.header("Last-Modified") or ""
            request = replace(request, etag=etag, last_modified=modified, digest=last.sha256)
        found = await self._fetcher.fetch(request)
        assert isinstance(found, Capture)  # nothing was to be skipped
        if self._sink is not None and _is_news(found, last):
            await self._sink.store(found if last is None else found.unless_known(last.version))
        whole = found
        if found.outcome is not FetchOutcome.STORED:
            assert last is not None  # only its digest can have been met again
            whole = last
        coding = whole.header("Content-Encoding") or ""
        return found, decoded(whole.body, coding, ROBOTS_BYTES_MAX)

    async def lease(self, origin: Origin, address: str) -> Lease | Wait:
        return self.core.lease(origin, self._now(), address=address)

    async def give_back(self, lease: Lease, report: OriginReport) -> float:
        return self.core.give_back(lease, report, self._now())


def _is_news(found: Capture, last: Capture | None) -> bool:
    """A missing robots.txt, or a failing server, is worth one record and not one a day."""
    return found.status < 400 or last is None or last.status != found.status
