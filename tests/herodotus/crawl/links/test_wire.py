"""Are batches of links as `docs/protocol/links.md` shows them, and what of strangers' bytes is refused?"""

import hashlib
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.core.link import Link, LinkKind, Rule
from crawler.core.recrawl import Bounds
from dht.core.records import Address, Contact
from herodotus.core.errors import MalformedError
from herodotus.crawl.links import wire
from herodotus.crawl.links.wire import (
    BATCH_BYTES_MAX,
    CONTACTS_MAX,
    Taken,
    decode_batch,
    decode_taken,
    encode_batch,
    encode_taken,
    in_order,
)
from tests.herodotus.peers.table_ring import contact_of, link_peer

GOLDEN = bytes.fromhex("02202e250100c80300110411050e04050a612e6578616d706c652f622e706e67030036052cf85692a92e")
LINKS = [
    Link("http://a.example/", depth=1),
    Link("http://a.example/b.png", depth=1, kind=LinkKind.REQUISITE),
    Link("https://b.example/", depth=2, is_doubtful=True),
]
links = st.lists(
    st.tuples(
        st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=80).map(
            "http://".__add__
        ),
        st.sampled_from((LinkKind.PAGE, LinkKind.REQUISITE)),
        st.integers(0, 63),
        st.booleans(),
    ).map(lambda values: Link(*values)),
    min_size=1,
    max_size=40,
    unique_by=lambda link: link.url,
)


BOUNDS_PART = (
    b"\x01\x1d\x97\xb1http://a.example/\xa4site\x03\xa0\x01\x00\x00"  # one, of 29 bytes
    b"\x01\x00\x01"  # the first link has it, and the last
)
BOUNDED = [
    Link("http://a.example/", depth=1, bounds=Bounds("http://a.example/", "site", 3)),
    Link("http://b.example/", depth=1),
    Link("http://c.example/x.png", LinkKind.REQUISITE, 1, bounds=Bounds("http://a.example/", "site", 3)),
]


def packed(plain: bytes) -> bytes:
    return b"\x02" + wire._packer().compress(plain)


def test_these_bytes_are_these_links() -> None:
    assert decode_batch(GOLDEN) == LINKS
    assert decode_batch(encode_batch(LINKS)) == LINKS


def test_bounds_follow_the_letters_each_once() -> None:
    plain = wire._unpacked(encode_batch(BOUNDED)[1:])
    assert plain.endswith(b"c.example/x.png" + BOUNDS_PART)
    assert decode_batch(encode_batch(BOUNDED)) == BOUNDED


@pytest.mark.parametrize(
    "part",
    [
        b"\x00",  # none
        b"\x02" + BOUNDS_PART[1:],
        BOUNDS_PART[:-1],
        BOUNDS_PART + b"\x00",
        BOUNDS_PART[:-1] + b"\x02",  # the second of one
        b"\x01\x01\x90" + BOUNDS_PART[-3:],
        BOUNDS_PART.replace(b"site", b"city"),
        BOUNDS_PART.replace(b"\xa4site\x03", b"\xa4site\x3f"),  # 63 clicks
    ],
)
def test_what_are_no_bounds_make_no_batch(part: bytes) -> None:
    plain = wire._unpacked(encode_batch(BOUNDED)[1:]).removesuffix(BOUNDS_PART)
    with pytest.raises(MalformedError):
        decode_batch(packed(plain + part))


def test_rows_keep_bounds_and_those_of_the_first_release_have_none() -> None:
    link = BOUNDED[0]
    assert wire.decode_standby(wire.standby_row(link)) == link
    assert wire.decode_waiting(wire.waiting_row(1, link, 2)).link == link
    old = bytes.fromhex("92b1687474703a2f2f612e6578616d706c652f04")
    assert wire.decode_standby(old) == Link("http://a.example/", depth=1)
    assert wire.decode_waiting(b"\x94\x01" + old[1:] + b"\x02").link == Link("http://a.example/", depth=1)


def test_the_dictionary_is_the_protocols() -> None:
    digest = hashlib.sha256(wire._DICTIONARY).hexdigest()
    assert digest == "adef4eece6ddb8fc2e8925327340107248a948f4937ddda2f2d23c3def705805"
    assert len(wire._DICTIONARY) == 1_386


def test_answers_are_these_bytes() -> None:
    assert encode_taken(Taken()).hex() == "9401909090"
    assert encode_taken(Taken(strays=(1,), rubbish=(2,))).hex() == "94019101910290"


@given(links)
def test_every_batch_comes_out_as_it_went_in(found: list[Link]) -> None:
    came = decode_batch(encode_batch(in_order(found)))
    assert [link._replace(rule=0) for link in came] == in_order(found)


def test_which_rule_found_a_link_is_not_told_only_that_it_is_in_doubt() -> None:
    found = Link("http://a.example/x.png", LinkKind.REQUISITE, is_doubtful=True, rule=Rule.STRINGS)
    assert decode_batch(encode_batch([found])) == [found._replace(rule=Rule.GUESSED)]
    alike = Link("http://a.example/", is_doubtful=True)
    assert decode_batch(encode_batch([alike])) == [alike]


@given(st.binary(max_size=300))
def test_any_bytes_are_a_batch_or_refused(data: bytes) -> None:
    with suppress(MalformedError):
        decode_batch(data)
    with suppress(MalformedError):
        decode_batch(b"\x02" + data)


@given(st.binary(max_size=200))
def test_any_unpacked_bytes_are_a_batch_or_refused(plain: bytes) -> None:
    with suppress(MalformedError):
        found = decode_batch(packed(plain))
        assert [link.url for link in found] == sorted({link.url for link in found})


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (b"", "version"),
        (b"\x01" + GOLDEN[1:], "version"),
        (GOLDEN[:-4], "packing|length"),
        (packed(b"\x00"), "count"),
        (packed(b"\x91\x4e"), "count"),  # 10,001
        (packed(b"\x01\x00\x05\x00abc"), "length"),
        (packed(b"\x01\x01\x03\x00abc"), "length"),  # shares with nothing
        (packed(b"\x02\x00\x00\x03\x03\x00\x00abcabc"), "order"),
        (packed(b"\x01\x00\x02\x00\xc3\xa9"), "letters"),
        (packed(b"\x01\x00\x81\x20\x00" + b"a" * 4_097), "length"),
        (packed(b"\xff\xff\xff\xff"), "number"),
        (packed(bytes(BATCH_BYTES_MAX + 1)), "size|packing"),
    ],
)
def test_what_breaks_the_rules_is_no_batch(data: bytes, word: str) -> None:
    with pytest.raises(MalformedError, match=word):
        decode_batch(data)


def test_a_small_batch_that_unpacks_to_very_much_is_refused_early() -> None:
    bomb = packed(bytes(1 << 28))
    assert len(bomb) < 1 << 16
    with pytest.raises(MalformedError):
        decode_batch(bomb)


@pytest.mark.parametrize("body", ["a180", "81a18001", "9401a1809090", "94019090a180", "9401909081a18001"])
def test_a_text_that_is_no_utf_8_is_no_answer(body: str) -> None:
    with pytest.raises(MalformedError):
        decode_taken(bytes.fromhex(body), 10, "ip")


@given(st.binary(max_size=300))
def test_any_bytes_are_an_answer_or_refused(data: bytes) -> None:
    with suppress(MalformedError):
        found = decode_taken(data, 10, "ip")
        assert all(0 <= place < 10 for place in (*found.strays, *found.rubbish))


def test_an_answer_names_places_that_were_sent_and_contacts_where_they_sit() -> None:
    named = tuple(contact_of(link_peer(number)) for number in range(3))
    taken = Taken(strays=(0, 4), rubbish=(2,), contacts=named)
    assert decode_taken(encode_taken(taken), 5, "ip") == taken
    with pytest.raises(MalformedError):
        decode_taken(encode_taken(taken), 4, "ip")
    with pytest.raises(MalformedError):
        decode_taken(encode_taken(Taken(strays=(1,), rubbish=(1,))), 5, "ip")
    many = Taken(contacts=tuple(contact_of(link_peer(number)) for number in range(40)))
    assert len(decode_taken(encode_taken(many), 1, "ip").contacts) == CONTACTS_MAX
    nowhere = Contact.at(named[0].peer, Address(host=b"abc", port=1), 0, 0, "ip")
    with pytest.raises(MalformedError):
        decode_taken(encode_taken(Taken(contacts=(nowhere,))), 1, "ip")
