"""Which URLs does this peer remember for others? Those that it holds as a stand-in.

They stay here when it becomes their first live holder, and go to the frontier as well. They also stay when it no
longer holds them, until there are many. They are rows of the exchange's folder, not of the frontier, so the
frontier's due URLs are exactly those that this peer is to fetch.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from crawler.core.link import Link
from crawler.core.rows import Batch, Rows, after
from dht.core.ids import Key
from herodotus.core.positions import position_of
from herodotus.crawl.links.wire import link_of, meta_of

URLS_MAX: Final = 20_000_000
"""Some 2 GB of disk: more than six peers of the size that this is built for own together."""
CROWDED_SHARE: Final = 0.8
"""Of that: from then on what is held no more goes, so that a peer of many years and neighbours still takes links."""
_STANDBY = b"s"
_decoder = msgspec.msgpack.Decoder(tuple[str, int])


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
        """Says how many were new; the others change nothing. What has no room is left to the other holders."""
        fresh = {_STANDBY + position_of(link.url): link for link in links}
        batch, added = Batch(), 0
        rows = list(fresh)
        for row, found in zip(rows, self._rows.get_many(rows), strict=True):
            if found is None and self._count + added < URLS_MAX:
                link = fresh[row]
                batch.put(row, msgspec.msgpack.encode((link.url, meta_of(link))))
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
            url, meta = _decoder.decode(value)
            yield found, link_of(url, meta)

    def keys(self, start: Key, end: Key) -> Iterator[Key]:
        """In (start, end], in order."""
        for row in self._rows.keys(_STANDBY + start + b"\0", after(_STANDBY)):
            if row[1:] > end:
                return
            yield Key(row[1:])

    def get(self, key: Key) -> Link | None:
        value = self._rows.get(_STANDBY + key)
        return link_of(*_decoder.decode(value)) if value else None
