"""Seeds and the last crawl: kept, validated, and used by the commands."""

import threading
from pathlib import Path
from typing import NoReturn

import pytest

from herodotus.core.errors import FileSyntaxError, SettingError
from herodotus.crawl.gear import CrawlOrder, opt_outs
from herodotus.home.seeds import (
    LastCrawl,
    NothingToResume,
    TooManySeeds,
    add_seeds,
    last_crawl,
    note_crawl,
    remove_seeds,
    seeds_of,
)
from tests.herodotus.operate.cli.processes import called, new_home

A, B = "https://a.example/", "https://b.example/x"


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
        b'{"format":1,"seeds":[{"url":"https://a.example/","added":1767225600}]}'
    )
    assert (home / "state/crawl.json").read_bytes() == (
        b'{"format":1,"urls":["https://a.example/"],"scope":"host","depth":null,"content":"html","widens":false,'
        b'"delay":null}'
    )


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b'{"format":2,"seeds":[]}', b'{"format":1,"seeds":[1]}', b"\xff\xfe", b"[" * 10_000],
)
def test_a_damaged_file_is_named_and_nothing_is_overwritten(home: Path, content: bytes) -> None:
    for name in ("seeds.json", "crawl.json"):
        (home / "state" / name).write_bytes(content)
    with pytest.raises(FileSyntaxError, match=r"seeds\.json"):
        add_seeds(home, [A], now=1)
    assert (home / "state/seeds.json").read_bytes() == content
    with pytest.raises(FileSyntaxError, match=r"crawl\.json"):
        last_crawl(home)


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
