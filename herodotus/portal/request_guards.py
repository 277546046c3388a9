"""May this request be answered at all? What is refused before anybody looks at its path.

A browser can be made to ask us for another site's sake: under that site's name (DNS rebinding), or from an archived
page, whose origin is `null`. Names are therefore known names, and `null` may read the archive and nothing else.
"""

import re
from collections.abc import Collection, Mapping
from http import HTTPStatus
from ipaddress import ip_address

from herodotus.core.replay import WORKER_PATH, checked_origin, is_worker_registration
from herodotus.portal.answer import Answer, problem
from herodotus.portal.request import Request

TARGET_CHARS_MAX = 24_000  # an address of 16 kB, escaped a little; the server's own bound is lower
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._-]{1,253})(?::\d{1,5})?", re.ASCII)
_ARCHIVE = ("/web/", "/cdx/", "/wayback/")


def origin_of(host: str, known: Mapping[str, str]) -> str | None:
    """What the reader's browser calls us; `known` are the origins of names that the operator gave. None: no name
    of ours."""
    match = _HOST.fullmatch(host)
    if match is None:
        return None
    name = match[1].lower().rstrip(".")
    if name in known:
        return known[name]
    return checked_origin("http", host) if _is_ours(name) else None


def _is_ours(name: str) -> bool:
    if name == "localhost":
        return True
    try:
        ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def refusal(request: Request, *, is_known_host: bool, is_replay_host: bool = False) -> Answer | None:
    """`is_replay_host`: asked for under the name that archived pages have for themselves."""
    if not is_known_host:
        return problem(
            HTTPStatus.MISDIRECTED_REQUEST,
            "this peer is not known by that name; its operator can set http.public_url",
        )
    if len(request.target) > TARGET_CHARS_MAX:
        return problem(HTTPStatus.REQUEST_URI_TOO_LONG, "the address is too long")
    is_ours = is_replay_host and request.path == f"/web/{WORKER_PATH}"
    if is_worker_registration(request.headers) and not is_ours:
        return problem(HTTPStatus.FORBIDDEN, "archived pages may not register service workers here")
    if request.header("origin") == "null" and not _is_archive(request.path, _ARCHIVE):
        return problem(HTTPStatus.FORBIDDEN, "archived pages may only read the archive")
    return None


def _is_archive(path: str, prefixes: Collection[str]) -> bool:
    return any(path.startswith(prefix) for prefix in prefixes)
