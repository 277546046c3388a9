"""Seeds and the last crawl: kept, validated, and used by the commands."""

import threading
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest

from crawler.core.recrawl import Bounds, Known, decode_known, encode_known
from herodotus.core.errors import FileSyntaxError, SettingError
from herodotus.crawl.gear import CrawlOrder, bounds_of_seed, opt_outs
from herodotus.home.seeds import (
    LastCrawl,
    NothingToResume,
    Seed,
    TooManySeeds,
    add_seeds,
    last_crawl,
    note_crawl,
    remove_seeds,
    seeds_of,
)
from tests.herodotus.operate.cli.processes import called, new_home

A, B = "https://a.example/", "https://b.example/x"
FULL = Seed(
    url="",
    added=0,
    scope="site",
    depth=3,
    content="html",
    every_s=86_400,
    until_s=1_798_761_599,
    limit=50,
    name="Elections",
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "state").mkdir()
    return tmp_path


def test_seeds_stay_in_their_order_and_are_kept_once(home: Path) -> None:
    assert add_seeds(home, [B, A, B], now=5) == [B, A]
    assert add_seeds(home, [A], now=6) == []
    assert [(one.url, one.added) for one in seeds_of(home)] == [(B, 5), (A, 5)]
    assert remove_seeds(home, [A, "https://never.example/"]) == ["https://never.example/"]
    assert [one.url for one in seeds_of(home)] == [B]


def test_the_files_have_these_bytes(home: Path) -> None:
    add_seeds(home, [A], now=1_767_225_600.9)
    note_crawl(home, LastCrawl(urls=[A], scope="host", depth=None, content="html"))
    assert (home / "state/seeds.json").read_bytes() == (
        b'{"format":2,"seeds":[{"url":"https://a.example/","added":1767225600}]}'
    )
    add_seeds(home, [A], now=1.0, options=FULL)
    assert (home / "state/seeds.json").read_bytes() == (
        b'{"format":2,"seeds":[{"url":"https://a.example/","added":1767225600,"scope":"site","depth":3,'
        b'"content":"html","every_s":86400,"until_s":1798761599,"limit":50,"name":"Elections"}]}'
    )
    assert (home / "state/crawl.json").read_bytes() == (
        b'{"format":1,"urls":["https://a.example/"],"scope":"host","depth":null,"content":"html","widens":false,'
        b'"delay":null}'
    )


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b'{"format":3,"seeds":[]}', b'{"format":1,"seeds":[1]}', b"\xff\xfe", b"[" * 10_000],
)
def test_a_damaged_file_is_named_and_nothing_is_overwritten(home: Path, content: bytes) -> None:
    for name in ("seeds.json", "crawl.json"):
        (home / "state" / name).write_bytes(content)
    with pytest.raises(FileSyntaxError, match=r"seeds\.json"):
        add_seeds(home, [A], now=1)
    assert (home / "state/seeds.json").read_bytes() == content
    with pytest.raises(FileSyntaxError, match=r"crawl\.json"):
        last_crawl(home)


def test_seeds_of_the_first_format_are_read(home: Path) -> None:
    (home / "state/seeds.json").write_bytes(b'{"format":1,"seeds":[{"url":"https://a.example/","added":7}]}')
    assert seeds_of(home) == [Seed(url=A, added=7)]


def test_options_are_given_to_seeds_that_are_there_and_none_change_nothing(home: Path) -> None:
    add_seeds(home, [A], now=5)
    assert add_seeds(home, [A, B], now=6, options=FULL) == [B]
    assert [(one.added, one.name) for one in seeds_of(home)] == [(5, "Elections"), (6, "Elections")]
    add_seeds(home, [A], now=7)
    assert seeds_of(home)[0].name == "Elections"


def test_options_are_bounds_in_days_of_the_network_within_what_rows_can_hold() -> None:
    order = CrawlOrder(urls=())
    assert bounds_of_seed(Seed(url=A, added=0, name="ours"), order) is None
    found = bounds_of_seed(FULL.with_options_of(FULL), order)
    assert found == Bounds("", "site", 3, "html", 1, 20_818, 50)
    short = replace(order, day_length_s=10.0, day_offset_s=5.0)
    far = Seed(url=A, added=0, every_s=86_400, until_s=253_402_300_799, depth=99, limit=10**12)
    wide = bounds_of_seed(far, short)
    assert wide == Bounds(A, "any", 62, "", 366, 2**32 - 3, 10**9)
    assert decode_known(encode_known(Known(url=A, bounds=wide))).bounds == wide
    odd = bounds_of_seed(Seed(url=A, added=0, every_s=-1, until_s=-(10**9), depth=-1, limit=-1), order)
    assert odd == Bounds(A, "any", 0)
    assert decode_known(encode_known(Known(url=A, bounds=odd))).bounds == odd
    assert bounds_of_seed(Seed(url="x" * 501, added=0, depth=1), order) is None


def test_two_who_add_at_once_lose_nothing(home: Path) -> None:
    def add(number: int) -> None:
        add_seeds(home, [f"https://{number}.example/"], now=1)

    adding = [threading.Thread(target=add, args=(number,)) for number in range(12)]
    for one in adding:
        one.start()
    for one in adding:
        one.join()
    assert len(seeds_of(home)) == 12


def test_the_number_of_seeds_has_a_bound(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("herodotus.home.seeds.SEEDS_MAX", 2)
    add_seeds(home, [A, B], now=1)
    with pytest.raises(TooManySeeds, match="3 seeds"):
        add_seeds(home, ["https://c.example/"], now=1)
    assert len(seeds_of(home)) == 2


def test_the_commands_keep_list_and_drop_seeds(tmp_path: Path) -> None:
    home = new_home(tmp_path / "home")
    listed = tmp_path / "list"
    listed.write_text("# ours\nb.example/x  # with a word\n\n")
    added = called("seed", "add", "A.example", "--file", str(listed), "--home", str(home), "--json")
    assert added.json == {"added": [A, B], "known": 0}
    assert called("seed", "list", "--home", str(home)).out == f"{A}\n{B}\n"
    assert called("seed", "remove", "a.example", "--home", str(home)).code == 0
    shown = called("seed", "list", "--home", str(home), "--json").json
    assert [one["url"] for one in shown] == [B]
    missing = called("seed", "remove", "a.example", "--home", str(home))
    assert (missing.code, "not a seed: https://a.example/" in missing.err) == (3, True)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("seed", "add", A, "--every", "6h"), "--every: 6h is too often"),
        (("seed", "add", A, "--every", "6h"), "Say --every 1d, or begin a network of your own"),
        (("seed", "add", A, "--every", "36h"), "not a whole number of days"),
        (("seed", "add", A, "--every", "54w"), "or more than 366"),
        (("seed", "add", A, "--every", "often"), "'often' is no time such as 1d"),
        (("seed", "add", A, "--until", "2020"), "2020 is over"),
        (("seed", "add", A, "--until", "soon"), "--until: 'soon' is not a date"),
        (("seed", "add", A, "--content", "all"), "choose that or less"),
        (("seed", "add", A, "--depth", "63"), "0<=x<=62"),
        (("seed", "add", A, "--limit", "0"), "1<=x<=1000000000"),
        (("seed", "add", A, "--scope", "web"), "'web' is not one of"),
        (("seed", "add", A, "--name", "x" * 101), "--name: it is longer than 100"),
        (("seed", "add", A + "x" * 500, "--depth", "1"), "longer than 500 characters"),
        (("crawl", A + "x" * 500, "--scope", "site"), "longer than 500 characters"),
        (("seed", "add"), "name at least one URL"),
        (("seed", "add", "ftp://a.example/"), "only http and https"),
        (("seed", "add", "http://bad host/"), "cannot parse"),
        (("seed", "add", "http://[::1]/"), "private address"),
        (("seed", "add", "http://10.0.0.1/"), "private address"),
        (("seed", "add", "www.shy.example"), "asked not to be visited"),
        (("seed", "add", "x" * 5_000), "longer than"),
        (("crawl", "http://127.0.0.1/"), "private address"),
        (("crawl", "--resume", "a.example"), "--resume takes"),
        (("crawl", "--resume", "--depth", "3"), "--resume takes"),
        (("crawl", "a.example", "--delay", "0.1"), "be polite"),
    ],
)
def test_what_cannot_be_a_seed_or_a_crawl_is_a_clear_error(
    tmp_path: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    home = new_home(tmp_path / "home", "--network", "public", "--contact", "https://ours.example/")
    refused = called(*arguments, "--home", str(home), environment={"HERODOTUS_CRAWL_OPT_OUT": "shy.example"})
    assert refused.code == 2, refused.err
    assert sentence in refused.err
    assert not (home / "state/seeds.json").exists()


@pytest.mark.parametrize(("asked", "expected"), [((), 30.0), (("--delay", "45"), 45.0)])
def test_a_crawl_that_goes_on_keeps_its_delay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: tuple[str, ...], expected: float
) -> None:
    home = new_home(tmp_path / "home")
    delays: list[float] = []

    async def crawl_into(home: Path, order: CrawlOrder, *world: object, **more: object) -> NoReturn:
        delays.append(order.politeness.delay_floor_s)
        raise NothingToResume(home=str(home))  # a crawl that ends at once

    monkeypatch.setattr("herodotus.crawl.single_run.crawl_into", crawl_into)
    called("crawl", "http://127.0.0.1/", "--delay", "30", "--home", str(home))
    called("crawl", "--resume", *asked, "--home", str(home))
    assert delays == [30.0, expected]


def test_an_opt_out_that_names_no_host_is_a_clear_error() -> None:
    with pytest.raises(SettingError, match=r"crawl\.opt_out.*no host name"):
        opt_outs(["no host"])


def test_a_crawl_without_anything_to_crawl_says_how_to_begin(tmp_path: Path) -> None:
    home = new_home(tmp_path / "home")
    nothing = called("crawl", "--home", str(home))
    assert (nothing.code, "herodotus seed add" in nothing.err) == (3, True)
    nothing = called("crawl", "--resume", "--home", str(home))
    assert (nothing.code, "no crawl was begun" in nothing.err) == (3, True)


def test_the_public_network_asks_for_a_contact_page_before_it_crawls(tmp_path: Path) -> None:
    home = new_home(tmp_path / "home", "--network", "public", "--contact", "https://ours.example/")
    refused = called(
        "crawl", "a.example", "--home", str(home), environment={"HERODOTUS_OPERATOR_CONTACT": ""}
    )
    assert refused.code == 2
    assert "operator.contact" in refused.err
