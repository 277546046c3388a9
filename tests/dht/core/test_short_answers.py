"""Is a repeated short call answered as the first was, and can no peer make another work without end?"""

from dht.core.ids import PeerKey
from dht.core.messages import ANSWERED, UNDER_WAY, ShortAnswer
from dht.core.short_answers import (
    REMEMBERED_MAX,
    REMEMBERED_S,
    UNDER_WAY_MAX,
    UNDER_WAY_OF_ONE_MAX,
    ShortAnswers,
)

ANNA, BERT = PeerKey(b"a" * 32), PeerKey(b"b" * 32)


def answer(number: int) -> ShortAnswer:
    return ShortAnswer(id=number, outcome=ANSWERED, body=b"yes")


def test_a_repeated_question_is_under_way_and_then_answered_as_the_first() -> None:
    answers = ShortAnswers()
    assert answers.begin(ANNA, 7, 0.0) is None
    again = answers.begin(ANNA, 7, 0.1)
    assert again is not None
    assert again.outcome == UNDER_WAY
    answers.done(ANNA, answer(7), 7, 0.2)
    assert answers.begin(ANNA, 7, 0.2 + REMEMBERED_S - 0.1) == answer(7)


def test_a_number_of_another_peer_is_another_question() -> None:
    answers = ShortAnswers()
    answers.begin(ANNA, 7, 0.0)
    answers.done(ANNA, answer(7), 7, 0.0)
    assert answers.begin(BERT, 7, 0.0) is None


def test_an_answer_is_forgotten_when_nobody_repeats_its_question_any_more() -> None:
    answers = ShortAnswers()
    answers.begin(ANNA, 7, 0.0)
    answers.done(ANNA, answer(7), 7, 0.0)
    assert answers.begin(ANNA, 7, REMEMBERED_S) is None
    assert len(answers) == 0


def test_work_of_which_nothing_came_begins_anew() -> None:
    answers = ShortAnswers()
    answers.begin(ANNA, 7, 0.0)
    answers.done(ANNA, None, 7, 0.0)
    assert answers.begin(ANNA, 7, 0.0) is None


def test_no_peer_takes_all_the_room_and_a_repeated_question_needs_none() -> None:
    answers = ShortAnswers()
    for number in range(UNDER_WAY_OF_ONE_MAX):
        answers.begin(ANNA, number, 0.0)
    assert answers.is_full(ANNA, 9_999)
    assert not answers.is_full(ANNA, 0)
    assert not answers.is_full(BERT, 0)
    others = range(UNDER_WAY_MAX // UNDER_WAY_OF_ONE_MAX - 1)
    for peer in (PeerKey(bytes([number]) * 32) for number in others):
        for number in range(UNDER_WAY_OF_ONE_MAX):
            answers.begin(peer, number, 0.0)
    assert answers.is_full(BERT, 0)


def test_only_so_many_answers_are_remembered() -> None:
    answers = ShortAnswers()
    for number in range(REMEMBERED_MAX + 1):
        answers.begin(ANNA, number, 0.0)
        answers.done(ANNA, answer(number), number, 0.0)
    assert len(answers) == REMEMBERED_MAX
    assert answers.begin(ANNA, 0, 0.0) is None
