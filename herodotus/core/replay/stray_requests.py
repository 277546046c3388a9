"""Where does a request belong that missed the archive?

A script on an archived page asks for `/img/a.png` and means its own site; the browser asks the portal, and
says by its Referer on which archived page. Browsers do so only for pages that have an origin
(`ReplayContext.has_own_origin`); in a sandbox our script does the same (`guard.py`).
"""

import re

from herodotus.core.replay.context import AddressRewriter, Flag, ReplayContext

_MEMENTO = re.compile(r"([0-9]{14})([a-z]{2}_)?/(https?://.+)", re.DOTALL)
URL_BYTES_MAX = 16_384
_FLAG_OF_DESTINATION = {
    "image": Flag.IMAGE, "script": Flag.SCRIPT, "style": Flag.STYLE, "iframe": Flag.FRAME, "frame": Flag.FRAME,
}  # fmt: skip


def stray_target(
    path_and_query: str,
    referer: str | None,
    portal_origin: str,
    *,
    archive_prefix: str = "/web/",
    destination: str = "",
) -> str | None:
    """The address in the archive that the reader is redirected to (302), or None: no stray.

    `path_and_query` as in the request line; `destination` is Sec-Fetch-Dest. Of requests to the archive
    itself and of those from the portal's own pages nothing is a stray."""
    if referer is None or len(referer) > URL_BYTES_MAX or len(path_and_query) > URL_BYTES_MAX:
        return None
    if path_and_query.startswith(archive_prefix) or not path_and_query.startswith("/"):
        return None
    start = f"{portal_origin}{archive_prefix}"
    if not referer.startswith(start):
        return None
    memento = _MEMENTO.fullmatch(referer[len(start) :])
    if memento is None:
        return None
    try:
        context = ReplayContext(page_url=memento[3], timestamp=memento[1], archive_prefix=archive_prefix)
    except ValueError:
        return None
    flag = _FLAG_OF_DESTINATION.get(destination, Flag.PAGE)
    found = AddressRewriter(context).rewrite(path_and_query.encode("utf-8", "surrogateescape"), flag)
    return found.decode("utf-8", "surrogateescape")
