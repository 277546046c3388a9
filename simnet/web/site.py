"""What does a server of the synthetic web answer to a request on a day?

`Web.respond` is a function of (settings, request, day): no state, so any number of processes serve the same
web. Servers differ in manners: some ignore conditions ("deaf"), some say 304 whatever happened ("stuck"),
some change the ETag of unchanged pages ("restless"). Time is not spent here: a slow host's answer says
`delay_s`.
"""

import gzip
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import formatdate, parsedate_to_datetime
from functools import lru_cache

from simnet.web.hosts import WebHost, WebSettings, robots_body, trap_page
from simnet.web.pages import PageContent, Pages, PageVersion
from simnet.web.words import draw

EPOCH_S = 1_767_225_600  # 2026-01-01T00:00:00Z is day 0
DAY_S = 86_400
PATH_CHARACTERS_MAX = 8_000

Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WebRequest:
    """`path` with its query, as in the request line; header names in lower case."""

    host: str
    path: str
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    status: int
    headers: Headers
    body: bytes = b""
    delay_s: float = 0.0

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)


@lru_cache(maxsize=4_096)
def http_date(day: int, second: int = 0) -> str:
    return formatdate(EPOCH_S + day * DAY_S + second, usegmt=True)


class Web:
    def __init__(self, settings: WebSettings) -> None:
        self.settings = settings
        self.pages = Pages(settings)
        self.hosts = self.pages.hosts
        self._html = lru_cache(maxsize=1_024)(self._make_html)

    def respond(self, request: WebRequest, day: int) -> Response:
        number = self.hosts.number(request.host.partition(":")[0])
        if number is None:
            return _plain(421, "no such host here", day)
        if request.method not in ("GET", "HEAD"):
            return _plain(405, "only GET and HEAD", day, (("Allow", "GET, HEAD"),))
        if len(request.path) > PATH_CHARACTERS_MAX:
            return _plain(414, "too long", day)
        return self._answer(self.hosts.host(number), request, day)

    def content(self, host: WebHost, page: int, is_image: bool, day: int) -> PageContent:
        """The bytes of a page that exists on that day, before any server's manners."""
        version = self.version(host, page, is_image, day)
        if is_image:
            path = self.hosts.path(host.number, page, True)
            return self.pages.image(host, page, version, path.endswith("gif"))
        if self.pages.kind(host.number, page) == "huge":
            return self.pages.huge(host, page)
        return self._html(host.number, self.pages.original(host.number, page), version)

    def version(self, host: WebHost, page: int, is_image: bool, day: int) -> PageVersion:
        if is_image:
            return self.pages.image_version(host, page, day)
        return self.pages.version(host, self.pages.original(host.number, page), day)

    def exists(self, host: WebHost, page: int, is_image: bool, day: int) -> bool:
        if page >= self.hosts.pages_on(host, day):
            return False
        return not is_image or self.pages.has_image(host.number, page)

    def _make_html(self, host: int, page: int, version: PageVersion) -> PageContent:
        return self.pages.html(self.hosts.host(host), page, version, version.changed_day)

    def _answer(self, host: WebHost, request: WebRequest, day: int) -> Response:
        path, _, query = request.path.partition("?")
        if path == "/robots.txt":
            return robots_response(host, day)
        if host.trap != "none" and path.startswith(f"/{host.trap}/"):
            body = trap_page(host, path, query)
            if body is None:
                return _plain(404, "not found", day, delay_s=host.delay_s)
            return _page(200, body.encode(), "text/html; charset=utf-8", day, (), host.delay_s)
        found = None if query else self.hosts.page_number(host, path)
        if found is None or not self.exists(host, *found, day):
            return _plain(404, "not found", day, delay_s=host.delay_s)
        return self._answer_page(host, *found, request, day)

    def _answer_page(
        self, host: WebHost, page: int, is_image: bool, request: WebRequest, day: int
    ) -> Response:
        kind = "page" if is_image else self.pages.kind(host.number, page)
        if kind == "redirect":
            return self._redirect(host, page, day)
        if kind == "gone":
            return _plain(410, "gone", day, delay_s=host.delay_s)
        if kind == "flaky" and draw(self.settings.seed, 30, host.number, page, day) % 3 == 0:
            status = (500, 503)[page & 1]
            again = (("Retry-After", "120"),) if status == 503 else ()
            return _plain(status, "try later", day, again, host.delay_s)
        version = self.version(host, page, is_image, day)
        validators = self._validators(host, version, day)
        if self._is_unchanged(host, request, validators):
            return Response(
                status=304, headers=(("Date", http_date(day, 43_200)), *validators), delay_s=host.delay_s
            )
        content = self.content(host, page, is_image, day)
        return self._deliver(host, kind, request, content, validators, day)

    def _deliver(
        self,
        host: WebHost,
        kind: str,
        request: WebRequest,
        content: PageContent,
        validators: Headers,
        day: int,
    ) -> Response:
        body, extra = content.body, validators
        accepts = "gzip" in request.headers.get("accept-encoding", "")
        if kind == "broken":
            # Says gzip and stops in the middle of it.
            body = gzip.compress(body, 1, mtime=0)
            body, extra = body[: len(body) // 2], (*extra, ("Content-Encoding", "gzip"))
        elif host.compresses and accepts and content.content_type.startswith("text/"):
            body, extra = _gzip(body), (*extra, ("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding"))
        return _page(200, body, content.content_type, day, extra, host.delay_s)

    def _redirect(self, host: WebHost, page: int, day: int) -> Response:
        bits = draw(self.settings.seed, 31, host.number, page)
        status = (301, 302, 303, 307, 308)[bits % 5]
        if bits >> 8 & 15 == 0:
            target = host.origin + self.hosts.path(host.number, page, False)  # to itself, for ever
        elif bits >> 8 & 15 == 1:
            target = self.hosts.origin(bits % self.settings.hosts) + "/"
        else:
            target = self.hosts.path(host.number, (bits >> 12) % host.pages, False)
        return _plain(status, "elsewhere", day, (("Location", target),), host.delay_s)

    def _validators(self, host: WebHost, version: PageVersion, day: int) -> Headers:
        number = draw(version.number, version.targets, day if host.validators == "restless" else 0)
        etag = ("ETag", f'"{number:016x}"')
        modified = ("Last-Modified", http_date(version.changed_day, 3_600))
        if host.validators == "none":
            return ()
        if host.validators in ("etag", "restless"):
            return (etag,)
        return (modified,) if host.validators == "modified" else (etag, modified)

    def _is_unchanged(self, host: WebHost, request: WebRequest, validators: Headers) -> bool:
        known = request.headers.get("if-none-match")
        since = request.headers.get("if-modified-since")
        if host.validators == "stuck":
            return known is not None or since is not None
        if host.validators == "deaf":
            return False
        current = dict(validators)
        if known is not None and "ETag" in current:
            tags = {tag.strip().removeprefix("W/") for tag in known.split(",")}
            return "*" in tags or current["ETag"] in tags
        if since is not None and "Last-Modified" in current:
            return since == current["Last-Modified"] or _is_later(since, current["Last-Modified"])
        return False


def robots_response(host: WebHost, day: int) -> Response:
    if host.robots == "broken":
        return _plain(503, "try later", day, (), host.delay_s)
    if host.robots == "none":
        return _plain(404, "not found", day, (), host.delay_s)
    kind = "text/html" if host.robots == "soft" else "text/plain"
    return _page(200, robots_body(host).encode(), kind, day, (), host.delay_s)


def _is_later(date: str, than: str) -> bool:
    try:
        return parsedate_to_datetime(date) >= parsedate_to_datetime(than)
    except (ValueError, TypeError):
        return False  # RFC 9110 13.1.3: a date that cannot be read is no condition


def _gzip(body: bytes) -> bytes:
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    return packer.compress(body) + packer.flush()


def _plain(status: int, text: str, day: int, extra: Headers = (), delay_s: float = 0.0) -> Response:
    return _page(status, f"{status} {text}\n".encode(), "text/plain", day, extra, delay_s)


def _page(status: int, body: bytes, kind: str, day: int, extra: Headers, delay_s: float) -> Response:
    headers = (
        ("Date", http_date(day, 43_200)),
        ("Content-Type", kind),
        ("Content-Length", str(len(body))),
        *extra,
    )
    return Response(status=status, headers=headers, body=body, delay_s=delay_s)
