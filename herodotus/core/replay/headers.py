"""What of an archived answer's head may a reader's browser see?

A list of what is allowed, as what is harmful has no end: cookies, policies of the archived site, hop-by-hop
fields and whatever is invented next would otherwise act on the archive. Every archived field is shown under
`X-Archive-Orig-`, where it does nothing. Redirects lead to the same date in the archive.
"""

import re
from collections.abc import Iterable, Sequence

from herodotus.core.replay.addresses import AddressRewriter
from herodotus.core.replay.context import Flag, ReplayContext
from herodotus.core.replay.media_types import media_type

Headers = list[tuple[str, str]]

ORIGINAL = "X-Archive-Orig-"
FIELDS_MAX = 200
FIELD_BYTES_MAX = 8_192
"""Of one field; what clients take as a whole head is mostly 16 kB to 64 kB."""
HEAD_BYTES_MAX = 32_768
REFRESH_S_MIN = 1
"""A page that refreshes without a pause would not let a reader use the banner."""

_PASSED = {"content-language": "Content-Language", "content-disposition": "Content-Disposition"}
# HTML standard, "shared declarative refresh steps". What is behind the number is nothing, or is parted from it.
_REFRESH = re.compile(
    rb"[\t\n\f\r ]*(?:([0-9]+)[0-9.]*|\.[0-9.]*)(?:[\t\n\f\r ]*[;,][\t\n\f\r ]*|[\t\n\f\r ]+|\Z)(.*)",
    re.DOTALL,
)
_REFRESH_URL = re.compile(rb"url[\t\n\f\r ]*=[\t\n\f\r ]*", re.IGNORECASE)
_LINK_TARGET = re.compile(rb"<([^<>]*)>([^,<]*)")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")
_CONTROLS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_MOVED = frozenset({201, 300, 301, 302, 303, 307, 308})
_FLAG_OF_PRELOAD = {
    b"image": Flag.IMAGE,
    b"script": Flag.SCRIPT,
    b"style": Flag.STYLE,
}


def replay_status(status: int, *, has_location: bool) -> int:
    """The archived status, where a browser would still show what we send.

    An archived 304 or 1xx has no body to show, 204 and 205 would leave the reader where he was without a
    word, 407 would ask for a password, and 3xx without a target is an ordinary page: all these are 200. What
    the server said is told in `X-Archive-Orig-Status`."""
    if status in (301, 302, 303, 307, 308):
        return status if has_location else 200
    if 200 <= status < 300 or 400 <= status < 600:
        return 200 if status in (204, 205, 206, 401, 407, 421) else status
    return 200


def replay_headers(
    status: int, fields: Iterable[tuple[str, str]], context: ReplayContext
) -> tuple[int, Headers]:
    """Status and fields to send, each at most once but Link, without Content-Length and Content-Encoding, which are
    the handler's. Content-Type is what all the archived ones come to for a browser.

    With the flag `id_` Location, too, stays as it was and is told under X-Archive-Orig-Location alone."""
    kept: dict[str, str] = {}
    links: Headers = []
    types: list[str] = []
    originals: Headers = [(ORIGINAL + "Status", str(status))]
    location: str | None = None
    addresses = AddressRewriter(context)
    for name, value in _bounded(fields):
        lower = name.lower()
        originals.append((ORIGINAL + name, value))
        if lower == "content-type":
            types.append(value)
        elif lower == "location" and location is None:
            location = value
        elif lower == "refresh" and not context.flag.is_raw:
            kept["Refresh"] = refreshed(_bytes(value), addresses, context).decode("latin-1")
        elif lower == "link" and not context.flag.is_raw:
            links.extend(("Link", one) for one in _links(value, addresses, context))
        elif lower in _PASSED:
            kept[_PASSED[lower]] = value
    shown = media_type(types)
    sent: Headers = [("Content-Type", shown.sent())] if shown.is_known else []
    sent += [*((name, value) for name, value in kept.items() if value), *links]
    target = None if location is None else moved(location, addresses, context)
    # A page that sends visitors to itself, with a cookie, would go round in circles: the archive keeps none.
    is_moved = target is not None and status in _MOVED and target.partition("#")[0] != _own(context)
    status = replay_status(status, has_location=is_moved)
    if context.flag is Flag.RAW:
        status = 200 if 300 <= status < 400 else status
    elif is_moved and target is not None:
        sent.append(("Location", target))
    return status, sent + originals


def moved(location: str, addresses: AddressRewriter, context: ReplayContext) -> str:
    """Where an archived redirect leads: the same date and flag."""
    flag = Flag.PAGE if context.flag is Flag.RAW else context.flag
    return _ascii(addresses.rewrite(_bytes(location), flag))


def _own(context: ReplayContext) -> str:
    flag = Flag.PAGE if context.flag is Flag.RAW else context.flag
    return f"{context.archive_prefix}{context.timestamp}{flag}/{context.page_url.partition('#')[0]}"


def refreshed(content: bytes, addresses: AddressRewriter, context: ReplayContext) -> bytes:
    """Of a Refresh header or `<meta http-equiv=refresh content>`: the target in the archive, after a second
    at least, so that pages that send the reader in a circle leave him time to go. Always in the one form that all
    browsers read alike; empty for what the standard calls no refresh, as some browsers see one there."""
    match = _REFRESH.fullmatch(content)
    if match is None:
        return b""
    pause = max(REFRESH_S_MIN, int((match[1] or b"0")[:6]))
    target = _refresh_target(match[2])
    if not target:
        return b"%d" % pause
    address = addresses.rewrite(target, context.link_flag)
    if address is target and not addresses.stays(target):
        return b""  # another scheme: no page of the archive
    return b"%d;url=%s" % (pause, address.replace(b"'", b"%27").replace(b'"', b"%22"))


def _refresh_target(rest: bytes) -> bytes:
    """What is left when the words before an address, and the quotes around it, are gone."""
    named = _REFRESH_URL.match(rest)
    target = rest[named.end() :] if named else rest
    quote = target[:1]
    if quote in (b"'", b'"'):
        target = target[1:].partition(quote)[0]
    return target.strip(b"\t\n\f\r ")


def _links(value: str, addresses: AddressRewriter, context: ReplayContext) -> list[str]:
    """Preloads and styles; other relations would be confused with the archive's own (RFC 8288, RFC 7089)."""
    kept = []
    for match in _LINK_TARGET.finditer(_bytes(value)):
        parameters = match[2].lower()
        if b"stylesheet" in parameters:
            flag = Flag.STYLE
        elif b"preload" in parameters:
            kind = re.search(rb"as\s*=\s*\"?(\w+)", parameters)
            flag = _FLAG_OF_PRELOAD.get(kind[1], Flag.EMBEDDED) if kind else Flag.EMBEDDED
        else:
            continue
        rest = re.sub(rb";\s*integrity\s*=\s*(?:\"[^\"]*\"|[^;]*)", b"", match[2], flags=re.IGNORECASE)
        kept.append(f"<{_ascii(addresses.rewrite(match[1], flag))}>{rest.decode('latin-1').rstrip()}")
    return kept


def _bounded(fields: Iterable[tuple[str, str]]) -> Sequence[tuple[str, str]]:
    """What can stand in a head at all; the rest is dropped."""
    kept: list[tuple[str, str]] = []
    room = HEAD_BYTES_MAX
    for name, value in fields:
        if len(kept) >= FIELDS_MAX or not _TOKEN.fullmatch(name) or len(value) > FIELD_BYTES_MAX:
            continue
        clean = _CONTROLS.sub(" ", value).strip()
        room -= len(name) + len(clean) + len(ORIGINAL) + 4
        if room < 0:
            break
        kept.append((name, clean.encode("utf-8", "surrogateescape").decode("latin-1")))
    return kept


def _bytes(value: str) -> bytes:
    return value.encode("latin-1", "replace")


def _ascii(address: bytes) -> str:
    """As browsers write an address on the wire: what is no printable ASCII is escaped."""
    return "".join(chr(one) if 0x21 <= one < 0x7F else f"%{one:02X}" for one in address)
