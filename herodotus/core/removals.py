"""Which hosts and pages were removed for good, so that they are not crawled or stored again? A host includes its
subdomains.

A page means both schemes and every spelling that the crawler takes for the same address. This is the operator's own
list of pages that must not be archived; site owners who ask not to be visited stand in `crawl.opt_out`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from crawler.core.errors import MalformedUrlError
from crawler.core.politeness import OptOutList
from crawler.core.scope import NOBODY_OPTED_OUT
from crawler.core.urls import canonical, host_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Removals:
    hosts: OptOutList = NOBODY_OPTED_OUT
    pages: frozenset[str] = frozenset()
    """Canonical, without their schemes."""

    @classmethod
    def of(cls, *, hosts: Iterable[str], urls: Iterable[str]) -> Self:
        """Raises MalformedUrlError for a text that is neither."""
        return cls(hosts=OptOutList.of(hosts), pages=frozenset(page_of(url) for url in urls))

    def covers(self, url: str) -> bool:
        if not self.pages and not self.hosts.hosts:
            return False
        try:
            plain = canonical(url)
        except MalformedUrlError:
            return False  # urn:, dns: and other schemes in foreign archives
        return self.hosts.covers(host_of(plain)) or plain.partition("://")[2] in self.pages


NOTHING_REMOVED = Removals()


def page_of(url: str) -> str:
    """Without a scheme https is meant, which is as good as http here."""
    return canonical(url if "://" in url else f"https://{url}").partition("://")[2]
