"""Where does a crawler that does not look lose itself? Three classic places without an end.

`calendar`: every month links to the next, for ever. `session`: every page gives each link a new session id,
so the same few pages have endless addresses. `directories`: a relative link that grows the path by itself.
"""

import re
from urllib.parse import parse_qsl

from simnet.web.hosts import WebHost
from simnet.web.words import draw

_MONTH = re.compile(r"/calendar/(\d{1,6})/(\d{1,2})")
DEPTH_MAX = 400  # beyond, a server would refuse the long path anyway


def trap_page(host: WebHost, path: str, query: str) -> str | None:
    if host.trap == "calendar":
        return _calendar(path)
    if host.trap == "session":
        return _session(host, path, query)
    return _directories(path)


def trap_links(host: WebHost, path: str, query: str) -> list[str]:
    """The absolute URLs on such a page, for the oracle."""
    body = trap_page(host, path, query) or ""
    base = host.origin + path.rpartition("/")[0]
    hrefs = [href.replace("&amp;", "&") for href in re.findall(r'href="([^"]+)"', body)]
    return [host.origin + href if href.startswith("/") else f"{base}/{href}" for href in hrefs]


def _document(title: str, links: list[tuple[str, str]]) -> str:
    items = "".join(f'<li><a href="{href}">{text}</a></li>\n' for href, text in links)
    return (
        f"<!DOCTYPE html>\n<html><head><title>{title}</title></head><body><ul>\n{items}</ul></body></html>\n"
    )


def _calendar(path: str) -> str | None:
    match = _MONTH.fullmatch(path)
    if path == "/calendar/":
        year, month = 2026, 1
    elif match and 1 <= int(match[2]) <= 12:
        year, month = int(match[1]), int(match[2])
    else:
        return None
    after = (year, month + 1) if month < 12 else (year + 1, 1)
    before = (year, month - 1) if month > 1 else (max(year - 1, 0), 12)
    links = [(f"/calendar/{y}/{m}", f"{m}/{y}") for y, m in (before, after)]
    return _document(f"{month}/{year}", links)


def _session(host: WebHost, path: str, query: str) -> str | None:
    match = re.fullmatch(r"/session/(?:item-(\d))?", path)
    if match is None:
        return None
    old = dict(parse_qsl(query)).get("sid", "")
    links = []
    for item in range(10):
        sid = draw(host.number, item, hash_text(old))
        links.append((f"/session/item-{item}?sid={sid:016x}&amp;view=full", f"item {item}"))
    return _document(f"item {match[1] or 'list'}", links)


def _directories(path: str) -> str | None:
    if path.count("/") > DEPTH_MAX or not path.endswith("/"):
        return None
    return _document("index", [("up/", "up"), ("down/", "down")])


def hash_text(text: str) -> int:
    """`hash()` differs from process to process."""
    return int.from_bytes(text.encode()[:64].ljust(8, b"\0"), "big") % (1 << 64)
