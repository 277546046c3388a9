"""What does the outbox keep, over walks and restarts, and how much?"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from crawler.core.link import Link, kind_of
from crawler.core.recrawl import Bounds
from crawler.core.rows import Batch, Rows
from dht.core.ids import Key, key_of
from herodotus.core.errors import StorageFailure
from herodotus.crawl.links import outbox as outbox_module
from herodotus.crawl.links.disk import link_rows
from herodotus.crawl.links.outbox import Outbox, Standby, short

ANNA, BERT = b"a" * 32, b"b" * 32


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Rows]:
    disk = link_rows(tmp_path / "exchange")
    yield disk
    disk.close()


def link(number: int) -> Link:
    return Link(
        f"http://h{number % 7}.example/{number}", depth=number % 60, kind=kind_of(is_embedded=number % 2 == 0)
    )


def keys_in(box: Outbox) -> list[Key]:
    keys = box.begin()
    return [keys[place] for place in range(len(keys))]


def test_links_come_out_sorted_by_key_each_once(disk: Rows) -> None:
    box = Outbox(disk)
    assert box.add([link(n) for n in range(100)], 0.0) == 100
    assert box.add([link(n) for n in range(100)], 0.0) == 0
    keys = keys_in(box)
    assert keys == sorted(key_of(link(n).url.encode()) for n in range(100))
    assert set(box.read(keys)) == {link(n) for n in range(100)}
    assert box.repeated == 100


def test_what_comes_during_a_walk_is_the_next_ones(disk: Rows) -> None:
    box = Outbox(disk)
    box.add([link(1)], 0.0)
    first = keys_in(box)
    box.add([link(2)], 0.0)
    assert keys_in(box) == first
    box.settle(first, gone=set(first), have={})
    box.end()
    assert [found.url for found in box.read(keys_in(box)) if found] == [link(2).url]


def test_a_walk_that_was_cut_off_goes_on(tmp_path: Path) -> None:
    disk = link_rows(tmp_path / "x")
    box = Outbox(disk)
    box.add([link(1), link(2)], 0.0)
    first = keys_in(box)
    box.note_done(ANNA, b"mark")
    box.note_have(first[:1], BERT)
    box.add([link(3)], 0.0)
    disk.close()
    disk = link_rows(tmp_path / "x")
    again = Outbox(disk)
    assert again._is_walking
    assert len(again) == 3
    assert keys_in(again) == first
    assert again.done() == {short(ANNA): b"mark"}
    assert again.have(first) == [{short(BERT)}, frozenset()]
    again.settle(first, gone={first[0]}, have={first[1]: frozenset({short(ANNA)})})
    again.end()
    assert again.done() == {}
    assert len(again) == 2
    assert again.have(first) == [frozenset(), {short(ANNA)}]
    disk.close()


def test_a_page_farm_gets_its_share_and_others_theirs(disk: Rows) -> None:
    box = Outbox(disk, host_links_max=500)
    farm = [Link(f"http://farm.example/{n}") for n in range(2_000)]
    assert box.add(farm, 0.0) == 500
    assert box.add([Link("http://other.example/")], 0.0) == 1
    assert box.over_budget == 1_500
    keys = keys_in(box)
    box.settle(keys, gone=set(keys), have={})
    box.end()
    assert box.add([Link(f"http://farm.example/later/{n}") for n in range(600)], 0.0) == 500


def test_lately_sent_links_are_remembered_up_to_a_bound(disk: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox_module, "REMEMBERED_MAX", 100)
    box = Outbox(disk)
    box.add([link(n) for n in range(60)], 0.0)
    keys = keys_in(box)
    box.settle(keys, gone=set(keys), have={})
    box.end()
    assert box.add([link(59)], 0.0) == 0
    box.add([link(n) for n in range(1_000, 1_100)], 0.0)
    assert box.add([link(0)], 0.0) == 1  # forgotten, and sent once more


def test_what_a_peer_knows_and_holds_no_more_goes_again_though_it_went_lately(disk: Rows) -> None:
    """Those who got it then may be gone, or hold it no more themselves."""
    box = Outbox(disk)
    box.add([link(1)], 0.0)
    assert box.add([link(1)], 0.0, is_own=True) == 0  # it waits
    keys = keys_in(box)
    box.settle(keys, gone=set(keys), have={})
    box.end()
    assert box.add([link(1)], 0.0) == 0
    assert box.add([link(1)], 0.0, is_own=True) == 1


def test_only_those_that_waited_for_long_are_given_up(disk: Rows) -> None:
    box = Outbox(disk)
    box.add([link(1)], 100.0)
    box.add([link(2)], 200.0)
    assert box.give_up(keys_in(box), 150.0) == [key_of(link(1).url.encode())]
    assert box.given_up == 1


def test_another_format_is_refused(tmp_path: Path) -> None:
    disk = link_rows(tmp_path / "x")
    disk.write(Batch([(b"mformat", b"\x00\x09")]))
    disk.close()
    with pytest.raises(StorageFailure, match=r"another release .format 9"):
        link_rows(tmp_path / "x")


def test_the_standby_remembers_in_the_order_of_keys(disk: Rows) -> None:
    standby = Standby(disk)
    assert standby.add([link(n) for n in range(20)]) == 20
    assert standby.add([link(n) for n in range(25)]) == 5
    keys = sorted(key_of(link(n).url.encode()) for n in range(25))
    assert [key for key, _ in standby.after(None)] == keys
    assert [key for key, _ in standby.after(keys[3], keys[6])] == keys[4:7]
    assert len(Standby(disk)) == 25


PAGE, SITE = Bounds("http://h1.example/", "page"), Bounds("http://h1.example/", "site")


def test_a_link_goes_again_under_wider_bounds_to_all_its_holders(disk: Rows) -> None:
    box = Outbox(disk)
    narrow, wide = link(1)._replace(bounds=PAGE), link(1)._replace(bounds=SITE)
    box.add([narrow], 0.0)
    keys = keys_in(box)
    box.note_have(keys, ANNA)
    assert box.add([wide], 0.0) == 0
    box.add([narrow], 0.0)
    assert (box.read(keys), box.have(keys)) == ([wide], [frozenset()])
    box.settle(keys, gone=set(keys), have={})
    box.end()
    assert box.add([wide, narrow], 0.0) == 0
    assert box.add([link(1)], 0.0) == 1


def test_the_standby_keeps_the_widest_bounds(disk: Rows) -> None:
    standby = Standby(disk)
    deep = link(1)._replace(bounds=SITE, depth=40)
    assert standby.add([link(1)._replace(bounds=PAGE)]) == 1
    assert standby.add([deep]) == 0
    assert standby.add([link(1)._replace(bounds=PAGE)]) == 0
    assert [(found.bounds, found.depth) for _, found in standby.after(None)] == [(SITE, 1)]
