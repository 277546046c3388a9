"""How do machines see a URL's history? Link headers and TimeMaps of the Memento protocol (RFC 7089)."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from heapq import heappop, heappush, heapreplace
from io import BytesIO
from itertools import groupby

from herodotus.core.cdxj import surt
from herodotus.core.warc import TIME_MAX_S, format_digits
from herodotus.portal.targets import http_date
from herodotus.store import Version

_PLAIN = re.compile(r"[!#-;=?-\[\]-~]*")
_UNSAFE = {ord(c): f"%{ord(c):02X}" for c in '<>"\\ '} | {n: f"%{n:02X}" for n in (*range(0x20), 0x7F)}
_SOME_ESCAPE = {ord(c): f"%{ord(c):02X}" for c in "\\^`{|}"}


def header_url(url: str) -> str:
    """As it may stand between angle brackets in a header: nothing in it ends a line, a link or ASCII. What is stored
    as `|` or `{` stays so: escaped it is another address to the URL standard, with another place on the ring."""
    if _PLAIN.fullmatch(url):
        return url
    escaped = url.translate(_UNSAFE)
    return "".join(
        c if c.isascii() else "".join(f"%{b:02X}" for b in c.encode("utf-8", "replace")) for c in escaped
    )


_remembered = lru_cache(maxsize=256)(header_url)
"""For what names one URL many times, as a history or a TimeMap does; a list of many URLs would only fill it."""


def is_same_path(one: str, other: str) -> bool:
    """Whether two paths differ by no more than what some clients escape on the way, and others do not."""
    return one == other or one.translate(_SOME_ESCAPE) == other.translate(_SOME_ESCAPE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where things of one URL are found; `origin` empty gives paths alone."""

    origin: str
    url: str

    def memento(self, time_s: int, flag: str = "") -> str:
        return f"{self.origin}{memento_path(self.url, time_s, flag)}"

    @property
    def gate(self) -> str:
        return f"{self.origin}/web/{_remembered(self.url)}"

    @property
    def history(self) -> str:
        return f"{self.origin}{history_path(self.url)}"

    def timemap(self, form: str = "link") -> str:
        return f"{self.origin}/web/timemap/{form}/{_remembered(self.url)}"


def memento_path(url: str, time_s: int, flag: str = "") -> str:
    return f"/web/{format_digits(time_s)}{flag}/{_remembered(url)}"


def history_path(url: str) -> str:
    return f"/web/*/{header_url(url)}"


def diff_path(url: str, old_s: int, new_s: int, *, is_inline: bool = False) -> str:
    form = "inline/" if is_inline else ""
    return f"/web/diff/{form}{format_digits(old_s)}/{format_digits(new_s)}/{_remembered(url)}"


def memento_links(
    places: Places,
    *,
    first_s: int,
    last_s: int,
    previous_s: int | None = None,
    shown_s: int | None = None,
    next_s: int | None = None,
) -> str:
    """`shown_s` is None on a TimeGate, which shows none itself. One memento may have several relations."""
    links = [
        f'<{header_url(places.url)}>; rel="original"',
        f'<{places.gate}>; rel="timegate"',
        f'<{places.timemap()}>; rel="timemap"; type="application/link-format"',
    ]
    relations: dict[int, list[str]] = {}
    for name, time_s in (
        ("first", first_s), ("prev", previous_s), ("", shown_s), ("next", next_s), ("last", last_s),
    ):  # fmt: skip
        if time_s is not None:
            relations.setdefault(time_s, []).append(name)
    for time_s, names in sorted(relations.items()):
        words = " ".join([*filter(None, names), "memento"])
        links.append(f'<{places.memento(time_s)}>; rel="{words}"; datetime="{http_date(time_s)}"')
    return ", ".join(links)


def sightings(versions: Iterable[Version]) -> Iterator[tuple[int, int]]:
    """When a page was found as it was, in order, with the number of the version: its first time and each visit that
    found it unchanged. Versions are oldest first; a later one may have been imported between two visits."""
    waiting: list[tuple[int, int, Iterator[int]]] = []
    for place, version in enumerate(versions):
        yield from _visits_until(waiting, version.first_seen_s)
        yield version.first_seen_s, place
        visits = iter(version.seen_s)
        if (time_s := next(visits, None)) is not None:
            heappush(waiting, (time_s, place, visits))
    yield from _visits_until(waiting, TIME_MAX_S + 1)


def _visits_until(waiting: list[tuple[int, int, Iterator[int]]], end_s: int) -> Iterator[tuple[int, int]]:
    """Taken from the heap."""
    while waiting and waiting[0][0] < end_s:
        time_s, place, visits = waiting[0]
        yield time_s, place
        following = next(visits, None)
        if following is None:
            heappop(waiting)
        else:
            heapreplace(waiting, (following, place, visits))


def moments_of(versions: Iterable[Version]) -> list[int]:
    """Each once."""
    return [time_s for time_s, _ in groupby(time_s for time_s, _ in sightings(versions))]


def history_links(origin: str, url: str, versions: Sequence[Version]) -> str:
    """Of a list that shows none of them."""
    first_s, last_s = versions[0].first_seen_s, max(version.last_seen_s for version in versions)
    return memento_links(Places(origin=origin, url=url), first_s=first_s, last_s=last_s)


def gathered(pieces: Iterable[str]) -> bytes:
    """Of many pieces, without holding them beside the whole. What UTF-8 cannot write becomes a question mark."""
    whole = BytesIO()
    for piece in pieces:
        whole.write(piece.encode("utf-8", "replace"))
    return whole.getvalue()


def timemap_link(places: Places, moments: Sequence[int]) -> Iterator[str]:
    span = f'from="{http_date(moments[0])}"; until="{http_date(moments[-1])}"'
    yield f'<{header_url(places.url)}>; rel="original",\n'
    yield f'<{places.timemap()}>; rel="self"; type="application/link-format"; {span},\n'
    yield f'<{places.gate}>; rel="timegate"'
    for number, time_s in enumerate(moments):
        words = "first " * (number == 0) + "last " * (number == len(moments) - 1) + "memento"
        yield f',\n<{places.memento(time_s)}>; rel="{words}"; datetime="{http_date(time_s)}"'
    yield "\n"


def timemap_json(places: Places, moments: Sequence[int]) -> Iterator[str]:
    """The form of the Memento project's JSON TimeMaps."""

    def memento(time_s: int) -> dict[str, str]:
        return {"datetime": _iso(time_s), "uri": places.memento(time_s)}

    around = json.dumps(
        {
            "original_uri": places.url,
            "self": places.timemap("json"),
            "timegate_uri": places.gate,
            "timemap_uri": {
                "link_format": places.timemap("link"),
                "json_format": places.timemap("json"),
                "cdxj_format": places.timemap("cdxj"),
            },
            "mementos": {"first": memento(moments[0]), "last": memento(moments[-1]), "list": []},
        }
    )
    end = "]}}"
    yield around.removesuffix(end)
    for number, time_s in enumerate(moments):
        yield ", " * (number > 0) + json.dumps(memento(time_s))
    yield end + "\n"


def timemap_cdxj(places: Places, versions: Sequence[Version]) -> Iterator[str]:
    yield '!context ["http://tools.ietf.org/html/rfc7089"]\n'
    yield f"!id {json.dumps({'uri': places.timemap('cdxj')})}\n"
    yield f"!meta {json.dumps({'original_uri': places.url, 'timegate_uri': places.gate})}\n"
    for time_s, place in sightings(versions):
        version = versions[place]
        facts = {
            "uri": places.memento(time_s),
            "datetime": http_date(time_s),
            "status": version.status,
            "mime": version.mime,
            "digest": f"sha256:{version.id.digest.hex()}",
        }
        yield f"{header_url(surt(version.url))} {format_digits(time_s)} {json.dumps(facts)}\n"


def _iso(time_s: int) -> str:
    digits = format_digits(time_s)
    return f"{digits[:4]}-{digits[4:6]}-{digits[6:8]}T{digits[8:10]}:{digits[10:12]}:{digits[12:]}Z"


def availability(
    url: str, digits: str, memento: str = "", time_s: int = 0, status: int = 200
) -> dict[str, object]:
    """As the Wayback Machine says it; `memento` is empty if there is none. `digits` as they were asked for."""
    facts: dict[str, object] = {"url": url, "archived_snapshots": {}}
    if digits:
        facts["timestamp"] = digits
    if memento:
        closest = {
            "status": str(status), "available": True, "url": memento, "timestamp": format_digits(time_s),
        }  # fmt: skip
        facts["archived_snapshots"] = {"closest": closest}
    return facts
