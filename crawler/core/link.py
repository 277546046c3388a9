"""What is a link, from the page that has it to the peer that remembers it?

One type goes the whole way: the parser finds it, the crawl gives it its depth and where it was found, the frontier
learns it, the outbox and the walk carry it to its holders, and their frontiers take it over.
"""

from enum import Enum
from typing import NamedTuple

from crawler.core.recrawl import flags_of, priority_of


class LinkKind(Enum):
    PAGE = "page"
    """Somewhere to go."""
    FRAME = "frame"
    """A document shown inside this one."""
    IMAGE = "image"
    REQUISITE = "requisite"
    """What else a page needs to be shown: style, script, font, media, object. Also what another peer says a page
    embeds, as it does not say how."""

    __hash__ = object.__hash__  # the members are singletons, and each link looks something up by its kind

    @property
    def is_embedded(self) -> bool:
        return self is not LinkKind.PAGE


class Link(NamedTuple):
    """A tuple, as a crawl makes tens of thousands of them each second."""

    url: str
    """Canonical."""
    kind: LinkKind = LinkKind.PAGE
    depth: int = 0
    is_doubtful: bool = False
    """Found on a page much like others: it comes after all that is not."""
    is_seed: bool = False
    via: str = ""
    """Where it was found."""
    hops: int = 0
    """Redirects between the page that links and this URL."""

    @property
    def is_embedded(self) -> bool:
        return self.kind.is_embedded

    @property
    def flags(self) -> int:
        return flags_of(is_embedded=self.is_embedded, is_doubtful=self.is_doubtful)

    @property
    def priority(self) -> int:
        return priority_of(
            self.depth, is_embedded=self.is_embedded, is_seed=self.is_seed, is_doubtful=self.is_doubtful
        )


def kind_of(*, is_embedded: bool) -> LinkKind:
    """Where no more is known."""
    return LinkKind.REQUISITE if is_embedded else LinkKind.PAGE
