"""The clock of the rendezvous in virtual time, and the store that an overlay node keeps for others."""

import random

import anyio
import pytest
import trio.testing

from dht.discovery import record_store
from dht.discovery.record_store import RecordStore
from dht.discovery.rendezvous import (
    Rendezvous,
    RendezvousTimes,
    looks_rarer,
    publish_probability,
    run_rendezvous,
    shard_key,
    shard_of,
)
from tests.dht.discovery.records import NETWORK, NOW, Author, validate, wall_clock


def key_of(author: Author) -> bytes:
    return shard_key(NETWORK, shard_of(author.position))


def same_shard(count: int, pattern: str = "{}.{}.0.1") -> list[Author]:
    """Authors of different addresses whose first positions share the top four bits."""
    found: list[Author] = []
    for number in range(10 * 256, 200 * 256):
        author = Author(address=(pattern.format(*divmod(number, 256)), 4000))
        if not found or key_of(author) == key_of(found[0]):
            found.append(author)
        if len(found) == count:
            break
    return found


class _Diary(Rendezvous):
    def __init__(self) -> None:
        self.lines: list[tuple[str, int]] = []

    async def start(self) -> None:
        self.lines.append(("start", round(anyio.current_time())))

    async def stop(self) -> None:
        self.lines.append(("stop", round(anyio.current_time())))

    async def publish(self, record: bytes) -> int:
        self.lines.append((f"publish {record.decode()}", round(anyio.current_time())))
        return 8

    async def find(self) -> list[bytes]:
        self.lines.append(("find", round(anyio.current_time())))
        return [b"other"]


def kept_diary(
    record: bytes | None, members: int, seconds: float, diary: _Diary | None = None
) -> tuple[list[tuple[str, int]], list[bytes]]:
    diary, found = diary or _Diary(), list[bytes]()

    async def keep(candidate: bytes) -> None:
        found.append(candidate)

    async def scenario() -> list[tuple[str, int]]:
        begin = round(anyio.current_time())
        with anyio.move_on_after(seconds):
            await run_rendezvous(
                diary,
                own_record=lambda: record,
                members=lambda: members,
                on_found=keep,
                chance=random.Random(1),
                times=RendezvousTimes(jitter=0),
            )
        return [(line, at - begin) for line, at in diary.lines]

    clock = trio.testing.MockClock(autojump_threshold=0)
    return anyio.run(scenario, backend="trio", backend_options={"clock": clock}), found


def test_alone_it_looks_every_ten_minutes_and_publishes_every_thirty() -> None:
    lines, found = kept_diary(b"me", members=2, seconds=2000)
    assert lines == [
        ("start", 0),
        ("publish me", 0),
        ("find", 0),
        ("find", 600),
        ("find", 1200),
        ("publish me", 1800),
        ("find", 1800),
        ("stop", 2000),
    ]
    assert found == [b"other"] * 4


def test_in_a_ring_it_looks_once_an_hour_and_publishes_as_before() -> None:
    lines, _ = kept_diary(b"me", members=12, seconds=5000)
    assert lines == [
        ("start", 0),
        ("publish me", 0),
        ("find", 0),
        ("publish me", 1800),
        ("publish me", 3600),
        ("find", 3600),
        ("stop", 5000),
    ]


@pytest.mark.parametrize(
    ("members", "rarer"), [(0, 1.0), (1, 1.0), (2, 1.0), (3, 1.5), (8, 4.0), (12, 6.0), (1_000, 6.0)]
)
def test_no_part_of_a_ring_looks_more_rarely_than_a_peer_alone(members: int, rarer: float) -> None:
    assert looks_rarer(members) == rarer
    assert rarer <= max(members, 1)


def test_a_record_that_nobody_takes_is_left_with_the_next_look() -> None:
    class Deaf(_Diary):
        async def publish(self, record: bytes) -> int:
            await super().publish(record)
            return 0

    lines, _ = kept_diary(b"me", members=2, seconds=1000, diary=Deaf())
    assert lines == [
        ("start", 0),
        ("publish me", 0),
        ("find", 0),
        ("publish me", 600),
        ("find", 600),
        ("stop", 1000),
    ]


def test_a_leaf_looks_but_leaves_no_record() -> None:
    lines, _ = kept_diary(None, members=2, seconds=700)
    assert [line for line, _ in lines] == ["start", "find", "find", "stop"]


def test_in_a_large_ring_some_forty_eight_publish() -> None:
    assert publish_probability(0) == publish_probability(48) == 1.0
    assert publish_probability(4800) == 0.01
    lines, _ = kept_diary(b"me", members=480, seconds=1800 * 1000 - 1)
    assert 70 <= sum(line == "publish me" for line, _ in lines) <= 130


def test_a_shard_keeps_six_records_and_prefers_those_that_live_longer() -> None:
    store = RecordStore(validate, wall_clock)
    authors = same_shard(8)
    for hours, author in enumerate(authors[:6], start=1):
        assert store.offer(key_of(author), author.record(life_s=hours * 3600))
    assert not store.offer(key_of(authors[6]), authors[6].record(life_s=1800))
    longer = authors[7].record(life_s=7200)
    assert store.offer(key_of(authors[7]), longer)
    held = store.records(key_of(authors[0]))
    assert len(held) == 6
    assert longer in held
    assert authors[0].record(life_s=3600) not in held


def test_one_wide_prefix_has_one_record_in_a_shard() -> None:
    store = RecordStore(validate, wall_clock)
    crowd = same_shard(20, "10.7.{}.{}")
    for author in crowd:
        store.offer(key_of(author), author.record())
    assert len(store) == 1


def test_an_older_incarnation_never_replaces_a_newer() -> None:
    store = RecordStore(validate, wall_clock)
    author = Author(address=("10.1.0.1", 4000))
    newer = author.record(incarnation=5)
    assert store.offer(key_of(author), newer)
    assert not store.offer(key_of(author), author.record(incarnation=4, life_s=7200))
    assert store.records(key_of(author)) == [newer]


def test_republishing_does_not_prolong_a_record() -> None:
    clock = [NOW]
    store = RecordStore(validate, lambda: clock[0])
    author = Author(address=("10.1.0.1", 4000))
    record = author.record(life_s=100)
    store.offer(key_of(author), record)
    clock[0] += 99
    assert store.offer(key_of(author), record)
    clock[0] += 2
    assert not store.offer(key_of(author), record)
    assert store.records(key_of(author)) == []
    assert len(store) == 0


def test_the_number_of_keys_is_bounded_and_the_expired_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_store, "KEYS_MAX", 2)
    clock = [NOW]
    store = RecordStore(validate, lambda: clock[0])
    by_key = {key_of(author): author for author in [Author(address=(f"10.{n}.0.1", 1)) for n in range(60)]}
    one, two, three = list(by_key.values())[:3]
    assert store.offer(key_of(one), one.record(life_s=50))
    assert store.offer(key_of(two), two.record(life_s=5000))
    assert not store.offer(key_of(three), three.record(life_s=5000))
    clock[0] += 60
    assert store.offer(key_of(three), three.record(life_s=5000))
