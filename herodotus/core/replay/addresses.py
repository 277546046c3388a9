"""Which address in the archive stands for a reference on an archived page?

A reference is resolved as a browser would resolve it (URL standard), on bytes and without decoding: what is
not ASCII stays as it is, as the browser that reads the page escapes it the same way behind the archive's
prefix. Nearly all references take one of four short ways; only those with dots, backslashes or blanks are
taken apart. What is no address of the web (`data:`, `javascript:`, `mailto:`, `#top`) and what is in the
archive already stays untouched.
"""

import re
from collections.abc import Callable

from herodotus.core.replay.context import ReplayContext

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
_BLANKS = bytes(range(0x21))
_DROPPED = b"\t\n\r"
_DOT = re.compile(rb"\.|%2[Ee]")


class AddressRewriter:
    """Of one page; `base` changes where `<base href>` says so."""

    def __init__(self, context: ReplayContext, escaped: Callable[[bytes], bytes] = lambda base: base) -> None:
        """`escaped` fits what comes from the page's own address into the language of the references."""
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
