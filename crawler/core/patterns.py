"""Which files does a script name in parts? ``components/${tag}/${tag}.js``, `"plugins/" + name + "/plugin.js"`.

Such a name has holes. What belongs there is mostly said elsewhere: as a constant of the script (`ext: ".md"`), as the
setting that is called as the folder is (`themes/` and `theme: "silver"`), or by the page: in the names of its elements,
the languages of its code, the strings of its own scripts. A picture of a map has three numbers, which follow from what
the page says the map shows. All of this is guessed, and bounded: nothing of a script runs.
"""

import math
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

GUESSES_MAX = 64
"""Of one script or page: as many as it may have of strings that look like files."""
PATTERNS_MAX, PATTERNS_LOOKED_AT_MAX = 24, 4_000
"""Of one script; TinyMCE, which has the most that was seen, has 9. What is looked at in vain costs time."""
GUESSES_EACH_MAX = 24
WORDS_MAX = 32
SETTINGS_MAX, SETTING_CHARS_MAX = 8, 120
_FILES_MAX, _FOLDERS_MAX = 30, 4
PICTURES_MAX = 8
"""That a script names without their folder, mostly `images`: Leaflet, Lightbox and others find it by a style."""
WINDOW_PX, TILE_PX = (1280, 800), 256
"""A map is taken to fill such a window, which shows at most five rows of six tiles."""
_ZOOM_MAX = 22

_STRING = r"(?:\"[^\"\\\n]{0,100}\"|'[^'\\\n]{0,100}')"
_NAME = r"[A-Za-z_$][\w$]{0,40}(?:\.[\w$]{1,40}){0,4}"
_TERM = re.compile(rf"\"([^\"\\\n]{{0,100}})\"|'([^'\\\n]{{0,100}})'|({_NAME})")
_PLUS = r"\s{0,9}\+\s{0,9}"
_SUM = re.compile(rf"{_STRING}(?:{_PLUS}(?:{_STRING}|{_NAME}(?![\w$.(\[]))){{1,6}}")
_BEFORE = re.compile(rf"({_NAME})?{_PLUS}\Z")
_BEFORE_CHARS = 80
_TEMPLATE = re.compile(r"`((?:[^`\\$\n]|\$\{[\w$.]{1,60}\}){1,200}+)`")
_TEMPLATE_HOLE = re.compile(r"\$\{([\w$.]{1,60})\}")
_ENDINGS = r"\.(?:m?js|css|json|svg|png|jpe?g|gif|webp|woff2?|ttf|html?|md|wasm|txt|vtt|mp[34])"
_ENDS_FILE = re.compile(rf"{_ENDINGS}\Z")
_ENDS_SOON = re.compile(rf"\.ext\b|{_ENDINGS}[\"']")
_AHEAD_CHARS = 60
_ENDING_ALONE = re.compile(rf"{_ENDINGS}(?:\?.*)?\Z")
_MADE = re.compile(rf"(?:[\w@.~%+-]+/)*[\w@.~%+-]+{_ENDINGS}")
_PLACED = re.compile(rf"(?:%%\w{{1,20}}%%|\{{\{{\w{{1,20}}\}}\}})/([\w.-]{{1,60}}{_ENDINGS})\b")
"""A file in a folder that is put in later."""
_FOLDER = re.compile(
    r"/?(?:[\w.-]+/)*(?:fonts?|skins?|themes?|icons?|images?|img|assets|css|styles?)(?:/[\w.-]+){0,3}/?"
)
_HAS_LETTER = re.compile(r"[A-Za-z]")
_NOT_NAMES = re.compile(r"[\s<>\"'()=;,{}]")
_PLACE = re.compile(
    r"(?:\A|/)(?:fonts?|skins?|themes?|icons?|images?|img|assets|css|styles?)/(?:[\w.-]+/)?\Z"
)
"""Of a folder whose last part is made."""
_WORD = re.compile(r"[A-Za-z][\w-]{1,39}")
_HASHED = re.compile(r"[\"']([\w-]{0,30}[-.][0-9a-f]{8,20})[\"']")
"""What bundlers call parts: no other word of a script is so surely the name of a file (Stencil: `p-40ae2aa7`)."""
HASHED_MAX, NAMES_MAX = 24, 56
_WORDS_OF_STRING = re.compile(r"\"([^\"\\\n<>]{2,200})\"|'([^'\\\n<>]{2,200})'")
_BETWEEN_WORDS = re.compile(r"[\s,/|]+")
_TILES = re.compile(r"[\"'`]([^\"'`\s\\]{0,200}\$?\{z\}[^\"'`\s\\]{0,200})[\"'`]")
_VIEW = re.compile(
    r"\b(?:setView|flyTo)\(\s*(?:L\.latLng\()?\[?\s*(-?\d{1,3}(?:\.\d{1,20})?)\s*,\s*(-?\d{1,3}(?:\.\d{1,20})?)\s*\]?\)?"
    r"\s*,\s*(\d{1,2})\b"
)
_CENTER = re.compile(
    r"\bcenter\s*:\s*(?:L\.latLng\(|new\s+[\w.]{1,40}\()?\[?\s*"
    r"(-?\d{1,3}(?:\.\d{1,20})?)\s*,\s*(-?\d{1,3}(?:\.\d{1,20})?)"
)
_LONGITUDE_FIRST = re.compile(r"maplibregl|mapboxgl|\bfromLonLat\b")
_ZOOM = re.compile(r"\bzoom\s*:\s*(\d{1,2})\b")


class Part(NamedTuple):
    text: str
    """What stands there, or the name of what will."""
    is_hole: bool = False


Pattern = tuple[Part, ...]


def is_start(source: str, start: int, end: int) -> bool:
    """Whether the string between these is a part of a sum, and could be one of a file's name."""
    if source[end : end + 2].lstrip()[:1] != "+" and source[max(0, start - 2) : start].rstrip()[-1:] != "+":
        return False
    return (
        "/" in source[start:end]
        or _ENDS_FILE.search(source, start, end - 1) is not None
        or _ENDS_SOON.search(source, end, end + _AHEAD_CHARS) is not None
    )


def sum_at(source: str, start: int) -> tuple[Pattern, int]:
    """The parts of the sum that the string there begins or goes on with, and where it ends; () if it is none."""
    before = _BEFORE.search(source, max(0, start - _BEFORE_CHARS), start)
    parts = [Part(before[1] or "", is_hole=True)] if before is not None else []
    match = _SUM.match(source, start)
    if match is None:
        term = _TERM.match(source, start)
        if term is None or not parts:
            return (), start
        return (*parts, Part(term[1] or term[2] or "")), term.end()
    parts += (
        Part(term[3], is_hole=True) if term[3] else Part(term[1] or term[2] or "")
        for term in _TERM.finditer(source, start, match.end())
    )
    return tuple(parts), match.end()


def template_at(source: str, start: int) -> tuple[Pattern, int]:
    match = _TEMPLATE.match(source, start)
    if match is None:
        return (), start
    text, at, parts = match[1], 0, list[Part]()
    for hole in _TEMPLATE_HOLE.finditer(text):
        parts += [Part(text[at : hole.start()]), Part(hole[1], is_hole=True)]
        at = hole.end()
    return (*parts, Part(text[at:])), match.end()


def may_be_file(pattern: Pattern) -> bool:
    """Whether it ends as the name of a file does, or says a folder of such."""
    if not any(part.is_hole for part in pattern):
        return False
    last = pattern[-1]
    if last.is_hole and last.text.endswith((".ext", ".extension")):
        return True
    if _ENDING_ALONE.search(last.text) and not last.is_hole:
        texts = [_ENDING_ALONE.sub("", part.text) for part in pattern if not part.is_hole]
        return any(_HAS_LETTER.search(text) for text in texts) and not any(map(_NOT_NAMES.search, texts))
    return any(_PLACE.search(part.text) for part in pattern if not part.is_hole)


def guesses(
    source: str,
    patterns: Sequence[Pattern],
    words: Sequence[str],
    *,
    own_name: str = "",
    pictures: Sequence[str] = (),
) -> Iterator[str]:
    """Files by their likely names, relative to a folder that only the caller may know. `own_name`: that of the script;
    `pictures`: what it names without a folder."""
    made = _guesses(source, patterns, words, own_name)
    placed = (f"images/{name}" for name in pictures[:PICTURES_MAX])
    return islice(dict.fromkeys((*placed, *made)), GUESSES_MAX)


def _guesses(source: str, patterns: Sequence[Pattern], words: Sequence[str], own_name: str) -> Iterator[str]:
    suffix = ".min" if ".min." in own_name else ""
    files = dict.fromkeys(match[1] for match in islice(_PLACED.finditer(source), _FILES_MAX))
    rows: list[list[str]] = []
    folders: dict[str, None] = {}
    for pattern in patterns[:PATTERNS_MAX]:
        parts = _known(source, _joined(pattern), suffix)
        last = parts[-1]
        is_only_file = len(parts) == 1 and "/" not in last.text and pattern[0].is_hole
        if is_only_file and _MADE.fullmatch(last.text):
            files[last.text] = None
        made = islice(_filled(source, parts, words), GUESSES_EACH_MAX)
        if not last.is_hole and _ENDING_ALONE.search(last.text):
            rows.append([one for one in made if _MADE.fullmatch(one) and not is_only_file])
        elif len(folders) < _FOLDERS_MAX:
            folders |= dict.fromkeys(one for one in islice(made, 2) if _FOLDER.fullmatch(one))
    if files:
        folders |= dict.fromkeys(islice(_folders(source), _FOLDERS_MAX))
        rows.append([f"{folder.strip('/')}/{name}" for name in files for folder in folders])
    for place in range(max(map(len, rows), default=0)):
        yield from (row[place] for row in rows if place < len(row))


def _joined(pattern: Pattern) -> list[Part]:
    """A first hole before a folder is the folder of all, which the caller knows."""
    parts = _joined_texts(pattern)
    if len(parts) > 1 and parts[0].is_hole and "/" in parts[1].text and parts[0] not in parts[1:]:
        del parts[0]
    if not parts[0].is_hole:
        parts[0] = Part(parts[0].text.lstrip("./"))
    return parts


def _known(source: str, parts: list[Part], suffix: str) -> list[Part]:
    """With what is said of holes in the script itself, and of `.min` by its name."""
    known: list[Part] = []
    for place, part in enumerate(parts):
        text = part.text
        if part.is_hole:
            before = parts[place - 1].text if place else ""
            after = parts[place + 1].text if place + 1 < len(parts) else ""
            if before[-1:].isalnum() and _ENDING_ALONE.match(after):
                known.append(Part(suffix))
                continue
            _, dot, name = text.rpartition(".")
            if dot and (value := _constant(source, name)) is not None:
                known.append(Part(value))
                continue
        known.append(part)
    return _joined_texts(known)


def _joined_texts(parts: Sequence[Part]) -> list[Part]:
    """Neighbours that are both text are one."""
    joined: list[Part] = []
    for part in parts:
        if joined and not part.is_hole and not joined[-1].is_hole:
            joined[-1] = Part(joined[-1].text + part.text)
        elif part.text or part.is_hole:
            joined.append(part)
    return joined or [Part("")]


def _constant(source: str, name: str) -> str | None:
    """What the script says once that something of this name is."""
    if len(name) < 3:  # of minified scripts: there are many
        return None
    found = re.findall(rf"\b{re.escape(name)}[\"']?\s{{0,5}}[:=]\s{{0,5}}[\"']([\w./-]{{1,60}})[\"']", source)
    return found[0] if len(set(found)) == 1 else None


def _filled(source: str, parts: list[Part], words: Sequence[str]) -> Iterator[str]:
    holes = {part.text for part in parts if part.is_hole}
    if not holes:
        yield "".join(part.text for part in parts)
        return
    if len(holes) > 1:
        return
    place = next(at for at, part in enumerate(parts) if part.is_hole)
    folder = parts[place - 1].text if place else ""
    said = _settings(source, folder.rstrip("/").rpartition("/")[2]) if folder.endswith("/") else []
    for word in dict.fromkeys([*said, "default", *parts_named(source), *words]):
        yield "".join(word if part.is_hole else part.text for part in parts)


def _settings(source: str, folder: str) -> list[str]:
    """What a setting of the folder's name may be; what is said to be its default comes first."""
    if not _WORD.fullmatch(folder):
        return []
    names = {re.escape(folder), re.escape(folder.removesuffix("s"))}
    after = re.compile(
        rf"\b(?:{'|'.join(sorted(names))})[\"']?\s{{0,5}}[,:=]([^\n]{{0,{SETTING_CHARS_MAX}}})"
    )
    default, said = dict[str, None](), dict[str, None]()
    for match in islice(after.finditer(source), SETTINGS_MAX):
        text = match[1]
        direct = re.match(r"\s{0,5}[\"']([A-Za-z][\w-]{1,30})[\"']", text)
        if direct is not None:
            default[direct[1]] = None
        found = re.search(r"\bdefault\b(.{0,60})", text)
        if found is not None:
            default |= dict.fromkeys(re.findall(r"[\"']([A-Za-z][\w-]{1,30})[\"']", found[1])[:3])
    return list(islice(default | said, SETTINGS_MAX))


def parts_named(source: str) -> Iterator[str]:
    """What a bundler called parts that the script, or one that it leads to, may load."""
    return iter(dict.fromkeys(match[1] for match in islice(_HASHED.finditer(source), HASHED_MAX)))


def _folders(source: str) -> Iterator[str]:
    for match in _WORDS_OF_STRING.finditer(source):
        text = match[1] or match[2]
        is_folder = "/" in text[1:-1] and not _ENDS_FILE.search(text) and _FOLDER.fullmatch(text)
        if is_folder and f"{text}.js" not in source:  # that is a module's name
            yield text


# -- what a page says


def words_of_strings(source: str) -> Iterator[str]:
    """Of a script that stands in a page: strings that are words, or lists and paths of them."""
    for match in _WORDS_OF_STRING.finditer(source):
        said = [one for one in _BETWEEN_WORDS.split(match[1] or match[2]) if one]
        if len(said) <= 8 and all(_WORD.fullmatch(one) for one in said):
            yield from said


_ELEMENT = re.compile(rb"<([a-z]{1,20}-[a-z0-9-]{1,30})((?:\s[^<>]{0,300})?)>")
_ATTRIBUTE_WORD = re.compile(
    rb"\s(?:name|icon|type|kind|lang|language|mode|theme)=[\"']?([A-Za-z][\w-]{1,30})[\"'\s]?"
)
_LANGUAGE = re.compile(rb"(?:[\s\"']lang(?:uage)?-|<html[^<>]{0,200}\slang=[\"']?)([A-Za-z][\w-]{0,30})")
_MARKED_BYTES_MAX = 2**19


def words_of_markup(page: bytes) -> Iterator[str]:
    """Names of elements that scripts define, also without the prefix that a family of them has; what they are given;
    languages of code and of the page."""
    page = page[:_MARKED_BYTES_MAX]
    given: list[bytes] = []
    for match in _ELEMENT.finditer(page) if b"-" in page else ():
        yield match[1].partition(b"-")[2].decode()
        yield match[1].decode()
        given += _ATTRIBUTE_WORD.findall(match[2] + b" ")
    yield from (word.decode() for word in given)
    yield from (match[1].decode() for match in _LANGUAGE.finditer(page))


def bounded_words(words: Iterator[str]) -> tuple[str, ...]:
    return tuple(islice(dict.fromkeys(words), WORDS_MAX))


def map_tiles(source: str) -> Iterator[str]:
    """The pictures of a map that the script begins with, by where it looks (latitude, longitude) and from how high."""
    template = _TILES.search(source)
    view = _VIEW.search(source)
    if template is None:
        return
    if view is not None:
        latitude, longitude, zoom = float(view[1]), float(view[2]), int(view[3])
    else:
        center, height = _CENTER.search(source), _ZOOM.search(source)
        if center is None or height is None:
            return
        latitude, longitude, zoom = float(center[1]), float(center[2]), int(height[1])
        if _LONGITUDE_FIRST.search(source):
            latitude, longitude = longitude, latitude
    if abs(latitude) > 85 or abs(longitude) > 180 or zoom > _ZOOM_MAX:
        return
    for x, y in _tiles(latitude, longitude, zoom):
        address = template[1]
        for name, value in (
            ("z", str(zoom)),
            ("x", str(x)),
            ("y", str(y)),
            ("s", "abc"[(x + y) % 3]),
            ("r", ""),
        ):
            address = address.replace("${" + name + "}", value).replace("{" + name + "}", value)
        if "{" not in address:
            yield address


def _tiles(latitude: float, longitude: float, zoom: int) -> Iterator[tuple[int, int]]:
    """Those around the middle of a window, the nearest first (spherical Mercator, as all such maps)."""
    across = 2**zoom
    slope = math.radians(latitude)
    x = (longitude + 180) / 360 * across
    y = (1 - math.asinh(math.tan(slope)) / math.pi) / 2 * across
    half_x, half_y = (size / 2 / TILE_PX for size in WINDOW_PX)
    seen = [
        (column, row)
        for column in range(max(0, math.floor(x - half_x)), min(across - 1, math.floor(x + half_x)) + 1)
        for row in range(max(0, math.floor(y - half_y)), min(across - 1, math.floor(y + half_y)) + 1)
    ]
    yield from sorted(seen, key=lambda tile: (tile[0] + 0.5 - x) ** 2 + (tile[1] + 0.5 - y) ** 2)
