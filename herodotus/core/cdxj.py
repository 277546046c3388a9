"""How do other tools find a capture? CDXJ lines: a sortable URL, a date, and JSON (pywb's format).

A line of ours has `offset` and `length` of the member, as everywhere. Where versions of a URL share a zstd
frame, `skip` says how far into the frame's content the record starts.
"""

import json
import re
from urllib.parse import urlsplit

from herodotus.core.entries import Place
from herodotus.core.warc import format_digits

_WWW = re.compile(r"www\d*\.")
_PLACE = re.compile(r'"offset": "(\d+)", "filename": "[^"]*"(?:, "skip": "(\d+)")?}$')
_MIME = re.compile(r'", "mime": "([^"]*)", "status": "')
_DEFAULT_PORTS = {"http": 80, "https": 443}


def surt(url: str) -> str:
    """`http://www.Example.org:80/a?B` becomes `org,example)/a?b`: hosts from the right, so that sites are
    neighbours."""
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").rstrip(".")
        port = parts.port
    except ValueError:
        return url.lower()
    if not host:
        return url.lower()
    host = _WWW.sub("", host, count=1) if _WWW.match(host) and host.count(".") > 1 else host
    is_name = not (host.replace(".", "").isdigit() or ":" in host)
    labels = ",".join(reversed(host.split("."))) if is_name else host
    shown_port = "" if port is None or port == _DEFAULT_PORTS.get(parts.scheme) else f":{port}"
    query = f"?{parts.query}" if parts.query else ""
    return f"{labels}{shown_port}){parts.path or '/'}{query}".lower()


def format_line(
    *, url: str, time_s: int, mime: str, status: int, digest: str, place: Place, file_name: str
) -> str:
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
    return f"{_one_word(surt(url))} {format_digits(time_s)} {json.dumps(fields)}"


def place_of_line(line: str) -> tuple[int, int] | None:
    """Offset and skip of a line of ours; None when it is none."""
    found = _PLACE.search(line)
    return None if found is None else (int(found[1]), int(found[2] or 0))


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


def _one_word(text: str) -> str:
    return (
        "".join(f"%{ord(c):02x}" if c <= " " or c == "\x7f" else c for c in text)
        .encode("utf-8", "replace")
        .decode()
    )
