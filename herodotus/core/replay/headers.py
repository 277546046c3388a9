"""What of an archived answer's head may a reader's browser see?

A list of what is allowed, as what is harmful has no end: cookies, policies of the archived site, hop-by-hop
fields and whatever is invented next would otherwise act on the archive. Every archived field is shown under
`X-Archive-Orig-`, where it does nothing. Redirects lead to the same date in the archive.

What keeps archived pages in? The headers that a browser enforces, whatever the page contains.

Rewriting makes pages work; it is no defence, as a page can build any address by script. These are:

- *reach the portal's pages, storage, cookies, other archived pages*: `sandbox` without `allow-same-origin`; the
  page has an origin of its own, shared with nobody
- *register a service worker*: the same; and requests with `Service-Worker: script` are refused
  (`is_worker_registration`)
- *load from or send to the live web*: `default-src`, `connect-src`, `form-action` name the archive's path only
- *fetch `/api`, `/save`, `/status` by script*: the same
- *post a form to the portal*: `form-action` names the archive's path only, and `may_change` refuses
  `Origin: null`
- *frame busting*: `sandbox` without `allow-top-navigation`
- *windows, `window.opener`*: `sandbox` without `allow-popups`
- *show the portal in an archived frame*: the portal's own `frame-ancestors 'none'`
- *pages that nobody rewrote (raw flags, beyond a bound)*: `sandbox` without `allow-scripts`, which ends meta
  refreshes, too
- *lead the reader away by `location =`*: no header stops it for a page that fills the window; our script does
  (`portal/client.js`), and the page around a frame (`frame_headers`) for certain
- *ask for camera, place, payment*: `Permissions-Policy`

As what is a body shown? Its type and charset, read as browsers read them, and what is sent in their place.

An archived head may name several types, or none that is one. Browsers have a rule for that (Fetch standard, "extract a
MIME type"), and so have we: what is rewritten and what is sent follow from one reading, so that no browser takes for
a page what we took for a picture.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from herodotus.core.replay.banner import FRAME_SCRIPT_SOURCE, FRAME_STYLE_SOURCE
from herodotus.core.replay.context import AddressRewriter, Flag, ReplayContext, addresses_of
from herodotus.core.replay.labels import Names

VALUE_CHARACTERS_MAX = 500
"""Of one field; what is behind is not read."""
UNKNOWN = "application/octet-stream"
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_BLANKS = "\t\n\r "
_PARAMETER = re.compile(
    r"[\t\n\r ]*([^;=]*)(?:=(\"(?:[^\"\\]|\\.|\\$)*(?:\"|$)[^;]*|[^;]*))?(?:;|$)", re.DOTALL
)
_QUOTED = re.compile(r"\"((?:[^\"\\]|\\.|\\$)*)", re.DOTALL)
_LABEL = re.compile(r"[A-Za-z0-9_:.-]{1,40}")
_XML = frozenset({"text/xml", "application/xml", "text/xsl", "text/rdf"})
_XHTML = frozenset({"application/xhtml+xml", "application/vnd.wap.xhtml+xml"})
_SCRIPTS = frozenset({"javascript", "ecmascript", "jscript", "livescript"})
_NOT_SHOWN = frozenset({"application/signed-exchange", "application/webbundle", "application/x-xpinstall"})
_NOT_SHOWN_FAMILIES = ("multipart/", "message/")


class MediaType(NamedTuple):
    essence: str
    """Type and subtype in lower case; "" where none is given."""
    charset: str | None

    @property
    def is_html(self) -> bool:
        return self.essence == "text/html"

    @property
    def is_xhtml(self) -> bool:
        return self.essence in _XHTML

    @property
    def is_svg(self) -> bool:
        return self.essence == "image/svg+xml"

    @property
    def is_script(self) -> bool:
        """Of JavaScript (MIME Sniffing standard, 4.6)."""
        return self.essence.removeprefix("application/").removeprefix("text/").removeprefix("x-") in _SCRIPTS

    @property
    def is_xml(self) -> bool:
        """XHTML and SVG, too."""
        return self.essence in _XML or self.essence.endswith("+xml")

    @property
    def is_document(self) -> bool:
        """Whether browsers run it as a page, with scripts and links."""
        return self.is_html or self.is_xml

    @property
    def is_known(self) -> bool:
        return self.essence != ""

    def sent(self) -> str:
        """For Content-Type. What brings heads of its own, leads to another address or installs something is bytes."""
        if not self.essence or self.essence in _NOT_SHOWN or self.essence.startswith(_NOT_SHOWN_FAMILIES):
            return UNKNOWN
        return f"{self.essence}; charset={self.charset}" if self.charset else self.essence


NO_TYPE = MediaType("", None)


def media_type(values: Iterable[str]) -> MediaType:
    """Of all Content-Type fields of a head, in their order (Fetch standard, "extract a MIME type")."""
    found, charset = NO_TYPE, None
    for value in values:
        for part in _between_commas(value[:VALUE_CHARACTERS_MAX]):
            one = _parsed(part)
            if one is None or one.essence == "*/*":
                continue
            if one.essence != found.essence:
                charset = one.charset
                found = one
            else:
                found = MediaType(one.essence, one.charset or charset)
    return found


def _between_commas(value: str) -> Iterable[str]:
    if "," not in value:
        yield value
        return
    start, is_quoted, at = 0, False, 0
    while at < len(value):
        letter = value[at]
        if is_quoted and letter == "\\":
            at += 1
        elif letter == '"':
            is_quoted = not is_quoted
        elif letter == "," and not is_quoted:
            yield value[start:at]
            start = at + 1
        at += 1
    yield value[start:]


@lru_cache(maxsize=1_024)
def _parsed(value: str) -> MediaType | None:
    """There are few different ones. MIME Sniffing standard, 4.4; of the parameters the charset alone."""
    names, _, parameters = value.strip(_BLANKS).partition(";")
    type_, slash, subtype = names.partition("/")
    subtype = subtype.rstrip(_BLANKS)
    if not (slash and _TOKEN.fullmatch(type_) and _TOKEN.fullmatch(subtype)):
        return None
    return MediaType(f"{type_}/{subtype}".lower(), _charset(parameters))


def _charset(parameters: str) -> str | None:
    at = 0
    while at < len(parameters):
        match = _PARAMETER.match(parameters, at)
        if match is None or match.end() == at:
            return None
        at = match.end()
        if match[1].lower() != "charset" or match[2] is None:
            continue
        quoted = _QUOTED.match(match[2])
        label = re.sub(r"\\(.)", r"\1", quoted[1]) if quoted else match[2].rstrip(_BLANKS)
        if label or quoted:  # the first one counts, even if it is malformed
            return label.strip(_BLANKS) if _LABEL.fullmatch(label.strip(_BLANKS)) else None
    return None


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
_FIELD_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")
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

    Location leads to the same date and flag in the archive; what was archived is told as X-Archive-Orig-Location."""
    kept: dict[str, str] = {}
    links: Headers = []
    types: list[str] = []
    originals: Headers = [(ORIGINAL + "Status", str(status))]
    location: str | None = None
    addresses = addresses_of(context)
    for name, value in _bounded(fields):
        lower = name.lower()
        # A record that left another archive has such a name already (`core/chunked.py`).
        originals.append((name if name.startswith(ORIGINAL) else ORIGINAL + name, value))
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
    if is_moved and target is not None:
        sent.append(("Location", target))
    return status, sent + originals


def moved(location: str, addresses: AddressRewriter, context: ReplayContext) -> str:
    """Where an archived redirect leads: the same date and flag."""
    reference = _bytes(location)
    if context.site is not None:
        reference = addresses.resolve(reference) or reference
    return _ascii(addresses.rewrite(reference, context.flag))


def _own(context: ReplayContext) -> str:
    if context.site is not None:
        return context.site.origin + context.page_url.partition("#")[0].removeprefix(
            context.site.label.origin
        )
    return f"{context.archive_prefix}{context.timestamp}{context.flag}/{context.page_url.partition('#')[0]}"


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
        if len(kept) >= FIELDS_MAX or not _FIELD_NAME.fullmatch(name) or len(value) > FIELD_BYTES_MAX:
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


_NOT_ALLOWED = (
    "accelerometer", "camera", "clipboard-read", "display-capture", "geolocation", "gyroscope", "hid",
    "idle-detection", "local-fonts", "local-network-access", "magnetometer", "microphone", "midi",
    "payment", "publickey-credentials-get", "screen-wake-lock", "serial", "usb", "window-management",
    "xr-spatial-tracking",
)  # fmt: skip
PEERS_NAMED_MAX = 16
"""In a policy: more than holders of a key, less than would fill a head."""
_PERMISSIONS = ", ".join(f"{name}=()" for name in _NOT_ALLOWED)


def isolation_headers(context: ReplayContext, *, is_rewritten: bool = True) -> dict[str, str]:
    """For every answer with archived bytes, whatever its type and flag: an image may be opened as a page.
    Browsers show PDF outside of a sandbox only, so archived ones are downloaded.
    `is_rewritten`: false of a page that goes out as it was stored. It runs no scripts, as do those with a raw flag:
    nothing would keep the window that they fill from going to the live web."""
    archive = _sources(context)
    runs_scripts = is_rewritten and not context.flag.is_raw
    allowed = "allow-scripts allow-forms allow-modals allow-pointer-lock" if runs_scripts else "allow-forms"
    policy = (
        f"sandbox {allowed}; "
        f"default-src {archive} data: blob: 'unsafe-inline' 'unsafe-eval'; "
        f"connect-src {archive} data: blob:; form-action {archive}; object-src {archive} data: blob:; "
        f"frame-src {archive} data: blob:; worker-src {archive} data: blob:; base-uri {archive}"
    )
    return {
        "Content-Security-Policy": policy,
        # In Chromium the one thing that stops WebRTC and preconnects; other browsers do not know it. Without the word
        # on redirects it stops those within the archive, too.
        "Connection-Allowlist": "(response-origin); redirects=allow",
        # By the policy above it is sent to nobody else.
        "Referrer-Policy": "unsafe-url",
        "Permissions-Policy": _PERMISSIONS,
        # Pages have an origin of their own: fonts, modules and fetches need leave to come back to them.
        "Access-Control-Allow-Origin": "*",
        "Timing-Allow-Origin": "*",
        "Cross-Origin-Resource-Policy": "cross-origin",
        "X-Robots-Tag": "noindex, nofollow",
        "X-DNS-Prefetch-Control": "off",
    }


def label_headers(names: Names, asker: str, *, is_rewritten: bool = True) -> dict[str, str]:
    """The same for every answer at a label, where a page has an origin, shared with the other pages of its site and
    date. `asker`: what Access-Control-Allow-Origin may name; empty: nobody."""
    labels = names.source
    # What nobody rewrote runs no scripts here either.
    sandbox = "" if is_rewritten else "sandbox allow-forms allow-same-origin; "
    asking = (
        {"Access-Control-Allow-Origin": asker, "Access-Control-Allow-Credentials": "true"} if asker else {}
    )
    return {
        "Content-Security-Policy": (
            f"{sandbox}default-src {labels} 'self' data: blob: 'unsafe-inline' 'unsafe-eval'; "
            f"base-uri {labels} 'self'; object-src 'none'; form-action {labels}; "
            f"frame-ancestors {' '.join(names.portals)} {labels}"
        ),
        "Connection-Allowlist": f'(response-origin "{labels}/*"); redirects=allow',
        **asking,
        "Vary": "Origin, Referer, Sec-Fetch-Dest",
        "Cross-Origin-Resource-Policy": "cross-origin",
        "Origin-Agent-Cluster": "?1",
        "Timing-Allow-Origin": "*",
        # A request to another label says by it that an archived page asks; it is sent to nobody else.
        "Referrer-Policy": "unsafe-url",
        "Permissions-Policy": _PERMISSIONS,
        "X-DNS-Prefetch-Control": "off",
        "X-Robots-Tag": "noindex, nofollow",
    }


_FLAG_OF_DESTINATION = {
    "": Flag.MAIN, "document": Flag.MAIN, "iframe": Flag.MAIN, "frame": Flag.MAIN, "image": Flag.IMAGE,
    "script": Flag.SCRIPT, "worker": Flag.SCRIPT, "sharedworker": Flag.SCRIPT, "audioworklet": Flag.SCRIPT,
    "paintworklet": Flag.SCRIPT, "style": Flag.STYLE, "xslt": Flag.STYLE,
}  # fmt: skip


def label_flag(destination: str) -> Flag:
    """As what something at a label is asked for, by Sec-Fetch-Dest; a label's path has no flag."""
    return _FLAG_OF_DESTINATION.get(destination, Flag.EMBEDDED)


def frame_headers(context: ReplayContext) -> dict[str, str]:
    """For our page around an archived one (`banner.frame_html`): whatever the archived page does, its frame
    can show nothing that is not of the archive."""
    archive = _sources(context)
    if context.site is not None:  # and the sandbox, if its name leads nowhere
        archive = f"{context.site.names.source} {archive}"
    return {
        "Content-Security-Policy": (
            f"default-src 'none'; frame-src {archive}; style-src {FRAME_STYLE_SOURCE}; connect-src 'self'; "
            f"script-src {FRAME_SCRIPT_SOURCE}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        ),
        "Referrer-Policy": "no-referrer",
        "Permissions-Policy": _PERMISSIONS,
        "Cross-Origin-Opener-Policy": "same-origin",
        "X-Content-Type-Options": "nosniff",
        "Vary": "Sec-Fetch-Dest, Upgrade-Insecure-Requests",
    }


def _sources(context: ReplayContext) -> str:
    """The archive. A policy can name a path behind an origin only; redirects may leave the path, never the origin."""
    prefix = context.archive_prefix
    path = prefix if prefix[:1] == "/" else "/" + prefix.split("/", 3)[3]
    others = "".join(f" {origin}{path}" for origin in context.peer_origins[:PEERS_NAMED_MAX])
    if prefix[:1] != "/":
        return prefix + others
    if context.portal_origin is None:
        return "'self'" + others
    return f"{context.portal_origin}{prefix}{others}"


def script_headers() -> dict[str, str]:
    """For the answers at `labels.CLIENT_PATH` and `labels.BOX_CLIENT_PATH`."""
    return {
        "Content-Type": "text/javascript; charset=utf-8",
        "Cache-Control": "public, max-age=3600",
        "X-Content-Type-Options": "nosniff",
        "Access-Control-Allow-Origin": "*",
        "Cross-Origin-Resource-Policy": "cross-origin",
    }


BANNER_FIELD = "x-herodotus-banner"
"""With this field our page asks for the banner of another one."""


def wants_frame(headers: Mapping[str, str]) -> bool:
    """Whether a request for a page (no flag) fills a browser's window, so that the page around a frame is the
    right answer. Other programs want the page itself."""
    lower = {name.lower(): value for name, value in headers.items()}
    if lower.get(BANNER_FIELD) == "1":
        return True
    destination = lower.get("sec-fetch-dest")
    if destination is not None:
        return destination == "document"
    # Browsers say where it goes on secure connections only, but ask this for every page.
    return lower.get("upgrade-insecure-requests") == "1"


def is_worker_registration(headers: Mapping[str, str]) -> bool:
    """A browser fetches a service worker's script with this field; of archived bytes the answer is 403."""
    return any(name.lower() == "service-worker" for name in headers)


def may_change(headers: Mapping[str, str], portal_origin: str) -> bool:
    """Whether a request that does something (save, operator's functions) came from the portal's own pages or
    from no page at all. Sandboxed pages send `Origin: null`, other sites their own."""
    lower = {name.lower(): value for name, value in headers.items()}
    origin = lower.get("origin")
    if origin is not None:
        return origin == portal_origin
    return lower.get("sec-fetch-site", "none") in ("none", "same-origin")
