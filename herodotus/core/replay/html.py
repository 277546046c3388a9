"""How is a page led into the archive while it streams by? The states of the HTML standard's tokenizer.

Whole tokens only are looked at; what is not complete waits for more. So every split of the page gives the same
bytes. Memory is bounded: a tag longer than `TOKEN_BYTES_MAX` is left out, everything else that may be long
(comments, scripts, text, styles) streams through its own state. Elements are not matched to a tree; what
depends on one is known by its last tag alone (`svg` and `math`, where CDATA and empty tags mean something).
"""

import json
import re
from collections.abc import Callable
from typing import Final

from herodotus.core.replay import markup
from herodotus.core.replay.attributes import Attribute, Edit, TagEditor
from herodotus.core.replay.context import Flag, ReplayContext
from herodotus.core.replay.css import CssRewriter
from herodotus.core.replay.headers import media_type
from herodotus.core.replay.javascript import ScriptRewriter
from herodotus.core.replay.labels import BOX_CLIENT_PATH, CLIENT_PATH

BLOCK_BYTES = 256 * 1024
TOKEN_BYTES_MAX = 2 * 2**20
"""Pictures in attributes reach some hundred kB; a tag beyond this is left out of the page."""
IMPORT_MAP_BYTES_MAX = 512 * 1024
DEPTH_MAX = 3
"""Of pages within `srcdoc` within pages; what is deeper becomes empty."""

_NEEDS_MORE: Final = -1
_RAW_IN_SVG = frozenset({b"script", b"style"})


class HtmlRewriter:
    def __init__(self, context: ReplayContext, *, is_xml: bool = False, depth: int = 0) -> None:
        self._context = context
        self._is_xml = is_xml
        self._depth = depth
        self._editor = TagEditor(context, self._inner_page)
        self._simple_flags = {b"a": context.link_flag, b"img": Flag.IMAGE}
        self._set_starts()
        self._held = b""
        self._wanted = 0
        self._out: list[bytes] = []
        self._state = self._markup
        self._raw_name = b""
        self._escape = 0  # of a script's text: 0 none, 1 within `<!--`, 2 within a `<script` therein
        self._css: CssRewriter | None = None
        self._import_map: list[bytes] | None = None
        self._code: ScriptRewriter | None = None
        self._is_foreign = False
        self._guard = b""
        if context.is_guarded and (context.flag is Flag.PAGE or context.is_in_frame):
            script = f"{context.archive_prefix}{BOX_CLIENT_PATH}"
            if context.site is not None:
                script = f"{context.site.origin}{CLIENT_PATH}"
            self._guard = f'<script src="{script}"></script>'.encode()
        self._banner = context.banner if context.flag is Flag.PAGE and depth == 0 else b""
        self._has_frames = False

    def feed(self, data: bytes) -> bytes:
        for at in range(0, len(data), BLOCK_BYTES):
            self._held += data[at : at + BLOCK_BYTES] if len(data) > BLOCK_BYTES else data
            if len(self._held) >= self._wanted:
                self._process(is_last=False)
        return self._taken()

    def close(self) -> bytes:
        self._process(is_last=True)
        if self._css is not None:
            self._out.append(self._css.close())
        if self._banner and not self._has_frames and not self._is_xml and self._state == self._markup:
            self._out.append(self._banner)
        return self._taken()

    def _taken(self) -> bytes:
        out = b"".join(self._out)
        self._out.clear()
        return out

    def _process(self, *, is_last: bool) -> None:
        data = self._held
        low = data.lower()
        at = 0
        while True:
            at, needs_more = self._state(data, low, at, is_last)
            if needs_more:
                break
        self._held = data[at:]
        # What is not complete is looked at again when it has doubled, so that all is linear.
        self._wanted = 2 * len(self._held)

    # -- tags and text ------------------------------------------------------------------------------------------

    def _markup(self, data: bytes, low: bytes, at: int, is_last: bool) -> tuple[int, bool]:
        out, end = self._out, len(data)
        copied = at
        near = self._editor.addresses.near
        boring = self._boring()
        while True:
            match = boring(low, at)
            assert match is not None  # it may be empty
            at = match.end()
            kind = match.lastindex
            if kind is not None:
                start = match.start(kind)
                if kind != markup.RELATIVE and low.startswith(near, start):
                    # Rare: an address of the archive, or of a page that has such paths itself; at a label each with
                    # a host.
                    address = data[start : data.index(b'"', start)]
                    new = self._editor.addresses.rewrite(address, self._simple_flags[match[1]])
                    out += (data[copied:start], new)
                    copied = start + len(address)
                    continue
                out += (data[copied:start], self._starts[match[1]][kind - 2])
                copied = start
                continue
            if at == end:
                out.append(data[copied:])
                return end, True
            tag = markup.TAG.match(low, at)
            if tag is not None and tag.end() - at <= TOKEN_BYTES_MAX:
                out.append(data[copied:at])
                at = copied = self._tag(data, low, tag)
                if self._state != self._markup:
                    return at, False
                boring = self._boring()
                continue
            out.append(data[copied:at])
            return self._oddity(data, low, at, is_last)

    def _boring(self) -> Callable[[bytes, int], re.Match[bytes] | None]:
        """Before the guard every tag may be its place; in XML any may be one that has another prefix to its name."""
        return markup.PREFACE.match if self._guard or self._is_xml else markup.BORING.match

    def _oddity(self, data: bytes, low: bytes, at: int, is_last: bool) -> tuple[int, bool]:
        """Something with `<` that is no whole tag and no whole comment."""
        end = len(data)
        if not is_last and end - at < len(markup.CDATA):
            return at, True
        second = low[at + 1 : at + 2]
        third = low[at + 2 : at + 3]
        if second.isalpha() or (second == b"/" and third.isalpha()):
            if end - at > TOKEN_BYTES_MAX:
                return at + TOKEN_BYTES_MAX, False
            if not is_last:
                return at, True
            self._out.append(data[at:])  # browsers drop a tag that never ends
            return end, True
        start, self._state = at, self._bogus
        if low.startswith(b"<!--", at):
            short = markup.COMMENT_SHORT.match(low, at)
            at, self._state = (short.end(), self._markup) if short else (at + 4, self._comment)
        elif (self._is_foreign or self._is_xml) and low.startswith(markup.CDATA, at):
            at, self._state = at + len(markup.CDATA), self._cdata
        elif self._is_xml and second == b"?":
            return self._instruction(data, low, at, is_last)
        elif second in (b"!", b"?", b"/") and end - at > 1:
            at += 2
        else:
            at, self._state = at + 1, self._markup
        self._out.append(data[start:at])
        return at, False

    def _tag(self, data: bytes, low: bytes, match: re.Match[bytes]) -> int:
        start, end = match.span()
        name = match[1]
        if low[start + 1 : start + 2] == b"/":
            if name in (b"svg", b"math"):
                self._is_foreign = False
            self._out.append(data[start:end])
            return end
        if self._guard and name not in (b"html", b"head") and not self._is_xml:
            self._put_guard()
        attributes = _attributes(data, low, match.end(1), end)
        if self._is_xml and b":" in low[start:end]:  # prefixes are the page's own choice
            attributes = [_unprefixed(one) for one in attributes]
        edits = self._editor.edits(
            name.rpartition(b":")[2] if self._is_xml else name, attributes, match.end(1)
        )
        self._put(data, start, end, edits)
        is_empty = low[end - 2 : end] == b"/>"
        if name == b"head" and self._guard:
            self._put_guard()
        elif name == b"body" and self._banner:
            self._out.append(self._banner)
            self._banner = b""
        elif name == b"base":
            self._set_starts()
        elif name == b"frameset":
            self._has_frames = True
        elif name in (b"svg", b"math"):
            self._is_foreign = not is_empty
        elif name == b"plaintext" and not self._is_xml:
            self._state = self._rest
        elif name in markup.RAW_END:
            self._enter_raw(name, attributes, is_empty)
        return end

    def _set_starts(self) -> None:
        starts = self._editor.addresses.starts
        self._starts = {tag: starts(flag) for tag, flag in self._simple_flags.items()}

    def _put_guard(self) -> None:
        self._out.append(self._guard)
        self._guard = b""

    def _put(self, data: bytes, start: int, end: int, edits: list[Edit]) -> None:
        copied = start
        for edit_start, edit_end, new in edits:
            self._out += (data[copied:edit_start], new)
            copied = edit_end
        self._out.append(data[copied:end])

    def _inner_page(self, text: bytes) -> bytes:
        if self._depth >= DEPTH_MAX:
            return b""
        inner = HtmlRewriter(self._context, depth=self._depth + 1)
        return inner.feed(text) + inner.close()

    # -- text that is no markup ---------------------------------------------------------------------------------

    def _enter_raw(self, name: bytes, attributes: list[Attribute], is_empty: bool) -> None:
        in_xml = self._is_foreign or self._is_xml
        if in_xml and (is_empty or name not in _RAW_IN_SVG):
            return
        self._raw_name = name
        self._state = self._raw
        if name == b"style":
            self._css = CssRewriter(self._editor.style_addresses)
        elif name == b"script":
            self._escape = 0
            self._state = self._script
            kind = next((one.value for one in attributes if one.name == b"type"), b"")
            kind = kind.strip().lower()
            self._import_map = [] if kind == b"importmap" else None
            if kind in (b"", b"module") or media_type([kind.decode("latin-1")]).is_script:
                self._code = ScriptRewriter(self._editor.plain.module, self._context.script_url)

    def _raw(self, data: bytes, low: bytes, at: int, is_last: bool) -> tuple[int, bool]:
        found = markup.RAW_END[self._raw_name].search(low, at)
        if found is not None:
            self._pass(data[at : found.start()])
            self._leave_raw()
            return found.start(), False
        cut = len(data) if is_last else max(at, len(data) - len(self._raw_name) - 2)
        self._pass(data[at:cut])
        return cut, True

    def _script(self, data: bytes, low: bytes, at: int, is_last: bool) -> tuple[int, bool]:
        """HTML standard, script data states: `<!--` and `<script` in a script can hide its end."""
        start = at
        while (step := markup.SCRIPT_STEP.search(low, at)) is not None:
            at = step.end()
            token = step[0]
            if token == b"<!--":
                if self._escape == 0:
                    self._escape = 1
                at -= 2  # `<!-->` is both
            elif token == b"-->":
                self._escape = 0
            elif step[1] and self._escape == 2:
                self._escape = 1
            elif step[1]:
                self._pass(data[start : step.start()])
                self._leave_raw()
                return step.start(), False
            elif self._escape == 1:
                self._escape = 2
        cut = len(data) if is_last else max(at, len(data) - len(b"</script"))
        self._pass(data[start:cut])
        if is_last:
            self._leave_script()
        return cut, True

    def _pass(self, text: bytes) -> None:
        if self._css is not None:
            self._out.append(self._css.feed(text))
        elif self._code is not None:
            self._out.append(self._code.feed(text))
        elif self._import_map is not None:
            self._import_map.append(text)
            if sum(map(len, self._import_map)) > IMPORT_MAP_BYTES_MAX:
                self._import_map = [b""]  # a map too long to be read maps nothing
        else:
            self._out.append(text)

    def _leave_raw(self) -> None:
        if self._css is not None:
            self._out.append(self._css.close())
            self._css = None
        self._leave_script()
        self._state = self._markup

    def _leave_script(self) -> None:
        if self._code is not None:
            self._out.append(self._code.close())
            self._code = None
        if self._import_map is not None:
            self._out.append(self._mapped(b"".join(self._import_map)))
            self._import_map = None

    def _mapped(self, text: bytes) -> bytes:
        """An import map's targets and scopes. What browsers could not read is left for them to complain of."""
        try:
            read = json.loads(text)
        except (ValueError, RecursionError):
            return text
        if not isinstance(read, dict):
            return text
        scopes = read.get("scopes")
        new: dict[str, object] = {"imports": self._targets(read.get("imports"))}
        if isinstance(scopes, dict):
            new["scopes"] = {self._module(scope): self._targets(targets) for scope, targets in scopes.items()}
        return json.dumps(new).replace("<", "\\u003c").encode()

    def _targets(self, targets: object) -> dict[str, object]:
        if not isinstance(targets, dict):
            return {}
        return {
            self._module(name): self._module(target) if isinstance(target, str) else None
            for name, target in targets.items()
        }

    def _module(self, address: str) -> str:
        plain = self._editor.plain.module(address.encode("utf-8", "surrogatepass"))
        return plain.decode("utf-8", "surrogatepass")

    # -- what passes untouched ----------------------------------------------------------------------------------

    def _comment(self, data: bytes, low: bytes, at: int, is_last: bool) -> tuple[int, bool]:
        found = markup.COMMENT_END.search(low, at)
        return self._until(data, at, found.end() if found else _NEEDS_MORE, 3, is_last)

    def _bogus(self, data: bytes, low: bytes, at: int, is_last: bool) -> tuple[int, bool]:
        return self._until(data, at, low.find(b">", at) + 1 or _NEEDS_MORE, 0, is_last)

    def _cdata(self, data: bytes, low: bytes, at: int, is_last: bool) -> tuple[int, bool]:
        found = low.find(b"]]>", at)
        return self._until(data, at, found + 3 if found >= 0 else _NEEDS_MORE, 2, is_last)

    def _rest(self, data: bytes, low: bytes, at: int, is_last: bool) -> tuple[int, bool]:
        return self._until(data, at, _NEEDS_MORE, 0, is_last)

    def _until(self, data: bytes, at: int, end: int, kept: int, is_last: bool) -> tuple[int, bool]:
        if end != _NEEDS_MORE:
            self._out.append(data[at:end])
            self._state = self._markup
            return end, False
        cut = len(data) if is_last else max(at, len(data) - kept)
        self._out.append(data[at:cut])
        return cut, True

    def _instruction(self, data: bytes, low: bytes, at: int, is_last: bool) -> tuple[int, bool]:
        """`<?xml-stylesheet href=...?>` loads something; other instructions pass."""
        end = low.find(b"?>", at)
        if end < 0 and not is_last and len(data) - at <= TOKEN_BYTES_MAX:
            self._state = self._markup
            return at, True
        end = end + 2 if 0 <= end <= at + TOKEN_BYTES_MAX else min(len(data), at + TOKEN_BYTES_MAX)
        sheet = markup.XML_STYLESHEET.match(low, at, end)
        edits = []
        if sheet is not None:
            start, stop = sheet.span(1)
            edits = [(start, stop, self._editor.addresses.rewrite(data[start:stop], Flag.STYLE))]
        self._put(data, at, end, edits)
        self._state = self._markup
        return end, False


def _unprefixed(attribute: Attribute) -> Attribute:
    return attribute._replace(name=b"xlink:href") if attribute.name.endswith(b":href") else attribute


def _attributes(data: bytes, low: bytes, start: int, end: int) -> list[Attribute]:
    found = []
    for match in markup.ATTRIBUTE.finditer(low, start, end):
        group = match.lastindex or 1
        if group == 1:
            found.append(Attribute(match[1], match.start(), match.end(), match.end(), b"", b""))
            continue
        value_start, value_end = match.span(group)
        quote = b'"' if group == 2 else b"'" if group == 3 else b""
        found.append(
            Attribute(match[1], match.start(1), value_start, value_end, quote, data[value_start:value_end])
        )
    return found
