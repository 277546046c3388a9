"""What follows from a visit? Its capture kept, its links found, its outcome counted and recorded.

A visit ends in this order: the sink (returns when durable), then the frontier (outcome, new links, one batch). Only
links go out that the page's last version did not have. A suspect, whose visit a crash cut short, is read from the
archive as if it had just come.

What does a capture tell us? Its links, its directives, and how the visit ended: bytes to values,
no effects.

What has a crawl done so far? Counters by outcome, status, type, error and host, copied for display.
"""

import logging
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial

from cachetools import LRUCache

from crawler.core.capture import (
    DECODED_BYTES_MAX,
    GZIP_MARK,
    PACKED_TYPES,
    Capture,
    FetchOutcome,
    MediaType,
    Truncation,
    decoded,
    is_packed_xml,
)
from crawler.core.errors import FetchError, ForbiddenAddressError
from crawler.core.link import LINKS_KEPT_MAX, SCRIPT_RULES, DueEntry, Link, LinkKind, Rule, fingerprint
from crawler.core.links import (
    NO_RULES,
    PARSED_BYTES_MAX,
    PageLinks,
    css_links,
    header_links,
    html_links,
    json_links,
    script_links,
    xml_links,
)
from crawler.core.politeness import OriginReport, retry_after_s
from crawler.core.recrawl import TRIES_PER_DAY, Bounds, Known, Recrawl, Result, is_first_visit
from crawler.core.robots import NOTHING_ASKED, page_directives
from crawler.core.scope import REDIRECT_HOPS_MAX, CrawlScope, bounded, leaves_bounds
from crawler.core.scripts import NO_NAMES, PageNames
from crawler.core.similarity import BYTES_MAX, SeenSketches, sketch_of
from crawler.core.urls import Origin, UrlRules
from crawler.frontier import Frontier
from crawler.ports import CaptureSink, Skipped, UrlOwner

HOSTS_COUNTED_MAX = 10_000
"""Beyond, hosts share one row: some 200 bytes each."""
MIMES_COUNTED_MAX = 200
OTHER_HOSTS = Origin("(others)")

COUNT_OF = {
    Result.UNCHANGED: "unchanged",
    Result.GONE: "gone",
    Result.REFUSED: "refused",
    Result.FAILED: "failed",
}


@dataclass(slots=True)
class HostCounts:
    fetched: int = 0
    stored: int = 0
    stored_bytes: int = 0
    unchanged: int = 0
    failed: int = 0
    forbidden: int = 0
    problem: str = ""
    """The last one, in words."""


@dataclass(slots=True)
class CrawlCounts:
    """Counted as things happen."""

    fetched: int = 0
    stored: int = 0
    stored_bytes: int = 0
    unchanged: int = 0
    gone: int = 0
    refused: int = 0
    failed: int = 0
    forbidden: int = 0
    skipped: int = 0
    noarchive: int = 0
    recovered: int = 0
    """Captures that a crash had kept from being recorded."""
    reread: int = 0
    """Read again from the archive, as the crawl takes in more than the last one did."""
    links_found: int = 0
    links_new: int = 0
    lying_validators: int = 0
    near_duplicates: int = 0
    """Pages much like others of their host: their links wait until the others are done."""
    by_status: Counter[int] = field(default_factory=Counter)
    by_mime: Counter[str] = field(default_factory=Counter)
    by_error: Counter[str] = field(default_factory=Counter)
    by_host: dict[Origin, HostCounts] = field(default_factory=dict)
    links_left: Counter[str] = field(default_factory=Counter)
    """Links that were not taken, by reason."""
    rules_tried: Counter[str] = field(default_factory=Counter)
    rules_right: Counter[str] = field(default_factory=Counter)
    """Of what a rule found: what was asked for the first time, and what of it exists."""

    def count_mime(self, mime: str) -> None:
        """Servers may say what they like, a new type with each page; so the table is bounded."""
        name = mime or "(none)"
        if name not in self.by_mime and len(self.by_mime) >= MIMES_COUNTED_MAX:
            name = "(others)"
        self.by_mime[name] += 1

    def host(self, origin: Origin) -> HostCounts:
        found = self.by_host.get(origin)
        if found is None:
            name = origin if len(self.by_host) < HOSTS_COUNTED_MAX else OTHER_HOSTS
            found = self.by_host.setdefault(name, HostCounts())
        return found

    def snapshot(self) -> "CrawlCounts":
        return replace(
            self,
            by_status=self.by_status.copy(),
            by_mime=self.by_mime.copy(),
            by_error=self.by_error.copy(),
            by_host={host: replace(counts) for host, counts in self.by_host.items()},
            links_left=self.links_left.copy(),
            rules_tried=self.rules_tried.copy(),
            rules_right=self.rules_right.copy(),
        )


_XML_TYPES = ("xml", "rss", "atom")
_SCRIPT_TYPES = ("javascript", "ecmascript")
_HTML_TYPES = ("text/html", "application/xhtml+xml", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    result: Result
    links: tuple[Link, ...] = ()
    is_redirect: bool = False
    noarchive: bool = False
    not_followed: int = 0
    over_limit: int = 0
    malformed: int = 0
    sketch: int | None = None
    """Of an HTML page, when it was asked for."""
    names: PageNames = NO_NAMES
    """What the scripts that it leads to are told."""


_PLAIN_RESULTS = {
    result: Reading(result=result)
    for result in (Result.UNCHANGED, Result.GONE, Result.REFUSED, Result.FAILED)
}


def read_capture(
    capture: Capture,
    *,
    product_token: str,
    rules: UrlRules,
    wants_sketch: bool = False,
    without: Collection[int] = NO_RULES,
    names: PageNames = NO_NAMES,
) -> Reading:
    """How the visit ended and, for new content, where it leads. `names`: of the page that a script is of."""
    result = result_of(capture)
    if result is not Result.CHANGED:
        return _PLAIN_RESULTS[result]
    if capture.redirect_to is not None:
        # Not subject to nofollow: the server sends us there itself.
        return Reading(result=result, links=(Link(capture.redirect_to, LinkKind.PAGE),), is_redirect=True)
    page = _page_links(capture, product_token, rules, without, names)
    directives = page.directives
    if b"x-robots-tag" in capture.head.lower():
        directives |= page_directives(capture.header_values("X-Robots-Tag"), product_token)
    links = page.links
    not_followed = page.not_followed
    if b"\nlink:" in capture.head.lower():
        links += header_links(capture.header_values("Link"), capture.url, rules=rules).links
    if directives.nofollow:
        followed = tuple(link for link in links if link.kind.is_embedded)
        not_followed += len(links) - len(followed)
        links = followed
    return Reading(
        result=result,
        links=links,
        noarchive=directives.noarchive,
        not_followed=not_followed,
        over_limit=page.over_limit,
        malformed=page.malformed,
        sketch=_sketch(capture) if wants_sketch and capture.mime in _HTML_TYPES else None,
        names=page.names,
    )


def _sketch(capture: Capture) -> int | None:
    coding = capture.header("Content-Encoding")
    return sketch_of(decoded(capture.body, coding, BYTES_MAX).content if coding else capture.body)


def result_of(capture: Capture) -> Result:
    status = capture.status
    if capture.outcome is not FetchOutcome.STORED:
        return Result.UNCHANGED
    if 200 <= status < 300 or (300 <= status < 400 and status != 304):
        return Result.CHANGED
    if status in (404, 410):
        return Result.GONE
    return Result.REFUSED if 400 <= status < 500 and status not in (408, 429) else Result.FAILED


_NO_LINKS = PageLinks(directives=NOTHING_ASKED)


def _page_links(
    capture: Capture,
    product_token: str,
    rules: UrlRules,
    without: Collection[int],
    names: PageNames,
) -> PageLinks:
    mime = capture.mime
    is_html = mime in _HTML_TYPES or mime == "image/svg+xml"
    is_packed = mime in PACKED_TYPES and is_packed_xml(capture.url)
    is_xml = is_packed or (not is_html and mime.endswith(_XML_TYPES))
    is_json, is_script = mime.endswith("json"), mime.endswith(_SCRIPT_TYPES)
    if not (is_html or is_xml or is_json or is_script or mime == "text/css"):
        return _NO_LINKS
    coding = capture.header("Content-Encoding") if b"ontent-" in capture.head else None
    body = capture.body
    if coding:
        # One more than is read, so that it shows whether more was left. A packed bomb would take ten times as much.
        body, is_whole = decoded(body, coding, PARSED_BYTES_MAX + 1 if is_html else DECODED_BYTES_MAX)
        if not is_whole and capture.truncated is None:
            return _NO_LINKS  # browsers show nothing of a page whose coding is broken
    if is_packed and body.startswith(GZIP_MARK):
        body = decoded(body, "gzip").content
    charset = MediaType.of(capture.header("Content-Type")).charset
    if is_html:
        return html_links(
            body, capture.url, charset=charset, product_token=product_token, rules=rules, without=without
        )
    if is_xml:
        return xml_links(body, capture.url, rules=rules)
    if is_script:
        return script_links(
            body,
            capture.url,
            page=capture.via,
            charset=charset,
            rules=rules,
            without=without,
            names=names,
        )
    read = json_links if is_json else css_links
    return read(body, capture.url, charset=charset, rules=rules, without=without)


_log = logging.getLogger(__name__)

DECISIONS_REMEMBERED = 16_384
"""Whether the scope takes a URL: pages of a host have most of their links in common. Some 4 MB."""
ORIGINS_REMEMBERED = 4_096
"""A forgotten one costs a look at the index."""
NAMES_KEPT_MAX = 512
MODULES_KEPT_CHARS_MAX = 16_384
"""Of one that is kept until the scripts of its page are read: maps of applications have a few hundred names of some
tens of characters. 8 MB if all were so long and of different pages."""
SITEMAPS_SEEN_MAX = 50_000
NOT_READ = "page not read"
SKETCHED_FROM_DEPTH = 4
"""Pages this far from the seeds, and those with queries, are compared with others: there the traps are."""


class Outcomes:
    """Of one crawl's visits. `day_start` says when the frontier's day began, in seconds since 1970."""

    def __init__(
        self,
        frontier: Frontier,
        sink: CaptureSink,
        owner: UrlOwner,
        scope: CrawlScope,
        counts: CrawlCounts,
        *,
        recrawl: Recrawl,
        robot: str,
        reads_sitemaps: bool,
        rules: UrlRules,
        day_start: Callable[[], float],
        rules_off: frozenset[int] = NO_RULES,
        tries_max: int = TRIES_PER_DAY,
    ) -> None:
        self._tries_max = tries_max
        self._frontier = frontier
        self._sink = sink
        self._owner = owner
        self._scope = scope
        self._refuses_url = lru_cache(maxsize=DECISIONS_REMEMBERED)(scope.refuses_url)
        self._refuses_anywhere = lru_cache(maxsize=DECISIONS_REMEMBERED)(scope.refuses_anywhere)
        self._recrawl = recrawl
        self._robot = robot
        self._reads_sitemaps = reads_sitemaps
        self._rules = rules
        # A crawl that takes no scripts need not look into those that stand in pages.
        self._rules_off = rules_off if scope.content.takes(LinkKind.REQUISITE) else rules_off | SCRIPT_RULES
        self._day_start = day_start
        self._sketches = SeenSketches()
        self._sitemaps_seen: set[tuple[Origin, Bounds | None]] = set()
        self._names: LRUCache[str, PageNames] = LRUCache(NAMES_KEPT_MAX)
        """By the page that has it, and by each script that was found on such a page or script."""
        self._answering: LRUCache[Origin, None] = LRUCache(ORIGINS_REMEMBERED)
        """Nothing of them is noted as out of reach."""
        self.counts = counts

    # -- how a visit ended

    async def recover(self, entry: DueEntry) -> bool:
        """Reads a suspect's capture from the archive; False: the archive has none, so fetch it."""
        # A try that failed today left nothing in the archive: an older version is not what is wanted.
        has_failed = entry.known.last_result == Result.FAILED.value
        is_done = entry.known.last_day == self._frontier.day and not has_failed
        capture = await self._sink.find(entry.known.url, 0.0 if is_done else self._day_start())
        if capture is None:
            return False
        self.counts.reread += is_done
        self.counts.recovered += not is_done
        reading = self._read(capture, entry.known)
        if not is_done:
            self._count(entry, capture, reading)
        self._conclude(entry, capture, reading, again=reading)
        return True

    def refused(self, entry: DueEntry, reason: str, problem: str) -> None:
        """It may not be fetched."""
        host = self.counts.host(entry.origin)
        self.counts.forbidden += 1
        host.forbidden += 1
        host.problem = problem
        self.counts.by_error[reason] += 1
        self._frontier.record(entry, Result.FORBIDDEN, recrawl=self._recrawl)

    async def found_closed(self, origin: Origin, problem: str, *, is_left: bool) -> None:
        """Nothing of it was asked for; it is tried again today, or what is due there is `is_left` for the day, and
        counted one by one."""
        if not is_left:
            self.counts.host(origin).problem = problem
            self.counts.by_error["robots unreachable"] += 1
        self._answering.pop(origin, None)
        await self._sink.note_failure(f"{origin}/robots.txt", problem)

    async def _note_answer(self, entry: DueEntry, *, is_archived: bool) -> None:
        """What could not be reached before ends with that; of a stored answer the archive knows itself."""
        if entry.origin not in self._answering:
            await self._sink.note_answer(f"{entry.origin}/robots.txt")
            self._answering[entry.origin] = None
        if not is_archived:
            await self._sink.note_answer(entry.known.url)

    def spared(self, entry: DueEntry) -> None:
        """The rule that found it rests at its origin."""
        self.counts.links_left[f"rule {Rule(entry.known.rule).label} rests"] += 1
        self._frontier.record(entry, Result.UNWANTED, recrawl=self._recrawl)

    async def visited(self, entry: DueEntry, found: Capture | Skipped | FetchError) -> None:
        """It was fetched, or that was tried."""
        self.counts.fetched += 1
        self.counts.host(entry.origin).fetched += 1
        if isinstance(found, Capture):
            await self._keep(entry, found)
        elif isinstance(found, Skipped):
            self.counts.skipped += 1
            self.counts.by_status[found.status] += 1
            await self._note_answer(entry, is_archived=False)
            self._frontier.record(entry, Result.UNWANTED, recrawl=self._recrawl)
        else:
            await self._note_error(entry, found)

    async def _note_error(self, entry: DueEntry, error: FetchError) -> None:
        name = type(error).__name__.removesuffix("Error")
        host = self.counts.host(entry.origin)
        host.problem = error.reason
        self.counts.by_error[name] += 1
        _log.debug("fetch failed url=%s error=%s", error.url, name)
        if isinstance(error, ForbiddenAddressError):
            self.counts.forbidden += 1
            host.forbidden += 1
            self._frontier.record(entry, Result.FORBIDDEN, recrawl=self._recrawl)
        else:
            self.counts.failed += 1
            host.failed += 1
            await self._sink.note_failure(entry.known.url, error.reason)
            self._frontier.record(entry, Result.FAILED, recrawl=self._recrawl, tries_max=self._tries_max)

    # -- one capture

    async def _keep(self, entry: DueEntry, capture: Capture) -> None:
        capture = capture.unless_known(entry.known.digest)
        reading = self._read(capture, entry.known)
        is_archived = self._is_archived(entry.known, capture, reading)
        if is_archived:
            await self._sink.store(capture)
        if reading.result is Result.FAILED:
            await self._sink.note_failure(entry.known.url, problem_of(capture))
        else:
            await self._note_answer(entry, is_archived=is_archived)
        again = None
        if entry.is_suspect and reading.result is Result.UNCHANGED:  # its links are wanted all the same
            archived = await self._sink.find(entry.known.url, 0.0)
            again = None if archived is None else self._read(archived, entry.known)
        self._count(entry, capture, reading)
        self._conclude(entry, capture, reading, again=again)

    def _read(self, capture: Capture, known: Known) -> Reading:
        wants_sketch = known.depth >= SKETCHED_FROM_DEPTH or "?" in known.url
        names = self._names.get(known.via, NO_NAMES)
        try:
            reading = read_capture(
                capture,
                product_token=self._robot,
                rules=self._rules,
                wants_sketch=wants_sketch,
                without=self._rules_off,
                names=names,
            )
        except Exception:  # noqa: BLE001  # our fault, on a stranger's page: log it here, and the crawl continues
            _log.exception("page not read, its links are skipped url=%s", capture.url)
            self.counts.by_error[NOT_READ] += 1
            return Reading(result=result_of(capture))
        self._keep_names(known.url, reading.names)
        return reading

    def _keep_names(self, url: str, names: PageNames) -> None:
        modules = names.modules
        if sum(map(len, (*modules, *modules.values()))) > MODULES_KEPT_CHARS_MAX:
            names = names._replace(modules=NO_NAMES.modules)
        if names.modules or names.words:
            self._names[url] = names

    def _is_archived(self, known: Known, capture: Capture, reading: Reading) -> bool:
        if reading.noarchive:
            return False
        if reading.result in (Result.GONE, Result.REFUSED):
            return bool(known.last_result != reading.result.value)  # the first is kept, not each day's
        return reading.result is not Result.FAILED

    def _conclude(
        self, entry: DueEntry, capture: Capture, reading: Reading, *, again: Reading | None = None
    ) -> None:
        """Record the visit with the links that the last version did not have; with all of them of a page
        that is read again.
        """
        fingerprints = None
        links: list[Link] = []
        source = again or reading
        if source.result is Result.CHANGED:
            has_last = again is None and entry.known.visits > 0
            last = self._frontier.last_links(entry.key) if has_last else frozenset()
            marks = [fingerprint(link.url) for link in source.links[:LINKS_KEPT_MAX]]
            new = list(source.links[: len(marks)])
            if last:
                new = [link for link, mark in zip(new, marks, strict=True) if mark not in last]
            fingerprints = b"".join(marks) if marks or last else None
            self.counts.links_found += len(source.links)
            is_doubtful = source.sketch is not None and self._sketches.has_alike(entry.origin, source.sketch)
            self.counts.near_duplicates += is_doubtful
            wanted = self._wanted(new, entry.known, is_redirect=source.is_redirect, is_doubtful=is_doubtful)
            links = self._owner.divide(wanted)
        is_changed = reading.result is Result.CHANGED
        etag, last_modified = entry.known.etag, entry.known.last_modified
        digest = None
        if is_changed:  # by what will it be known again?
            is_version = capture.truncated in (None, Truncation.LENGTH)
            etag = (capture.header("ETag") or "") if is_version else ""
            last_modified = (capture.header("Last-Modified") or "") if is_version else ""
            digest = capture.version if is_version else b""
        self.counts.links_new += self._frontier.record(
            entry,
            reading.result,
            recrawl=self._recrawl,
            tries_max=self._tries_max,
            links=links,
            fingerprints=fingerprints,
            etag=etag,
            last_modified=last_modified,
            digest=digest,
        )

    def _wanted(self, links: list[Link], page: Known, *, is_redirect: bool, is_doubtful: bool) -> list[Link]:
        """Links that the scope takes; whether they are known is for their owners to tell."""
        wanted = []
        deeper = page.depth if is_redirect else page.depth + 1
        hops = page.hops + 1 if is_redirect else 0
        terms, bounds = {}, self._scope.bounds_of(page)
        for kind in LinkKind:
            depth = deeper if kind is LinkKind.PAGE else page.depth
            refused = "trap: redirects" if hops > REDIRECT_HOPS_MAX else self._scope.refuses_at(depth, kind)
            if bounds is not None:
                refused = refused or bounded(bounds).refuses_at(depth, kind)
            terms[kind] = refused, depth
        refuses_url = self._refuses_url if bounds is None else self._refuses_anywhere
        via, made = page.url, partial(tuple.__new__, Link)
        for link in links:
            url, kind = link[:2]
            refused, depth = terms[kind]
            reason = refused or refuses_url(url)
            if (
                bounds is not None
                and kind is LinkKind.PAGE
                and leaves_bounds(bounds, url, via, is_redirect=is_redirect)
            ):
                reason = reason or "scope"
            if reason is None:
                is_last = is_doubtful or link.is_doubtful
                wanted.append(made((url, kind, depth, is_last, False, via, hops, link.rule, bounds)))
            else:
                self.counts.links_left[reason] += 1
        return wanted

    def _count(self, entry: DueEntry, capture: Capture, reading: Reading) -> None:
        counts, host, known = self.counts, self.counts.host(entry.origin), entry.known
        counts.by_status[capture.status] += 1
        if known.rule and is_first_visit(known):
            label = Rule(known.rule).label
            counts.rules_tried[label] += 1
            counts.rules_right[label] += capture.status < 400
        if reading.result is Result.CHANGED and not reading.noarchive:
            counts.stored += 1
            counts.stored_bytes += len(capture.body)
            host.stored += 1
            host.stored_bytes += len(capture.body)
            counts.count_mime(capture.mime)
        elif reading.result is not Result.CHANGED:
            name = COUNT_OF[reading.result]
            setattr(counts, name, getattr(counts, name) + 1)
            host.unchanged += reading.result is Result.UNCHANGED
            if reading.result is Result.FAILED:
                host.failed += 1
                host.problem = problem_of(capture)
                counts.by_error[host.problem] += 1
        counts.noarchive += reading.noarchive
        for reason, count in (
            ("nofollow", reading.not_followed),
            ("too many on a page", reading.over_limit),
            ("malformed", reading.malformed),
        ):
            if count:
                counts.links_left[reason] += count
        if capture.status == 200 and capture.outcome is FetchOutcome.STORED and known.digest and known.etag:
            counts.lying_validators += capture.header("ETag") == known.etag

    def add_sitemaps(self, origin: Origin, sitemaps: tuple[str, ...], bounds: Bounds | None) -> None:
        """Those that robots.txt names; once a run. `bounds` of what is visited there."""
        seen = origin, bounds
        if not sitemaps or not self._reads_sitemaps or seen in self._sitemaps_seen:
            return
        if len(self._sitemaps_seen) >= SITEMAPS_SEEN_MAX:
            self._sitemaps_seen.clear()
        self._sitemaps_seen.add(seen)
        urls = [url for url in self._rules.links(sitemaps, f"{origin}/") if url is not None]
        refuses = self._scope.refuses if bounds is None else bounded(bounds).refuses
        self._frontier.add(
            self._owner.divide(
                [
                    Link(url=url, depth=1, via=f"{origin}/robots.txt", bounds=bounds)
                    for url in urls
                    if refuses(url, depth=1, kind=LinkKind.PAGE) is None
                    and self._scope.refuses_anywhere(url) is None
                ]
            )
        )


def problem_of(capture: Capture) -> str:
    return f"answered with {capture.status}"


def report_of(found: Capture | Skipped, now: float) -> OriginReport:
    """What the steward hears of a fetch; `now` since 1970."""
    assert found.duration_s is not None, "only captures of an archive do not know it"
    retry_s = None
    if isinstance(found, Capture) and found.status in (429, 503):
        retry_s = retry_after_s(found.header("Retry-After"), now)
    return OriginReport(status=found.status, duration_s=found.duration_s, retry_after_s=retry_s)
