"""What does a script ask for? Addresses in JavaScript and JSON, each with the rule that found it.

A script that imports another says so in plain words, as does one that names its workers. What bundlers leave for the
browser are tables: webpack's is an expression that makes a file's name of a number, read here by descent; those of Vite
and of AMD are lists. Last come strings that look like files: these are doubtful, and a page has few tries of them.

The rules read tokens (`crawler.core.javascript`) and run nothing. Where an address is relative to what only the running
script knows, there are several guesses, each a rule of its own; one that hits nothing at a host rests there.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from types import MappingProxyType
from typing import NamedTuple

from crawler.core.chunks import chunk_names
from crawler.core.javascript import Token, TokenKind, between, text_of, tokens
from crawler.core.link import Rule
from crawler.core.patterns import (
    PATTERNS_LOOKED_AT_MAX,
    PATTERNS_MAX,
    PICTURES_MAX,
    Pattern,
    guesses,
    is_start,
    map_tiles,
    may_be_file,
    sum_at,
    template_at,
)

REFERENCE_CHARS_MAX = 2_000
STRING_CHARS_MAX = 200
"""Of a string that only looks like a file: longer ones are data."""
DOUBTFUL_MAX = 64
"""Of one page or script, what may be an address: a string that looks like a file is up to three (measured beside the
page alone: of 585 such strings 126 exist)."""

IN_PAGE_MAX = 24
"""Of what a script makes names of, beside the page: most lies where the script does."""

AMD = "amd!"
"""Before the names of AMD modules in a map; alone it is the folder of those that the map does not name."""
CONFIG_CHARS_MAX = 16_384
PATHS_MAX = 500
_CONFIG = re.compile(r"\s*(?:\.\s*config\s*\(|=)\s*\{")
_BASE_URL = re.compile(r"\bbaseUrl[\"']?\s*:\s*[\"']([^\"'\n]{0,500})[\"']")
_PATHS = re.compile(r"\bpaths[\"']?\s*:\s*\{([^{}]*)\}")
_PATH = re.compile(r"[\"']?([\w.@/-]{1,200})[\"']?\s*:\s*\[?\s*[\"']([^\"'\n]{1,500})[\"']")
_CALLED = frozenset(["import", "URL", "Worker", "SharedWorker", "importScripts", "register"])
_LISTED = frozenset(["define", "require", "requirejs"])
_PRELOADS = "__vite__mapDeps"
_TABLES = frozenset(["u", "miniCssF", "p"])
_WORDS = _CALLED | _LISTED | _TABLES | {"from", _PRELOADS}
_ASKS = re.compile(
    r"\bimport\b|\bexport\b|Worker|importScripts|\bdefine\b|\brequire|__vite__mapDeps|NAVTREEINDEX"
    r"|\.(?:u|p|miniCssF)\s*="
)
_BESIDE_THIS = re.compile(r"\s*,\s*import\s*\.\s*meta\s*\.\s*url\b")
_ENDS_ARGUMENT = re.compile(r"\s*[,)]")
_PUBLIC_PATH = re.compile(r"\s*=\s*(?:\"([^\"\\\n]{0,500})\"|'([^'\\\n]{0,500})')")
_NAMES_OF = re.compile(
    r"\s*=\s*(?:\(?\s*([\w$]+)\s*\)?\s*=>\s*|function\s*\(\s*([\w$]+)\s*\)\s*\{\s*return\s+)"
)
_RETURNS = re.compile(r"\breturn\s+[\w$]+\.\Z")
_ADDS = re.compile(r"\s*\+\s*")
_FILE_ENDS = re.compile(
    r"\.(?:m?js|css|json|md|png|jpe?g|gif|svg|webp|avif|ico|woff2?|ttf|wasm|mp[34]|webm|glb|gltf)\b"
)
_FILE = re.compile(
    r"(?:\.{1,2}/|/(?!/))?(?:[\w@~%+-][\w.@~%+-]*/)*[\w@~%+-][\w.@~%+-]*"
    r"\.(?:m?js|css|json|html?|png|jpe?g|gif|svg|webp|avif|ico|cur|woff2?|ttf|otf|eot|wasm|mp[34]|webm|og[gv]|m4a|pdf"
    r"|glb|gltf|bin|hdr|exr|ktx2|obj|mtl|vtt|xml|txt|md|ya?ml|csv|geojson|data|zip|map)(?:\?[\w=&.%-]*)?"
)
_PICTURE = re.compile(r"\.(?:png|gif|svg|jpe?g|webp)\Z")
_CODE_POINTS = re.compile(r"(?:\A|/)[0-9a-f]{4,5}(?:-[0-9a-f]{2,5})*\.(?:png|svg|gif|webp)(?:\Z|\?)")
_IN_MARKUP = re.compile(r"(?:\A|\bsrc\s{0,5}=\s{0,5}[\"'])([^\"'\s<>]{1,200})[\"']")
"""Of a string that is markup, or goes on with it after an address was put together."""
MARKUP_FILES_MAX = 20
_NAVIGATION = re.compile(r"\bNAVTREEINDEX\s*+=\s*+\[((?:\s*+\"[^\"\n]{0,300}+\"\s*+,?+){1,2000}+)\s*+\]")
"""Doxygen's: each entry is the first page of a file `navtreeindexN.js`."""
_FIRST_OR_NEXT = ("", ",")
_GLOBALS = frozenset(["URL", "Worker", "SharedWorker", "importScripts"])
"""Also asked of `window` and `self`."""
_JSON_STRING = re.compile(r"(?:\"(src|icon)\"\s{0,20}:\s{0,20})?\"((?:[^\"\\\n]|\\/){0,500})\"")
IMPORT_MAP_CHARS_MAX, IMPORTS_MAX = 2**18, 2_000
_NOT_MODULES = frozenset(["require", "exports", "module"])
_MODULE = re.compile(r"[\w.@/-]+")


class ScriptReference(NamedTuple):
    address: str
    rule: Rule
    is_of_page: bool = False
    """Relative to the page that the script runs in, not to the script."""


def is_file_name(text: str) -> bool:
    """Whether it looks like the address of a file by its ending."""
    return _FILE.fullmatch(text[: STRING_CHARS_MAX + 1]) is not None


class PageNames(NamedTuple):
    """What a page, and the scripts that led from it, tell the next script."""

    modules: Mapping[str, str] = MappingProxyType({})
    """Canonical addresses by the names that modules call them, whichever file these stand in."""
    words: tuple[str, ...] = ()
    """Of which a script may make names of files."""
    home: str = ""
    """The folder of the script that the page itself names, as libraries ask for their files from there."""


NO_NAMES = PageNames()


class Named(NamedTuple):
    """What a script says modules are called."""

    address: str
    is_of_page: bool


def script_references(
    source: str,
    *,
    names: PageNames = NO_NAMES,
    named: dict[str, Named] | None = None,
    own_name: str = "",
    is_doubt_wanted: bool = True,
) -> Iterator[ScriptReference]:
    """In the order of the script, doubtful ones last; the same one may come twice. `names`: those of its page;
    `named` is given what modules the script adds to them; `own_name`: of a script that is a file."""
    if _ASKS.search(source) is None and not (is_doubt_wanted and _FILE_ENDS.search(source)):
        return
    reading = _Reading(source, names, own_name)
    yield from reading.references()
    if named is not None:
        named |= reading.named
    if is_doubt_wanted:
        yield from reading.doubtful
        for tile in () if own_name else map_tiles(source):
            yield ScriptReference(tile, Rule.PATTERNS_IN_PAGE, is_of_page=True)
        made = guesses(source, reading.patterns, names.words, own_name=own_name, pictures=reading.pictures)
        for place, name in enumerate(made):
            if names.home:
                yield ScriptReference(names.home + name, Rule.PATTERNS)
            if place < IN_PAGE_MAX:
                yield ScriptReference(name, Rule.PATTERNS_IN_PAGE, is_of_page=True)


class _Reading:
    """Of one script, token by token: what a string means is told by the word and the bracket before it."""

    def __init__(self, source: str, names: PageNames, own_name: str) -> None:
        self._source = source
        self._import_map = names.modules
        self._stem = own_name.removesuffix(".js")
        self.patterns: list[Pattern] = []
        self.pictures: list[str] = []
        self._sum_end = 0
        self._patterns_left = PATTERNS_LOOKED_AT_MAX
        self._word = self._call = self._list = ""
        self._awaits_preloads = False
        self._names: dict[str, None] = {}
        self._public: str | None = None
        self._doubtful: dict[ScriptReference, None] = {}
        self.named: dict[str, Named] = {}

    def references(self) -> Iterator[ScriptReference]:
        source, last_end = self._source, 0
        for token in tokens(source, _WORDS):
            gap = between(source, last_end, token.start)
            last_end = token.end
            match token.kind:
                case TokenKind.STRING | TokenKind.TEMPLATE:
                    if token.start >= self._sum_end and is_start(source, token.start, token.end):
                        self._note_pattern(sum_at, token.start)
                    yield from self._read_string(token, gap)
                case TokenKind.PIECE if source[token.start - 1] == "`":
                    self._word = self._call = self._list = ""
                    self._note_pattern(template_at, token.start - 1)
                case TokenKind.OPEN:
                    self._open(token, gap)
                case TokenKind.WORD:
                    self._note(token)
                case _:
                    self._word = self._call = self._list = ""
        yield from self._chunks()
        if (navigation := _NAVIGATION.search(source)) is not None:
            for number in range(navigation[1].count('"') // 2):
                yield ScriptReference(f"navtreeindex{number}.js", Rule.CHUNKS)

    @property
    def doubtful(self) -> Iterator[ScriptReference]:
        return islice(self._doubtful, DOUBTFUL_MAX)

    def _note_pattern(self, read: Callable[[str, int], tuple[Pattern, int]], start: int) -> None:
        self._patterns_left -= 1
        if self._patterns_left >= 0 and len(self.patterns) < PATTERNS_MAX:
            pattern, self._sum_end = read(self._source, start)
            if may_be_file(pattern):
                self.patterns.append(pattern)

    def _read_string(self, token: Token, gap: str) -> Iterator[ScriptReference]:
        word, call = self._word, self._call
        self._word = ""
        address = text_of(self._source, token) if token.end - token.start <= REFERENCE_CHARS_MAX else ""
        if self._list:
            if self._list == _PRELOADS:
                yield from _preload(address)
            else:
                self._doubt_module(address)
            return
        if self._stem and address.endswith(f"/{self._stem}") and "css!" in address:
            yield ScriptReference(f"{self._stem}.css", Rule.IMPORTS)  # a bundle's styles lie beside it
        if not gap and (call or word):
            found = self._named(token, word, call, address)
            if found is not None:
                yield found
                return
        if call not in _LISTED or gap not in _FIRST_OR_NEXT:
            self._call = ""
        if is_file_name(address):
            self._doubt_string(address)
        elif '"' in address or "'" in address:
            for written in islice(_IN_MARKUP.finditer(address), MARKUP_FILES_MAX):
                name = written[1]
                if is_file_name(name) and not name.endswith((".html", ".htm")):
                    self._doubt_string(name)

    def _named(self, token: Token, word: str, call: str, address: str) -> ScriptReference | None:
        """What a string says that stands behind a word, or first in its brackets."""
        if word in ("import", "from"):
            return self._imported(address)
        if call == "URL":
            return (
                ScriptReference(address, Rule.IMPORTS)
                if _BESIDE_THIS.match(self._source, token.end)
                else None
            )
        if call in _LISTED or not _ENDS_ARGUMENT.match(self._source, token.end):
            return None
        if call == "import":
            return self._imported(address)
        return ScriptReference(address, Rule.WORKERS, is_of_page=call != "importScripts")

    def _imported(self, specifier: str) -> ScriptReference | None:
        """What has no path is a name: a map in the page may say of what."""
        if specifier.startswith(("./", "../", "/", "http://", "https://")):
            return ScriptReference(specifier, Rule.IMPORTS)
        for known in _names_for(specifier):
            if known in self._import_map:
                return ScriptReference(self._import_map[known] + specifier[len(known) :], Rule.IMPORT_MAPS)
        return None

    def _doubt_module(self, name: str) -> None:
        """Of AMD: relative to this script, or named by a configuration of this script or of one that led to it."""
        file = _module(name)
        if not file:
            return
        if file.startswith((".", "/")):
            self._doubt(file, Rule.MODULES)
            return
        for known in (*(AMD + one.rstrip("/") for one in _names_for(file.removesuffix(".js"))), AMD):
            rest = file[len(known) - len(AMD) :]
            if known in self.named:
                address, is_of_page = self.named[known]
                self._doubt(address + rest, Rule.MODULES, is_of_page=is_of_page)
                return
            if known in self._import_map:
                self._doubt(self._import_map[known] + rest, Rule.MODULES)
                return
        self._doubt(file, Rule.MODULES)

    def _read_config(self, at: int) -> None:
        """Of an AMD loader: its folder is relative to the page, and paths to its folder."""
        text = self._source[at : at + CONFIG_CHARS_MAX]
        base = _BASE_URL.search(text)
        folder = Named(self._import_map.get(AMD, ""), is_of_page=False)
        if base is not None:
            folder = Named(f"{base[1].rstrip('/')}/" if base[1] else "", is_of_page=True)
            self.named[AMD] = folder
        paths = _PATHS.search(text)
        for name, path in islice(_PATH.findall(paths[1]), PATHS_MAX) if paths is not None else ():
            is_whole = path.startswith(("/", "http://", "https://"))
            named = Named(path if is_whole else folder.address + path, folder.is_of_page)
            self.named[AMD + name] = named
            self._doubt(f"{named.address}.js", Rule.MODULES, is_of_page=named.is_of_page)

    def _open(self, token: Token, gap: str) -> None:
        word, call = self._word, self._call
        self._word = self._call = self._list = ""
        bracket = self._source[token.start]
        if bracket == "(" and not gap:
            self._call = word
        elif bracket == "[" and call in _LISTED and gap in _FIRST_OR_NEXT:
            self._list = call
        elif bracket == "[" and self._awaits_preloads and gap.endswith("="):
            self._awaits_preloads, self._list = False, _PRELOADS

    def _note(self, token: Token) -> None:
        source = self._source
        name = source[token.start : token.end]
        is_property = source[token.start - 1 : token.start] in (".", "#")
        self._word = ""
        if name == _PRELOADS:
            self._awaits_preloads = True
        elif name in _TABLES:
            if is_property:
                self._note_table(name, token)
        elif name in _LISTED and _CONFIG.match(source, token.end):
            self._read_config(token.end)
        elif name == "register":
            if is_property and source[max(0, token.start - 14) : token.start - 1] == "serviceWorker":
                self._word = name
        elif not is_property or name in _GLOBALS:
            self._word = name

    def _note_table(self, name: str, token: Token) -> None:
        """Of webpack's runtime: `x.u = e => …` names scripts, `x.miniCssF` styles, `x.p = "…"` their folder."""
        source = self._source
        if name != "p":
            if (function := _NAMES_OF.match(source, token.end)) is not None:
                variable = function[1] or function[2]
                self._names |= dict.fromkeys(chunk_names(source, function.end(), variable))
        elif (public := _PUBLIC_PATH.match(source, token.end)) is not None:
            self._public = public[1] if public[1] is not None else public[2]
        elif _RETURNS.search(source[max(0, token.start - 40) : token.start]):  # before webpack 5
            added = _ADDS.match(source, token.end)
            self._names |= dict.fromkeys(chunk_names(source, added.end()) if added is not None else ())

    def _chunks(self) -> Iterator[ScriptReference]:
        """Relative to what the script says, else to the folder of all of them, to the script, to the site."""
        for name in self._names:
            if self._public is not None:
                yield ScriptReference(self._public + name, Rule.CHUNKS, is_of_page=True)
                continue
            yield ScriptReference("../" * name.count("/") + name, Rule.CHUNKS)
            if "/" in name:
                yield ScriptReference(name, Rule.CHUNKS_BESIDE)
            else:
                yield ScriptReference(f"../{name}", Rule.CHUNKS_ABOVE)
            yield ScriptReference(f"/{name}", Rule.CHUNKS_ROOT)

    def _doubt(self, address: str, rule: Rule, *, is_of_page: bool = False) -> None:
        if address and len(self._doubtful) < DOUBTFUL_MAX:
            self._doubtful[ScriptReference(address, rule, is_of_page)] = None

    def _doubt_string(self, address: str) -> None:
        """Scripts ask for files beside the page, beside themselves, or below the root of the site. `Backbone.js` is
        mostly a name. Of a table of pictures by code points (emoji) a page shows few, if any."""
        if _CODE_POINTS.search(address):
            return
        if "/" not in address and len(self.pictures) < PICTURES_MAX and _PICTURE.search(address):
            self.pictures.append(address)
        self._doubt(address, Rule.STRINGS, is_of_page=True)
        if not address.startswith("/") and ("/" in address or not address.endswith(".js")):
            self._doubt(address, Rule.STRINGS_BESIDE)
            if not address.startswith("."):
                self._doubt(f"/{address}", Rule.STRINGS_ROOT, is_of_page=True)


def _preload(address: str) -> Iterator[ScriptReference]:
    """Vite's lists are relative to the folder of the site; its scripts lie one below."""
    if address.startswith(("./", "../", "/", "http://", "https://")):
        yield ScriptReference(address, Rule.PRELOADS)
    elif address:
        yield ScriptReference(f"../{address}", Rule.PRELOADS)
        yield ScriptReference(f"/{address}", Rule.PRELOADS_ROOT)


def _names_for(specifier: str) -> Iterator[str]:
    """By which a map may know it, the longest first: itself, and each folder that it is in."""
    yield specifier
    at = specifier.rfind("/")
    while at >= 0:
        yield specifier[: at + 1]
        at = specifier.rfind("/", 0, at)


def _module(name: str) -> str:
    """The file of an AMD module: behind a plugin's name, and without its ending."""
    plugin, _, name = name.rpartition("!")
    if name in _NOT_MODULES or not _MODULE.fullmatch(name):
        return ""
    if plugin.endswith("css"):
        return name if name.endswith(".css") else f"{name}.css"
    return name if name.endswith((".js", ".html", ".css", ".json", ".txt")) else f"{name}.js"


def json_references(text: str) -> Iterator[ScriptReference]:
    """Of JSON: what a manifest says of its pictures, and doubtful strings that look like files."""
    doubtful: dict[str, None] = {}
    for match in _JSON_STRING.finditer(text):
        address = match[2].replace("\\/", "/")
        if match[1] and _FILE.fullmatch(address):
            yield ScriptReference(address, Rule.MANIFESTS)
        elif len(address) <= STRING_CHARS_MAX and _FILE.fullmatch(address):
            doubtful[address] = None
            if len(doubtful) >= DOUBTFUL_MAX:
                break
    yield from (ScriptReference(address, Rule.JSON) for address in doubtful)


def read_import_map(text: str) -> dict[str, str]:
    """What an import map leads each specifier to, its scopes included; {} if the text is no import map."""
    try:
        said = json.loads(text[:IMPORT_MAP_CHARS_MAX])
    except (ValueError, RecursionError):
        return {}
    found: dict[str, str] = {}
    if isinstance(said, dict):
        scopes = said.get("scopes")
        for part in (said.get("imports"), *(scopes.values() if isinstance(scopes, dict) else ())):
            if isinstance(part, dict):
                for name, address in islice(part.items(), IMPORTS_MAX):
                    if isinstance(address, str) and name:
                        found.setdefault(name, address)
    return found
