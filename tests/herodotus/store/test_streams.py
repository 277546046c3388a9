"""Whatever happens to the archive between two reads, a stream gives its snapshot once and in order."""

import hashlib
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from herodotus.core.captures import CaptureId
from herodotus.core.errors import CursorExpiredError
from herodotus.store.deletion import delete
from herodotus.store.engine import Archive
from herodotus.store.files import Files
from herodotus.store.intake import Intake
from herodotus.store.recovery import open_archive, rebuild
from herodotus.store.sealing import compact, seal
from herodotus.store.settings import ArchiveSettings
from herodotus.store.streams import Cursor, Query, Stream
from tests.herodotus.store.making import NOW_S, open_on, page, store
from tests.herodotus.store.memory_store import MemoryDisk, MemoryIndex

ACTIONS = st.sampled_from(["store", "delete", "seal", "compact", "restart", "read", "read"])


@dataclass(slots=True)
class Model:
    """The archive under test, and what a dictionary says it holds."""

    disk: MemoryDisk = field(default_factory=MemoryDisk)
    index: MemoryIndex = field(default_factory=MemoryIndex)
    live: dict[CaptureId, int] = field(default_factory=dict)
    """With the order in which they came."""
    count: int = 0

    def open(self) -> Archive:
        archive = Archive(
            Files([self.disk]),
            self.index,
            now=lambda: float(NOW_S),
            settings=ArchiveSettings(log_bytes_max=3_000),
        )
        open_archive(archive)
        return archive


def _act(action: str, number: int, archive: Archive, model: Model) -> Archive:
    if action == "store":
        model.count += 1
        # Few bodies: deleting an original moves its body to a capture that arrived long before.
        deposit = page(f"http://example.org/{number % 7}", NOW_S + model.count, b"body %d" % (number % 4))
        store(archive, deposit)
        model.live[deposit.id] = model.count
    elif action == "delete" and model.live:
        victim = sorted(model.live, key=lambda id_: (id_.time_s, id_.key))[number % len(model.live)]
        delete(archive, Intake(archive), [victim])
        del model.live[victim]
    elif action == "seal":
        seal(archive)
    elif action == "compact":
        compact(archive, dead_min=0.1)
    elif action == "restart":
        # A kill: nothing is closed. What was committed is on the disk, as a commit had returned.
        return model.open()
    return archive


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    before=st.lists(st.tuples(ACTIONS, st.integers(0, 100)), max_size=30),
    during=st.lists(st.tuples(ACTIONS, st.integers(0, 100)), max_size=30),
    size=st.integers(1, 5),
)
@example(  # the segment goes with its last capture: an index without files is not one of a copied home
    before=[],
    during=[("store", 0), ("seal", 0), ("delete", 0), ("compact", 0), ("restart", 0)],
    size=1,
)
def test_a_stream_gives_each_live_capture_of_its_snapshot_once_and_in_order(
    before: list[tuple[str, int]], during: list[tuple[str, int]], size: int
) -> None:
    model = Model()
    archive = model.open()
    for action, number in before:
        archive = _act(action, number, archive, model)
    snapshot = dict(model.live)
    query = Query()
    text = Stream(archive, query).cursor.encode()
    seen: list[CaptureId] = []
    given_up: set[CaptureId] = set()
    for action, number in during:
        if action == "read":
            stream = Stream(archive, query, Cursor.decode(text))
            seen += [capture.id for capture in stream.take(size)]
            text = stream.cursor.encode()
        else:
            archive = _act(action, number, archive, model)
            given_up |= set(snapshot) - set(model.live)
    stream = Stream(archive, query, Cursor.decode(text))
    seen += [capture.id for capture in stream]
    assert len(seen) == len(set(seen))
    assert set(snapshot) - given_up <= set(seen) <= set(snapshot)
    assert seen == sorted(seen, key=lambda id_: (id_.key, id_.time_s))
    assert stream.skipped == 0


def test_a_cursor_of_an_index_that_was_made_anew_is_refused() -> None:
    model = Model()
    archive = model.open()
    archive.now = lambda: float(NOW_S + 1)
    store(archive, *(page(f"http://example.org/{n}", NOW_S, b"%d" % n) for n in range(3)))
    stream = Stream(archive, Query())
    stream.take(1)
    rebuild(archive)
    with pytest.raises(CursorExpiredError):
        Stream(archive, Query(), stream.cursor).take(1)


def test_an_arc_of_the_ring_is_a_range_of_the_stream() -> None:
    archive = Model().open()
    urls = [f"http://example.org/{n}" for n in range(50)]
    store(archive, *(page(url, NOW_S) for url in urls))
    keys = {url: hashlib.sha1(url.encode()).digest() for url in urls}
    query = Query(key_from=bytes.fromhex("40"), key_to=bytes.fromhex("a0"))
    found = [capture.url for capture in Stream(archive, query)]
    assert found == sorted((url for url in urls if b"\x40" <= keys[url] < b"\xa0"), key=keys.__getitem__)
    assert 0 < len(found) < 50


@pytest.mark.parametrize(
    ("host", "urls"),
    [
        ("example.org", ["http://example.org/", "http://www.example.org/"]),
        ("www.example.org", ["http://www.example.org/"]),
        ("org", ["http://example.org/", "http://notexample.org/", "http://www.example.org/"]),
    ],
)
def test_a_host_is_it_and_those_below_it_and_none_whose_name_only_ends_alike(
    host: str, urls: list[str]
) -> None:
    archive = open_on(MemoryDisk())
    for name in ("example.org", "www.example.org", "notexample.org", "example.org.evil.example"):
        store(archive, page(f"http://{name}/", NOW_S, name.encode()))
    assert sorted(found.url for found in Stream(archive, Query(host=host))) == urls
