"""Is a notice what it says, are few enough kept, and is it followed by places of age and never by keys?"""

import hashlib

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from herodotus.core import notices
from herodotus.core.errors import MalformedError
from herodotus.core.notices import (
    AHEAD_MAX_S,
    LIFE_S,
    NOTICE_BYTES_MAX,
    OF_PLACE_A_DAY,
    Holder,
    Kept,
    Notice,
    admitted,
    budget_left,
    decode_notice,
    draft,
    encode_notice,
    has_room_today,
    have_followed,
    is_genuine,
    is_timely,
    issue,
    unexpired,
)
from herodotus.core.removals import DAY_S, Subject

NOW = 1_795_000_000
NETWORK = b"networkA"
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))


def a_notice(
    name: str = "example.org", *, text: str = "why", issued: int = NOW, kind: str = "host"
) -> Notice:
    said = draft(
        Subject(kind, name), reason="legal", text=text, contact="a@b.example", issued=issued, count=7
    )
    return issue(KEY, NETWORK, said)


def kept(place: int, heard_s: float, *, number: int = 0, **more: object) -> Kept:
    notice = msgspec.structs.replace(a_notice(), id=hashlib.sha256(b"%d %d" % (place, number)).digest()[:16])
    return Kept(notice=notice, heard_s=heard_s, place=bytes([place]) if place else b"", **more)  # type: ignore[arg-type]


def test_a_notice_travels_whole_and_any_change_of_it_shows() -> None:
    notice = a_notice()
    assert decode_notice(encode_notice(notice)) == notice
    assert is_genuine(NETWORK, notice)
    assert not is_genuine(b"networkB", notice), "of another network"
    for field, other in (
        ("name", "example.net"),
        ("kind", "url"),
        ("text", "why not"),
        ("count", 8),
        ("issued", NOW + 1),
        ("contact", ""),
        ("issuer", bytes(32)),
        ("id", bytes(16)),
        ("signature", bytes(64)),
    ):
        bent = msgspec.structs.replace(notice, **{field: other})
        assert not is_genuine(NETWORK, bent), field


@given(st.binary(max_size=400))
def test_any_bytes_are_a_notice_or_malformed(data: bytes) -> None:
    try:
        decode_notice(data)
    except MalformedError:
        return


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("kind", "everything"),
        ("name", "EXAMPLE.org"),
        ("name", "http://example.org/"),
        ("name", "x" * 2_001),
        ("text", "x" * 501),
        ("text", "two\nlines"),
        ("contact", "\x1b[2J"),
        ("reason", "r" * 33),
        ("version", 2),
        ("signature", b"short"),
        ("count", -1),
        ("issued", 1 << 40),
    ],
)
def test_what_breaks_a_rule_is_malformed(field: str, value: object) -> None:
    bent = msgspec.structs.replace(a_notice(), **{field: value})
    with pytest.raises(MalformedError):
        decode_notice(encode_notice(bent))
    with pytest.raises(MalformedError):
        decode_notice(bytes(NOTICE_BYTES_MAX + 1))


def test_a_notice_of_a_year_ago_or_of_tomorrow_is_not_timely() -> None:
    assert is_timely(a_notice(), NOW - AHEAD_MAX_S)
    assert not is_timely(a_notice(), NOW - AHEAD_MAX_S - 1)
    assert is_timely(a_notice(), NOW + LIFE_S)
    assert not is_timely(a_notice(), NOW + LIFE_S + 1)
    assert not is_timely(a_notice(), 4_102_444_800), "a clock of 2100"


# -- which are kept ---------------------------------------------------------------------------------------


def test_a_place_is_heard_a_hundred_times_a_day() -> None:
    heard = [kept(1, 100.0, number=number) for number in range(OF_PLACE_A_DAY)]
    assert not has_room_today(heard, b"\x01", 100.0 + DAY_S - 1)
    assert has_room_today(heard, b"\x01", 100.0 + DAY_S)
    assert has_room_today(heard[1:], b"\x01", 100.0)
    assert has_room_today(heard, b"\x02", 100.0)


def test_nobody_pushes_the_notices_of_others_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notices, "KEPT_MAX", 6)
    flood = [kept(1, float(number), number=number) for number in range(4)]
    others = [kept(2, 0.0), kept(0, 0.0)]  # one of another place, one of ours
    full = [*flood, *others]
    assert admitted(full, kept(1, 9.0, number=9)) is None
    new = kept(3, 9.0)
    assert admitted(full, new) == [*flood[1:], *others, new]
    decided = [msgspec.structs.replace(one, was_followed=True) for one in full]
    assert admitted(decided, new) is None
    assert admitted(full[1:], new) == [*full[1:], new]


def test_a_notice_lives_for_a_year_that_was_lived_through() -> None:
    old, new = kept(1, 0.0), kept(1, 1.0)
    assert unexpired([old, new], LIFE_S) == [new]


# -- which are followed -----------------------------------------------------------------------------------


def holder(place: int, *, followed: bool = True, of_age: bool = True) -> Holder:
    return Holder(place=bytes([place]), has_followed=followed, is_of_age=of_age)


def test_two_thirds_of_the_places_must_have_followed() -> None:
    places = [holder(place, followed=place <= 4) for place in range(1, 6)]
    assert have_followed(places, copies=6)  # four of five
    assert not have_followed([holder(place, followed=place <= 3) for place in range(1, 6)], copies=6)


def test_many_keys_of_one_place_say_it_once() -> None:
    keys = [holder(1) for _ in range(40)]
    assert not have_followed([*keys, *(holder(place, followed=False) for place in range(2, 6))], copies=6)
    assert not have_followed(keys, copies=6)


def test_keys_that_were_not_watched_for_long_do_not_count_as_having_followed() -> None:
    young = [holder(place, of_age=False) for place in range(1, 4)]
    assert not have_followed([*young, holder(4), holder(5)], copies=6)
    assert not have_followed([*young, *map(holder, range(4, 9))], copies=6)  # five of eight places
    assert have_followed([*young, *map(holder, range(4, 10))], copies=6)  # six of nine


def test_in_a_ring_of_few_places_nobody_removes_for_the_others() -> None:
    assert not have_followed([holder(1)], copies=6)
    assert not have_followed([holder(1), holder(2), holder(3)], copies=6)
    assert have_followed([holder(1), holder(2), holder(3), holder(4)], copies=6)
    assert have_followed([holder(1)], copies=2)


def test_a_thousandth_of_what_is_held_may_go_a_day() -> None:
    assert budget_left([], 999, 0.0) == 0
    assert budget_left([], 50_000, 0.0) == 50
    spent = [kept(1, 0.0, followed_s=10.0, followed_captures=30)]
    assert budget_left(spent, 50_000, 10.0 + DAY_S - 1) == 20
    assert budget_left(spent, 50_000, 10.0 + DAY_S) == 50
    assert budget_left(spent, 20_000, 11.0) == 0
