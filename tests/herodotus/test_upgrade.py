"""Does a home of the first release open after an upgrade, and one of a later release end in a clear sentence?"""

import json
import shutil
import tarfile
from pathlib import Path

import msgspec
import pytest
from rocksdict import Options, Rdict

from crawler.frontier import Frontier
from crawler.frontier_rows import frontier_rows
from dht.core.records import SignedRecord
from dht.wire import decode_record
from herodotus.home.seeds import LastCrawl, Seed, last_crawl, seeds_of
from tests.herodotus.operate.cli.processes import called, running

OLD_HOMES = Path(__file__).parents[1] / "data" / "homes"
PEER_ID = "nqqt-as6b-fej7-rq6t-tj7x-zfhp-2zah-hfhf-rbix-vjja-j6j7-7aui-adrq"
CRAWLED_FROM = "http://127.0.0.1:8765/"
BODIES = {
    "20231114221320": b"<html>first</html>",
    "20231115221320": b"<html>second</html>",
    "20231116221320": b"<html>third</html>",
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    with tarfile.open(OLD_HOMES / "1.tar.gz") as packed:
        packed.extractall(tmp_path, filter="data")
    return tmp_path / "home"


def record_of(home: Path) -> SignedRecord:
    signed = decode_record((home / "state" / "record").read_bytes())
    assert isinstance(signed, SignedRecord)
    return signed


# -- an old home opens ------------------------------------------------------------------------------------


def test_the_key_the_settings_and_the_charter_are_read(home: Path) -> None:
    assert called("identity", "show", "--home", home).out == f"{PEER_ID}\n"
    settings = called("config", "show", "--home", home, "--json").json
    assert settings["operator.contact"]["value"] == '"https://example.org/peer"'
    assert settings["preset"]["value"] == '"test"'


def test_the_seeds_and_the_last_crawl_are_read(home: Path) -> None:
    added = 1_795_032_111
    assert seeds_of(home) == [
        Seed(url=CRAWLED_FROM, added=added),
        Seed(url="https://example.org/", added=added),
    ]
    assert last_crawl(home) == LastCrawl(
        urls=[CRAWLED_FROM], scope="host", depth=None, content="html+images", widens=False, delay=None
    )


@pytest.mark.parametrize("has_index", [True, False])
def test_every_version_is_read_with_its_index_and_without(
    home: Path, has_index: bool, tmp_path: Path
) -> None:
    if not has_index:
        shutil.rmtree(home / "index")
    assert called("verify", "--home", home).code == 0
    assert called("stats", "--home", home, "--json").json["captures"] == 8
    history = called("history", "--home", home, "--json", "http://example.org/").json
    assert ["".join(c for c in one["date"] if c.isdigit()) for one in history] == list(BODIES)
    for date, body in BODIES.items():
        out = tmp_path / date
        assert called("get", "--home", home, "--at", date, "-o", out, "http://example.org/").code == 0
        assert out.read_bytes() == body
    # A revisit, whose body lies with the original; and a URL that was deleted.
    twin = tmp_path / "twin"
    assert (
        called("get", "--home", home, "--at", "20231115221320", "-o", twin, "http://example.org/twin").code
        == 0
    )
    assert twin.read_bytes() == b"<html>the same body under two names</html>"
    assert called("history", "--home", home, "http://example.org/gone").code == 3
    assert called("history", "--home", home, f"{CRAWLED_FROM}a.html").code == 0


def test_a_whole_index_is_not_made_anew(home: Path) -> None:
    """For who has a hundred million captures, an upgrade must not take hours."""
    tables = {file.name for file in (home / "index").glob("*.sst")}
    assert called("stats", "--home", home).code == 0
    assert tables <= {file.name for file in (home / "index").glob("*.sst")}


def test_the_frontier_knows_what_is_due(home: Path) -> None:
    frontier = Frontier(frontier_rows(home / "queue"), day=0)
    try:
        known = [frontier.known(f"{CRAWLED_FROM}{name}") for name in ("", "a.html", "b.html")]
        assert [one is not None and one.last_day >= 0 for one in known] == [True, True, False]
        assert frontier.statistics().known == 3
    finally:
        frontier.close()


@pytest.mark.e2e
def test_the_peer_runs_under_its_old_name_and_says_so_in_a_newer_record(home: Path) -> None:
    before = record_of(home)
    with running(home) as peer:
        assert peer.facts["peer_id"] == PEER_ID
        status = called("status", "--home", home, "--json").json
        assert (status["store"]["captures"], status["store"]["state"]) == (8, "open")
        assert peer.end()[0] == 0
    after = record_of(home)
    assert after.record.peer == before.record.peer
    assert after.record.incarnation > before.record.incarnation


# -- a newer home is refused ------------------------------------------------------------------------------


def of_a_newer_frontier(home: Path) -> None:
    database = Rdict(str(home / "queue"), Options(raw_mode=True))
    database[b"mformat"] = (2).to_bytes(2, "big")
    database.close()


def test_a_newer_home_is_refused(home: Path) -> None:
    mark = home / "state" / "home.json"
    mark.write_text(json.dumps({**json.loads(mark.read_text()), "format": 2}))
    for command in ("run", "stats", "config show", "identity show"):
        refused = called(*command.split(), "--home", home)
        if command != "config show":  # what is in force can be asked of any home
            assert refused.code == 2, command
            assert "was written by a newer release (format 2); upgrade herodotus" in refused.err


def test_a_setting_of_a_newer_release_is_named(home: Path) -> None:
    with (home / "config.toml").open("a") as file:
        file.write("\n[telepathy]\nrange_km = 3\n")
    refused = called("run", "--home", home)
    assert refused.code == 2
    assert f"{home}/config.toml: telepathy is not a section; known are " in refused.err


def test_a_network_that_went_on_to_a_newer_protocol_asks_for_an_upgrade(home: Path, tmp_path: Path) -> None:
    charter = tmp_path / "network.toml"
    charter.write_text('name = "later"\nprotocol_min = 2\n')
    refused = called("init", "--home", tmp_path / "new", "--network", charter)
    assert refused.code == 2
    assert (
        f"{charter}: protocol_min asks for version 2 of the peers' protocol; upgrade herodotus: this release"
        " speaks version 1"
    ) in refused.err
    assert not (tmp_path / "new").exists()
    shutil.copy(charter, home / "network.toml")
    assert "protocol_min asks for version 2" in called("run", "--home", home).err


@pytest.mark.parametrize(("name", "newest"), [("seeds.json", 2), ("crawl.json", 1)])
def test_newer_state_is_refused_and_left(home: Path, name: str, newest: int) -> None:
    file = home / "state" / name
    content = json.dumps({**json.loads(file.read_text()), "format": newest + 1})
    file.write_text(content)
    command = ("seed", "list") if name == "seeds.json" else ("crawl", "--resume")
    refused = called(*command, "--home", home)
    assert refused.code == 2
    assert (
        f"{file} has format {newest + 1}, and this release reads {newest}; upgrade herodotus" in refused.err
    )
    assert file.read_text() == content


def test_a_newer_frontier_is_refused(home: Path) -> None:
    of_a_newer_frontier(home)
    refused = called("crawl", "--resume", "--home", home)
    assert refused.code == 1
    assert (
        "was written by another release (format 2); upgrade herodotus: this release reads format 1"
        in refused.err
    )
    assert "mistake of ours" not in refused.err


def test_a_newer_index_is_made_anew_from_the_files(home: Path) -> None:
    database = Rdict(str(home / "index"), Options(raw_mode=True))
    database[b"mformat"] = b"99"
    database.close()
    assert called("stats", "--home", home, "--json").json["captures"] == 8
    assert called("history", "--home", home, "http://example.org/twin").code == 0


@pytest.mark.e2e
def test_newer_notes_of_other_peers_are_done_without(home: Path) -> None:
    """They only save time: whom this peer met, and what it last told of itself."""
    met = home / "state" / "peers"
    _, network, rows = msgspec.msgpack.decode(met.read_bytes())
    met.write_bytes(msgspec.msgpack.encode([2, network, rows]))
    (home / "state" / "record").write_bytes(b"\xff of a newer kind")
    with running(home) as peer:
        assert peer.facts["peer_id"] == PEER_ID
        code, _, err = peer.end()
    assert code == 0
    assert "remembered peers are of another version or network, ignored" in err
