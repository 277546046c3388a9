"""Do values keep their meaning between a file and the program, and does every wrong one get a sentence?"""

import itertools
import string
import tomllib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herodotus.core.settings.fields import (
    FieldKind,
    HostPort,
    Unfit,
    choice,
    endpoint,
    flag,
    line,
    many,
    nearest,
    number,
    peer_door,
    shown_key,
    web_address,
    whole,
)

PRINTABLE = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Cf", "Co", "Cn", "Zl", "Zp", "Zs"]), max_size=40
)
ENDPOINTS = st.builds(
    lambda address, port: HostPort(host=str(address), port=port), st.ip_addresses(), st.integers(0, 65535)
)
KINDS: dict[str, tuple[FieldKind, st.SearchStrategy[Any]]] = {
    "whole": (whole(-5, 10**9), st.integers(-5, 10**9)),
    "number": (number(0, 3600), st.floats(0, 3600)),
    "flag": (flag(), st.booleans()),
    "choice": (choice("a", "b c", 'd"e'), st.sampled_from(["a", "b c", 'd"e'])),
    "line": (line(40), PRINTABLE),
    "endpoint": (endpoint(), ENDPOINTS),
    "web_address": (
        web_address(),
        st.text(string.ascii_letters + string.digits + "/?&%='\"\\", max_size=200).map(
            lambda tail: f"https://example.org/{tail}"
        ),
    ),
    "many": (many(line(40), 10), st.lists(PRINTABLE, max_size=10).map(tuple)),
}


@pytest.mark.parametrize("name", KINDS)
def test_what_a_kind_writes_toml_and_the_kind_read_back(name: str) -> None:
    kind, values = KINDS[name]

    @given(values)
    def round_trip(value: object) -> None:
        assert kind.read(tomllib.loads(f"key = {kind.write(value)}")["key"]) == value

    round_trip()


@pytest.mark.parametrize("name", KINDS)
def test_any_text_is_read_or_refused_with_a_short_sentence(name: str) -> None:
    kind, _ = KINDS[name]

    @given(st.text())
    def read(text: str) -> None:
        sentence = ""
        try:
            kind.read_text(text)
        except Unfit as error:
            sentence = str(error)
        assert not sentence or sentence.startswith("must ")
        assert sentence.isprintable()
        assert len(sentence) < 250

    read()


A_DOOR = "IP:PORT, NAME:PORT, or the NAME of a network's contacts"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("192.0.2.1:4484", "192.0.2.1:4484"),
        ("[2001:db8::1]:4484", "[2001:db8::1]:4484"),
        ("Ring.Example.ORG.", "ring.example.org"),
        ("peer.example.org:4500", "peer.example.org:4500"),
        ("localhost:4484", "localhost:4484"),
    ],
)
def test_a_peer_is_found_by_its_address_or_name(text: str, shown: str) -> None:
    door = peer_door().read_text(text)
    assert str(door) == shown
    assert peer_door().read_text(shown) == door


@pytest.mark.parametrize(
    ("kind", "value", "sentence"),
    [
        (whole(1, 9), 0, "must be a whole number from 1 to 9, not 0"),
        (whole(1, 9, "bytes"), 10, "must be a whole number from 1 to 9 (bytes), not 10"),
        (whole(1, 9), True, "must be a whole number from 1 to 9, not true"),
        (whole(1, 9), 2.0, "must be a whole number from 1 to 9, not 2.0"),
        (whole(1, 9), "2", "must be a whole number from 1 to 9, not '2'"),
        (whole(1, 9), 16**6000, "must be a whole number from 1 to 9, not a far larger number"),
        (whole(1, 9), -(16**6000), "must be a whole number from 1 to 9, not a far smaller number"),
        (number(0, 1, "seconds"), float("nan"), "must be a number from 0 to 1 (seconds), not nan"),
        (number(0, 1), float("inf"), "must be a number from 0 to 1, not inf"),
        (number(0, 1), 10**400, "must be a number from 0 to 1, not a far larger number"),
        (number(0, 1), False, "must be a number from 0 to 1, not false"),
        (flag(), 1, "must be true or false, not 1"),
        (choice("a", "b"), "c", 'must be one of "a", "b", not \'c\''),
        (choice("a", "b"), "c" * 99, f'must be one of "a", "b", not \'{"c" * 56}...'),
        (line(3), "four", "must be one line of text of at most 3 characters, not 'four'"),
        (line(3), "a\nb", r"must be one line of text of at most 3 characters, not 'a\nb'"),
        (line(5, "a time", r"\d\d:\d\d"), "noon", "must be a time of at most 5 characters, not 'noon'"),
        (endpoint(), "localhost:80", "must begin with an IP address, not the name 'localhost'"),
        (endpoint(), "1.2.3.4", "must be IP:PORT (IPv6 as [::1]:4484), not '1.2.3.4'"),
        (endpoint(), "1.2.3.4:65536", "must have a port of 0 to 65535, not 65536"),
        (endpoint(), "::1:80", "must be IP:PORT (IPv6 as [::1]:4484), not '::1:80'"),
        (endpoint(), 80, "must be IP:PORT, not 80"),
        (peer_door(), "192.0.2.1", "must have a port after the address, as 192.0.2.1:4484, not '192.0.2.1'"),
        (peer_door(), "example.org:0", "must have a port of 1 to 65535, not 0"),
        (peer_door(), "example.org:70000", "must have a port of 1 to 65535, not 70000"),
        (peer_door(), "1.2.3:80", f"must be {A_DOOR}, and '1.2.3' is neither an address nor a name"),
        (peer_door(), "a b", f"must be {A_DOOR}, and 'a b' is neither an address nor a name"),
        (peer_door(), "-a.org", f"must be {A_DOOR}, and '-a.org' is neither an address nor a name"),
        (
            peer_door(),
            "[example.org]:80",
            f"must be {A_DOOR}, and 'example.org' is neither an address nor a name",
        ),
        (peer_door(), "::1:80", f"must be {A_DOOR} (IPv6 as [2001:db8::1]:4484), not '::1:80'"),
        (
            web_address(),
            "ftp://x",
            "must be an http:// or https:// address, or a mailto: one, or \"\", not 'ftp://x'",
        ),
        (
            web_address(),
            "http://[",
            "must be an http:// or https:// address, or a mailto: one, or \"\", not 'http://['",
        ),
        (
            many(flag(), 1),
            [True, True],
            "must be a list of at most 1 entries, each true or false, not 2",
        ),
        (many(flag(), 1), [3], "must be true or false, not 3"),
    ],
    ids=itertools.count(),  # pytest would write the longest number out, which Python refuses
)
def test_a_wrong_value_is_named_with_what_it_should_be(kind: FieldKind, value: object, sentence: str) -> None:
    with pytest.raises(Unfit) as caught:
        kind.read(value)
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (whole(1, 9).read_text, "7", 7),
        (number(0, 9).read_text, "7", 7.0),
        (number(0, 9).read_text, "7.25", 7.25),
        (number(0, 9).read_text, "-0.0", 0.0),
        (flag().read_text, "Yes", True),
        (flag().read_text, "0", False),
        (endpoint().read_text, " [::1]:4484 ", HostPort(host="::1", port=4484)),
        (many(line(9), 9).read_text, "a.org, b.org,", ("a.org", "b.org")),
        (web_address().read_text, "mailto:me@example.org", "mailto:me@example.org"),
    ],
)
def test_text_of_the_environment_is_read(read: Callable[[str], object], text: str, value: object) -> None:
    assert read(text) == value
    assert str(read(text)) == str(value)  # minus zero equals zero, but would be another network


def test_a_misspelt_name_is_told_the_nearest_one() -> None:
    assert nearest("http.lisen", ["http.listen", "http.idle_s"]) == "did you mean http.listen?"
    assert nearest("zzz", ["wan", "lan"]) == "known are wan, lan"


def test_a_key_that_would_break_the_sentence_is_quoted_and_cut() -> None:
    assert shown_key("http.listen") == "http.listen"
    assert shown_key("a\nb") == r"'a\nb'"
    assert len(shown_key("x" * 5000)) == 60


def test_an_ipv6_endpoint_is_written_in_brackets() -> None:
    assert str(HostPort(host="::1", port=80)) == "[::1]:80"
    assert str(HostPort(host="127.0.0.1", port=80)) == "127.0.0.1:80"
