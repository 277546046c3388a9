"""Is a set of arcs the set of its keys, whatever is done to it?"""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from dht.core.arcs import LAST, Arc, Arcs
from dht.core.ids import Key
from tests.dht.circle import KEYS, arc_lists, ends, inside

ZERO = KEYS[0]


def keys_of(arcs: Arcs) -> set[Key]:
    return {key for key in KEYS if key in arcs}


@given(arc_lists, arc_lists)
def test_sets_of_arcs_are_sets_of_keys(ours: list[Arc], theirs: list[Arc]) -> None:
    one, other = Arcs(ours), Arcs(theirs)
    here, there = inside(ours), inside(theirs)
    assert keys_of(one) == here
    assert keys_of(one | other) == here | there
    assert keys_of(one & other) == here & there
    assert keys_of(one - other) == here - there
    assert keys_of(~one) == set(KEYS) - here
    assert (one <= other) == (here <= there)
    assert (one == other) == (here == there)
    assert bool(one) == bool(here)
    assert one != other or hash(one) == hash(other)


@given(arc_lists, arc_lists)
def test_each_operation_ends_in_the_normal_form(ours: list[Arc], theirs: list[Arc]) -> None:
    one, other = Arcs(ours), Arcs(theirs)
    for made in (one | other, one & other, one - other, ~one):
        assert made == Arcs(made)
        assert hash(made) == hash(Arcs(made))
    assert one == ~~one == (one & other) | (one - other)
    assert Arcs([*ours, *theirs]) == one | other


@given(arc_lists)
def test_the_arcs_of_a_set_are_apart_and_in_order(arcs: list[Arc]) -> None:
    found = list(Arcs(arcs))
    assert len(found) == len(Arcs(arcs))
    assert inside(found) == inside(arcs)
    assert found == sorted(found)
    starts, stops = {arc.start for arc in found}, {arc.end for arc in found}
    assert len(found) == 1 or not starts & stops


@given(arc_lists)
def test_pieces_are_the_same_keys_without_zero_inside(arcs: list[Arc]) -> None:
    pieces = Arcs(arcs).pieces()
    assert pieces == sorted(pieces)
    assert all(start < end for start, end in pieces)
    assert all(end < start for (_, end), (start, _) in pairwise(pieces))
    assert {key for key in KEYS for start, end in pieces if start < key <= end} == inside(arcs)


@given(ends)
def test_equal_ends_are_the_whole_circle(key: Key) -> None:
    whole = Arcs([Arc(key, key)])
    assert keys_of(whole) == set(KEYS)
    assert whole == ~Arcs() == Arcs([Arc(KEYS[3], KEYS[9]), Arc(KEYS[9], KEYS[3])])
    assert list(whole) == [Arc(LAST, LAST)]
    assert whole.pieces() == [(b"", LAST)]


def test_arcs_may_end_at_the_last_key_or_at_zero() -> None:
    assert keys_of(Arcs([Arc(LAST, ZERO)])) == {ZERO}
    assert Arcs([Arc(LAST, ZERO)]).pieces() == [(b"", ZERO)]
    assert keys_of(Arcs([Arc(KEYS[62], LAST)])) == {LAST}
    assert Arcs([Arc(KEYS[62], LAST)]).pieces() == [(KEYS[62], LAST)]
    assert keys_of(Arcs([Arc(ZERO, LAST)])) == set(KEYS) - {ZERO}
    assert list(Arcs([Arc(KEYS[62], LAST), Arc(LAST, ZERO)])) == [Arc(KEYS[62], ZERO)]


prefixed_keys = st.tuples(st.integers(0, 4), st.sampled_from((0, 1, 254, 255))).map(
    lambda one: Key(bytes((one[0] if one[0] < 4 else 255, one[1])) + bytes(18))
)


@given(st.lists(st.builds(Arc, prefixed_keys, prefixed_keys), max_size=5), prefixed_keys)
def test_coarse_arcs_have_whole_prefixes_by_their_first_key(arcs: list[Arc], key: Key) -> None:
    exact = Arcs(arcs)
    coarse = exact.coarse(1)
    first_of_its_prefix = Key(key[:1] + bytes(19))
    assert (key in coarse) == (first_of_its_prefix in exact)
    assert (Key(key[:1]) in coarse) == (key in coarse)
    assert coarse == coarse.coarse(1) == Arcs(coarse)
    assert exact.coarse(20) == exact
