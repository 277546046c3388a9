"""Which captures of a URL lie around a moment, and which addresses lie around a URL? From the index alone.

A long history costs four steps, not a walk; nothing is read from the archive's files.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from herodotus.core.index_rows import (
    ADDRESS,
    VISITS,
    address_key,
    after,
    decode_visits,
    family_key,
    time_of,
    url_of_address,
    url_prefix,
)
from herodotus.core.positions import position_of
from herodotus.store.engine import Archive


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """Seconds; `before` is the newest capture not newer than the moment, `after` the oldest that is newer."""

    first_s: int
    last_s: int
    before_s: int | None
    after_s: int | None


def around(archive: Archive, url: str, moment_s: int) -> Around | None:
    """None: there is no capture of the URL."""
    prefix = url_prefix(position_of(url))
    end = after(prefix)
    first = next(archive.index.scan(prefix, end), None)
    if first is None:
        return None
    split = prefix + moment_s.to_bytes(4, "big") + b"\xff" * 4
    before = archive.index.last_before(prefix, split)
    following = next(archive.index.scan(split, end), None)
    last = before if following is None else archive.index.last_before(prefix, end)
    return Around(
        first_s=time_of(first[0]),
        last_s=time_of((last or following or first)[0]),
        before_s=None if before is None else time_of(before[0]),
        after_s=None if following is None else time_of(following[0]),
    )


def before_s(archive: Archive, url: str, time_s: int) -> int | None:
    """The second of the newest capture that is older."""
    prefix = url_prefix(position_of(url))
    found = archive.index.last_before(prefix, prefix + time_s.to_bytes(4, "big"))
    return None if found is None else time_of(found[0])


def last_visit_s(archive: Archive, url: str, time_s: int) -> int | None:
    """When the version of that second was last found unchanged."""
    prefix = url_prefix(position_of(url))
    found = archive.index.last_before(prefix, prefix + time_s.to_bytes(4, "big") + b"\xff" * 4)
    data = None if found is None else archive.index.get(family_key(VISITS, found[0]))
    return None if data is None else decode_visits(data).last_s


def site_ranges(host: str, *, with_subdomains: bool = True) -> list[tuple[bytes, bytes]]:
    """Where the addresses of a host lie in the archive's list: without a port, with one, and those below it."""
    key = address_key(f"http://{host}/")
    site = key[: key.index(b")")]
    ends = (b")", b":", b",") if with_subdomains else (b")", b":")
    return [(site + end, after(site + end)) for end in ends]


def odd_addresses(archive: Archive) -> Iterator[str]:
    """Addresses that are not sorted with their host, since they were recorded in an unusual spelling."""
    start = ADDRESS + b"~"
    return (url for url in addresses(archive, start, after(start)) if url[:4].lower() == "http")


def addresses(archive: Archive, start: bytes, end: bytes) -> Iterator[str]:
    """URLs between two keys of `address_key`, in order. One of them may have lost its last capture since."""
    for key, _ in archive.index.scan(start, end):
        yield url_of_address(key)
