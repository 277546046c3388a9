"""How does a capture become the answer that shows it? Body, headers and isolation, put together.

Rewriting is `herodotus.core.replay`; here it is fed with what the archive holds, and the Memento headers are added.
"""

from dataclasses import dataclass
from http import HTTPStatus

from herodotus.core.deposits import StoredCapture
from herodotus.core.replay import (
    BannerFacts,
    Flag,
    Holder,
    ReplayContext,
    Rewriter,
    banner_html,
    charset_of,
    frame_headers,
    frame_html,
    isolation_headers,
    looks_like_html,
    replay_headers,
    rewriter_for,
)
from herodotus.core.warc import format_digits
from herodotus.portal.answer import Answer
from herodotus.portal.bodies import payload_of
from herodotus.portal.memento import Places, header_url, memento_links
from herodotus.portal.moments import http_date
from herodotus.portal.shelf import Chosen

INLINE_BYTES_MAX = 64 * 1024
"""Bodies up to this are rewritten in the loop: a millisecond, about what the trip to a thread costs."""
_PIECE_BYTES = 256 * 1024
_PAGE_AGE_S = 600  # a page's banner names its neighbours, which change when the next one is stored
_PART_AGE_S = 31_536_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """`portal_origin` is what the reader's browser calls us, or None where it did not say."""

    chosen: Chosen
    capture: StoredCapture
    flag: Flag
    portal_origin: str | None
    has_banner: bool = True
    takes_gzip: bool = False
    holders: tuple[Holder, ...] = ()
    """Who else has this capture, for the banner."""
    has_own_origin: bool = False
    """Asked for where archived pages have an origin that the portal does not have."""
    inner_origin: str = ""
    """Where that is; empty: nowhere."""
    fills_window: bool = False
    """A browser asks for what it shows in a window, so our page with the page in a frame is the answer."""


_REDIRECTS = (301, 302, 303, 307, 308)
_PAGE_TYPES = ("text/html", "application/xhtml+xml", "text/plain")


def replay_answer(replay: Replay) -> Answer:
    """Takes as long as rewriting the body does."""
    if replay.flag is Flag.PAGE and replay.has_banner and replay.fills_window and _is_page(replay.capture):
        return _frame_answer(replay)
    capture, flag = replay.capture, replay.flag
    # Bytes that nothing is put into may keep the coding that the client takes anyway.
    keep = frozenset({"gzip", "x-gzip"}) if replay.takes_gzip else frozenset[str]()
    payload = payload_of(capture, keep_encodings=keep)
    content_type = payload.header("content-type")
    context = _context(replay, content_type)
    rewriter = rewriter_for(content_type, flag, context)
    if rewriter is not None and payload.encoding:
        payload = payload_of(capture)
    body = payload.body
    if rewriter is not None and not payload.encoding:
        body = _rewritten(rewriter, body)
    status, fields = replay_headers(
        capture.status, payload.fields, context, is_rewritten=rewriter is not None
    )
    headers, originals = _split(fields)
    own_links = headers.pop("Link", "")
    links = links_of(replay.chosen, replay.portal_origin or "")
    headers |= isolation_headers(context)
    headers |= {
        "Memento-Datetime": http_date(capture.time_s),
        "Link": f"{links}, {own_links}" if own_links else links,
        "Content-Location": Places(origin="", url=capture.url).memento(capture.time_s, str(flag)),
        "Cache-Control": f"public, max-age={_PAGE_AGE_S}"
        if flag is Flag.PAGE
        else f"public, max-age={_PART_AGE_S}, immutable",
    }
    if flag is Flag.PAGE:
        headers["Vary"] = "Sec-Fetch-Dest, Upgrade-Insecure-Requests"
    if payload.encoding:
        headers["Content-Encoding"] = payload.encoding.removeprefix("x-")
    return Answer(
        status=HTTPStatus(status) if status in _KNOWN else HTTPStatus.OK,
        content_type=headers.pop("Content-Type", "application/octet-stream"),
        body=body,
        headers=headers,
        repeated=originals,
    )


def _is_page(capture: StoredCapture) -> bool:
    if capture.status in _REDIRECTS:
        return False
    return capture.mime in _PAGE_TYPES or (not capture.mime and looks_like_html(capture.body))


def _frame_answer(replay: Replay) -> Answer:
    context = _plain_context(replay, None)
    headers = frame_headers(context, replay.inner_origin) | {
        "Memento-Datetime": http_date(replay.capture.time_s),
        "Link": links_of(replay.chosen, replay.portal_origin or ""),
        "Cache-Control": f"public, max-age={_PAGE_AGE_S}",
    }
    body = frame_html(context, _facts(replay), replay.inner_origin)
    return Answer(content_type="text/html; charset=utf-8", body=body, headers=headers)


_KNOWN = frozenset(int(one) for one in HTTPStatus)


def is_quick(capture: StoredCapture) -> bool:
    return len(capture.body) <= INLINE_BYTES_MAX and b"ncoding" not in capture.head


def links_of(chosen: Chosen, origin: str, *, is_gate: bool = False) -> str:
    return memento_links(
        Places(origin=origin, url=chosen.url),
        first_s=chosen.around.first_s,
        last_s=chosen.around.last_s,
        previous_s=None if is_gate else chosen.previous_s,
        shown_s=chosen.time_s,
        next_s=None if is_gate else chosen.around.after_s,
    )


def _plain_context(replay: Replay, content_type: str | None) -> ReplayContext:
    return ReplayContext(
        page_url=header_url(replay.capture.url),
        timestamp=format_digits(replay.capture.time_s),
        flag=replay.flag,
        portal_origin=replay.portal_origin,
        has_own_origin=replay.has_own_origin,
        declared_charset=charset_of(content_type),
    )


def _context(replay: Replay, content_type: str | None) -> ReplayContext:
    plain = _plain_context(replay, content_type)
    if replay.flag is not Flag.PAGE or not replay.has_banner:
        return plain
    return ReplayContext(
        page_url=plain.page_url,
        timestamp=plain.timestamp,
        portal_origin=plain.portal_origin,
        has_own_origin=plain.has_own_origin,
        declared_charset=plain.declared_charset,
        banner=banner_html(plain, _facts(replay)),
    )


def _facts(replay: Replay) -> BannerFacts:
    chosen = replay.chosen

    def digits(time_s: int | None) -> str | None:
        return None if time_s is None or time_s == chosen.time_s else format_digits(time_s)

    return BannerFacts(
        first=digits(chosen.around.first_s),
        previous=digits(chosen.previous_s),
        next=digits(chosen.around.after_s),
        last=digits(chosen.around.last_s),
        unchanged_until=digits(chosen.last_visit_s),
        holders=replay.holders,
    )


def _rewritten(rewriter: Rewriter, body: bytes) -> bytes:
    parts = [rewriter.feed(body[at : at + _PIECE_BYTES]) for at in range(0, len(body), _PIECE_BYTES)]
    return b"".join([*parts, rewriter.close()])


def _split(fields: list[tuple[str, str]]) -> tuple[dict[str, str], tuple[tuple[str, str], ...]]:
    """What is sent once, several values joined, and the archived fields, which may come again and again."""
    headers: dict[str, str] = {}
    originals: list[tuple[str, str]] = []
    for name, value in fields:
        if name.startswith("X-Archive-Orig-"):
            originals.append((name, value))
        elif name == "Link" and name in headers:
            headers[name] = f"{headers[name]}, {value}"
        else:
            headers[name.title() if name.islower() else name] = value
    return headers, tuple(originals)
