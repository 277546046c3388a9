"""Which questions were asked just now, and can be answered again at once?

For a redirect to a date, the framework and the trip to a thread cost about a hundred times as much as sending it. So
answers that depend on the archive alone are kept as they were sent, until something is stored. A plain question that
was asked before, with the same relevant fields, is answered at once. Everything else takes the long way: other
methods and versions, bodies, fields that are not listed here, more than one question at a time.

What was found lately, and may be asked for again at once? A cache with a bound, for several threads.

Two generations instead of a list in order of use: what is asked for again moves into the young one, and when that is
full, the old one is forgotten as a whole. Looking costs one or two steps of a dictionary and no lock: a fifth of what
cachetools needs, and keeping a twentieth (ADR 7).
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from herodotus.core.errors import ArchiveError
from herodotus.portal.answer import Answer
from herodotus.portal.targets import http_date

K = TypeVar("K")
V = TypeVar("V")


class WeighedCache(Generic[K, V]):
    """At most `bytes_max` of what `keep` was told that things weigh, a single one no more than a sixteenth."""

    def __init__(self, bytes_max: int) -> None:
        self._generation_bytes_max = bytes_max // 2
        self._thing_bytes_max = bytes_max // 16
        self._young: dict[K, tuple[V, int]] = {}
        self._old: dict[K, tuple[V, int]] = {}
        self._young_bytes = 0

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def get(self, key: K) -> V | None:
        found = self._young.get(key)
        if found is None:
            found = self._old.get(key)
            if found is None:
                return None
            self.keep(key, *found)
        return found[0]

    def keep(self, key: K, thing: V, weight_bytes: int) -> None:
        if weight_bytes > self._thing_bytes_max:
            return
        if self._young_bytes + weight_bytes > self._generation_bytes_max:
            self._old, self._young, self._young_bytes = self._young, {}, 0
        self._young[key] = thing, weight_bytes
        self._young_bytes += weight_bytes

    def clear(self) -> None:
        self._old, self._young, self._young_bytes = {}, {}, 0


ANSWERS_KEPT_BYTES_MAX = 32 * 1024 * 1024
ANSWER_BYTES_MAX = 64 * 1024
HEAD_BYTES_MAX = 4 * 1024
KEPT_S = 60.0
"""A banner names the peers that have a page, and they come and go."""
_HEADS_KEPT_BYTES_MAX = 1024 * 1024
_OVERHEAD_BYTES = 500
# One way only to read each byte: a head that does not fit is found out in one go.
_PLAIN = re.compile(
    rb"GET (/[\x21-\x7e]{0,3000}) HTTP/1\.1\r\n((?:[A-Za-z0-9-]+:[\x20-\x7e]*\r\n){1,40})\r\n"
)
_OF_ARCHIVE = (b"/web/", b"/cdx/", b"/wayback/")
_LABEL = re.compile(rb"[0-9]{14}-[hs][0-9]{0,5}-[a-z0-9_-]+\.", re.IGNORECASE)
_AT_LABEL = b"at a label\n"
_WHOLE = re.compile(
    rb"(?:GET|HEAD) /[\x21-\x7e]{0,24000} HTTP/1\.1\r\n(?:[A-Za-z0-9-]+:[\x20-\x7e]*\r\n)*\r\n"
)
_MORE = re.compile(
    rb"\r\n(?:content-length|transfer-encoding|trailer|upgrade|expect|connection):", re.IGNORECASE
)
_DECISIVE = frozenset(
    {b"host", b"accept", b"accept-encoding", b"accept-datetime", b"origin", b"sec-fetch-dest",
     b"upgrade-insecure-requests"}
)  # fmt: skip
"""The fields by which an answer about the archive may differ."""
_IDLE = frozenset(
    {b"user-agent", b"accept-language", b"cookie", b"referer", b"dnt", b"sec-gpc", b"priority", b"pragma",
     b"cache-control", b"sec-fetch-mode", b"sec-fetch-site", b"sec-fetch-user", b"sec-ch-ua", b"sec-ch-ua-mobile",
     b"sec-ch-ua-platform"}
)  # fmt: skip
"""Those by which none does."""
_DECISIVE_AT_LABELS = _DECISIVE | {b"referer", b"sec-fetch-site"}
"""At a label these headers tell, too, who asks; a stranger is refused."""


class CachedRequest(NamedTuple):
    target: bytes
    words: bytes
    """The decisive fields as they were sent."""


@dataclass(frozen=True, slots=True)
class _Ready:
    stamp: int
    until_s: float
    before_date: bytes
    after_date: bytes


class Front:
    """`stamp` is another number whenever the archive's answers may have changed; it may raise ArchiveError."""

    def __init__(self, stamp: Callable[[], int], now: Callable[[], float]) -> None:
        self._stamp = stamp
        self._now = now
        self._answers: WeighedCache[CachedRequest, _Ready] = WeighedCache(ANSWERS_KEPT_BYTES_MAX)
        self._words: WeighedCache[bytes, bytes] = WeighedCache(_HEADS_KEPT_BYTES_MAX)
        self._date = -1, b""
        self.answered = 0

    def stamp(self) -> int | None:
        """None where nothing can be kept now."""
        try:
            return self._stamp()
        except ArchiveError:
            return None

    def question(self, data: bytes) -> CachedRequest | None:
        """None: not plainly one whole question."""
        if len(data) > HEAD_BYTES_MAX:
            return None
        plain = _PLAIN.fullmatch(data)
        if plain is None:
            return None
        fields = plain[2]
        words = self._words.get(fields)
        if words is None:
            found = _decisive(fields)
            if found is None:
                return None
            words = found
            self._words.keep(fields, words, len(fields) + len(words) + _OVERHEAD_BYTES)
        if not words.startswith(_AT_LABEL) and not plain[1].startswith(_OF_ARCHIVE):
            return None
        return CachedRequest(plain[1], words)

    def is_whole(self, data: bytes) -> bool:
        """Whether it is one request that nothing belongs to any more, so that one answer ends it."""
        return _WHOLE.fullmatch(data) is not None and _MORE.search(data) is None

    def answer(self, question: CachedRequest) -> tuple[bytes, bytes, bytes] | None:
        ready = self._answers.get(question)
        if ready is None:
            return None
        now_s = self._now()
        if ready.stamp != self.stamp() or now_s > ready.until_s:
            return None
        self.answered += 1
        return ready.before_date, self._written(int(now_s)), ready.after_date

    def keep(self, question: CachedRequest, answer: Answer, stamp: int | None) -> None:
        """`stamp` from before the answer was made."""
        if stamp is None or not answer.is_of_archive_alone or len(answer.body) > ANSWER_BYTES_MAX:
            return
        fields = [("Content-Type", answer.content_type), *answer.headers.items(), *answer.repeated]
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields)
        if lines.count("\r\n") != len(fields) or lines.count("\n") != len(fields) or "\0" in lines:
            return
        try:
            head = lines.encode("utf-8")
        except UnicodeEncodeError:
            return
        before = f"HTTP/1.1 {answer.status.value} {answer.status.phrase}\r\n".encode() + head + b"Date: "
        after = b"\r\nContent-Length: %d\r\n\r\n" % len(answer.body) + answer.body
        weight = len(question.target) + len(question.words) + len(before) + len(after) + _OVERHEAD_BYTES
        self._answers.keep(question, _Ready(stamp, self._now() + KEPT_S, before, after), weight)

    def _written(self, second: int) -> bytes:
        if second != self._date[0]:
            self._date = second, http_date(second).encode()
        return self._date[1]


def _decisive(fields: bytes) -> bytes | None:
    """None: something else is said, so it takes the long way."""
    said = [
        (name.lower(), value.strip())
        for name, _, value in (line.partition(b":") for line in fields.split(b"\r\n")[:-1])
    ]
    hosts = [value for name, value in said if name == b"host"]
    is_label = bool(hosts) and _LABEL.match(hosts[0]) is not None
    decisive = _DECISIVE_AT_LABELS if is_label else _DECISIVE
    kept = []
    for name, value in said:
        if name in decisive:
            kept.append(name + b":" + value)
        elif name not in _IDLE and not (name == b"connection" and value.lower() == b"keep-alive"):
            return None
    if len(hosts) != 1:
        return None
    return (_AT_LABEL if is_label else b"") + b"\n".join(kept)
