"""Does a network keep its identity for ever, and is a charter that makes no sense refused?"""

import dataclasses
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dht.core.places import PlaceRules
from herodotus.core import charter as charters
from herodotus.core.charter import PUBLIC_CHARTER, TEST_CHARTER, Charter, shown_network_id
from herodotus.core.errors import SettingError
from herodotus.core.settings.fields import PeerDoor, whole
from herodotus.crawl.gear import url_rules
from herodotus.peers.membership import place_rules_of


def test_the_public_network_keeps_its_canonical_bytes_and_id() -> None:
    assert PUBLIC_CHARTER.canonical() == b'{"content":"pages","name":"herodotus"}'
    assert (
        PUBLIC_CHARTER.network_id().hex()
        == "bb81b25462452e26a8b7b727e99883f5c6f220fb2720ddf69f5c2cc041407f64"
    )
    assert shown_network_id(PUBLIC_CHARTER.network_id()) == "bb81b25462452e26"


def test_the_test_network_keeps_its_canonical_bytes_and_id() -> None:
    assert TEST_CHARTER.canonical() == (
        b'{"allow_private_addresses":true,"contact_required":false,"delay_floor_s":"0.000","id_check":"off",'
        b'"name":"test","per_address_concurrency":64,"save_endpoint":true}'
    )
    assert (
        TEST_CHARTER.network_id().hex() == "1e92efc560cfbcc8356c017de54f2e0f1b8009d35c08811a06c08106f8620eb1"
    )


def test_a_charter_with_every_key_keeps_its_canonical_bytes() -> None:
    full = Charter(
        name="Bücherei", copies=3, successors=8, slots=4, positions_per_address=16, id_check="off",
        allow_private_addresses=True, delay_floor_s=0.25, per_address_concurrency=1, fetch_by="all",
        recrawl="adaptive", day_start="06:30", day_length_s=60, scope=("example.org", "https://a.test/x/"),
        content="all", contact_required=False, save_endpoint=True, protocol_min=2, places="peer", place_v4=20,
        place_v6=56, area_v4=12, area_v6=32, positions_per_place=64, spare_copies=2, founded="2026-11-19",
        probation_days=3, veteran_days=30,
    )  # fmt: skip
    assert full.canonical() == (
        rb'{"allow_private_addresses":true,"area_v4":12,"area_v6":32,"contact_required":false,"content":"all","copies":3,'
        rb'"day_length_s":60,"day_start":"06:30","delay_floor_s":"0.250","fetch_by":"all","founded":"2026-11-19","id_check":"off",'
        rb'"name":"B\u00fccherei","per_address_concurrency":1,"place_v4":20,"place_v6":56,"places":"peer",'
        rb'"positions_per_address":16,"positions_per_place":64,"probation_days":3,"protocol_min":2,'
        rb'"recrawl":"adaptive","save_endpoint":true,"scope":["example.org","https://a.test/x/"],"slots":4,'
        rb'"spare_copies":2,"successors":8,"veteran_days":30}'
    )


def test_contacts_are_a_networks_own_and_a_charter_without_them_keeps_its_id() -> None:
    table = {"name": "n", "contacts": ["Ring.Example.org.", "[2001:DB8::7]:4484"]}
    charter = Charter.from_table(table, source="f")
    assert charter.canonical() == b'{"contacts":["ring.example.org","[2001:db8::7]:4484"],"name":"n"}'
    assert Charter.from_table({"name": "n", "contacts": []}, source="f").canonical() == b'{"name":"n"}'
    with pytest.raises(SettingError, match="neither an address nor a name"):
        Charter.from_table({"name": "n", "contacts": ["http://ring.example.org/"[7:]]}, source="f")


def test_parameters_that_a_network_drops_make_it_another_network() -> None:
    dropping = dataclasses.replace(PUBLIC_CHARTER, dropped_parameters=("ref", "from"))
    assert (
        dropping.canonical() == b'{"content":"pages","dropped_parameters":["ref","from"],"name":"herodotus"}'
    )
    assert url_rules(dropping).canonical("http://a.example/?ref=x&id=1") == "http://a.example/?id=1"


def test_the_keys_are_those_of_the_design_and_the_parameters_that_a_network_drops() -> None:
    assert [one.name for one in dataclasses.fields(Charter)] == [
        "name", "copies", "successors", "slots", "positions_per_address", "places", "place_v4", "place_v6", "area_v4",
        "area_v6", "positions_per_place", "spare_copies", "founded", "probation_days", "veteran_days", "id_check",
        "allow_private_addresses",
        "delay_floor_s", "per_address_concurrency", "fetch_by", "recrawl", "day_start", "day_length_s", "scope",
        "dropped_parameters", "content", "contacts", "contact_required", "save_endpoint", "spread_imports",
            "protocol_min",
    ]  # fmt: skip


TEXT = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Cf", "Co", "Cn", "Zl", "Zp", "Zs"]),
    min_size=1,
    max_size=64,
)
CHARTERS = st.builds(
    Charter,
    name=TEXT,
    copies=st.integers(1, 16),
    successors=st.integers(15, 16),
    slots=st.integers(1, 256),
    positions_per_address=st.integers(1, 4096),
    places=st.sampled_from(["prefix", "peer"]),
    place_v4=st.integers(24, 32),
    place_v6=st.integers(48, 64),
    area_v4=st.integers(4, 24),
    area_v6=st.integers(8, 48),
    positions_per_place=st.integers(1, 1024),
    spare_copies=st.integers(0, 16),
    founded=st.one_of(st.just(""), st.dates().map(lambda day: f"{day:%Y-%m-%d}".zfill(10))),
    probation_days=st.integers(0, 365),
    veteran_days=st.integers(0, 3650),
    id_check=st.sampled_from(["ip", "off"]),
    allow_private_addresses=st.just(True),
    delay_floor_s=st.integers(0, 3_600_000).map(lambda millis: millis / 1000),
    per_address_concurrency=st.integers(1, 64),
    fetch_by=st.sampled_from(["owner", "all"]),
    recrawl=st.sampled_from(["daily", "adaptive"]),
    day_start=st.times().map(lambda time: f"{time:%H:%M}"),
    day_length_s=st.integers(10, 86_400),
    scope=st.lists(TEXT, max_size=5).map(tuple),
    # From a short alphabet: a pattern over all of Unicode takes Hypothesis a second to begin with.
    dropped_parameters=st.lists(st.text("abXY_-.~%[]é漢", min_size=1, max_size=64), max_size=5).map(tuple),
    content=st.sampled_from(["html", "html+images", "pages", "all"]),
    contacts=st.lists(
        st.sampled_from(["ring.example.org", "192.0.2.7:4484", "[2001:db8::7]:1"]).map(PeerDoor.parse),
        max_size=3,
    ).map(tuple),
    contact_required=st.booleans(),
    save_endpoint=st.booleans(),
    protocol_min=st.integers(1, 65_535),
)


@given(CHARTERS)
def test_a_charter_written_to_a_file_is_read_back_as_itself(charter: Charter) -> None:
    again = Charter.from_table(tomllib.loads(charter.to_toml()), source="network.toml")
    assert again == charter
    assert again.network_id() == charter.network_id()


@given(CHARTERS, CHARTERS)
def test_charters_that_differ_have_different_ids(one: Charter, other: Charter) -> None:
    assert (one == other) == (one.network_id() == other.network_id())


def test_places_are_the_networks_rule_and_laboratories_on_one_machine_have_none() -> None:
    assert place_rules_of(PUBLIC_CHARTER) == PlaceRules()
    assert place_rules_of(TEST_CHARTER).by == "peer"
    assert place_rules_of(Charter(name="n", places="peer")).by == "peer"
    young = place_rules_of(
        Charter(name="n", founded="1970-01-11", positions_per_place=8, place_v4=32, day_start="01:02")
    )
    assert (young.founded_day, young.positions_per_place, young.place_v4) == (10, 8, 32)
    assert young.day_start_s == 3_720


@pytest.mark.parametrize(
    ("key", "table"),
    [
        ("founded", {"founded": "2026-02-30"}),
        ("founded", {"founded": "yesterday"}),
        ("area_v4", {"area_v4": 25}),
        ("area_v6", {"place_v6": 24, "area_v6": 28}),
        ("places", {"places": "planet"}),
    ],
)
def test_rules_of_places_that_make_no_sense_are_refused(key: str, table: dict[str, Any]) -> None:
    with pytest.raises(SettingError) as caught:
        Charter.from_table({"name": "n", **table}, source="network.toml")
    assert caught.value.key == key


def test_a_new_key_with_its_default_leaves_existing_networks_whole() -> None:
    @dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
    class LaterCharter(Charter):
        new_key: int = whole(0, 9).setting(7, "a key of a later release")

    before = Charter(name="library", copies=3)
    assert LaterCharter(name="library", copies=3).network_id() == before.network_id()
    assert LaterCharter(name="library", copies=3, new_key=8).network_id() != before.network_id()


def test_writing_a_default_out_does_not_make_another_network() -> None:
    plain = Charter.from_table({"name": "n"}, source="f")
    spelt = Charter.from_table({"name": "n", "copies": 6, "delay_floor_s": 2, "scope": []}, source="f")
    assert spelt.network_id() == plain.network_id()


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ({}, "f: name must be given: it is what people call the network"),
        ({"name": 3}, "f: name must be a name of at most 64 characters, not 3"),
        ({"name": "n", "copis": 3}, "f: copis is not a setting; did you mean copies?"),
        ({"name": "n", "copies": 9, "successors": 7}, "f: copies must be at most successors + 1 = 8, not 9"),
        (
            {"name": "n", "delay_floor_s": 0},
            "f: delay_floor_s may be 0 only where allow_private_addresses is true: be polite to strangers",
        ),
        (
            {"name": "n", "delay_floor_s": -0.0},
            "f: delay_floor_s may be 0 only where allow_private_addresses is true: be polite to strangers",
        ),
        ({"name": "n", "delay_floor_s": 2.0001}, "f: delay_floor_s may have at most three decimals, not 2.0001"),
        (
            {"name": "n", "day_start": "24:00"},
            "f: day_start must be a UTC time HH:MM of at most 5 characters, not '24:00'",
        ),
        ({"name": "n", "scope": "a.org"}, "f: scope must be a list of at most 10000 entries, each a domain or URL"),
        ({"name": "n", "copies": {"x": 1}}, "f: copies must be a whole number from 1 to 16, not {'x': 1}"),
    ],
)  # fmt: skip
def test_a_charter_that_makes_no_sense_is_refused(table: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SettingError) as caught:
        Charter.from_table(table, source="f")
    assert str(caught.value).startswith(sentence)
    assert caught.value.exit_code == 2


def test_the_built_in_charters_pass_their_own_checks() -> None:
    for built_in in (charters.PUBLIC_CHARTER, charters.TEST_CHARTER):
        assert Charter.from_table(tomllib.loads(built_in.to_toml()), source="f") == built_in
