"""Which links still have to reach their holders? On rows, sorted by position, until each holder has acknowledged.

Rows of the exchange's folder (docs/protocol/links.md). Every change is one atomic batch in the write-ahead
log, which outlives the process. A walk is a generation: links that come while it is under way belong to the next one.
What each peer acknowledged in this walk is one row; at the walk's end a link that all its holders have is deleted, and
the others keep the names of those that have it. So an interrupted walk continues where it was.

What pages link to repeats: links that were added lately are remembered and not taken twice. Memory holds those, and
20 bytes for each link during a walk. It knows neither calls nor holders.

Which URLs does this peer remember for others? Those that it holds as a stand-in.

They stay here when it becomes their first live holder, and go to the frontier as well. They also stay when it no
longer holds them, until there are many. They are rows of the exchange's folder, not of the frontier, so the
frontier's due URLs are exactly those that this peer is to fetch.
"""

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Final

from crawler.core.link import Link, bounded_row
from crawler.core.recrawl import reaches_further
from crawler.core.rows import Batch, Rows, after
from crawler.core.urls import host_of
from dht.core.ids import Key
from herodotus.core.captures import position_of
from herodotus.core.links.walk_plan import Keys
from herodotus.crawl.links.wire import (
    WaitingRow,
    decode_standby,
    decode_waiting,
    decode_walk,
    standby_row,
    waiting_row,
    walk_row,
)

_LINK, _HAVE, _DONE = b"l", b"h", b"d"
_WALK_ROW = b"mwalk"
PEER_PREFIX_BYTES = 8
REMEMBERED_MAX = 65_536
"""Links added lately, in two generations of half that: what pages link to repeats. About 7 MB."""
HOST_LINKS_MAX = 100_000
"""Waiting for delivery, of one host: a page farm must not stand before everybody else."""
HOSTS_COUNTED_MAX = 50_000


def _mark(key: Key, link: Link) -> bytes:
    """What is remembered of a link that went: under other bounds it goes again."""
    return key if link.bounds is None else bounded_row(link.bounds) + key


def short(peer: bytes) -> bytes:
    """What rows keep of a peer's key."""
    return peer[:PEER_PREFIX_BYTES]


class Outbox:
    """Used from one task at a time; every call is short."""

    def __init__(self, rows: Rows, *, host_links_max: int = HOST_LINKS_MAX) -> None:
        self._rows = rows
        self._host_links_max = host_links_max
        self._young: set[bytes] = set()
        self._old: set[bytes] = set()
        self._of_host: Counter[str] = Counter()
        self.repeated = 0
        """Not taken, since they are waiting already or went lately."""
        self.over_budget = 0
        """Not taken, since their host has too many waiting."""
        self.given_up = 0
        self._waiting = sum(1 for _ in self._rows.keys(_LINK, after(_LINK)))
        found = self._rows.get(_WALK_ROW)
        self._walk, self._is_walking = decode_walk(found) if found else (0, False)

    def __len__(self) -> int:
        return self._waiting

    # --- filling

    def add(self, links: Iterable[Link], now: float, *, is_own: bool = False) -> int:
        """Says how many were new. Those that are waiting or went lately change nothing. `is_own`: what this peer knew
        for long and holds no more. Of that no host's share is left out, and it goes again, to others than lately.
        """
        fresh: dict[Key, Link] = {}
        for link in links:
            key = position_of(link.url)
            if key in fresh or (self._went_lately(_mark(key, link)) and not is_own):
                self.repeated += 1
            else:
                fresh[key] = link
        if not fresh:
            return 0
        batch = Batch()
        rows = [_LINK + key for key in fresh]
        added = 0
        for (key, link), found in zip(fresh.items(), self._rows.get_many(rows), strict=True):
            self._remember(_mark(key, link))
            if found is not None:
                self.repeated += 1
                self._widen(batch, key, decode_waiting(found), link)
            elif self._has_room_for(link, is_own=is_own):
                batch.put(_LINK + key, waiting_row(self._walk, link, int(now)))
                added += 1
        self._rows.write(batch)
        self._waiting += added
        return added

    def _widen(self, batch: Batch, key: Key, row: WaitingRow, link: Link) -> None:
        """Who took the link under the bounds before is to hear of it again."""
        if reaches_further(link.bounds, row.bounds):
            wider = row.link._replace(bounds=link.bounds)
            batch.put(_LINK + key, waiting_row(self._walk, wider, row.since_s))
            batch.delete(_HAVE + key)

    def _went_lately(self, key: bytes) -> bool:
        return key in self._young or key in self._old

    def _remember(self, key: bytes) -> None:
        self._young.add(key)
        if len(self._young) >= REMEMBERED_MAX // 2:
            self._young, self._old = set(), self._young

    def _has_room_for(self, link: Link, *, is_own: bool) -> bool:
        host = host_of(link.url)
        if self._of_host[host] >= self._host_links_max and not is_own:
            self.over_budget += 1
            return False
        if len(self._of_host) >= HOSTS_COUNTED_MAX and host not in self._of_host:
            self._of_host = Counter(dict(self._of_host.most_common(HOSTS_COUNTED_MAX // 2)))
        self._of_host[host] += 1
        return True

    # --- a walk

    def begin(self) -> Keys:
        """The links of this walk: those that were waiting, or, after a crash, those of the walk that was cut off."""
        if not self._is_walking:
            self._set_walk(self._walk + 1, is_walking=True)
        found = bytearray()
        for row, value in self._rows.scan(_LINK, after(_LINK)):
            if decode_waiting(value).generation < self._walk:
                found += row[1:]
        return Keys(bytes(found))

    def done(self) -> dict[bytes, bytes]:
        """Short names of those that acknowledged all that was theirs in this walk, and the mark of what that was."""
        return {row[1:]: mark for row, mark in self._rows.scan(_DONE, after(_DONE))}

    def note_done(self, peer: bytes, mark: bytes) -> None:
        self._rows.write(Batch([(_DONE + short(peer), mark)]))

    def read(self, keys: Sequence[Key]) -> list[Link | None]:
        return [row.link if row else None for row in self._read(keys)]

    def have(self, keys: Sequence[Key]) -> list[frozenset[bytes]]:
        """Short names of those that acknowledged these links in earlier walks, or alone."""
        found = self._rows.get_many([_HAVE + key for key in keys])
        return [frozenset(_pieces(one)) if one else frozenset() for one in found]

    def note_have(self, keys: Sequence[Key], peer: bytes) -> None:
        """The peer acknowledged these, and not all that was meant for it."""
        batch = Batch()
        for key, known in zip(keys, self.have(keys), strict=True):
            batch.put(_HAVE + key, b"".join(sorted(known | {short(peer)})))
        self._rows.write(batch)

    def settle(self, keys: Sequence[Key], *, gone: Container[Key], have: dict[Key, frozenset[bytes]]) -> None:
        """At a walk's end: delivered links (or those of nobody) go; the others keep the peers that have them."""
        batch = Batch()
        rows = self._read(keys)
        for key, row in zip(keys, rows, strict=True):
            if row is None:
                continue
            if key in gone:
                batch.delete(_LINK + key)
                batch.delete(_HAVE + key)
                self._waiting -= 1
                self._forget_host(host_of(row.url))
            elif have.get(key):
                batch.put(_HAVE + key, b"".join(sorted(have[key])))
        self._rows.write(batch)

    def give_up(self, keys: Sequence[Key], before_s: float) -> list[Key]:
        """Those that have waited since before then: they are in other hands, or nobody's."""
        rows = self._read(keys)
        old = [key for key, row in zip(keys, rows, strict=True) if row and row.since_s < before_s]
        self.given_up += len(old)
        return old

    def end(self) -> None:
        batch = Batch()
        for row in list(self._rows.keys(_DONE, after(_DONE))):
            batch.delete(row)
        batch.put(_WALK_ROW, walk_row(self._walk, is_walking=False))
        self._rows.write(batch)
        self._is_walking = False

    def _set_walk(self, number: int, *, is_walking: bool) -> None:
        self._rows.write(Batch([(_WALK_ROW, walk_row(number, is_walking=is_walking))]))
        self._walk, self._is_walking = number, is_walking

    def _forget_host(self, host: str) -> None:
        if host in self._of_host:
            self._of_host[host] -= 1
            if self._of_host[host] <= 0:
                del self._of_host[host]

    # --- the disk

    def _read(self, keys: Sequence[Key]) -> list[WaitingRow | None]:
        return [
            decode_waiting(one) if one else None for one in self._rows.get_many([_LINK + key for key in keys])
        ]


def _pieces(data: bytes) -> Iterator[bytes]:
    return (data[at : at + PEER_PREFIX_BYTES] for at in range(0, len(data), PEER_PREFIX_BYTES))


URLS_MAX: Final = 20_000_000
"""Some 2 GB of disk: more than six peers of the size that this is built for own together."""
CROWDED_SHARE: Final = 0.8
"""Of that: from then on what is held no more goes, so that a peer of many years and neighbours still takes links."""
_STANDBY = b"s"


class Standby:
    """Used from one task at a time; every call is short."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._count = sum(1 for _ in rows.keys(_STANDBY, after(_STANDBY)))

    def __len__(self) -> int:
        return self._count

    @property
    def is_full(self) -> bool:
        """From now on nobody's links are taken."""
        return self._count >= URLS_MAX

    @property
    def is_crowded(self) -> bool:
        return self._count >= CROWDED_SHARE * URLS_MAX

    def add(self, links: Iterable[Link]) -> int:
        """Says how many were new; the others change at most how far the crawl goes from them. What has no room is left
        to the other holders."""
        fresh = {_STANDBY + position_of(link.url): link for link in links}
        batch, added = Batch(), 0
        rows = list(fresh)
        for row, found in zip(rows, self._rows.get_many(rows), strict=True):
            link = fresh[row]
            if found is not None:
                before = decode_standby(found)
                if reaches_further(link.bounds, before.bounds):
                    batch.put(row, standby_row(before._replace(bounds=link.bounds)))
            elif self._count + added < URLS_MAX:
                batch.put(row, standby_row(link))
                added += 1
        self._rows.write(batch)
        self._count += added
        return added

    def forget(self, keys: Sequence[Key]) -> None:
        """Each is here."""
        batch = Batch()
        for key in keys:
            batch.delete(_STANDBY + key)
        self._rows.write(batch)
        self._count -= len(keys)

    def after(self, key: Key | None, up_to: Key | None = None) -> Iterator[tuple[Key, Link]]:
        """From the first key after this one, in order, up to and with another."""
        start = b"" if key is None else key + b"\0"
        for row, value in self._rows.scan(_STANDBY + start, after(_STANDBY)):
            found = Key(row[1:])
            if up_to is not None and found > up_to:
                return
            yield found, decode_standby(value)

    def keys(self, start: Key, end: Key) -> Iterator[Key]:
        """In (start, end], in order."""
        for row in self._rows.keys(_STANDBY + start + b"\0", after(_STANDBY)):
            if row[1:] > end:
                return
            yield Key(row[1:])

    def get(self, key: Key) -> Link | None:
        value = self._rows.get(_STANDBY + key)
        return decode_standby(value) if value else None
