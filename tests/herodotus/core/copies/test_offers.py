"""Who of several holders that offer a capture is to send it, and for how long are the others told to wait?"""

from herodotus.core.copies.ledger import SLOW_S, WAITED_S, Offers
from herodotus.core.index_rows import CAPTURE
from herodotus.core.reconciliation import member_of

A, B, C = (bytes((number,)) * 32 for number in range(3))
KEY = bytes(range(19))


def test_the_first_who_offers_is_to_send_and_the_others_wait() -> None:
    offers = Offers()
    assert offers.is_to_send(KEY, A, 0.0)
    assert offers.is_to_send(KEY, A, 1.0)
    assert not offers.is_to_send(KEY, B, 1.0)
    assert offers.is_coming(member_of(CAPTURE + KEY), 1.0)
    offers.came(KEY)
    assert not offers.is_coming(member_of(CAPTURE + KEY), 1.0)


def test_whoever_offers_and_does_not_send_keeps_nothing_away() -> None:
    offers = Offers()
    assert offers.is_to_send(KEY, A, 0.0)
    assert not offers.is_to_send(KEY, B, WAITED_S - 1)
    assert not offers.is_coming(member_of(CAPTURE + KEY), WAITED_S)
    assert offers.is_to_send(KEY, B, WAITED_S)
    assert not offers.is_to_send(KEY, C, WAITED_S + 1)


def test_for_whom_did_not_send_nobody_waits_again_for_an_hour() -> None:
    offers = Offers()
    offers.is_to_send(KEY, A, 0.0)
    offers.is_coming(member_of(CAPTURE + KEY), WAITED_S)
    other = bytes(reversed(KEY))
    assert offers.is_to_send(other, A, WAITED_S)  # it may send, and so may everybody
    assert offers.is_to_send(other, B, WAITED_S)
    late = WAITED_S + SLOW_S
    assert offers.is_to_send(KEY, A, late)
    assert not offers.is_to_send(KEY, C, late)
