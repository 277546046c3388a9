"""What of another peer's answer do we pass on? Its words, never its head.

A peer of the ring is a stranger, and our answers stand under our name: a browser gives them our origin. So no part of
a head is passed on as it came. Each answer is made again as the kind asked for: an archived page under the policy
of our own, a redirect into our archive, rows and records as data that no browser runs, a page of words without scripts.
Anything else is not an answer, and the next holder is asked.
"""

import json
import re
from dataclasses import dataclass
from http import HTTPStatus
from itertools import islice
from typing import Any

from herodotus.core.captures import CaptureId, position_of
from herodotus.core.doors import passage_of
from herodotus.core.errors import MalformedRecordError
from herodotus.core.replay import (
    BannerFacts,
    Flag,
    MediaType,
    ReplayContext,
    isolation_headers,
    media_type,
    replay_status,
)
from herodotus.core.replay.headers import FIELD_BYTES_MAX, FIELDS_MAX, ORIGINAL
from herodotus.core.warc import format_digits, parse_date, parse_digits
from herodotus.portal.answer import PAGE_HEADERS, PUBLIC, Answer, html, moved
from herodotus.portal.cdx import variants
from herodotus.portal.histories import history_page
from herodotus.portal.memento import Places, header_url, history_links, memento_links, memento_path
from herodotus.portal.replay import frame_answer
from herodotus.portal.targets import BadQuestionError, http_date, parse_http_date, spellings
from herodotus.store import Version

VERSIONS_MAX = 20_000
"""Of a history that becomes a page; it shows the newest hundred, and a calendar of twelve months."""
HISTORY_BYTES_MAX = 6 * 1024 * 1024
"""Of its rows as they come; each of so many has some 300 bytes."""
_DATA_TYPES = frozenset(
    {"application/json", "application/link-format", "application/cdxj+ors", "application/warc", "text/plain"}
)
_LINKING_TYPES = frozenset({"application/json", "application/link-format", "application/cdxj+ors"})
_ARCHIVED = re.compile(r"/web/\d{14}(?:[a-z]{2}_)?/https?://[\x21-\x7e]{1,16384}", re.ASCII)
_DIFFERENCE = re.compile(r"/web/diff/(?:inline/)?\d{14}/\d{14}/https?://[\x21-\x7e]{1,16384}", re.ASCII)
_RELATION = re.compile(r"/web/(\d{14})(?:[a-z]{2}_)?/[^<>]{1,16384}>; ?rel=\"([a-z ]{1,40})\"", re.ASCII)
_LINK_CHARACTERS_MAX = 100_000
_NEXT = re.compile(r"<(/[\x21-\x3b\x3d\x3f-\x7e]{1,8000})>; rel=\"next\"")
_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18})", re.ASCII)
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")
_CONTROLS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_PEER = re.compile(r"[a-z2-7]{4}(?:-[a-z2-7]{4}){12}")
_MIME = re.compile(r"[\w.+-]{1,60}/[\w.+-]{1,60}", re.ASCII)
_MEMENTO_AGE_S = 600
_COUNT_MAX = 10**12
_QUIET = {"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "default-src 'none'; sandbox"}
"""On data: a browser that is led there runs nothing of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopting:
    """`there` and `here` are the origins of the other peer's portal and of ours; `name` is the short form of its id."""

    there: str
    here: str
    name: str = ""
    has_own_origin: bool = False
    """Asked for where archived pages have an origin of their own."""


def named(answer: Answer, told: str, adopting: Adopting) -> Answer:
    """The peer that really gave it: by its own name, if that is the peer we asked."""
    is_it = adopting.name != "" and _PEER.fullmatch(told) is not None and told.startswith(adopting.name)
    answer.headers["X-Herodotus-Peer"] = told if is_it else adopting.name or "another"
    return answer


# -- archived pages ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class MementoAsked:
    url: str
    flag: Flag
    time_s: int | None
    """Where it was asked for to the second."""
    takes_gzip: bool = False
    asks_part: bool = False

    def context(self, adopting: Adopting, media: MediaType) -> ReplayContext:
        assert self.time_s is not None
        return ReplayContext(
            page_url=header_url(self.url),
            timestamp=format_digits(self.time_s),
            flag=self.flag,
            portal_origin=adopting.here or None,
            has_own_origin=adopting.has_own_origin,
            declared_charset=media.charset,
        )


def adopted_memento(answer: Answer, asked: MementoAsked, adopting: Adopting) -> Answer | None:
    """None: it is neither the capture that was asked for nor the way to one."""
    location = adopted_location(answer, adopting)
    if not _is_asked_for(answer, asked):
        return None if location is None else _led(answer, location, asked, adopting)
    encoding = _header(answer, "content-encoding").strip().lower()
    if encoding not in ("", "identity") and not (encoding == "gzip" and asked.takes_gzip):
        return None
    media = media_type([answer.content_type])
    context = asked.context(adopting, media)
    headers = isolation_headers(context) | {
        "Memento-Datetime": http_date(asked.time_s or 0),
        "Link": _links(answer, asked, adopting),
        "Content-Location": memento_path(asked.url, asked.time_s or 0, str(asked.flag)),
        "Cache-Control": f"public, max-age={_MEMENTO_AGE_S}",
        "Vary": "Sec-Fetch-Dest, Upgrade-Insecure-Requests",
    }
    if encoding == "gzip":
        headers["Content-Encoding"] = encoding
    status = replay_status(answer.status.value, has_location=location is not None)
    if answer.status is HTTPStatus.PARTIAL_CONTENT:
        told = _part(answer) if asked.asks_part and not encoding else None
        if told is None:
            return None
        status, headers["Content-Range"] = HTTPStatus.PARTIAL_CONTENT, told
    if location is not None and 300 <= status < 400:
        headers["Location"] = location
    return Answer(
        status=HTTPStatus(status),
        content_type=media.sent(),
        body=answer.body,
        headers=headers,
        repeated=_originals(answer),
    )


def _is_asked_for(answer: Answer, asked: MementoAsked) -> bool:
    told = _header(answer, "memento-datetime")
    return asked.time_s is not None and told != "" and parse_http_date(told) == asked.time_s


def _led(answer: Answer, location: str, asked: MementoAsked, adopting: Adopting) -> Answer | None:
    """By a TimeGate, or from an inexact date."""
    if answer.status not in (HTTPStatus.FOUND, HTTPStatus.MOVED_PERMANENTLY) or not is_of(
        location, asked.url
    ):
        return None
    links = _links(answer, asked, adopting)
    told = {"Link": links} if links else {}
    return moved(location, headers={"Vary": "Accept-Datetime", **told, **PUBLIC})


def adopted_location(answer: Answer, adopting: Adopting) -> str | None:
    """Into our archive, to an exact date; None for everything else."""
    local = _header(answer, "location").removeprefix(adopting.there)
    if not 300 <= answer.status < 400 or not _ARCHIVED.fullmatch(local):
        return None
    return local


def is_of(location: str, url: str) -> bool:
    """Whether the address at `location`, a path of the archive, is what was asked for as `url`, in any spelling."""
    try:
        known = {header_url(one) for spelling in spellings(url) for one in variants(spelling)}
    except BadQuestionError:
        return False
    return location[location.find("/http") + 1 :] in known


def _moments(answer: Answer) -> dict[str, int]:
    """What its Link header says of other captures, by relation."""
    found: dict[str, int] = {}
    text = _header(answer, "link")[:_LINK_CHARACTERS_MAX]
    for match in islice(_RELATION.finditer(text), 100):
        try:
            time_s = parse_digits(match[1])
        except MalformedRecordError:
            continue
        for word in match[2].split():
            found.setdefault(word, time_s)
    return found


def _links(answer: Answer, asked: MementoAsked, adopting: Adopting) -> str:
    moments = _moments(answer)
    shown = asked.time_s if asked.time_s is not None and _is_asked_for(answer, asked) else None
    known = [*moments.values(), *([] if shown is None else [shown])]
    if not known:
        return ""
    return memento_links(
        Places(origin=adopting.here, url=asked.url),
        first_s=min(known),
        last_s=max(known),
        previous_s=moments.get("prev"),
        shown_s=shown,
        next_s=moments.get("next"),
    )


def _part(answer: Answer) -> str | None:
    told = _header(answer, "content-range").strip()
    match = _RANGE.fullmatch(told)
    if match is None:
        return None
    start, end, size = (int(number) for number in match.groups())
    return told if start <= end < size and len(answer.body) == end + 1 - start else None


def _originals(answer: Answer) -> tuple[tuple[str, str], ...]:
    kept: list[tuple[str, str]] = []
    for name, value in islice(answer.repeated, FIELDS_MAX):
        if name.startswith(ORIGINAL) and _TOKEN.fullmatch(name) and len(value) <= FIELD_BYTES_MAX:
            kept.append((name, _CONTROLS.sub(" ", value).encode("utf-8", "replace").decode()))
    return tuple(kept)


def is_page(answer: Answer) -> bool:
    """Whether a window gets it in a frame."""
    media = media_type([answer.content_type])
    return not 300 <= answer.status < 400 and (media.is_document or media.essence == "text/plain")


def framed(answer: Answer, asked: MementoAsked, adopting: Adopting, inner_origin: str) -> Answer:
    """As `frame_answer`, of another peer's capture."""
    context = asked.context(adopting, media_type([]))
    moments = {word: time_s for word, time_s in _moments(answer).items() if time_s != asked.time_s}
    dates = {word: format_digits(time_s) for word, time_s in moments.items()}
    facts = BannerFacts(
        first=dates.get("first"), previous=dates.get("prev"), next=dates.get("next"), last=dates.get("last")
    )
    links = _links(answer, asked, adopting)
    return frame_answer(context, facts, inner_origin, asked.time_s or 0, links)


# -- rows, records, words ---------------------------------------------------------------------------------


def adopted_data(answer: Answer, adopting: Adopting) -> Answer | None:
    """Lists and records, for programs; where they name the other peer's archive, ours is named."""
    media = media_type([answer.content_type])
    if answer.status is not HTTPStatus.OK or media.essence not in _DATA_TYPES or _is_coded(answer):
        return None
    body = answer.body
    if media.essence in _LINKING_TYPES:
        body = body.replace(f"{adopting.there}/web/".encode(), f"{adopting.here}/web/".encode())
    headers = {**_QUIET, **PUBLIC, "Cache-Control": "max-age=60"}
    if media.essence == "application/warc":
        headers["Content-Disposition"] = 'attachment; filename="capture.warc.gz"'
    if _header(answer, "x-herodotus-cut") == "true":
        headers["X-Herodotus-Cut"] = "true"
    following = _NEXT.fullmatch(_header(answer, "link"))
    if following is not None and following[1].startswith(("/api/v1/", "/cdx")):
        headers["Link"] = f'<{following[1]}>; rel="next"'
    charset = "; charset=utf-8" if media.essence == "text/plain" else ""
    return Answer(content_type=f"{media.essence}{charset}", body=body, headers=headers)


def adopted_words(answer: Answer, adopting: Adopting) -> Answer | None:
    """A difference of two captures, a page of the other portal's: shown, and no more. Its style is ours or none."""
    location = _header(answer, "location").removeprefix(adopting.there)
    if 300 <= answer.status < 400 and _DIFFERENCE.fullmatch(location):
        return moved(location)
    if (
        answer.status is not HTTPStatus.OK
        or not media_type([answer.content_type]).is_html
        or _is_coded(answer)
    ):
        return None
    policy = PAGE_HEADERS["Content-Security-Policy"].replace("form-action http: https:", "form-action 'none'")
    headers = {**PAGE_HEADERS, "Content-Security-Policy": f"sandbox; {policy}", "Cache-Control": "max-age=60"}
    return Answer(content_type="text/html; charset=utf-8", body=answer.body, headers=headers)


def adopted_history(answer: Answer, url: str, period: str, adopting: Adopting) -> Answer | None:
    """Our page of another peer's rows (`history --json`); None where they are none. It is work for a thread."""
    if answer.status is not HTTPStatus.OK or _is_coded(answer) or len(answer.body) > HISTORY_BYTES_MAX:
        return None
    try:
        rows = json.loads(answer.body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(rows, list) or not 0 < len(rows) <= VERSIONS_MAX:
        return None
    versions = [_version(row, url) for row in rows]
    good = sorted((one for one in versions if one is not None), key=lambda one: one.first_seen_s)
    if len(good) < len(rows):
        return None
    links = history_links(adopting.here, url, good)
    headers = {"Link": links, "Cache-Control": "max-age=60", "Vary": "Accept"}
    return html(history_page(url, good, period), headers=headers)


def _version(row: Any, url: str) -> Version | None:
    if not isinstance(row, dict):
        return None
    digest, status, mime = (row.get(name) for name in ("digest", "status", "mime"))
    if not (isinstance(digest, str) and isinstance(status, int) and isinstance(mime, str)):
        return None
    try:
        first_s, last_s = (parse_date(str(row.get(name))) for name in ("first_seen", "last_seen"))
        sha256 = bytes.fromhex(digest.removeprefix("sha256:"))
    except (MalformedRecordError, ValueError):
        return None
    return Version(
        id=CaptureId(key=position_of(url), time_s=first_s, digest=sha256[:32]),
        url=url,
        status=status if 0 <= status < 1_000 else 0,
        mime=mime if _MIME.fullmatch(mime) else "",
        size=_count(row.get("size")),
        is_revisit=False,
        visits=_count(row.get("visits")),
        last_seen_s=max(first_s, last_s),
        sha1="",
        stored_bytes=0,
        door=_door(row.get("door")),
    )


def _door(said: object) -> str:
    """In words of ours only."""
    return str(passage_of(f"1 {said}")) if isinstance(said, str) and said else ""


def _count(value: object) -> int:
    return value if isinstance(value, int) and 0 <= value < _COUNT_MAX else 0


def _is_coded(answer: Answer) -> bool:
    return _header(answer, "content-encoding").strip().lower() not in ("", "identity")


def _header(answer: Answer, name: str) -> str:
    return next((value for known, value in answer.headers.items() if known.lower() == name), "")
