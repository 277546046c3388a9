"""How do the portal's own pages read? The small ones, for readers."""

from collections.abc import Sequence

from herodotus.core.charter import PUBLIC_CHARTER
from herodotus.core.status import PeerStatus
from herodotus.portal.rendering import render

FORM_HEADERS = {"Referrer-Policy": "same-origin"}
"""Of pages with a form that changes something: under a policy of no referrer browsers do not say whose it is."""


def start_page(status: PeerStatus) -> str:
    return render("start.html", status=status, is_public=status.network == PUBLIC_CHARTER.name)


def not_found_page(path: str) -> str:
    return render("not_found.html", path=path)


def trouble_page(title: str, sentence: str, url: str = "") -> str:
    return render("trouble.html", title=title, sentence=sentence, url=url)


def not_archived_page(
    url: str,
    variants: Sequence[str],
    neighbours: Sequence[str],
    listing: str | None,
    *,
    takes_saves: bool = False,
) -> str:
    """What there is nearby: other spellings of the address, pages of the same place, and where the network allows
    it the way to have it archived; its form needs `FORM_HEADERS`."""
    return render(
        "not_archived.html",
        url=url,
        variants=variants,
        neighbours=neighbours,
        listing=listing,
        takes_saves=takes_saves,
    )


def listing_page(prefix: str, urls: Sequence[str], following: str | None) -> str:
    return render("listing.html", prefix=prefix, urls=urls, following=following)
