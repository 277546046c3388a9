"""What should a crawler have found? The truth about the synthetic web, from the numbers and not from its
bytes.

For webs small enough to walk: which URLs can be reached and are allowed, what links a page has, what its
bytes hash to on a day, what changed between two days, what an unconditional GET answers. Traps are counted
as URLs only as deep as `trap_pages_max` per host, as they have no end.
"""

import hashlib
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from simnet.web.hosts import WebHost, is_allowed, trap_links
from simnet.web.site import Response, Web, WebRequest

URLS_MAX = 2_000_000

Scope = Callable[[str], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class WebPlace:
    """A URL of this web, taken apart. `page` is None for robots.txt, traps and pages that never existed."""

    host: WebHost
    path: str
    query: str
    page: int | None
    is_image: bool

    @property
    def is_trap(self) -> bool:
        return self.host.trap != "none" and self.path.startswith(f"/{self.host.trap}/")


class Oracle:
    def __init__(self, web: Web) -> None:
        self.web = web

    def place(self, url: str) -> WebPlace | None:
        """None for a URL of another web."""
        parts = urlsplit(url)
        number = self.web.hosts.number(parts.hostname or "")
        if number is None or parts.scheme != "http" or (parts.port or 80) != self.web.settings.port:
            return None
        host = self.web.hosts.host(number)
        path = parts.path or "/"
        found = None if parts.query else self.web.hosts.page_number(host, path)
        page, is_image = found or (None, False)
        return WebPlace(host=host, path=path, query=parts.query, page=page, is_image=is_image)

    def front_pages(self) -> list[str]:
        return [f"{self.web.hosts.origin(number)}/" for number in range(self.web.settings.hosts)]

    def get(self, url: str, day: int) -> Response:
        """The answer to an unconditional GET without Accept-Encoding."""
        parts = urlsplit(url)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        return self.web.respond(WebRequest(host=parts.netloc, path=path), day)

    def digest(self, url: str, day: int) -> str | None:
        """SHA-256 of the body before any content coding, or None where the answer is not 200."""
        place = self.place(url)
        if place is None or self.get(url, day).status != 200:
            return None
        if place.page is None:
            body = self.get(url, day).body
        else:
            body = self.web.content(place.host, place.page, place.is_image, day).body
        return hashlib.sha256(body).hexdigest()

    def links(self, url: str, day: int, *, follow_nofollow: bool = True) -> list[str]:
        """Where the page leads, in its order, repeats included; empty for what is not an HTML page with
        200."""
        place = self.place(url)
        if place is None:
            return []
        if place.is_trap:
            return trap_links(place.host, place.path, place.query)
        if place.page is None or place.is_image or self.get(url, day).status != 200:
            return []
        kind = self.web.pages.kind(place.host.number, place.page)
        if kind == "broken":
            return []  # its body cannot be decoded to the end
        original = self.web.pages.original(place.host.number, place.page)
        if not follow_nofollow and self.web.pages.is_nofollow_page(place.host.number, original):
            return []
        links = self.web.content(place.host, place.page, False, day).links
        return [link.url for link in links if follow_nofollow or not link.is_nofollow]

    def is_allowed(self, url: str) -> bool:
        place = self.place(url)
        return place is not None and is_allowed(place.host, place.path)

    def reachable(
        self,
        seeds: Iterable[str],
        day: int,
        *,
        scope: Scope = lambda url: True,
        follow_nofollow: bool = False,
        trap_pages_max: int = 0,
    ) -> set[str]:
        """All URLs that a crawl of that day may fetch: seeds, and what pages and redirects lead to, that
        robots.txt allows and `scope` takes in. A URL is in it whatever its status, as only fetching
        tells."""
        found: set[str] = set()
        traps: dict[int, int] = {}
        queue = deque(sorted(set(seeds)))
        while queue:
            url = queue.popleft()
            if url in found or not scope(url) or not self.is_allowed(url):
                continue
            place = self.place(url)
            assert place is not None
            if place.is_trap:
                traps[place.host.number] = traps.get(place.host.number, 0) + 1
                if traps[place.host.number] > trap_pages_max:
                    continue
            found.add(url)
            if len(found) > URLS_MAX:
                raise ValueError(f"more than {URLS_MAX:,} URLs can be reached: ask about a smaller web")
            queue.extend(self._leads_to(url, day, follow_nofollow))
        return found

    def changed(self, urls: Iterable[str], before: int, after: int) -> set[str]:
        """Those with another body (or only one of them a body) on the two days."""
        return {url for url in urls if self.digest(url, before) != self.digest(url, after)}

    def _leads_to(self, url: str, day: int, follow_nofollow: bool) -> list[str]:
        response = self.get(url, day)
        location = response.header("Location")
        if location is None:
            return self.links(url, day, follow_nofollow=follow_nofollow)
        place = self.place(url)
        assert place is not None
        return [location if location.startswith("http") else place.host.origin + location]
