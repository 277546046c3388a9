"""What `Catalogue` promises to readers, on every implementation."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest

from herodotus.core.bundles import Visit
from herodotus.core.captures import position_of
from herodotus.core.index_rows import ADDRESS, KEY_BYTES, after, url_of_address
from herodotus.core.removals import Removals, subject_of
from herodotus.core.warc import TIME_MAX_S
from herodotus.store import Around, Catalogue, Property, Query, tally_key
from herodotus.store.catalogue import ArchiveCatalogue
from herodotus.store.store import DiskStore
from herodotus.store.survey import ArchiveSurvey
from tests.contract.opened_stores import KINDS, opened_store
from tests.herodotus.store.making import NOW_S, page

pytestmark = pytest.mark.anyio
URL, OTHER = "http://example.org/", "http://example.org/other"
ALL_ADDRESSES = (ADDRESS, after(ADDRESS))


class Opened(NamedTuple):
    store: DiskStore
    catalogue: Catalogue


@pytest.fixture(params=KINDS)
async def opened(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Opened]:
    async with opened_store(request.param, tmp_path) as store:
        yield Opened(store, ArchiveCatalogue(store.archive))


def place(url: str) -> bytes:
    return position_of(url)[:KEY_BYTES]


async def test_captures_around_a_moment(opened: Opened) -> None:
    store, catalogue = opened
    for at in (0, 10, 20):
        await store.store(page(URL, NOW_S + at, b"at %d" % at))
    await store.note_visits([Visit(url=URL, time_s=NOW_S + 15, status=304)])
    found = catalogue.around(URL, NOW_S + 12)
    assert found == Around(first_s=NOW_S, last_s=NOW_S + 20, before_s=NOW_S + 10, after_s=NOW_S + 20)
    assert catalogue.before_s(URL, NOW_S + 10) == NOW_S
    assert catalogue.last_visit_s(URL, NOW_S + 10) == NOW_S + 15
    assert catalogue.last_visit_s(URL, NOW_S) is None
    newest = catalogue.newest(URL, NOW_S + 19)
    assert newest is not None
    assert newest.body == b"at 10"
    assert [one.first_seen_s for one in catalogue.history(URL, NOW_S + 1, TIME_MAX_S)] == [
        NOW_S + 10,
        NOW_S + 20,
    ]
    assert catalogue.around(OTHER, NOW_S) is None


async def test_a_page_is_out_of_reach_until_it_answers(opened: Opened) -> None:
    store, catalogue = opened
    await store.store(page(URL, NOW_S))
    await store.note_failure(URL, NOW_S + 10, "connection refused")
    found = catalogue.unreachable(URL)
    assert found == (NOW_S + 10, NOW_S + 10, 1, "connection refused")
    assert [one.visits for one in catalogue.history(URL, 0, TIME_MAX_S)] == [0]
    assert catalogue.last_visit_s(URL, TIME_MAX_S) is None
    assert catalogue.unreachable(OTHER) is None
    store.archive.removed = Removals.of_subjects([subject_of("host", "example.org")])
    assert catalogue.unreachable(URL) is None
    store.archive.removed = Removals()
    await store.note_visits([Visit(url=URL, time_s=NOW_S + 15, status=304)])
    assert catalogue.unreachable(URL) is None


async def test_an_entry_names_a_version_and_reads_it(opened: Opened) -> None:
    store, catalogue = opened
    for at in range(3):
        await store.store(page(URL, NOW_S + at, b"%d" % at))
    entries = list(catalogue.entries(URL, 0, TIME_MAX_S, 2))
    assert [one.name for one in catalogue.entries(URL, 0, TIME_MAX_S, 2)] == [one.name for one in entries]
    versions = [one.version() for one in entries]
    assert [one and one.first_seen_s for one in versions] == [NOW_S, NOW_S + 1]
    await store.delete([one.id for one in versions if one is not None])
    assert [one.name for one in catalogue.entries(URL, 0, TIME_MAX_S, 9)] != [one.name for one in entries]


async def test_equal_content_of_two_days_has_equal_digests(opened: Opened) -> None:
    store, catalogue = opened
    for at, body in ((0, b"a"), (10, b"a"), (20, b"b")):
        await store.store(page(URL, NOW_S + at, body))
    same, other = (catalogue.digests_at(URL, NOW_S + at) for at in (10, 20))
    assert catalogue.digests_at(URL, NOW_S) == same != other


async def test_addresses_lie_in_order_and_positions_round_the_ring(opened: Opened) -> None:
    store, catalogue = opened
    urls = [f"http://{host}.example.org/" for host in "cab"]
    for url in urls:
        for at in range(2):
            await store.store(page(url, NOW_S + at, b"%d" % at))
    assert list(catalogue.addresses(*ALL_ADDRESSES)) == sorted(urls)
    assert [url_of_address(key) for key in catalogue.address_keys(*ALL_ADDRESSES)] == sorted(urls)
    ring = sorted(map(place, urls))
    assert list(catalogue.positions(b"", None)) == ring
    assert list(catalogue.positions(ring[1], None)) == ring[1:]
    assert list(catalogue.positions(b"", ring[1])) == ring[:1]
    newest = catalogue.newest_at(place(urls[0]))
    assert newest is not None
    assert (newest.url, newest.time_s) == (urls[0], NOW_S + 1)
    assert catalogue.newest_at(place(URL)) is None


async def test_what_was_surveyed_is_counted_and_linked(opened: Opened) -> None:
    store, catalogue = opened
    await store.store(page(URL, NOW_S, b'<a href="/other">there</a>'))
    assert not catalogue.is_surveyed()
    ArchiveSurvey(store.archive).catch_up()
    assert catalogue.is_surveyed()
    ((source, span),) = catalogue.links_to(place(OTHER))
    assert (source, span.first_s, span.last_s) == (place(URL), NOW_S, NOW_S)
    assert list(catalogue.links_to(place(OTHER), behind=source)) == []
    assert (catalogue.tally(Property.TOTAL).captures, catalogue.tally(Property.STATUS, "404").captures) == (
        1,
        0,
    )
    start = tally_key(Property.HOST, "")
    assert [(key[2:], tally.captures) for key, tally in catalogue.tallies(start, after(start))] == [
        (b"example.org", 1)
    ]


async def test_files_are_listed_and_unpacked(opened: Opened) -> None:
    store, catalogue = opened
    await store.store(page(URL, NOW_S))
    await store.seal()
    await store.store(page(OTHER, NOW_S))
    segment, log = sorted(catalogue.containers(0), key=lambda one: one.is_log)
    assert (segment.is_log, log.is_log) == (False, True)
    assert [one.number for one in catalogue.containers(min(segment.number, log.number))] == [
        max(segment.number, log.number)
    ]
    for facts, url in ((segment, URL), (log, OTHER)):
        assert catalogue.container(facts.number) == facts
        size, members = catalogue.contents(facts.number, 0)
        content = list(members)
        assert sum(length for _, length, _ in content) == size == facts.bytes
        held = [data for _, _, data in content if isinstance(data, bytes)]
        assert any(f"WARC-Target-URI: {url}\r\n".encode() in data for data in held)
    assert catalogue.container(999) is None
    with pytest.raises((KeyError, FileNotFoundError)):
        catalogue.contents(999, 0)


async def test_streams_give_their_snapshot_once_and_go_on_from_their_place(opened: Opened) -> None:
    store, catalogue = opened
    urls = [f"http://example.org/{number}" for number in range(6)]
    for url in urls:
        await store.store(page(url, NOW_S, url.encode()))
    first = catalogue.stream(Query(), None, is_whole=False)
    seen = [capture.url for capture in first.take(2)]
    begun = catalogue.host_stream([ALL_ADDRESSES], Query(), None, is_whole=False)
    of_host = [capture.url for _, capture in zip(range(3), begun, strict=False)]
    await store.store(page(f"{URL}late", NOW_S))
    await store.seal()
    seen += [capture.url for capture in catalogue.stream(Query(), first.cursor, is_whole=True)]
    assert sorted(seen) == urls
    rest = catalogue.host_stream([ALL_ADDRESSES], Query(), begun.place, is_whole=True)
    assert of_host + [capture.url for capture in rest] == urls


async def test_the_stamp_changes_with_what_is_stored_or_deleted(opened: Opened) -> None:
    store, catalogue = opened
    stamps = {catalogue.stamp}
    stored = await store.store(page(URL, NOW_S))
    stamps.add(catalogue.stamp)
    await store.delete([stored.id])
    stamps.add(catalogue.stamp)
    assert len(stamps) == 3
