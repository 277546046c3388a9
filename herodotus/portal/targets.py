"""What does a path under `/web/` name? The Wayback Machine's shapes, taken apart without decoding them.

The archived address stands in the path as it is, its own query included; tools also send it escaped as a whole, or
with one of the two slashes lost to a proxy.
"""

import re
from dataclasses import dataclass
from enum import Enum
from urllib.parse import unquote, unquote_to_bytes

from crawler.core.errors import MalformedUrlError
from crawler.core.urls import canonical
from herodotus.core.replay import Flag
from herodotus.portal.moments import Moment, parse_moment

URL_CHARS_MAX = 16_384
_TIMEMAP = re.compile(r"/web/timemap/(link|json|cdxj|html)/(.*)", re.DOTALL)
_HISTORY = re.compile(r"/web/(\d{4,14})?\*/(.*)", re.DOTALL | re.ASCII)
_REPLAY = re.compile(r"/web/(\d{1,14})([a-z]{2}_)?/(.*)", re.DOTALL | re.ASCII)
_GATE = re.compile(r"/web/(.*)", re.DOTALL)
_ONE_SLASH = re.compile(r"(https?):/(?!/)", re.IGNORECASE)
_SCHEME = re.compile(
    r"[A-Za-z][A-Za-z0-9+.-]*:(?!\d)"
)  # example.org:8080 has a port, mailto:somebody a scheme
# The URL standard escapes none of these, and many programs do on their way here.
_ESCAPED_IN_PATH = re.compile(r"%(?:5E|7C)", re.IGNORECASE)
_ESCAPED_IN_QUERY = re.compile(r"%(?:5[CE]|60|7[BCD])", re.IGNORECASE)
# Nor need imported files escape these, which no answer of ours can name otherwise (`memento.header_url`).
_ESCAPED_IN_ANSWERS = re.compile(
    r"(?:%(?:2[02]|3[CE]|5[CE]|60|7[BCD]|[C-F][0-9A-F](?:%[89AB][0-9A-F])+))+", re.IGNORECASE
)


class TargetKind(Enum):
    HISTORY = "history"
    LISTING = "listing"
    REPLAY = "replay"
    GATE = "gate"
    TIMEMAP = "timemap"


@dataclass(frozen=True, slots=True, kw_only=True)
class WebTarget:
    """`url` as it was asked for; `moment` where a date stood."""

    kind: TargetKind
    url: str
    moment: Moment | None = None
    flag: Flag = Flag.PAGE
    form: str = ""


class BadTargetError(ValueError):
    """A sentence for the asker."""


def parse_web_target(target: str) -> WebTarget:
    if timemap := _TIMEMAP.fullmatch(target):
        return WebTarget(kind=TargetKind.TIMEMAP, url=_url(timemap[2]), form=timemap[1])
    if history := _HISTORY.fullmatch(target):
        moment = _moment(history[1]) if history[1] else None
        if history[2].endswith("*"):
            return WebTarget(
                kind=TargetKind.LISTING, url=_url(history[2].rstrip("*") or "http:"), moment=moment
            )
        return WebTarget(kind=TargetKind.HISTORY, url=_url(history[2]), moment=moment)
    if replay := _REPLAY.fullmatch(target):
        try:
            flag = Flag(replay[2] or "")
        except ValueError:
            raise BadTargetError(f"{replay[2]} is not a flag that this archive knows") from None
        return WebTarget(kind=TargetKind.REPLAY, url=_url(replay[3]), moment=_moment(replay[1]), flag=flag)
    gate = _GATE.fullmatch(target)
    if gate is None:
        raise BadTargetError("there is no address in this path")
    return WebTarget(kind=TargetKind.GATE, url=_url(gate[1]))


def _moment(digits: str) -> Moment:
    moment = parse_moment(digits)
    if moment is None:
        raise BadTargetError(f"{digits} is not a date: use YYYY, YYYYMM, YYYYMMDD or YYYYMMDDhhmmss")
    return moment


def _url(text: str) -> str:
    if len(text) > URL_CHARS_MAX:
        raise BadTargetError(
            f"the address has {len(text)} characters; this archive accepts {URL_CHARS_MAX} at most"
        )
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise BadTargetError("the address contains half a character") from None
    if "://" not in text and re.match(r"https?%3a", text, re.IGNORECASE):
        text = unquote(text, errors="replace")
    text = _ONE_SLASH.sub(r"\1://", text, count=1) if _ONE_SLASH.match(text) else text
    if not text or text in ("http://", "https://"):
        raise BadTargetError("there is no address in this path")
    return text


def spellings(url: str) -> tuple[str, ...]:
    """Canonical first, as the crawler wrote it; then as it was asked for, as imported files keep their spelling.

    BadTargetError for what is no address of the web: other schemes, and what the URL standard cannot parse.
    """
    tried = [url] if _SCHEME.match(url) else [f"https://{url}", f"http://{url}"]
    found: list[str] = []
    reason = ""
    for text in tried:
        try:
            found.append(canonical(text))
        except MalformedUrlError as error:
            reason = error.reason
    if not found:
        raise BadTargetError(f"this is not the address of a web page: {reason}")
    asked = [text for text in tried if text.startswith(("http://", "https://"))]
    return tuple(
        dict.fromkeys([*found, *asked, *(one for text in [*found, *asked] for one in unescaped(text))])
    )


def unescaped(url: str) -> tuple[str, ...]:
    """What may be stored where `url` is asked for, as something on the way escaped it; mostly nothing."""
    if "%" not in url:
        return ()
    path, mark, query = url.partition("?")
    as_crawled = _ESCAPED_IN_PATH.sub(_plain, path) + mark + _ESCAPED_IN_QUERY.sub(_plain, query)
    as_imported = _ESCAPED_IN_ANSWERS.sub(_plain, url)
    return tuple(one for one in dict.fromkeys((as_crawled, as_imported)) if one != url)


def _plain(match: re.Match[str]) -> str:
    try:
        return unquote_to_bytes(match[0]).decode()
    except UnicodeDecodeError:
        return match[0]
