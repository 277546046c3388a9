import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawler.core.errors import FrontierUnusableError
from crawler.core.link import Link, kind_of
from crawler.core.recrawl import Recrawl, Result
from crawler.core.rows import Batch
from crawler.core.urls import Origin, UrlKey, origin_of, url_key
from crawler.frontier import REFILL, DueEntry, Frontier, FrontierLimits, fingerprint
from crawler.frontier_rows import FRONTIER_ROWS, frontier_rows
from crawler.rocks import RocksRows

A = Origin("http://a.example")
B = Origin("http://b.example")


def link(
    url: str, depth: int = 1, *, is_embedded: bool = False, is_seed: bool = False, hops: int = 0
) -> Link:
    return Link(url=url, depth=depth, kind=kind_of(is_embedded=is_embedded), is_seed=is_seed, hops=hops)


def taken(frontier: Frontier, origin: Origin) -> DueEntry:
    entry = frontier.take(origin)
    assert entry is not None
    return entry


def crawl_all(frontier: Frontier, result: Result = Result.CHANGED) -> list[str]:
    """Visit everything that is due today, in the frontier's order."""
    visited = []
    while origins := frontier.activate(3):
        for origin in origins:
            while (entry := frontier.take(origin)) is not None:
                visited.append(entry.known.url)
                frontier.record(entry, result)
            frontier.retire(origin)
    return visited


def test_a_url_is_new_once_and_handed_out_once_a_day(tmp_path: Path) -> None:
    frontier = Frontier(frontier_rows(tmp_path), day=1)
    assert (
        frontier.add([link("http://a.example/1"), link("http://a.example/2"), link("http://a.example/1")])
        == 2
    )
    assert frontier.add([link("http://a.example/2")]) == 0
    assert sorted(crawl_all(frontier)) == ["http://a.example/1", "http://a.example/2"]
    assert crawl_all(frontier) == []
    frontier.start_day(2)
    assert len(crawl_all(frontier)) == 2
    frontier.close()


def test_an_opened_frontier_has_the_whole_cache_again(tmp_path: Path) -> None:
    for _ in range(2):
        rows = RocksRows(tmp_path, FRONTIER_ROWS)
        assert rows.cache_bytes_max == FRONTIER_ROWS.cache_bytes
        rows.close()


def test_an_origin_hands_out_by_priority_even_what_came_late(tmp_path: Path) -> None:
    frontier = Frontier(frontier_rows(tmp_path), day=1)
    frontier.add([link(f"http://a.example/{n}", depth=5) for n in range(3 * REFILL)])
    assert frontier.activate(9) == [A]
    first = taken(frontier, A)
    assert first.known.depth == 5
    frontier.record(
        first,
        Result.CHANGED,
        links=[
            link("http://a.example/seed", 0, is_seed=True),
            link("http://a.example/image", 2, is_embedded=True),
        ],
    )
    assert taken(frontier, A).known.url == "http://a.example/seed"
    assert taken(frontier, A).known.url == "http://a.example/image"
    frontier.add([link(f"http://a.example/more{n}", depth=3) for n in range(5 * REFILL)])
    depths = []
    while (entry := frontier.take(A)) is not None:
        depths.append(entry.known.depth)
        frontier.record(entry, Result.CHANGED)
    assert depths == sorted(depths)
    assert len(depths) == 8 * REFILL - 1
    frontier.close()


def test_origins_take_turns_and_an_active_one_is_not_given_twice(tmp_path: Path) -> None:
    frontier = Frontier(frontier_rows(tmp_path), day=1)
    origins = [Origin(f"http://{n}.example") for n in range(10)]
    frontier.add([link(f"{origin}/") for origin in origins])
    first = frontier.activate(4)
    second = frontier.activate(100)
    assert sorted(first + second) == origins
    assert frontier.activate(1) == []
    frontier.retire(first[0])
    assert frontier.activate(5) == [first[0]]
    frontier.close()


def test_a_failed_fetch_comes_again_after_all_others_and_three_times_a_day(tmp_path: Path) -> None:
    frontier = Frontier(frontier_rows(tmp_path), day=1)
    frontier.add([link("http://a.example/bad", 0), link("http://a.example/good", 9)])
    frontier.activate(1)
    order = []
    while (entry := frontier.take(A)) is not None:
        order.append(entry.known.url[-4:].strip("/"))
        frontier.record(entry, Result.FAILED if "bad" in entry.known.url else Result.CHANGED)
    assert order == ["bad", "good", "bad", "bad"]
    frontier.close()


def test_the_rest_that_an_origin_is_owed_outlives_the_process(tmp_path: Path) -> None:
    frontier = Frontier(frontier_rows(tmp_path), day=1)
    frontier.add([link("http://a.example/1"), link("http://a.example/2")])
    frontier.activate(1)
    entry = taken(frontier, A)
    entry.rests_until = 90_000.5
    frontier.record(entry, Result.FAILED)
    frontier.record(taken(frontier, A), Result.FORBIDDEN)  # nothing was asked for
    frontier.close()
    again = Frontier(frontier_rows(tmp_path), day=1)
    assert again.rests_until(A) == 90_000.5
    again.close()


def test_a_rest_is_owed_to_a_host_by_whatever_scheme_and_port(tmp_path: Path) -> None:
    frontier = Frontier(frontier_rows(tmp_path), day=1)
    frontier.add([link("http://a.example/1")])
    frontier.activate(1)
    entry = taken(frontier, A)
    entry.rests_until = 90_000.5
    frontier.record(entry, Result.FAILED)
    frontier.close()
    again = Frontier(frontier_rows(tmp_path), day=1)
    for origin in ("https://a.example", "http://a.example:8080"):
        assert again.rests_until(Origin(origin)) == 90_000.5
    assert again.rests_until(Origin("http://b.a.example")) == 0.0
    again.owe_rest(A, 95_000.0)
    assert again.rests_until(Origin("https://a.example")) == 95_000.0
    again.close()


def test_half_a_validator_is_none(tmp_path: Path) -> None:
    frontier = Frontier(frontier_rows(tmp_path), day=1)
    frontier.add([link("http://a.example/1")])
    frontier.activate(1)
    etag, date = '"' + "e" * 999 + '"', "x" * 101
    frontier.record(taken(frontier, A), Result.CHANGED, etag=etag, last_modified=date)
    known = frontier.known("http://a.example/1")
    assert known is not None
    assert (known.etag, known.last_modified) == ("", "")
    frontier.close()


def test_what_a_crash_left_handed_out_comes_again_as_a_suspect(tmp_path: Path) -> None:
    frontier = Frontier(frontier_rows(tmp_path), day=1)
    frontier.add([link("http://a.example/1", 0), link("http://a.example/2")])
    frontier.activate(1)
    frontier.record(taken(frontier, A), Result.CHANGED)
    assert not taken(frontier, A).is_suspect
    frontier.close()
    again = Frontier(frontier_rows(tmp_path), day=1)
    again.activate(1)
    entry = taken(again, A)
    assert (entry.known.url, entry.is_suspect) == ("http://a.example/2", True)
    again.record(entry, Result.CHANGED)
    assert again.take(A) is None
    again.start_day(2)
    assert not taken(again, A).is_suspect
    again.close()


def test_hosts_that_are_visited_and_tell_nothing_new_are_not_all_kept_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawler.frontier_turns.ORIGINS_CACHED_MAX", 10)
    frontier = Frontier(frontier_rows(tmp_path), day=1)
    frontier.add([link(f"http://h{number}.example/") for number in range(100)])
    frontier.close()
    again = Frontier(frontier_rows(tmp_path), day=1)
    assert len(crawl_all(again, Result.UNCHANGED)) == 100
    assert len(again._counts._origins) <= 20  # between two looks a few more
    assert again.origin_counts(Origin("http://h7.example")).visits == 1
    again.close()


def test_a_released_url_stays_due(tmp_path: Path) -> None:
    frontier = Frontier(frontier_rows(tmp_path), day=1)
    frontier.add([link("http://a.example/1")])
    frontier.activate(1)
    frontier.release(taken(frontier, A))
    frontier.release(taken(frontier, A))
    frontier.retire(A)
    assert frontier.activate(1) == [A]
    assert taken(frontier, A).known.url == "http://a.example/1"
    frontier.close()


def test_a_shorter_way_makes_a_visited_page_come_again_as_a_suspect_only_when_depth_counts(
    tmp_path: Path,
) -> None:
    for tracks_depth in (True, False):
        frontier = Frontier(
            frontier_rows(tmp_path / str(tracks_depth)),
            day=1,
            limits=FrontierLimits(tracks_depth=tracks_depth),
        )
        frontier.add([link("http://a.example/x", 5)])
        crawl_all(frontier)
        frontier.add([link("http://a.example/x", 2)])
        frontier.activate(1)
        entry = frontier.take(A) if tracks_depth else None
        if entry is not None:
            assert (entry.known.depth, entry.is_suspect) == (2, True)
        assert frontier.activate(1) == []
        frontier.close()


def test_a_page_being_fetched_learns_of_a_shorter_way(tmp_path: Path) -> None:
    frontier = Frontier(frontier_rows(tmp_path), day=1, limits=FrontierLimits(tracks_depth=True))
    frontier.add([link("http://a.example/x", 5)])
    frontier.activate(1)
    entry = taken(frontier, A)
    frontier.add([link("http://a.example/x", 2)])
    assert entry.known.depth == 2
    frontier.record(entry, Result.CHANGED)
    found = frontier.known("http://a.example/x")
    assert found is not None
    assert (found.depth, found.due_day) == (2, 2)
    frontier.close()


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_page_that_moves_up_while_it_is_fetched_is_not_lost_when_the_fetch_comes_to_nothing(
    tmp_path: Path, is_killed: bool
) -> None:
    frontier = Frontier(frontier_rows(tmp_path), day=1)
    frontier.add([link("http://a.example/x", 5)])
    frontier.activate(1)
    entry = taken(frontier, A)
    frontier.add([link("http://a.example/x", 0, is_seed=True)])
    if is_killed:
        frontier.close()
        frontier = Frontier(frontier_rows(tmp_path), day=1)
        assert frontier.activate(1) == [A]
    else:
        frontier.release(entry)
    again = taken(frontier, A)
    assert (again.known.url, again.known.priority, again.is_suspect) == ("http://a.example/x", 0, is_killed)
    frontier.record(again, Result.CHANGED)
    assert frontier.take(A) is None
    frontier.start_day(2)
    frontier.retire(A)
    assert crawl_all(frontier) == ["http://a.example/x"]
    frontier.close()


def test_an_origin_has_a_budget_of_known_urls_and_what_is_over_it_is_counted(tmp_path: Path) -> None:
    frontier = Frontier(frontier_rows(tmp_path), day=1, limits=FrontierLimits(urls_per_origin_max=3))
    assert frontier.add([link(f"http://a.example/{n}") for n in range(10)]) == 3
    assert frontier.add([link("http://b.example/"), link("http://a.example/seed", 0, is_seed=True)]) == 2
    assert frontier.origin_counts(A).over_budget == 7
    assert frontier.statistics().over_budget == 7
    assert frontier.statistics().known == 5
    frontier.close()


def test_what_is_looked_for_is_visited_once_more_today_without_asking_the_archive_or_by_old_validators(
    tmp_path: Path,
) -> None:
    frontier = Frontier(frontier_rows(tmp_path), day=1)
    page = "http://a.example/"
    frontier.add([link(page)])
    frontier.activate(1)
    entry = taken(frontier, A)
    assert not frontier.look_for(url_key(page), b"theirs"), "it is being fetched"
    frontier.record(entry, Result.CHANGED, etag="old", last_modified="yesterday", digest=b"ours")
    frontier.doubt([url_key(page)])
    for _ in range(2):
        assert frontier.look_for(url_key(page), b"theirs")
        assert frontier.statistics().due == 1
        again = taken(frontier, A)
        assert (again.known.digest, again.known.etag, again.known.last_modified) == (b"theirs", "", "")
        assert not again.is_suspect
        frontier.record(again, Result.UNCHANGED)
        assert frontier.statistics().due == 0
        frontier.leave([url_key(page)])
    assert not frontier.look_for(url_key("http://a.example/unknown"), b"theirs")
    frontier.close()


def test_validators_digest_and_links_of_the_last_version_are_remembered(tmp_path: Path) -> None:
    frontier = Frontier(frontier_rows(tmp_path), day=1)
    frontier.add([link("http://a.example/")])
    frontier.activate(1)
    entry = taken(frontier, A)
    marks = fingerprint("http://a.example/1") + fingerprint("http://a.example/2")
    frontier.record(
        entry, Result.CHANGED, etag='"e"', last_modified="then", digest=b"d" * 32, fingerprints=marks
    )
    frontier.close()
    again = Frontier(frontier_rows(tmp_path), day=2)
    known = again.known("http://a.example/")
    assert known is not None
    assert (known.etag, known.last_modified, known.digest, known.visits) == ('"e"', "then", b"d" * 32, 1)
    assert again.last_links(entry.key) == {
        fingerprint("http://a.example/1"),
        fingerprint("http://a.example/2"),
    }
    again.close()


def test_days_do_not_run_backwards_and_are_remembered(tmp_path: Path) -> None:
    frontier = Frontier(frontier_rows(tmp_path), day=7)
    with pytest.raises(ValueError, match="before"):
        frontier.start_day(6)
    frontier.close()
    again = Frontier(frontier_rows(tmp_path), day=3)  # a clock that was set back
    assert again.day == 7
    again.close()


def test_two_processes_cannot_share_a_frontier(tmp_path: Path) -> None:
    frontier = Frontier(frontier_rows(tmp_path), day=1)
    with pytest.raises(FrontierUnusableError, match="lock"):
        Frontier(frontier_rows(tmp_path), day=1)
    frontier.close()


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32))
def test_every_url_is_visited_exactly_on_the_days_when_it_is_due(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    """Against a dict: any mix of adding, visiting, failing, reopening; nothing lost, nothing twice a day."""
    chance = random.Random(seed)
    folder = tmp_path_factory.mktemp("frontier")
    day = 1
    frontier = Frontier(frontier_rows(folder), day=day)
    due: dict[str, int] = {}
    for _ in range(12):
        urls = [
            f"http://{chance.choice('abc')}.example/{chance.randrange(40)}"
            for _ in range(chance.randrange(30))
        ]
        frontier.add([link(url, chance.randrange(4)) for url in urls])
        for url in urls:
            due.setdefault(url, day)
        for origin in frontier.activate(3):
            for _ in range(chance.randrange(20)):
                entry = frontier.take(origin)
                if entry is None:
                    assert not [url for url, at in due.items() if origin_of(url) == origin and at <= day]
                    break
                url = entry.known.url
                assert due[url] <= day
                result = chance.choice([Result.CHANGED, Result.UNCHANGED, Result.GONE, Result.FAILED])
                frontier.record(entry, result, recrawl=Recrawl.ADAPTIVE)
                known = frontier.known(url)
                assert known is not None
                due[url] = known.due_day
            frontier.retire(origin)
        assert frontier.statistics().due == sum(at <= day for at in due.values())
        action = chance.random()
        if action < 0.3:
            frontier.close()
            frontier = Frontier(frontier_rows(folder), day=day)
        elif action < 0.6:
            day += 1
            frontier.start_day(day)
    everything = sorted(url for url, at in due.items() if at <= day)
    assert sorted(crawl_all(frontier)) == everything
    frontier.close()


def test_an_origin_has_a_share_of_visits_a_day_that_a_restart_does_not_renew(tmp_path: Path) -> None:
    limits = FrontierLimits(visits_per_origin_max=3)
    frontier = Frontier(frontier_rows(tmp_path), day=1, limits=limits)
    frontier.add([link(f"http://a.example/{n}") for n in range(5)] + [link("http://b.example/")])
    frontier.activate(1)
    frontier.close()
    frontier = Frontier(frontier_rows(tmp_path), day=1, limits=limits)
    assert len([url for url in crawl_all(frontier) if origin_of(url) == A]) == 3
    assert (frontier.statistics().held_back, frontier.statistics().due) == (1, 2)
    frontier.close()
    frontier = Frontier(frontier_rows(tmp_path), day=1, limits=limits)
    frontier.add([link("http://a.example/more")])
    assert crawl_all(frontier) == []
    frontier.start_day(2)
    assert len(crawl_all(frontier)) == 4  # three of a, and b again
    frontier.close()


def test_a_crawl_hands_out_its_own_origins_and_leaves_the_others_due(tmp_path: Path) -> None:
    frontier = Frontier(frontier_rows(tmp_path), day=1)
    frontier.add([link("http://a.example/1"), link("http://b.example/1")])
    assert frontier.activate(9, lambda origin: origin == B) == [B]
    frontier.retire(B)
    frontier.close()
    again = Frontier(frontier_rows(tmp_path), day=1)
    assert sorted(crawl_all(again)) == ["http://a.example/1", "http://b.example/1"]
    again.close()


def test_what_is_passed_over_stays_due_and_is_not_met_again_on_the_way(tmp_path: Path) -> None:
    frontier = Frontier(frontier_rows(tmp_path), day=1)
    frontier.add([link("http://a.example/1"), link("http://a.example/2")])
    frontier.activate(1)
    frontier.pass_over(taken(frontier, A))
    frontier.record(taken(frontier, A), Result.CHANGED)
    assert frontier.take(A) is None
    assert frontier.statistics().due == 1
    frontier.close()
    again = Frontier(frontier_rows(tmp_path), day=1)
    again.activate(1)
    assert not taken(again, A).is_suspect
    again.close()


def test_pages_that_are_to_be_read_again_come_as_suspects_once_and_gone_ones_do_not(tmp_path: Path) -> None:
    frontier = Frontier(frontier_rows(tmp_path), day=1)
    frontier.add([link("http://a.example/kept"), link("http://a.example/gone"), link("http://b.example/")])
    for origin in frontier.activate(2):
        while (entry := frontier.take(origin)) is not None:
            frontier.record(entry, Result.GONE if "gone" in entry.known.url else Result.CHANGED)
        frontier.retire(origin)
    assert frontier.reread(lambda origin: origin == A) == 1
    assert frontier.statistics().due == 1
    frontier.close()
    frontier = Frontier(frontier_rows(tmp_path), day=1)
    assert frontier.activate(2) == [A]
    entry = taken(frontier, A)
    assert (entry.known.url, entry.is_suspect) == ("http://a.example/kept", True)
    frontier.record(entry, Result.CHANGED)
    assert frontier.take(A) is None
    frontier.close()


def test_what_was_of_no_wanted_type_is_due_again_when_the_crawl_takes_in_more(tmp_path: Path) -> None:
    frontier = Frontier(frontier_rows(tmp_path), day=1)
    frontier.add([link("http://a.example/paper.pdf")])
    frontier.activate(1)
    frontier.record(taken(frontier, A), Result.UNWANTED)
    assert frontier.take(A) is None
    assert frontier.reread(lambda origin: origin == A) == 1
    entry = taken(frontier, A)
    assert (entry.known.url, entry.is_suspect) == ("http://a.example/paper.pdf", False)
    frontier.close()


def test_a_page_behind_a_redirect_that_links_to_itself_has_had_its_visit(tmp_path: Path) -> None:
    frontier = Frontier(frontier_rows(tmp_path), day=1)
    frontier.add([link("http://a.example/moved", hops=1)])
    frontier.activate(1)
    entry = taken(frontier, A)
    frontier.record(entry, Result.CHANGED, links=[link("http://a.example/moved", depth=1)])
    assert frontier.take(A) is None
    assert frontier.statistics().due == 0
    frontier.close()


def test_a_frontier_of_an_older_release_is_counted_once(tmp_path: Path) -> None:
    rows = frontier_rows(tmp_path)
    frontier = Frontier(rows, day=1)
    frontier.add([link(f"http://a.example/{n}") for n in range(5)])
    rows.write(Batch([(row, None) for row in rows.keys(b"mdue", b"mduf")]))
    frontier.close()
    for _ in range(2):
        frontier = Frontier(frontier_rows(tmp_path), day=1)
        assert frontier.statistics().due == 5
        frontier.close()


def test_what_was_left_and_taken_back_within_its_turn_is_handed_out_once(tmp_path: Path) -> None:
    """It stands twice in the queue of its origin, once with what is known of it: this ended the taking of links."""
    frontier = Frontier(frontier_rows(tmp_path), day=1)
    urls = [f"http://a.example/{number}" for number in range(20)]
    frontier.add([link(url) for url in urls])
    assert frontier.activate(1) == [A]
    first = taken(frontier, A)  # the others are in the queue now
    keys = [url_key(url) for url in urls]
    assert frontier.leave(keys) == 19
    assert frontier.take_back(keys) == 19
    frontier.release(first)
    frontier.retire(A)
    assert sorted(crawl_all(frontier)) == sorted(urls)
    frontier.close()


def test_what_was_left_and_taken_back_keeps_its_turn(tmp_path: Path) -> None:
    frontier = Frontier(frontier_rows(tmp_path), day=1)
    urls = [f"http://a.example/{number}" for number in range(20)]
    frontier.add([link(url) for url in urls])
    assert frontier.activate(1) == [A]
    visited = [taken(frontier, A)]
    keys = [url_key(url) for url in urls]
    frontier.leave(keys)
    frontier.take_back(keys)
    while (entry := frontier.take(A)) is not None:
        visited.append(entry)
    assert sorted(entry.known.url for entry in visited) == sorted(urls)
    frontier.close()


def test_what_was_left_or_never_known_is_in_doubt_no_more(tmp_path: Path) -> None:
    frontier = Frontier(frontier_rows(tmp_path), day=1)
    urls = [f"http://a.example/{number}" for number in range(11)]
    frontier.add([link(url) for url in urls])
    keys = [UrlKey(url_key(url)) for url in urls]
    frontier.doubt([*keys, UrlKey(url_key("http://a.example/unknown"))])
    assert frontier._turns.suspects == 11
    assert frontier.leave(keys[1:]) == 10
    assert frontier._turns.suspects == 1
    frontier.close()
    frontier = Frontier(frontier_rows(tmp_path), day=1)
    assert frontier._turns.suspects == 1
    assert frontier.activate(1) == [A]
    entry = taken(frontier, A)
    assert (entry.known.url, entry.is_suspect) == (urls[0], True)
    frontier.close()


def test_doubt_has_room_again_when_what_filled_it_was_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawler.frontier.DOUBTED_MAX", 3)
    frontier = Frontier(frontier_rows(tmp_path), day=1)
    urls = [f"http://a.example/{number}" for number in range(6)]
    frontier.add([link(url) for url in urls])
    keys = [UrlKey(url_key(url)) for url in urls]
    frontier.doubt(keys[:5])
    assert frontier._turns.suspects == 3
    frontier.leave(keys[:5])
    frontier.doubt(keys[5:])
    assert frontier.activate(1) == [A]
    assert taken(frontier, A).is_suspect
    frontier.close()


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32))
def test_whatever_is_left_and_taken_back_nothing_is_lost_or_visited_twice(seed: int) -> None:
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        frontier = Frontier(frontier_rows(Path(folder)), day=1)
        urls = [f"http://a.example/{n}" for n in range(30)]
        frontier.add([link(url, depth=chance.randrange(4)) for url in urls])
        assert frontier.activate(1) == [A]
        visited: list[str] = []
        for _ in range(60):
            some = [UrlKey(url_key(url)) for url in chance.sample(urls, 6)]
            chance.choice((frontier.leave, frontier.take_back))(some)
            if chance.random() < 0.7 and (entry := frontier.take(A)) is not None:
                if chance.random() < 0.3:
                    frontier.release(entry)
                else:
                    visited.append(entry.known.url)
                    frontier.record(entry, Result.CHANGED)
        frontier.take_back([UrlKey(url_key(url)) for url in urls])
        while (entry := frontier.take(A)) is not None:
            visited.append(entry.known.url)
            frontier.record(entry, Result.CHANGED)
        frontier.close()
    assert sorted(visited) == sorted(urls), f"seed {seed}"


def test_what_a_page_embeds_stays_so_when_it_failed(tmp_path: Path) -> None:
    """Its priority becomes that of a retry, and later that of a page; other holders are told what it is."""
    frontier = Frontier(frontier_rows(tmp_path), day=1)
    frontier.add([link("http://a.example/image", is_embedded=True)])
    for day in (1, 2):
        frontier.start_day(day)
        frontier.activate(1)
        entry = taken(frontier, A)
        assert entry.known.is_embedded
        frontier.record(entry, Result.FAILED if day == 1 else Result.CHANGED)
        frontier.retire(A)
    frontier.close()


def test_a_shorter_way_to_a_url_says_what_it_is(tmp_path: Path) -> None:
    frontier = Frontier(frontier_rows(tmp_path), day=1, limits=FrontierLimits(tracks_depth=True))
    frontier.add([link("http://a.example/x", depth=3)])
    frontier.add([link("http://a.example/x", depth=5, is_embedded=True)])
    frontier.add([link("http://a.example/x", depth=1, is_embedded=True)])
    frontier.activate(1)
    entry = taken(frontier, A)
    assert (entry.known.depth, entry.known.priority, entry.known.is_embedded) == (1, 4, True)
    frontier.close()
