"""What has to change in one tag? Its attributes, each by what browsers do with it.

Addresses are led into the archive with the flag of what they are asked for as. What would forbid the page to
work in its new place (digests of contents that we rewrite, policies of the old site, cookies) is disarmed by
another name, so that it can still be read in the source.
"""

import re
from collections.abc import Callable
from itertools import islice
from typing import NamedTuple

from herodotus.core.replay.context import Flag, ReplayContext, addresses_of
from herodotus.core.replay.css import CssRewriter, css_escaped
from herodotus.core.replay.entities import SUSPICIOUS, quote_base, read_address, read_text, write_text
from herodotus.core.replay.headers import refreshed

DISARMED = b"data-archived-"
SRCSET_CANDIDATES_MAX = 1_000
LISTED_MAX = 1_000
"""Addresses in an attribute that lists them; each may become some hundred bytes."""
STYLE_PIECE_BYTES = 16 * 1024
STYLE_BYTES_MAX = 4 * 2**20
"""Of what one `style` attribute becomes; one that is more is left out."""

_PAGE, _IMAGE, _SCRIPT, _STYLE, _EMBEDDED, _FRAME = (
    "page", Flag.IMAGE, Flag.SCRIPT, Flag.STYLE, Flag.EMBEDDED, Flag.FRAME,
)  # fmt: skip
_ANY_TAG: dict[bytes, str] = {
    b"href": _PAGE, b"src": _IMAGE, b"srcset": "srcset", b"imagesrcset": "srcset", b"style": "style", b"action": _PAGE,
    b"formaction": _PAGE, b"background": _IMAGE, b"cite": _PAGE, b"longdesc": _PAGE, b"poster": _IMAGE,
    b"ping": "list", b"lowsrc": _IMAGE, b"dynsrc": _EMBEDDED, b"imagesrc": _IMAGE, b"manifest": _EMBEDDED,
    b"xlink:href": _IMAGE, b"xml:base": _PAGE, b"integrity": "disarm", b"nonce": "disarm", b"referrerpolicy": "disarm",
    b"crossorigin": "credentials", b"target": "target", b"formtarget": "target",
}  # fmt: skip
_AS_WRITTEN_WHEN_NAMED = frozenset({b"target", b"formtarget", b"nonce", b"crossorigin"})
_BY_TAG: dict[tuple[bytes, bytes], str] = {
    (b"script", b"src"): _SCRIPT, (b"script", b"href"): _SCRIPT, (b"script", b"xlink:href"): _SCRIPT,
    (b"iframe", b"src"): _FRAME, (b"frame", b"src"): _FRAME, (b"iframe", b"srcdoc"): "srcdoc",
    (b"embed", b"src"): _EMBEDDED, (b"video", b"src"): _EMBEDDED, (b"audio", b"src"): _EMBEDDED,
    (b"source", b"src"): _EMBEDDED, (b"track", b"src"): _EMBEDDED, (b"bgsound", b"src"): _EMBEDDED,
    (b"object", b"data"): _EMBEDDED, (b"object", b"codebase"): _EMBEDDED, (b"object", b"archive"): "list",
    (b"applet", b"codebase"): _EMBEDDED, (b"applet", b"archive"): "commas", (b"applet", b"code"): "perhaps",
    (b"embed", b"code"): "perhaps", (b"a", b"xlink:href"): _PAGE, (b"image", b"href"): _IMAGE,
    (b"use", b"href"): _IMAGE,
    (b"feimage", b"href"): _IMAGE, (b"layer", b"src"): _FRAME, (b"ilayer", b"src"): _FRAME,
}  # fmt: skip
_BY_RELATION = {
    b"stylesheet": _STYLE, b"icon": _IMAGE, b"apple-touch-icon": _IMAGE, b"apple-touch-icon-precomposed": _IMAGE,
    b"mask-icon": _IMAGE, b"fluid-icon": _IMAGE, b"apple-touch-startup-image": _IMAGE, b"image_src": _IMAGE,
    b"modulepreload": _SCRIPT, b"manifest": _EMBEDDED, b"import": _FRAME,
}  # fmt: skip
_BY_DESTINATION = {
    b"image": _IMAGE, b"script": _SCRIPT, b"worker": _SCRIPT, b"style": _STYLE, b"document": _FRAME,
    b"iframe": _FRAME,
}  # fmt: skip
_HARMLESS_META = frozenset(
    {b"content-type", b"content-language", b"default-style", b"x-ua-compatible", b"refresh"}
)
_ADDRESS_PARAMETERS = frozenset({b"movie", b"src", b"url", b"data", b"filename", b"source", b"href", b"file"})
_CANDIDATE = re.compile(rb"[\t\n\f\r ,]*+([^\t\n\f\r ]++)")
_DESCRIPTORS = re.compile(rb"(?:[^,(]++|\([^)]*+\)?)*+")
_WORD = re.compile(rb"[^\t\n\f\r ]++")
_BETWEEN_COMMAS = re.compile(rb"[^,\t\n\f\r ]++")

Edit = tuple[int, int, bytes]


class Attribute(NamedTuple):
    """A tuple, as a page has hundreds. Where it stands in the page, quotes of the value left out."""

    name: bytes
    """In lower case."""
    name_start: int
    start: int
    end: int
    quote: bytes
    """Empty for a bare value."""
    value: bytes


class TagEditor:
    def __init__(self, context: ReplayContext, page: Callable[[bytes], bytes]) -> None:
        """`page` rewrites an inner document (`srcdoc`)."""
        self._link_flag = context.link_flag
        self._context = context
        self._page = page
        self.addresses = addresses_of(context, quote_base)
        """For attributes."""
        self.plain = addresses_of(context)
        self.style_addresses = addresses_of(context, css_escaped)
        self._has_base = False
        # At a label a page has an origin, and our script knows where its links lead.
        self._is_named = context.site is not None

    def edits(self, tag: bytes, attributes: list[Attribute], name_end: int = 0) -> list[Edit]:
        """In the order of the page. `name_end`: of the tag's name."""
        asks = tag in _ASK_LEAVE and self._context.is_guarded and not self._is_named
        asking = _asking(tag, attributes, name_end) if asks else []
        special = _SPECIAL_TAGS.get(tag)
        if special is not None:
            return asking + special(self, attributes)
        for attribute in attributes:
            self._edit_plain(tag, attribute, asking)
        return asking

    def _edit_plain(self, tag: bytes, attribute: Attribute, found: list[Edit]) -> None:
        action = _BY_TAG.get((tag, attribute.name)) or _ANY_TAG.get(attribute.name)
        if self._is_named and attribute.name in _AS_WRITTEN_WHEN_NAMED:
            return
        if action is not None:
            self._apply(action, attribute, found)
        elif attribute.name[:5] == b"data-" and not self._is_named:
            self._apply_data(attribute, found)

    def address(self, value: bytes, flag: str, *, is_quoted: bool) -> bytes:
        if b"&" in value and SUSPICIOUS.search(value):
            plain = read_address(value, is_quoted=is_quoted)
            new = self.addresses.rewrite(plain, flag)
            return value if new is plain else new
        return self.addresses.rewrite(value, flag)

    def _apply(self, action: str, attribute: Attribute, found: list[Edit]) -> None:
        value = attribute.value
        if action == "disarm":
            found.append((attribute.name_start, attribute.name_start, DISARMED))
            return
        if not value:
            return
        text = _TEXTS.get(action)
        if text is not None:
            before = read_text(value)
            after = text(self, before)
            if after != before:
                _put_text(attribute, after, found)
            return
        if action == "credentials":
            if value.strip().lower() == b"use-credentials":
                found.append((attribute.name_start, attribute.name_start, DISARMED))
            return
        if action == "perhaps":
            new = self.addresses.rewrite_absolute(value, Flag.EMBEDDED)
        else:
            flag = self._link_flag if action == "page" else action
            new = self.address(value, flag, is_quoted=bool(attribute.quote))
        if new != value:
            found.append((attribute.start, attribute.end, new))

    def _apply_data(self, attribute: Attribute, found: list[Edit]) -> None:
        """What scripts copy to real attributes: only what names a host, as all else may mean anything."""
        if attribute.name.endswith(b"srcset"):
            self._apply("srcset", attribute, found)
        elif not _WORD.fullmatch(attribute.value.strip()):
            return
        else:
            is_page = attribute.name in (
                b"data-href",
                b"data-url",
                b"data-link",
                b"data-uri",
                b"data-permalink",
            )
            flag = self._link_flag if is_page else Flag.IMAGE
            new = self.addresses.rewrite_absolute(attribute.value, flag)
            if new != attribute.value:
                found.append((attribute.start, attribute.end, new))

    # -- values that hold more than an address: text in, text out ---------------------------------------------

    def _style(self, text: bytes) -> bytes:
        rewriter = CssRewriter(self.style_addresses)
        out: list[bytes] = []
        size = 0
        for at in range(0, len(text), STYLE_PIECE_BYTES):
            out.append(rewriter.feed(text[at : at + STYLE_PIECE_BYTES]))
            size += len(out[-1])
            if size > STYLE_BYTES_MAX:
                return b""
        out.append(rewriter.close())
        return b"".join(out) if size + len(out[-1]) <= STYLE_BYTES_MAX else b""

    def _srcset(self, text: bytes) -> bytes:
        """HTML standard, "parse a srcset attribute"."""
        out: list[bytes] = []
        at = copied = 0
        for _ in range(SRCSET_CANDIDATES_MAX):
            candidate = _CANDIDATE.match(text, at)
            if candidate is None:
                break
            address = candidate[1].rstrip(b",")
            start, end = candidate.start(1), candidate.start(1) + len(address)
            out += (text[copied:start], self.plain.rewrite(address, Flag.IMAGE))
            copied = end
            at = candidate.end()
            if end == at:
                descriptors = _DESCRIPTORS.match(text, at)
                at = descriptors.end() if descriptors else len(text)
        else:
            return b"".join(out)  # the rest of a longer list is lost
        return b"".join((*out, text[copied:]))

    def _list(self, text: bytes) -> bytes:
        return _each(_WORD, text, lambda address: self.plain.rewrite(address, Flag.EMBEDDED))

    def _commas(self, text: bytes) -> bytes:
        return _each(
            _BETWEEN_COMMAS, text, lambda address: self.plain.rewrite_absolute(address, Flag.EMBEDDED)
        )

    def _target(self, text: bytes) -> bytes:
        # Archived pages may open no windows, where the link would do nothing at all.
        return b"_top" if text.strip().lower() in (b"_blank", b"_new") else text

    def _refresh(self, text: bytes) -> bytes:
        return refreshed(text, self.plain, self._context)

    # -- tags whose attributes depend on each other -------------------------------------------------------------

    def _edit_base(self, attributes: list[Attribute]) -> list[Edit]:
        found: list[Edit] = []
        for attribute in attributes:
            if attribute.name == b"href" and not self._has_base:
                # The first base counts, even with a malformed address.
                self._has_base = True
                written = read_address(attribute.value, is_quoted=bool(attribute.quote))
                new = self.addresses.move_base(written)
                self.plain.move_base(read_text(attribute.value))
                self.style_addresses.move_base(read_text(attribute.value))
                if new != written:
                    found.append((attribute.start, attribute.end, new))
            elif attribute.name == b"href":
                self._apply("page", attribute, found)
            elif attribute.name == b"target" and not self._is_named:
                self._apply("target", attribute, found)
        return found

    def _edit_link(self, attributes: list[Attribute]) -> list[Edit]:
        relations = _value_of(attributes, b"rel").lower().split()
        flag = next((_BY_RELATION[one] for one in relations if one in _BY_RELATION), _PAGE)
        if flag == _PAGE and (b"preload" in relations or b"prefetch" in relations):
            flag = _BY_DESTINATION.get(_value_of(attributes, b"as").lower(), _EMBEDDED)
        found: list[Edit] = []
        for attribute in attributes:
            action = flag if attribute.name == b"href" else _ANY_TAG.get(attribute.name)
            if action is not None:
                self._apply(action, attribute, found)
        return found

    def _edit_meta(self, attributes: list[Attribute]) -> list[Edit]:
        says = _value_of(attributes, b"http-equiv").strip().lower()
        is_referrer = _value_of(attributes, b"name").strip().lower() == b"referrer"
        found: list[Edit] = []
        for attribute in attributes:
            if (attribute.name == b"http-equiv" and says not in _HARMLESS_META) or (
                attribute.name == b"name" and is_referrer
            ):
                self._apply("disarm", attribute, found)
            elif attribute.name == b"content" and says == b"refresh":
                self._apply("refresh", attribute, found)
        return found

    def _edit_param(self, attributes: list[Attribute]) -> list[Edit]:
        is_address = _value_of(attributes, b"name").strip().lower() in _ADDRESS_PARAMETERS
        found: list[Edit] = []
        for attribute in attributes:
            if attribute.name == b"value":
                self._apply(_EMBEDDED if is_address else "perhaps", attribute, found)
        return found

    def _edit_script(self, attributes: list[Attribute]) -> list[Edit]:
        """What a page would have fetched ahead is fetched past all policies: such rules become data of no type."""
        found: list[Edit] = []
        for attribute in attributes:
            if (
                attribute.name == b"type"
                and read_text(attribute.value).strip().lower() == b"speculationrules"
            ):
                found.append((attribute.start, attribute.start, b"archived-"))
            else:
                self._edit_plain(b"script", attribute, found)
        return found

    def inner_page(self, text: bytes) -> bytes:
        return self._page(text)


_SPECIAL_TAGS: dict[bytes, Callable[[TagEditor, list[Attribute]], list[Edit]]] = {
    b"base": TagEditor._edit_base,
    b"link": TagEditor._edit_link,
    b"meta": TagEditor._edit_meta,
    b"param": TagEditor._edit_param,
    b"script": TagEditor._edit_script,
}
_ASK_LEAVE = frozenset({b"script", b"link", b"video", b"audio"})
_TEXTS: dict[str, Callable[[TagEditor, bytes], bytes]] = {
    "style": TagEditor._style,
    "srcset": TagEditor._srcset,
    "list": TagEditor._list,
    "commas": TagEditor._commas,
    "target": TagEditor._target,
    "refresh": TagEditor._refresh,
    "srcdoc": TagEditor.inner_page,
}


def _asking(tag: bytes, attributes: list[Attribute], name_end: int) -> list[Edit]:
    """A page in the sandbox has no origin: it may look into scripts and styles, and have subtitles, only if it asks for
    leave, which every answer of the archive gives."""
    named = {one.name: one.value.lower() for one in attributes}
    if named.get(b"crossorigin", b"use-credentials").strip() != b"use-credentials":
        return []
    if tag == b"script" and not {b"src", b"href", b"xlink:href"} & set(named):
        return []
    if tag == b"link" and not {b"stylesheet", b"preload"} & set(named.get(b"rel", b"").split()):
        return []
    return [(name_end, name_end, b' crossorigin=""')]


def _each(word: re.Pattern[bytes], text: bytes, rewrite: Callable[[bytes], bytes]) -> bytes:
    """Of a list of more than `LISTED_MAX` the rest is lost."""
    out: list[bytes] = []
    copied = 0
    for match in islice(word.finditer(text), LISTED_MAX):
        out += (text[copied : match.start()], rewrite(match[0]))
        copied = match.end()
    if word.search(text, copied) is None:
        out.append(text[copied:])
    return b"".join(out)


def _value_of(attributes: list[Attribute], name: bytes) -> bytes:
    """Of the first, as browsers drop the others."""
    return next((read_text(one.value) for one in attributes if one.name == name), b"")


def _put_text(attribute: Attribute, text: bytes, found: list[Edit]) -> None:
    edges = 1 if attribute.quote else 0
    found.append((attribute.start - edges, attribute.end + edges, b'"' + write_text(text) + b'"'))
