"""How does a reader get a page from a ring? Through any peer's portal, which may send them on to another."""

import http.client
import json
import re
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

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
    """The portal to which peers that hold nothing of the page send its readers."""
    for portal in portals:
        location = _sent_on_to(portal, url)
        if location is not None:
            return next((one for one in portals if location.startswith(f"{one}/")), None)
    return None


def _get(address: str, headers: dict[str, str]) -> bytes | None:
    try:
        with _FAR_AWAY.open(urllib.request.Request(address, headers=headers), timeout=_ANSWER_S) as answer:  # noqa: S310  # http:// of our own
            return bytes(answer.read())
    except (OSError, http.client.HTTPException):
        return None


def _sent_on_to(portal: str, url: str) -> str | None:
    connection = http.client.HTTPConnection(urlsplit(portal).netloc, timeout=_ANSWER_S)
    try:
        connection.request("GET", f"/web/*/{url}")
        answer = connection.getresponse()
        return answer.getheader("Location") if answer.status == http.HTTPStatus.MOVED_PERMANENTLY else None
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
