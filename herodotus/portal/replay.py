"""How does a capture become the answer that shows it? Body, headers and isolation, put together.

Rewriting is `herodotus.core.replay`; here it is fed with what the archive holds, and the Memento headers are added.
"""

import dataclasses
from dataclasses import dataclass
from http import HTTPStatus

from herodotus.core.captures import StoredCapture
from herodotus.core.replay import (
    NO_TYPE,
    BannerFacts,
    Flag,
    HolderNote,
    MediaType,
    ReplayContext,
    Rewriter,
    banner_html,
    frame_headers,
    frame_html,
    isolation_headers,
    looks_like_html,
    media_type,
    replay_headers,
    rewriter_for,
    shown_flag,
    shown_type,
    written_charset,
)
from herodotus.core.warc import format_digits
from herodotus.portal.answer import Answer
from herodotus.portal.archive_questions import Chosen
from herodotus.portal.bodies import Fields, head_fields, payload_of
from herodotus.portal.memento import Places, header_url, memento_links
from herodotus.portal.moments import http_date

INLINE_BYTES_MAX = 64 * 1024
"""Bodies up to this are rewritten in the loop: a millisecond, about what the trip to a thread costs."""
REWRITTEN_BYTES_MAX = 32 * 1024 * 1024
"""Of a page or style. The largest that the crawler fetches; whatever an import has above goes out as it is stored."""
RESULT_BYTES_MAX = 64 * 1024 * 1024
"""A page of nothing but short links grows by its own address with each."""
_PIECE_BYTES = 256 * 1024
_SNIFFED_BYTES = 1_445  # MIME Sniffing standard, 5.2
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
    holders: tuple[HolderNote, ...] = ()
    """Who else has this capture, for the banner."""
    has_own_origin: bool = False
    """Asked for where archived pages have an origin that the portal does not have."""
    inner_origin: str = ""
    """Where that is; empty: nowhere."""
    fills_window: bool = False
    """A browser asks for what it shows in a window, so our page with the page in a frame is the answer."""


_REDIRECTS = (301, 302, 303, 307, 308)
_GZIP = frozenset({"gzip", "x-gzip"})
_WINDOWS = (Flag.PAGE, Flag.FRAME, Flag.MAIN, Flag.EMBEDDED)
"""As what a body without a type may be a page."""


def replay_answer(replay: Replay) -> Answer:
    """Takes as long as rewriting the body does."""
    if replay.flag is Flag.PAGE and replay.has_banner and replay.fills_window and _is_page(replay.capture):
        return _frame_answer(replay)
    capture, flag = replay.capture, replay.flag
    shown = _shown(replay)
    context = _plain_context(replay, shown.media)
    status, fields = replay_headers(capture.status, shown.fields, context)
    headers, originals = _split(fields)
    own_links = headers.pop("Link", "")
    links = links_of(replay.chosen, replay.portal_origin or "")
    headers |= isolation_headers(context, is_rewritten=shown.is_rewritten)
    headers |= {
        "Memento-Datetime": http_date(capture.time_s),
        "Link": f"{links}, {own_links}" if own_links else links,
        "Content-Location": Places(origin="", url=capture.url).memento(capture.time_s, str(flag)),
        "Cache-Control": f"public, max-age={_PAGE_AGE_S}"
        if flag is Flag.PAGE
        else f"public, max-age={_PART_AGE_S}, immutable",
    }
    if flag is Flag.PAGE or (shown.media.is_document and not flag.is_raw):
        headers["Vary"] = "Sec-Fetch-Dest, Upgrade-Insecure-Requests"
    if shown.encoding:
        headers["Content-Encoding"] = shown.encoding.removeprefix("x-")
    return Answer(
        status=HTTPStatus(status) if status in _KNOWN else HTTPStatus.OK,
        content_type=shown.media.sent(),
        body=shown.body,
        headers=headers,
        repeated=originals,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shown:
    """A body as it is sent, and what it is sent as."""

    fields: Fields
    media: MediaType
    body: bytes
    encoding: str = ""
    is_rewritten: bool = True
    """False of what should have been, and is too large."""


def _shown(replay: Replay) -> _Shown:
    # Bytes that nothing is put into may keep the coding that the client takes anyway.
    keep = _GZIP if replay.takes_gzip else frozenset[str]()
    fields = head_fields(replay.capture)
    media = media_type(_types(fields))
    if not _is_looked_into(media, replay.flag):
        payload = payload_of(replay.capture, keep_encodings=keep, fields=fields)
        if payload.encoding not in (*keep, ""):
            media = NO_TYPE
        kept = payload.encoding if payload.encoding in keep else ""
        return _Shown(fields=payload.fields, media=media, body=payload.body, encoding=kept)
    payload = payload_of(replay.capture, bytes_max=REWRITTEN_BYTES_MAX + 1, fields=fields)
    if payload.encoding:
        return _Shown(fields=payload.fields, media=NO_TYPE, body=payload.body)
    media = _typed(media, replay.flag, payload.body)
    flag = shown_flag(replay.flag, media, payload.body[:_SNIFFED_BYTES])
    rewriter = rewriter_for(media, flag, _context(replay, media, flag))
    media = shown_type(flag, media)
    if rewriter is None and len(payload.body) <= REWRITTEN_BYTES_MAX:
        return _Shown(fields=payload.fields, media=media, body=payload.body)
    body = _rewritten(rewriter, payload.body) if rewriter is not None else None
    if body is not None:
        media = MediaType(media.essence, written_charset(media.charset))
        return _Shown(fields=payload.fields, media=media, body=body)
    whole = payload_of(replay.capture, keep_encodings=keep)
    return _Shown(
        fields=whole.fields, media=media, body=whole.body, encoding=whole.encoding, is_rewritten=False
    )


def _types(fields: Fields) -> list[str]:
    return [value for name, value in fields if name.lower() == "content-type"]


def _is_looked_into(media: MediaType, flag: Flag) -> bool:
    if flag.is_raw:
        return False
    return not media.is_known or media.is_document or media.essence == "text/css" or flag is Flag.STYLE


def _typed(media: MediaType, flag: Flag, body: bytes) -> MediaType:
    """A body without a type is what browsers would take it for."""
    if media.is_known:
        return media
    if flag is Flag.STYLE:
        return MediaType("text/css", None)
    is_page = flag in _WINDOWS and looks_like_html(body[:_SNIFFED_BYTES])
    return MediaType("text/html", None) if is_page else media


def _is_page(capture: StoredCapture) -> bool:
    """Whether it could do more in a window than be looked at; of what cannot be told, too."""
    if capture.status in _REDIRECTS:
        return False
    fields = head_fields(capture)
    media = media_type(_types(fields))
    if not media.is_known:
        is_coded = any(name.lower() in ("content-encoding", "transfer-encoding") for name, _ in fields)
        return is_coded or looks_like_html(capture.body[:_SNIFFED_BYTES])
    return media.is_document or media.essence == "text/plain"


def _frame_answer(replay: Replay) -> Answer:
    context = _plain_context(replay, NO_TYPE)
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


def _plain_context(replay: Replay, media: MediaType) -> ReplayContext:
    return ReplayContext(
        page_url=header_url(replay.capture.url),
        timestamp=format_digits(replay.capture.time_s),
        flag=replay.flag,
        portal_origin=replay.portal_origin,
        has_own_origin=replay.has_own_origin,
        declared_charset=media.charset,
    )


def _context(replay: Replay, media: MediaType, flag: Flag) -> ReplayContext:
    """For what is put into the body."""
    plain = _plain_context(replay, media)
    if flag is not Flag.PAGE or not replay.has_banner:
        return dataclasses.replace(plain, flag=flag)
    return dataclasses.replace(plain, banner=banner_html(plain, _facts(replay)))


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


def _rewritten(rewriter: Rewriter, body: bytes) -> bytes | None:
    """None: it is too large, or becomes so."""
    if len(body) > REWRITTEN_BYTES_MAX:
        return None
    parts: list[bytes] = []
    size = 0
    for at in range(0, len(body), _PIECE_BYTES):
        parts.append(rewriter.feed(body[at : at + _PIECE_BYTES]))
        size += len(parts[-1])
        if size > RESULT_BYTES_MAX:
            return None
    return b"".join([*parts, rewriter.close()])


def _split(fields: list[tuple[str, str]]) -> tuple[dict[str, str], tuple[tuple[str, str], ...]]:
    """What is sent once, several links joined, and the archived fields, which may come again and again."""
    headers: dict[str, str] = {}
    originals: list[tuple[str, str]] = []
    for name, value in fields:
        if name.startswith("X-Archive-Orig-"):
            originals.append((name, value))
        elif name == "Link" and name in headers:
            headers[name] = f"{headers[name]}, {value}"
        elif name != "Content-Type":
            headers[name] = value
    return headers, tuple(originals)
