"""How do other tools find a capture? CDXJ lines: a sortable URL, a date, and JSON (pywb's format).

A line of ours has `offset` and `length` of the member, as everywhere. Where versions of a URL share a zstd
frame, `skip` says how far into the frame's content the record starts.
"""

import json
import re
from functools import lru_cache
from urllib.parse import quote_from_bytes, unquote_to_bytes

from herodotus.core.index_rows import FilePlace
from herodotus.core.warc import format_digits

_URL = re.compile(
    r"([a-z][a-z0-9+.-]*)://(?:[^/?#]*@)?([^/?#]*)([^?#]*)(\?[^#]*)?", re.IGNORECASE | re.DOTALL
)
_PORT = re.compile(r":(\d*)$")
_WWW = re.compile(r"www\d*\.")
_DEFAULT_PORTS = {"http": "80", "https": "443"}
_KEPT = "!\"$&'()*+,-./:;<=>?@[\\]^_`{|}~"
_PLAIN_PATH = re.compile(r"(?:/[A-Za-z0-9_~-][A-Za-z0-9_~.-]*)*/?")
"""Nothing in it to escape, to leave out or to go up from."""
_HOSTS_REMEMBERED = 1_024
_UNESCAPES_MAX = 8
# The sessions that indexes of web archives have always left out of their keys.
_PATH_SESSION = re.compile(r"/(?:\((?:[a-z]\([0-9a-z]{24}\))+\)|\([0-9a-z]{24}\))(?=/.*\.aspx)")
_QUERY_SESSION = re.compile(
    r"(?:jsessionid=[0-9a-z]{32}|phpsessid=[0-9a-z]{32}|sid=[0-9a-z]{32}|aspsessionid[a-z]{8}=[a-z]{24}"
    r"|cfid=[^&]+&cftoken=[^&]+)(?:&|$)"
)
_PLACE = re.compile(r'"offset": "(\d+)", "filename": "[^"]*"(?:, "skip": "(\d+)")?}$')
_EXTENT = re.compile(r'", "length": "(\d+)", "offset": "(\d+)", "filename": "')
_MIME = re.compile(r'", "mime": "([^"]*)", "status": "')


def surt(url: str) -> str:
    """`http://www.Example.org:80/a/?c=d&b` becomes `org,example)/a?b&c=d`.

    Hosts are read from the right, so that sites are neighbours. Differences that rarely matter (case, `www.`, the
    order of a query's arguments, escapes, sessions) are removed. pywb, ReplayWeb.page and the indexes of the big
    archives use this form.
    """
    match = _URL.match(url.strip())
    if match is None:
        return url.lower().removesuffix("/")
    scheme, authority, path, query = match.groups("")
    host, port = _host_and_port(authority.lower())
    shown_port = "" if port in ("", _DEFAULT_PORTS.get(scheme.lower())) else f":{port}"
    labels = host if ":" in host else ",".join(reversed(host.split(".")))
    return f"{labels}{shown_port}){_path(path)}{_query(query[1:])}"


@lru_cache(maxsize=_HOSTS_REMEMBERED)
def _host_and_port(authority: str) -> tuple[str, str]:
    port = _PORT.search(authority)
    host = authority[: port.start()] if port and not authority.endswith("]") else authority
    host = host.strip("[]").strip(".")
    host = host[len(www[0]) :] if (www := _WWW.match(host)) else host
    if not host.isascii():
        try:
            host = host.encode("idna").decode()
        except UnicodeError:
            host = _escaped(host)
    return host, port[1] if port else ""


def _path(path: str) -> str:
    if _PLAIN_PATH.fullmatch(path):
        return path.removesuffix("/").lower() or "/"
    kept: list[str] = []
    parts = _unescaped(path).split(b"/")[1:]
    for part in parts:
        if part == b"..":
            del kept[-1:]
        elif part not in (b"", b"."):
            kept.append(_escape(part).lower())
    return _PATH_SESSION.sub("", "/" + "/".join(kept))


def _query(query: str) -> str:
    text = _QUERY_SESSION.sub("", _escaped(query).lower())
    arguments = sorted(text.split("&"), key=lambda argument: argument.split("=", 1))
    return f"?{'&'.join(arguments)}" if text else ""


def _escaped(text: str) -> str:
    return _escape(_unescaped(text))


def _escape(data: bytes) -> str:
    return quote_from_bytes(data, safe=_KEPT)


def _unescaped(text: str) -> bytes:
    data = text.encode("utf-8", "surrogateescape")
    for _ in range(_UNESCAPES_MAX):
        if b"%" not in data or (plainer := unquote_to_bytes(data)) == data:
            break
        data = plainer
    return data


def format_line(
    *, url: str, time_s: int, mime: str, status: int, digest: str, place: FilePlace, file_name: str
) -> str:
    # `_PLACE` and `_EXTENT` read up to the next quote, and lines end at a line's end.
    assert '"' not in file_name
    assert file_name.isprintable()
    fields = {
        "url": url,
        "mime": mime or "unk",
        "status": str(status) if status else "-",
        "digest": digest.removeprefix("sha1:"),
        "length": str(place.length),
        "offset": str(place.offset),
        "filename": file_name,
    }
    if place.skip:
        fields["skip"] = str(place.skip)
    # A URL of a hostile page may hold anything that UTF-8 cannot: escape it all.
    return f"{one_word(surt(url))} {format_digits(time_s)} {json.dumps(fields)}"


def place_of_line(line: str) -> tuple[int, int] | None:
    """Offset and skip of our line; None if it is not ours."""
    found = _PLACE.search(line)
    return None if found is None else (int(found[1]), int(found[2] or 0))


def extent_of_line(line: str) -> tuple[int, int] | None:
    """Where the member of our line begins and ends; None if it is not ours."""
    found = _EXTENT.search(line)
    return None if found is None else (int(found[2]), int(found[2]) + int(found[1]))


def mime_of_line(line: str) -> str:
    found = _MIME.search(line)
    return "" if found is None else found[1]


def move_line(line: str, offset: int, file_name: str) -> str:
    """The same capture in another file: a member was copied as it is."""
    # No URL can hold this by its own words: a quote inside JSON is escaped.
    return _PLACE.sub(
        lambda found: (
            f'"offset": "{offset}", "filename": "{file_name}"'
            + (f', "skip": "{found[2]}"' if found[2] else "")
            + "}"
        ),
        line,
    )


def one_word(text: str) -> str:
    if text.isascii() and text.isprintable() and " " not in text:
        return text
    return (
        "".join(f"%{ord(c):02x}" if c <= " " or c == "\x7f" else c for c in text)
        .encode("utf-8", "replace")
        .decode()
    )
