"""How does a reader get a page from a ring? Through any peer's portal, which asks the holders where it must."""

import http.client
import json
import re
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass

_ANSWER_S = 5.0
_FAR_AWAY = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # no proxy knows our peers


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    date: str
    """YYYYMMDDhhmmss."""
    digest: str


def versions(portal: str, url: str) -> list[Version]:
    """Oldest first; none where the portal has none, or does not answer."""
    body = _get(f"{portal}/web/*/{url}", {"Accept": "application/json"})
    rows = json.loads(body) if body is not None else []
    return [Version(date=re.sub(r"\D", "", row["date"])[:14], digest=row["digest"]) for row in rows]


def contents(found: Sequence[Version]) -> int:
    """How many there are: two holders may have fetched the same one."""
    return len({one.digest for one in found})


def raw(portal: str, url: str, date: str) -> bytes | None:
    """As the site sent it on that date; None where the portal does not give it now."""
    return _get(f"{portal}/web/{date}id_/{url}", {})


def owner_of(url: str, portals: Sequence[str]) -> str | None:
    """The portal of the first holder that tells peers without the page of it."""
    ids = {_peer_id(portal): portal for portal in portals}
    for portal in portals:
        name = _told_by(portal, url)
        if name:
            return next((one for peer, one in ids.items() if peer.startswith(name)), None)
    return None


def _peer_id(portal: str) -> str:
    body = _get(f"{portal}/api/v1/status", {})
    return str(json.loads(body)["peer_id"]) if body is not None else portal


def _get(address: str, headers: dict[str, str]) -> bytes | None:
    try:
        with _FAR_AWAY.open(urllib.request.Request(address, headers=headers), timeout=_ANSWER_S) as answer:  # noqa: S310  # http:// of our own
            return bytes(answer.read())
    except (OSError, http.client.HTTPException):
        return None


def _told_by(portal: str, url: str) -> str:
    """The short name of a peer; "" where the portal has the page itself, or nobody has."""
    question = urllib.request.Request(f"{portal}/web/*/{url}", headers={"Accept": "application/json"})  # noqa: S310  # as above
    try:
        with _FAR_AWAY.open(question, timeout=_ANSWER_S) as answer:
            is_lent = answer.headers.get("X-Herodotus-Confirmed") is not None
            return str(answer.headers["X-Herodotus-Peer"]).partition(",")[0] if is_lent else ""
    except (OSError, http.client.HTTPException):
        return ""
