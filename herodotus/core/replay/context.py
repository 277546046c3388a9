"""Where is a replayed page, and when? What every rewriting needs to know of one answer.

An address in the archive is `<prefix><date><flag>/<URL>`, as the Wayback Machine has it; the flag says as what
the browser asks for it. Replayed addresses keep the date of the page they are on.

Which address in the archive stands for a reference on an archived page?

A reference is resolved as a browser would resolve it (URL standard), on bytes and without decoding: what is
not ASCII stays as it is, as the browser that reads the page escapes it the same way behind the archive's
prefix. Nearly all references take one of four short ways; only those with dots, backslashes or blanks are
taken apart. What is no address of the web (`data:`, `javascript:`, `mailto:`, `#top`) and what is in the
archive already stays untouched.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from herodotus.core.replay.labels import NamedSite


class Flag(StrEnum):
    """What comes after the date: as what the URL is asked for."""

    PAGE = ""
    RAW = "id_"
    """The archived bytes and headers' meaning, untouched."""
    RAW_MOVED = "ir_"
    """The archived bytes; only Location leads into the archive."""
    FRAME = "if_"
    IMAGE = "im_"
    SCRIPT = "js_"
    STYLE = "cs_"
    EMBEDDED = "oe_"
    MAIN = "mp_"
    """The main page within the portal's frame (`banner.frame_html`); pywb's word."""

    @property
    def is_raw(self) -> bool:
        return self in (Flag.RAW, Flag.RAW_MOVED)


_TIMESTAMP = re.compile(r"[0-9]{14}")
_ORIGIN = re.compile(r"https?://(?:[A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")
_PREFIX = re.compile(r"(?:https?://[A-Za-z0-9.:\[\]-]+)?/(?:[A-Za-z0-9._~-]+/)*")
_BARE_AUTHORITY = re.compile(r"([a-z][a-z0-9+.-]*)://([^/?#]*)([^#]*)", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayContext:
    """Valid from creation: what is wrong with it is a ValueError here, and never a header that breaks."""

    page_url: str
    """The URL of the capture shown, canonical. Relative addresses are resolved against it."""
    timestamp: str
    """The 14 digits of the capture that is shown, which its links carry on."""
    flag: Flag = Flag.PAGE
    archive_prefix: str = "/web/"
    """Path, or origin and path, before the date; ends with a slash."""
    portal_origin: str | None = None
    """`scheme://host[:port]` at which the reader sees this portal, from `checked_origin`: a content security
    policy can name paths of an origin only. Without it the policies say 'self'."""
    peer_origins: tuple[str, ...] = ()
    """Portals of other peers that requests for parts of this page may be redirected to: holders of its host."""
    banner: bytes = b""
    """From `banner_html`, put at the start of the page's body; empty: none. Frames never get one."""
    is_guarded: bool = True
    """Whether pages get our script, which keeps what scripts ask for in the archive (`portal/client.js`)."""
    site: NamedSite | None = None
    """Where the page has a name of its own (`labels.py`); then only what names another host is led. None: it is in
    a sandbox on the portal's origin."""
    is_worker: bool = False
    """Whether it is a worker's own script, at a label."""
    declared_charset: str | None = None
    """Of the archived Content-Type; a byte order mark wins over it."""

    def __post_init__(self) -> None:
        if not _TIMESTAMP.fullmatch(self.timestamp):
            raise ValueError(f"not 14 digits: {self.timestamp!r}"[:80])
        if not _PREFIX.fullmatch(self.archive_prefix):
            raise ValueError(f"not a prefix of the archive: {self.archive_prefix!r}"[:80])
        for origin in (*([] if self.portal_origin is None else [self.portal_origin]), *self.peer_origins):
            if not _ORIGIN.fullmatch(origin):
                raise ValueError(f"not an origin: {origin!r}"[:80])
        if not _BARE_AUTHORITY.fullmatch(self.page_url.partition("#")[0]):
            raise ValueError(f"not an absolute URL: {self.page_url!r}"[:80])

    @property
    def is_in_frame(self) -> bool:
        return self.flag in (Flag.FRAME, Flag.MAIN)

    @property
    def script_url(self) -> bytes:
        """What a script is told that it is; at a label it knows."""
        if self.site is not None:
            return b""
        return self.page_url.partition("#")[0].encode("utf-8", "surrogateescape")

    @property
    def link_flag(self) -> Flag:
        """What a link to another page carries: who reads in a frame stays in it."""
        return self.flag if self.is_in_frame else Flag.PAGE


def checked_origin(scheme: str, host: str) -> str | None:
    """From a Host header, which anybody can forge: None unless it is a name or address with a port."""
    origin = f"{scheme}://{host}"
    return origin if _ORIGIN.fullmatch(origin) else None


_SCHEME = re.compile(rb"[A-Za-z][A-Za-z0-9+.-]*:")
_PARTS = re.compile(rb"(https?:)//([^/?#]*)([^?#]*)(\?[^#]*)?", re.IGNORECASE | re.DOTALL)
# C0 controls and spaces around a reference, tabs and newlines anywhere in it: browsers drop them.
_ODD = re.compile(rb"[\x00-\x20\\]")
_DOTS = re.compile(rb"(?:^|/)(?:\.|%2[Ee]){1,2}(?:/|$)")
_ARCHIVED = re.compile(rb"(?:\d{1,14}|\*)(?:[a-z]{2}_)?/https?:/")
BASE_BYTES_MAX = 512
"""Of the folder or the page that relative references are resolved against: a letter may not become a page. Beyond,
they stay relative, and the browser resolves them, in the archive as well."""
ORIGIN_BYTES_MAX = 300
"""A host's name has 253 letters at most."""
_SPECIFIER = re.compile(rb"\.{0,2}/|https?:", re.IGNORECASE)
_NAMES_HOST = re.compile(rb"https?:|//", re.IGNORECASE)
_BLANKS = bytes(range(0x21))
_DROPPED = b"\t\n\r"
_DOT = re.compile(rb"\.|%2[Ee]")


def addresses_of(
    context: ReplayContext, escaped: Callable[[bytes], bytes] = lambda base: base
) -> "AddressRewriter":
    """`escaped` fits what comes from the page's own address into the language of the references."""
    return (
        AddressRewriter(context, escaped)
        if context.site is None
        else NamedAddresses(context, escaped, context.site)
    )


class AddressRewriter:
    """Of one page; `base` changes where `<base href>` says so."""

    def __init__(self, context: ReplayContext, escaped: Callable[[bytes], bytes] = lambda base: base) -> None:
        self._escaped = escaped
        self._prefix = context.archive_prefix.encode()
        self._head = self._prefix + context.timestamp.encode()
        self._portal = (context.portal_origin or "").encode()
        self.near = (self._prefix, self._portal) if self._portal else (self._prefix,)
        """What a reference starts with that may be of the archive already, so that it must be looked at closely."""
        self._set_base(context.page_url.partition("#")[0].encode("utf-8", "surrogateescape"))

    def _set_base(self, url: bytes) -> None:
        match = _PARTS.match(url)
        if match is None:
            # ftp, urn and the like: nothing is relative to them that we could show.
            self._scheme, self._origin, path = b"http:", b"http://invalid", b"/"
        else:
            self._scheme = match[1].lower()
            self._origin = self._scheme + b"//" + match[2]
            path = match[3] or b"/"
        self._origin, path = self._escaped(self._origin), self._escaped(path)
        self._page = self._origin + path
        self._folder = self._origin + path[: path.rfind(b"/") + 1]

    def move_base(self, reference: bytes) -> bytes:
        """What `<base href>` becomes; what follows is resolved against it. A malformed base stays."""
        absolute = self.resolve(reference)
        parts = None if absolute is None else _PARTS.match(absolute)
        if absolute is None or parts is None or len(parts[2]) > ORIGIN_BYTES_MAX:
            return reference
        self._set_base(absolute)
        return b"%s/%s" % (self._head, absolute)

    def rewrite(self, reference: bytes, flag: str) -> bytes:
        """The reference itself when it is nothing to be had from the archive."""
        absolute = self.resolve(reference)
        return reference if absolute is None else b"%s%s/%s" % (self._head, flag.encode(), absolute)

    def starts(self, flag: str) -> tuple[bytes, bytes, bytes, bytes]:
        """What a clean reference becomes an address in the archive by, put before it: one that is absolute,
        begins with two slashes, with one, with a name. Clean: see `markup.py`; and none of `near`."""
        head = b"%s%s/" % (self._head, flag.encode())
        below = head + self._folder if len(self._folder) <= BASE_BYTES_MAX else b""
        return head, head + self._scheme, head + self._origin, below

    def rewrite_absolute(self, reference: bytes, flag: str) -> bytes:
        """Only if it names a host: for values that are perhaps no addresses."""
        if reference[:4].lower() == b"http" or reference[:2] == b"//":
            return self.rewrite(reference, flag)
        return reference

    def module(self, specifier: bytes) -> bytes:
        """Of what an `import` names. One without a path is the import map's. With the portal's origin, as it may stand
        in a worker, whose own address is a blob's; and with one flag, or a module would be there twice."""
        if _SPECIFIER.match(specifier) is None:
            return specifier
        new = self.rewrite(specifier, Flag.SCRIPT)
        return self._portal + new if new[:1] == b"/" else new

    def stays(self, reference: bytes) -> bool:
        """Of a reference that is left as it is: whether it leads within the page, or into the archive."""
        local = reference.removeprefix(self._portal)
        return reference[:1] in (b"#", b"") or self._is_archived(local)

    def resolve(self, reference: bytes) -> bytes | None:
        """Absolute, http or https; None: leave it alone."""
        if _ODD.search(reference):
            reference = _tidy(reference)
        first = reference[:1]
        if first == b"/":
            if reference[:2] == b"//":
                return _normal(self._scheme + b"//" + reference.lstrip(b"/"))
            if self._is_archived(reference):
                return None
            return _normal(self._origin + reference)
        if first in (b"#", b""):
            return None
        scheme = _SCHEME.match(reference)
        if scheme is None:
            base = self._page if first == b"?" else self._folder
            if len(base) > BASE_BYTES_MAX:
                return None
            return base + reference if first == b"?" else _normal(base + reference)
        return self._resolve_absolute(reference, scheme[0].lower())

    def _is_archived(self, reference: bytes) -> bool:
        # With dots it may lead out again, whatever it looks like.
        return (
            reference.startswith(self._prefix)
            and _ARCHIVED.match(reference, len(self._prefix)) is not None
            and not _DOTS.search(reference)
        )

    def _resolve_absolute(self, reference: bytes, scheme: bytes) -> bytes | None:
        if scheme not in (b"http:", b"https:"):
            return None
        rest = reference[len(scheme) :]
        if rest[:2] == b"//":
            if rest[2:3] == b"/":
                rest = b"//" + rest.lstrip(b"/")
            local = reference.removeprefix(self._portal)
            if self._is_archived(reference) or (local is not reference and self._is_archived(local)):
                return None
            return _normal(scheme + rest)
        if scheme == self._scheme and rest[:1] != b"/":
            # `http:page.html` is relative where the schemes are the same (URL standard, special relative).
            return self.resolve(b"./" + rest) if rest[:1] not in (b"", b"?", b"#") else self.resolve(rest)
        if scheme == self._scheme:
            return self.resolve(rest)
        return _normal(scheme + b"//" + rest.lstrip(b"/"))


class NamedAddresses(AddressRewriter):
    """Of a page at its label: what is relative is left as it is, since it means there what it meant."""

    def __init__(self, context: ReplayContext, escaped: Callable[[bytes], bytes], site: NamedSite) -> None:
        super().__init__(context, escaped)
        self._site = site
        self.near = (b"http", b"//")

    def rewrite(self, reference: bytes, flag: str) -> bytes:
        tidy = _tidy(reference) if _ODD.search(reference) else reference
        if _NAMES_HOST.match(tidy) is None:
            return reference
        absolute = self.resolve(tidy)
        led = None if absolute is None else self._led(absolute)
        return reference if led is None else led

    def _led(self, absolute: bytes) -> bytes | None:
        parts = _PARTS.match(absolute)
        if parts is None:
            return None
        start = self._site.led(parts[1].lower() + b"//" + parts[2])
        return None if start is None else start + absolute[parts.end(2) :]

    def move_base(self, reference: bytes) -> bytes:
        super().move_base(reference)
        return self.rewrite(reference, Flag.PAGE)

    def starts(self, flag: str) -> tuple[bytes, bytes, bytes, bytes]:
        """Nothing: those with a host are looked at closely."""
        return b"", b"", b"", b""

    def module(self, specifier: bytes) -> bytes:
        return self.rewrite(specifier, Flag.SCRIPT)

    def stays(self, reference: bytes) -> bool:
        return _SCHEME.match(reference) is None

    def _is_archived(self, reference: bytes) -> bool:
        """What looks so is the archived site's own."""
        return False


def _tidy(reference: bytes) -> bytes:
    reference = reference.strip(_BLANKS).translate(None, _DROPPED)
    if b"\\" in reference:
        # Backslashes are slashes in http addresses, up to the query. A scheme of another kind keeps them.
        scheme = _SCHEME.match(reference)
        if scheme is None or scheme[0].lower() in (b"http:", b"https:"):
            end = min((at for at in map(reference.find, (b"?", b"#")) if at >= 0), default=len(reference))
            reference = reference[:end].replace(b"\\", b"/") + reference[end:]
    return reference


def _normal(url: bytes) -> bytes:
    """Without dot segments, which would climb out of the archive's prefix instead of the site's root."""
    if b"/." not in url and b"%2" not in url:
        return url
    match = _PARTS.match(url)
    if match is None or not _DOTS.search(match[3]):
        return url
    kept: list[bytes] = []
    segments = match[3].split(b"/")[1:]
    for number, segment in enumerate(segments):
        dots = _DOT.sub(b".", segment)
        is_last = number == len(segments) - 1
        if dots == b"..":
            if kept:
                kept.pop()
        elif dots != b".":
            kept.append(segment)
            continue
        if is_last:
            kept.append(b"")
    rest = url[match.end(3) :]
    return url[: match.start(3)] + b"/" + b"/".join(kept) + rest
