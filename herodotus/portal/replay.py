"""How does a capture become the answer that shows it? Body, headers and isolation, put together.

Rewriting is `herodotus.core.replay`; here it is fed with what the archive holds, and the Memento headers are added.

What did the server mean to show? The stored body without what only the way to us asked for.

Bodies are stored as they were sent, often compressed, and never in chunks (`core/chunked.py`): what a head says of
chunks is only told. A coding is undone within bounds; a body that cannot be decoded stays as it is stored, and is
shown without its coding: a browser that could undo it would find a page in it that nobody looked at. Who asks for the
body as it came (`id_`) gets such a body with its coding: it runs nothing there.
"""

import dataclasses
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from crawler.core.capture import REDIRECTS, decoded
from crawler.core.javascript import TokenKind, tokens
from herodotus.core.captures import HTTP_HEAD_BYTES_MAX, LargeBody
from herodotus.core.doors import door_shown
from herodotus.core.replay import (
    BOX_CLIENT_PATH,
    CLIENT_PATH,
    NO_TYPE,
    BannerFacts,
    Flag,
    HolderNote,
    MediaType,
    NamedSite,
    ReplayContext,
    Rewriter,
    banner_html,
    frame_headers,
    frame_html,
    isolation_headers,
    label_headers,
    looks_like_html,
    media_type,
    replay_headers,
    rewriter_for,
    script_headers,
    shown_flag,
    shown_type,
    written_charset,
)
from herodotus.core.warc import format_digits
from herodotus.portal.answer import Answer, Passing
from herodotus.portal.archive_questions import Chosen
from herodotus.portal.memento import Places, header_url, memento_links, memento_path
from herodotus.portal.targets import http_date
from herodotus.store import StoredCapture

DECODED_BYTES_MAX = 32 * 1024 * 1024
"""What would be larger goes out in its coding."""
Fields = list[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    fields: Fields
    """As they came: `body` need not answer to them any more."""
    body: bytes
    encoding: str = ""
    """The content coding that is left on the body: it was to be kept, or cannot be undone."""

    def values(self, name: str) -> list[str]:
        return [value for known, value in self.fields if known.lower() == name]


def fields_of(head: bytes) -> Fields:
    """Folded lines joined; what is no field is left out. Values as UTF-8 where they are, with escapes where not."""
    fields: Fields = []
    for line in head[:HTTP_HEAD_BYTES_MAX].split(b"\n")[1:]:
        text = line.rstrip(b"\r").decode("utf-8", "surrogateescape")
        if text[:1] in (" ", "\t") and fields:
            fields[-1] = fields[-1][0], f"{fields[-1][1]} {text.strip()}"
            continue
        name, colon, value = text.partition(":")
        if colon and name.strip():
            fields.append((name.strip(), value.strip()))
    return fields


def head_fields(capture: StoredCapture) -> Fields:
    """Of a resource, which has no head, the type that its record names."""
    fields = fields_of(capture.head)
    if not capture.head and (content_type := capture.record.get("Content-Type")):
        fields.append(("Content-Type", content_type))
    return fields


def payload_of(
    capture: StoredCapture,
    *,
    keep_encodings: frozenset[str] = frozenset(),
    bytes_max: int = DECODED_BYTES_MAX,
    fields: Fields | None = None,
    is_exact: bool = False,
) -> Payload:
    """A single content coding of `keep_encodings` is left on: its client takes it as it is. Decoded at most up to
    `bytes_max`, the rest is cut off. `fields`: those of its head, where they are known. `is_exact`: a part of a damaged
    body is not enough."""
    fields = head_fields(capture) if fields is None else fields
    body = capture.body
    encoding = _coding(fields)
    if encoding and encoding not in keep_encodings:
        result = decoded(body, encoding, bytes_max)
        is_too_large = bytes_max == DECODED_BYTES_MAX == len(result.content)
        is_enough = result.is_whole if is_exact else bool(result.content or not body)
        if is_enough and not is_too_large:
            body, encoding = result.content, ""
    return Payload(fields=fields, body=body, encoding=encoding)


def _coding(fields: Fields) -> str:
    codings = (value for name, value in fields if name.lower() == "content-encoding")
    return ", ".join(one for one in _listed(codings) if one != "identity")


def _listed(values: Iterable[str]) -> Iterator[str]:
    for value in values:
        yield from (one for one in (part.strip().lower() for part in value.split(",")) if one)


INLINE_BYTES_MAX = 64 * 1024
"""Bodies up to this are rewritten in the loop: a millisecond, about what the trip to a thread costs."""
REWRITTEN_BYTES_MAX = 32 * 1024 * 1024
"""Of a page or style. The largest that the crawler fetches; whatever an import has above goes out as it is stored."""
RESULT_BYTES_MAX = 64 * 1024 * 1024
"""A page of nothing but short links grows by its own address with each."""
_PIECE_BYTES = 256 * 1024
_BEFORE_CALL = re.compile(rb"(?:\s|;|/\*[^*]{0,100}\*/)*+")
_SNIFFED_BYTES = 1_445  # MIME Sniffing standard, 5.2
_PAGE_AGE_S = 600  # a page's banner names its neighbours, which change when the next one is stored
_PART_AGE_S = 31_536_000
_LABEL_AGE_S = 3_600  # at a label the nearest capture is shown, which may be another one later


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
    note: str = ""
    """What else the banner says."""
    site: NamedSite | None = None
    """The label that it is asked for at."""
    framed: NamedSite | None = None
    """The label at which our page shows it in its frame. None: in the sandbox."""
    named_url: str = ""
    """Asked for at the label: the address, as it was asked for. Empty: asked for at the portal."""
    is_worker: bool = False
    """Asked for at a label as a worker's own script."""
    asker: str = ""
    """Of a request at a label: the page that may read the answer, by its origin."""
    callbacks: tuple[bytes, bytes] | None = None
    """Of a script that calls a function: the name that was asked for, and the one that is archived."""
    fills_window: bool = False
    """A browser asks for what it shows in a window, so our page with the page in a frame is the answer."""


_GZIP = frozenset({"gzip", "x-gzip"})
_WINDOWS = (Flag.PAGE, Flag.FRAME, Flag.MAIN, Flag.EMBEDDED)
"""As what a body without a type may be a page."""


def replay_answer(replay: Replay) -> Answer:
    """Takes as long as rewriting the body does."""
    if replay.flag is Flag.PAGE and replay.has_banner and replay.fills_window and _is_page(replay.capture):
        links = links_of(replay.chosen, replay.portal_origin or "")
        context = dataclasses.replace(_plain_context(replay, NO_TYPE), site=replay.framed)
        reports = media_type(_types(head_fields(replay.capture))).is_html
        return frame_answer(context, _facts(replay), replay.chosen.shown_s, links, reports=reports)
    capture, flag = replay.capture, replay.flag
    shown = _shown(replay)
    context = _plain_context(replay, shown.media)
    status, fields = replay_headers(capture.status, shown.fields, context)
    headers, originals = _split(fields)
    if replay.named_url:
        return _at_label(replay, shown, status, headers, originals)
    own_links = headers.pop("Link", "")
    links = links_of(replay.chosen, replay.portal_origin or "")
    headers |= isolation_headers(context, is_rewritten=shown.is_rewritten)
    headers |= {
        "Memento-Datetime": http_date(replay.chosen.shown_s),
        "Link": f"{links}, {own_links}" if own_links else links,
        "Content-Location": memento_path(capture.url, replay.chosen.shown_s, str(flag)),
        "Cache-Control": f"public, max-age={_PAGE_AGE_S}"
        if flag is Flag.PAGE
        else f"public, max-age={_PART_AGE_S}, immutable",
    }
    if flag is Flag.PAGE or (shown.media.is_document and not flag.is_raw):
        headers["Vary"] = "Sec-Fetch-Dest, Upgrade-Insecure-Requests"
    return _sent(shown, status, headers, originals)


def _at_label(
    replay: Replay,
    shown: "_Shown",
    status: int,
    headers: dict[str, str],
    originals: tuple[tuple[str, str], ...],
) -> Answer:
    assert replay.site is not None, "it has a name"
    headers |= label_headers(replay.site.names, replay.asker, is_rewritten=shown.is_rewritten)
    headers |= {
        "Memento-Datetime": http_date(replay.capture.time_s),
        "Cache-Control": f"private, max-age={_LABEL_AGE_S}",
    }
    return _sent(shown, status, headers, originals)


def _sent(
    shown: "_Shown", status: int, headers: dict[str, str], originals: tuple[tuple[str, str], ...]
) -> Answer:
    if shown.encoding:
        headers["Content-Encoding"] = shown.encoding.removeprefix("x-")
    return Answer(
        status=HTTPStatus(status) if status in _KNOWN else HTTPStatus.OK,
        content_type=shown.media.sent(),
        body=shown.body,
        passing=shown.passing,
        headers=headers,
        repeated=originals,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shown:
    """A body as it is sent, and what it is sent as."""

    fields: Fields
    media: MediaType
    body: bytes
    passing: Passing | None = None
    """In the place of the body."""
    encoding: str = ""
    is_rewritten: bool = True
    """False of what should have been, and is too large."""


def _shown(replay: Replay) -> _Shown:
    # Bytes that nothing is put into may keep the coding that the client takes anyway.
    keep = _GZIP if replay.takes_gzip else frozenset[str]()
    fields = head_fields(replay.capture)
    media = media_type(_types(fields))
    is_looked_into = _is_looked_into(media, replay.flag)
    if not is_looked_into or replay.capture.body_bytes > REWRITTEN_BYTES_MAX:
        passing = _passing(replay.capture, fields, keep)
        if passing is not None:
            if is_looked_into:
                start = passing.body.stretch(0, _SNIFFED_BYTES)
                media = _typed(media, replay.flag, start)
                media = shown_type(shown_flag(replay.flag, media, start), media)
            return _Shown(
                fields=fields,
                media=media,
                body=b"",
                passing=passing,
                encoding=_coding(fields),
                is_rewritten=not is_looked_into,
            )
    if not is_looked_into:
        is_raw = replay.flag.is_raw
        if replay.callbacks is not None:
            keep = frozenset[str]()
        payload = payload_of(replay.capture, keep_encodings=keep, fields=fields, is_exact=is_raw)
        kept = payload.encoding
        if kept not in (*keep, "") and not is_raw:
            media, kept = NO_TYPE, ""
        content = payload.body if kept else called_back(payload.body, replay.callbacks)
        return _Shown(fields=payload.fields, media=media, body=content, encoding=kept)
    payload = payload_of(replay.capture, bytes_max=REWRITTEN_BYTES_MAX + 1, fields=fields)
    if payload.encoding:
        return _Shown(fields=payload.fields, media=NO_TYPE, body=payload.body)
    payload = dataclasses.replace(payload, body=called_back(payload.body, replay.callbacks))
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


def called_back(body: bytes, names: tuple[bytes, bytes] | None) -> bytes:
    """A script that begins with the call of a function by the archived name calls it by the one that was asked for."""
    if names is None:
        return body
    asked, held = names
    begin = _BEFORE_CALL.match(body)
    assert begin is not None
    at = begin.end()
    if body.startswith(held, at) and body[at + len(held) :].lstrip()[:1] == b"(":
        return body[:at] + asked + body[at + len(held) :]
    return body


def _passing(capture: StoredCapture, fields: Fields, keep: frozenset[str]) -> Passing | None:
    """What is large, and goes out as it is stored."""
    payload = capture.payload
    if not isinstance(payload, LargeBody) or _coding(fields) not in ("", *keep):
        return None
    return Passing(body=payload, name=capture.id.digest.hex()[:24], size=len(payload))


def _types(fields: Fields) -> list[str]:
    return [value for name, value in fields if name.lower() == "content-type"]


def _is_looked_into(media: MediaType, flag: Flag) -> bool:
    if flag.is_raw:
        return False
    if flag is Flag.SCRIPT and media.is_script:
        return True
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
    if capture.status in REDIRECTS:
        return False
    fields = head_fields(capture)
    media = media_type(_types(fields))
    if not media.is_known:
        is_coded = any(name.lower() in ("content-encoding", "transfer-encoding") for name, _ in fields)
        payload = capture.payload
        start = (
            payload.stretch(0, _SNIFFED_BYTES) if isinstance(payload, LargeBody) else payload[:_SNIFFED_BYTES]
        )
        return is_coded or looks_like_html(start)
    return media.is_document or media.essence == "text/plain"


def frame_answer(
    context: ReplayContext, facts: BannerFacts, time_s: int, links: str, *, reports: bool = True
) -> Answer:
    """Our page around a capture: what is shown in its frame is asked for by itself."""
    headers = frame_headers(context) | {
        "Memento-Datetime": http_date(time_s),
        "Link": links,
        "Cache-Control": f"public, max-age={_PAGE_AGE_S}",
    }
    body = frame_html(context, facts, reports=reports)
    return Answer(content_type="text/html; charset=utf-8", body=body, headers=headers)


_KNOWN = frozenset(int(one) for one in HTTPStatus)


def is_quick(capture: StoredCapture) -> bool:
    return capture.body_bytes <= INLINE_BYTES_MAX and b"ncoding" not in capture.head


def links_of(chosen: Chosen, origin: str, *, is_gate: bool = False) -> str:
    return memento_links(
        Places(origin=origin, url=chosen.url),
        first_s=chosen.mementos.first_s,
        last_s=chosen.mementos.last_s,
        previous_s=None if is_gate else chosen.mementos.previous_s,
        shown_s=chosen.shown_s,
        next_s=None if is_gate else chosen.mementos.next_s,
    )


def _plain_context(replay: Replay, media: MediaType) -> ReplayContext:
    return ReplayContext(
        page_url=header_url(replay.named_url or replay.capture.url),
        timestamp=format_digits(replay.chosen.shown_s),
        flag=replay.flag,
        portal_origin=replay.portal_origin,
        site=replay.site,
        is_worker=replay.is_worker,
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
        return None if time_s is None or time_s == chosen.shown_s else format_digits(time_s)

    return BannerFacts(
        first=digits(chosen.around.first_s),
        previous=digits(chosen.previous_s),
        next=digits(chosen.around.after_s),
        last=digits(chosen.around.last_s),
        unchanged_until=digits(chosen.last_visit_s),
        holders=replay.holders,
        door=", ".join(
            one for one in (door_shown(replay.capture.door, replay.capture.voucher), replay.note) if one
        ),
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


_WRITTEN = (Path(__file__).parent / "client.js").read_text("utf-8").splitlines()


def _client(way: str) -> bytes:
    """One script for both ways. `//[way` begins what is for one of them alone, `//]` ends it."""
    lines: list[str] = []
    is_for = True
    for line in map(str.strip, _WRITTEN):
        if line.startswith("//["):
            is_for = line == f"//[{way}"
        elif line == "//]":
            is_for = True
        elif is_for and not line.startswith("//"):
            lines.append(line)
    return _short("\n".join(lines)).encode()


_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_BLANK = re.compile(r" ?([{}()\[\],;:?=<>|&!]) ?")
_LINE_END = re.compile(r"(?<=[{(\[,;])\n+|\n+(?=\})")
"""Elsewhere it may end a statement."""


def _short(source: str) -> str:
    """Without comments, and without blanks and line ends that a browser does not need. What is quoted stays."""
    pieces: list[str] = []
    at = 0
    for token in tokens(source, frozenset()):
        if token.kind not in (TokenKind.OPEN, TokenKind.CLOSE):
            pieces += (_shorter(source[at : token.start]), source[token.start : token.end])
            at = token.end
    return "".join((*pieces, _shorter(source[at:])))


def _shorter(code: str) -> str:
    return _LINE_END.sub("", _BLANK.sub(r"\1", _COMMENT.sub("", code)))


_SCRIPTS = {CLIENT_PATH: _client("names"), f"/web/{BOX_CLIENT_PATH}": _client("box")}


def our_script(path: str) -> Answer | None:
    """None: no script of ours."""
    body = _SCRIPTS.get(path)
    if body is None:
        return None
    headers = script_headers()
    return Answer(content_type=headers.pop("Content-Type"), body=body, headers=headers)
