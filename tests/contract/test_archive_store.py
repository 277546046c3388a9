"""What every archive store must do: the one of a peer and the one in memory, which so can be believed."""

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from herodotus.core.bundles import Visit
from herodotus.core.captures import Mode
from herodotus.store.intake import StoreOutcome
from herodotus.store.store import DiskStore
from herodotus.store.streams import Query
from tests.contract.opened_stores import KINDS, opened_store
from tests.herodotus.deposits import altered
from tests.herodotus.store.making import NOW_S, page

pytestmark = pytest.mark.anyio
URL = "http://example.org/"
END_S = 2**32 - 1


@pytest.fixture(params=KINDS)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[DiskStore]:
    async with opened_store(request.param, tmp_path) as opened:
        yield opened


async def test_what_was_stored_is_read(store: DiskStore) -> None:
    stored = await store.store(page(URL, NOW_S, b"body"))
    assert stored.outcome is StoreOutcome.NEW
    found = await store.read(stored.id)
    assert found is not None
    assert found.body == b"body"
    assert (await store.statistics()).captures == 1


async def test_many_stores_at_once_are_all_durable_and_duplicates_are_seen(store: DiskStore) -> None:
    outcomes: list[StoreOutcome] = []

    async def one(n: int) -> None:
        outcomes.append((await store.store(page(URL, NOW_S + n, b"body %d" % (n % 50)))).outcome)

    async with anyio.create_task_group() as tasks:
        for n in range(200):
            tasks.start_soon(one, n)
    assert (outcomes.count(StoreOutcome.NEW), outcomes.count(StoreOutcome.REVISIT)) == (50, 150)
    assert [version.id.time_s for version in await store.history(URL)] == list(range(NOW_S, NOW_S + 200))


async def test_history_counts_unchanged_visits(store: DiskStore) -> None:
    await store.store(page(URL, NOW_S))
    await store.note_visits([Visit(url=URL, time_s=NOW_S + n, status=304) for n in (10, 20)])
    [version] = await store.history(URL)
    assert (version.visits, version.first_seen_s, version.last_seen_s) == (2, NOW_S, NOW_S + 20)
    assert (version.url, version.status, version.mime) == (URL, 200, "text/html")


async def test_newest_not_newer_than(store: DiskStore) -> None:
    for at in (0, 10):
        await store.store(page(URL, NOW_S + at, b"at %d" % at))
    found = await store.newest(URL, NOW_S + 9)
    assert found is not None
    assert found.body == b"at 0"
    assert await store.newest(URL, NOW_S - 1) is None
    assert await store.newest("http://example.org/other", END_S) is None


async def test_deleting_an_original_leaves_the_body_to_its_revisits(store: DiskStore) -> None:
    ids = [(await store.store(page(URL, NOW_S + n, b"shared"))).id for n in range(4)]
    assert await store.delete([ids[0]]) == 1
    assert await store.read(ids[0]) is None
    captures = [await store.read(id_) for id_ in ids[1:]]
    assert [capture is not None and capture.body for capture in captures] == [b"shared"] * 3
    assert [capture is not None and capture.is_revisit for capture in captures] == [False, True, True]
    last = captures[-1]
    assert last is not None
    assert last.record.get("WARC-Refers-To-Date") == "2023-11-14T22:13:21Z"
    assert set(await store.of_payload(ids[0].digest)) == set(ids[1:])
    await store.rebuild()
    assert set(await store.of_payload(ids[0].digest)) == set(ids[1:])
    assert await store.read(ids[0]) is None


async def test_the_deleted_does_not_come_back(store: DiskStore) -> None:
    stored = await store.store(page(URL, NOW_S))
    assert await store.delete([stored.id]) == 1
    assert (await store.store(page(URL, NOW_S))).outcome is StoreOutcome.DELETED
    assert await store.read(stored.id) is None
    await store.seal()
    await store.rebuild()
    assert (await store.store(page(URL, NOW_S))).outcome is StoreOutcome.DELETED
    assert (await store.statistics()).captures == 0


async def test_deleting_a_payload_takes_every_capture_of_it(store: DiskStore) -> None:
    for n in range(3):
        await store.store(page(URL, NOW_S + n, b"unwanted"))
    await store.store(page(URL, NOW_S + 9, b"wanted"))
    assert await store.delete(await store.of_payload(hashlib.sha256(b"unwanted").digest())) == 3
    assert [version.id.time_s for version in await store.history(URL)] == [NOW_S + 9]


async def test_expunging_leaves_the_newest_and_says_what_went(store: DiskStore) -> None:
    for n in range(4):
        await store.store(page(URL, NOW_S + n, b"%d" % n))
    await store.store(page("http://example.org/single", NOW_S))
    gone = await store.expunge(NOW_S + 3)
    assert [id_.time_s for id_ in gone] == [NOW_S, NOW_S + 1, NOW_S + 2]
    assert [version.id.time_s for version in await store.history(URL)] == [NOW_S + 3]
    assert (await store.statistics()).captures == 2


async def test_a_stream_goes_on_over_sealing_and_gives_its_snapshot_once(store: DiskStore) -> None:
    for n in range(30):
        await store.store(page(f"http://example.org/{n}", NOW_S + n, b"%d" % n))
    seen = []
    result = await store.page(Query(), None, 7)
    while True:
        seen += [capture.url for capture in result.captures]
        await store.store(page(f"http://example.org/new/{len(seen)}", NOW_S, b"new"))
        await store.seal()
        if result.is_last:
            break
        result = await store.page(Query(), result.cursor, 7)
    expected = [f"http://example.org/{n}" for n in range(30)]
    assert seen == sorted(expected, key=lambda url: hashlib.sha1(url.encode()).digest())


async def test_streams_filter(store: DiskStore) -> None:
    await store.store(page("http://a.example.org/", NOW_S, b"a"))
    await store.store(page("http://b.example.net/", NOW_S + 10, b"b", "image/png"))
    queries = [Query(host="org"), Query(mime="image/"), Query(from_s=NOW_S + 5), Query(status=404)]
    found = [[capture.body async for capture in store.stream(query)] for query in queries]
    assert found == [[b"a"], [b"b"], [b"b"], []]


async def test_a_forged_digest_loses_nothing_in_compare_mode(store: DiskStore) -> None:
    archive = store.archive
    archive.digest_of = lambda body: bytes(32)
    first, second = (altered(page(URL, NOW_S + n, b"body %d" % n), sha256=bytes(32)) for n in range(2))
    longer = altered(page(URL, NOW_S + 2, b"a longer body"), sha256=bytes(32))
    assert (await store.store(first, Mode.COMPARE)).outcome is StoreOutcome.NEW
    assert (await store.store(second, Mode.COMPARE)).outcome is StoreOutcome.NEW
    assert (await store.store(longer, Mode.REGULAR)).outcome is StoreOutcome.NEW  # its size gives it away
    assert (await store.store(first, Mode.COMPARE)).outcome is StoreOutcome.KNOWN
    for upkeep in (store.seal, store.compact, store.rebuild):
        await upkeep()
        for deposit in (first, second, longer):
            found = await store.read(deposit.id)
            assert found is not None
            assert found.body == deposit.capture.body


async def test_verifying_a_sound_archive_finds_nothing(store: DiskStore) -> None:
    for n in range(10):
        await store.store(page(URL, NOW_S + n, b"%d" % (n % 3)))
    await store.seal()
    await store.store(page(URL, NOW_S + 99))
    found = await store.verify()
    assert found.is_sound
    assert found.records == 11
