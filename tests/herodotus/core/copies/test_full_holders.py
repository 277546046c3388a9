"""For how long is nothing sent to a holder that has no room?"""

from herodotus.core.copies.holder_states import FULL_S, FullHolders

A, B = b"a", b"b"


def test_a_full_holder_is_left_alone_for_an_hour_and_then_asked_again_once() -> None:
    holders = FullHolders()
    holders.note(A, 10.0)
    assert holders.is_full(A, 10.0 + FULL_S - 1)
    assert not holders.is_full(B, 10.0)
    assert holders.now_full(11.0) == {A}
    assert holders.take_over(11.0) == []
    assert not holders.is_full(A, 10.0 + FULL_S)
    assert holders.take_over(10.0 + FULL_S) == [A]
    assert holders.take_over(10.0 + FULL_S) == []


def test_members_that_left_are_forgotten() -> None:
    holders = FullHolders()
    holders.note(A, 0.0)
    holders.note(B, 0.0)
    holders.keep_only({B})
    assert holders.now_full(1.0) == {B}
