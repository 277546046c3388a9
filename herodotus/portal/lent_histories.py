"""What do other holders have of an address, as far as it can be believed?

A holder is a stranger, and may say anything. So this peer asks several of them for their rows, and believes what
holders in two places tell alike. Where no row is told twice, all of them are shown, and readers are told that nobody
confirms them. Of a capture the record itself is fetched: its bytes must have the SHA-256 that was believed, and
everything that a reader sees is made here, from rows and records, by the same code as for captures of our own.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from http import HTTPStatus
from typing import Any, Final, cast

from crawler.core.urls import URL_CHARS_MAX, level_of
from herodotus.core.captures import CaptureId, position_of
from herodotus.core.doors import passage_of
from herodotus.core.errors import MalformedRecordError
from herodotus.core.index_rows import Unreachable
from herodotus.core.warc import parse_date
from herodotus.portal.answer import Answer
from herodotus.store import Around, Catalogue, StoredCapture, Version, VersionEntry

PLACES_NEEDED: Final = 2
VERSIONS_MAX: Final = 20_000
"""Of a history, from each holder."""
HISTORY_BYTES_MAX: Final = 6 * 1024 * 1024
"""Of its rows as they come; each of so many has some 300 bytes."""
VERSION_BYTES: Final = 700
"""In memory."""
_COUNT_MAX: Final = 10**12
_KEY_CHARS: Final = 64
_SHA1_CHARS_MAX: Final = 64
_MIME_CHARS_MAX: Final = 120
_SPELLINGS_MAX: Final = 32

Row = tuple[int, bytes]
"""Second and SHA-256 of a capture."""


@dataclass(frozen=True, slots=True)
class Told:
    """By one holder. `place` is what must differ for two to be two."""

    origin: str
    place: object
    versions: Sequence[Version]
    name: str = ""


@dataclass(frozen=True)
class LentHistory:
    """Of one address, oldest first, at least one."""

    url: str
    versions: Sequence[Version]
    tellers: Mapping[Row, Sequence[Told]]
    is_confirmed: bool
    """Each version is told in two places. Otherwise none is."""

    @property
    def bytes(self) -> int:
        return VERSION_BYTES * len(self.versions)

    @cached_property
    def names(self) -> Sequence[str]:
        """Of those that tell the newest version."""
        return [one.name or "another" for one in self.tellers[row_of(self.versions[-1])]]


def row_of(version: Version) -> Row:
    return version.id.time_s, version.id.digest


def agreed(
    told: Iterable[Told], shows: Mapping[Row, bool] | None = None, asked: Collection[str] = ()
) -> LentHistory | None:
    """What those that were asked tell together; None where there is nothing. `shows`: rows that were removed here are
    False. Of several addresses one that is confirmed, then one that was `asked` for."""
    by_url: dict[str, dict[Row, list[tuple[Told, Version]]]] = {}
    for holder in told:
        for version in holder.versions:
            row = row_of(version)
            if shows is None or shows.get(row, True):
                by_url.setdefault(version.url, {}).setdefault(row, []).append((holder, version))
    best: LentHistory | None = None
    for url, rows in by_url.items():
        confirmed = {row: said for row, said in rows.items() if _places(said) >= PLACES_NEEDED}
        chosen = confirmed or rows
        found = LentHistory(
            url=url,
            versions=[_one(said) for _, said in sorted(chosen.items(), key=lambda item: item[0])][
                -VERSIONS_MAX:
            ],
            tellers={row: [holder for holder, _ in said] for row, said in chosen.items()},
            is_confirmed=bool(confirmed),
        )
        if best is None or _worth(found, asked) > _worth(best, asked):
            best = found
    return best


def _worth(found: LentHistory, asked: Collection[str]) -> tuple[bool, bool, int]:
    return found.is_confirmed, found.url in asked, len(found.versions)


def is_settled(told: Sequence[Told]) -> bool:
    """Whether asking more holders would change nothing: each row is told in two places."""
    counts = Counter[tuple[str, Row]]()
    places: dict[tuple[str, Row], set[object]] = {}
    for holder in told:
        for version in holder.versions:
            places.setdefault((version.url, row_of(version)), set()).add(holder.place)
    counts.update({row: len(found) for row, found in places.items()})
    return bool(counts) and min(counts.values()) >= PLACES_NEEDED


def _places(said: Collection[tuple[Told, Version]]) -> int:
    return len({holder.place for holder, _ in said})


def _one(said: Sequence[tuple[Told, Version]]) -> Version:
    """Facts as most tell them. A later visit counts if two places know of it: the owner counts visits first."""
    facts = Counter((one.status, one.mime, one.size, one.sha1) for _, one in said)
    most = max(facts.values())
    common = next(one for _, one in said if facts[one.status, one.mime, one.size, one.sha1] == most)
    last = sorted((one.last_seen_s for _, one in said), reverse=True)[: _places(said)][:PLACES_NEEDED]
    visits = sorted((one.visits for _, one in said), reverse=True)[: _places(said)][:PLACES_NEEDED]
    return replace(common, last_seen_s=last[-1], visits=visits[-1])


# -- what a holder says -----------------------------------------------------------------------------------


def versions_told(answer: Answer, spellings: Collection[str]) -> list[Version] | None:
    """Rows of one address in one of its spellings, or in one that is bent a little (`history --json`); None where it is
    anything else. Work for a thread."""
    if answer.status is not HTTPStatus.OK or _is_coded(answer) or len(answer.body) > HISTORY_BYTES_MAX:
        return None
    try:
        rows = json.loads(answer.body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(rows, list) or not 0 < len(rows) <= VERSIONS_MAX:
        return None
    fitting: dict[str, bool] = dict.fromkeys(spellings, True)
    versions = [_version(row, fitting) for row in rows]
    good = {row_of(one): one for one in versions if one is not None}
    return list(good.values()) if None not in versions else None


def _is_spelling(url: str, fitting: dict[str, bool]) -> bool:
    """`fitting` keeps what was found out: a history has one address, and a lie few."""
    if len(url) > URL_CHARS_MAX or len(fitting) > _SPELLINGS_MAX:
        return False
    if url not in fitting:
        asked = [one for one, is_asked in fitting.items() if is_asked]
        fitting[url] = any(level_of(one, url) is not None for one in asked)
    return fitting[url]


def _version(row: Any, fitting: dict[str, bool]) -> Version | None:
    if not isinstance(row, dict):
        return None
    url, digest, status, mime = (row.get(name) for name in ("url", "digest", "status", "mime"))
    if not (
        isinstance(url, str)
        and _is_spelling(url, fitting)
        and isinstance(digest, str)
        and isinstance(status, int)
        and isinstance(mime, str)
    ):
        return None
    try:
        first_s, last_s = (parse_date(str(row.get(name))) for name in ("first_seen", "last_seen"))
        sha256 = bytes.fromhex(digest.removeprefix("sha256:"))
    except (MalformedRecordError, ValueError):
        return None
    return Version(
        id=CaptureId(key=position_of(url), time_s=first_s, digest=sha256[:32]),
        url=url,
        status=status if 0 <= status < 1_000 else 0,
        mime=_word(mime, "/+.-_", _MIME_CHARS_MAX),
        size=_count(row.get("size")),
        is_revisit=False,
        visits=_count(row.get("visits")),
        last_seen_s=max(first_s, last_s),
        sha1=_word(row.get("sha1"), ":", _SHA1_CHARS_MAX),
        stored_bytes=_count(row.get("stored_bytes")),
        voucher=_word(row.get("fetched_by"), "", _KEY_CHARS),
        door=_door(row.get("door")),
        steward=_word(row.get("permitted_by"), "", _KEY_CHARS),
    )


def _door(said: object) -> str:
    """In words of ours only."""
    return str(passage_of(f"1 {said}")) if isinstance(said, str) and said else ""


def _word(said: object, besides: str, characters_max: int) -> str:
    """Letters, digits and a few signs; "" for anything else."""
    if not isinstance(said, str) or len(said) > characters_max:
        return ""
    return said if all(one.isascii() and (one.isalnum() or one in besides) for one in said) else ""


def _count(value: object) -> int:
    return value if isinstance(value, int) and 0 <= value < _COUNT_MAX else 0


def _is_coded(answer: Answer) -> bool:
    fields = {name.lower(): value for name, value in answer.headers.items()}
    return fields.get("content-encoding", "").strip().lower() not in ("", "identity")


# -- as if it were here -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Entry:
    lent: Version

    @property
    def name(self) -> bytes:
        return self.lent.id.key + self.lent.id.time_s.to_bytes(4, "big") + self.lent.id.digest

    def version(self) -> Version | None:
        return self.lent

    def seen_s(self) -> Sequence[int]:
        return self.lent.seen_s


@dataclass
class LentCatalogue:
    """This peer's own catalogue, and one address more. Of its captures there are those that were fetched."""

    own: Catalogue
    history_lent: LentHistory
    captures: dict[int, StoredCapture] = field(default_factory=dict)

    def as_catalogue(self) -> Catalogue:
        return cast("Catalogue", self)  # what is not of that one address goes through `__getattr__`

    def __getattr__(self, name: str) -> Any:
        return getattr(self.own, name)

    def _is_lent(self, url: str) -> bool:
        return url == self.history_lent.url

    def _times(self) -> list[int]:
        return [one.id.time_s for one in self.history_lent.versions]

    def around(self, url: str, moment_s: int) -> Around | None:
        if not self._is_lent(url):
            return self.own.around(url, moment_s)
        times = self._times()
        return Around(
            first_s=times[0],
            last_s=times[-1],
            before_s=max((one for one in times if one <= moment_s), default=None),
            after_s=min((one for one in times if one > moment_s), default=None),
        )

    def spellings(self, asked: Sequence[str], *, is_sure: bool = True) -> list[str]:
        """What was lent answers, however it is spelled; `other_holders` has seen that it may."""
        return [] if self.history_lent.url in asked or not is_sure else [self.history_lent.url]

    def before_s(self, url: str, time_s: int) -> int | None:
        if not self._is_lent(url):
            return self.own.before_s(url, time_s)
        return max((one for one in self._times() if one < time_s), default=None)

    def last_visit_s(self, url: str, time_s: int) -> int | None:
        if not self._is_lent(url):
            return self.own.last_visit_s(url, time_s)
        seen = [one for one in self.history_lent.versions if one.id.time_s <= time_s]
        return seen[-1].last_seen_s if seen and seen[-1].visits else None

    def seen_s(self, url: str, time_s: int) -> Sequence[int]:
        if not self._is_lent(url):
            return self.own.seen_s(url, time_s)
        seen = [one for one in self.history_lent.versions if one.id.time_s <= time_s]
        return seen[-1].seen_s if seen else ()

    def unreachable(self, url: str) -> Unreachable | None:
        """Of what was lent nothing is told: nobody else could say whether it is so."""
        return None if self._is_lent(url) else self.own.unreachable(url)

    def digests_at(self, url: str, time_s: int) -> set[bytes]:
        if not self._is_lent(url):
            return self.own.digests_at(url, time_s)
        return {one.id.digest[:3] for one in self.history_lent.versions if one.id.time_s == time_s}

    def newest(self, url: str, not_after_s: int) -> StoredCapture | None:
        if not self._is_lent(url):
            return self.own.newest(url, not_after_s)
        fitting = [time_s for time_s in self._times() if time_s <= not_after_s]
        return self.captures.get(fitting[-1]) if fitting else None

    def history(self, url: str, from_s: int, to_s: int) -> list[Version]:
        if not self._is_lent(url):
            return self.own.history(url, from_s, to_s)
        return [one for one in self.history_lent.versions if from_s <= one.id.time_s <= to_s]

    def entries(self, url: str, from_s: int, to_s: int, most: int) -> Iterable[VersionEntry]:
        if not self._is_lent(url):
            return self.own.entries(url, from_s, to_s, most)
        return iter([_Entry(one) for one in self.history(url, from_s, to_s)[:most]])
