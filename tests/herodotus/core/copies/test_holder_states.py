"""When does a holder count, and when not any more?"""

from herodotus.core.copies.holder_states import (
    AGAIN_S,
    DAY_S,
    FAILED_S,
    PROVEN_S,
    HolderState,
    HolderStates,
    Outcome,
)

A, B = b"a" * 32, b"b" * 32


def test_who_proved_it_counts_as_proven_for_a_week() -> None:
    states = HolderStates()
    assert states.state(A, 0) is HolderState.UNPROVEN
    states.note(A, Outcome.PROVEN, 0)
    assert states.state(A, PROVEN_S - 1) is HolderState.PROVEN
    assert states.state(A, PROVEN_S) is HolderState.UNPROVEN
    assert states.counts(A, PROVEN_S)


def test_one_wrong_proof_is_doubted_and_the_second_an_hour_later_fails() -> None:
    states = HolderStates()
    states.note(A, Outcome.PROVEN, 0)
    states.note(A, Outcome.WRONG, 100)
    assert states.state(A, 100) is HolderState.DOUBTED
    assert not states.counts(A, 100)
    assert states.due_at(A, 100) == 100 + AGAIN_S
    states.note(A, Outcome.WRONG, 101)  # the same moment again is the same chance
    assert states.state(A, 101) is HolderState.DOUBTED
    states.note(A, Outcome.WRONG, 100 + AGAIN_S)
    assert states.state(A, 100 + AGAIN_S) is HolderState.FAILED
    assert states.failed(100 + AGAIN_S) == {A}


def test_a_doubt_is_over_with_the_next_right_proof() -> None:
    states = HolderStates()
    states.note(A, Outcome.WRONG, 0)
    states.note(A, Outcome.PROVEN, AGAIN_S)
    assert states.state(A, AGAIN_S) is HolderState.PROVEN
    states.note(A, Outcome.WRONG, DAY_S)
    assert states.state(A, DAY_S) is HolderState.DOUBTED


def test_who_failed_does_not_count_for_thirty_days_or_until_a_full_proof() -> None:
    def failed() -> HolderStates:
        states = HolderStates()
        states.note(A, Outcome.WRONG, 0)
        states.note(A, Outcome.WRONG, AGAIN_S)
        return states

    states = failed()
    states.note(A, Outcome.PROVEN, DAY_S)  # a hundred draws are not all that it has
    assert states.state(A, DAY_S) is HolderState.FAILED
    states.note(A, Outcome.FULLY_PROVEN, DAY_S)
    assert states.state(A, DAY_S) is HolderState.PROVEN
    states = failed()
    assert states.state(A, AGAIN_S + FAILED_S - 1) is HolderState.FAILED
    assert states.state(A, AGAIN_S + FAILED_S) is HolderState.UNPROVEN


def test_a_day_of_silence_is_doubted_and_an_hour_more_fails() -> None:
    states = HolderStates()
    states.note(A, Outcome.SILENT, 0)
    states.note(A, Outcome.SILENT, DAY_S - 1)
    assert states.state(A, DAY_S - 1) is HolderState.UNPROVEN
    states.note(A, Outcome.SILENT, DAY_S)
    assert states.state(A, DAY_S) is HolderState.DOUBTED
    states.note(A, Outcome.SILENT, DAY_S + AGAIN_S)
    assert states.state(A, DAY_S + AGAIN_S) is HolderState.FAILED


def test_who_answers_in_between_was_not_silent() -> None:
    states = HolderStates()
    states.note(A, Outcome.SILENT, 0)
    states.note(A, Outcome.OTHER_SET, DAY_S / 2)
    states.note(A, Outcome.SILENT, DAY_S)
    assert states.state(A, DAY_S) is HolderState.UNPROVEN


def test_what_a_holder_says_itself_that_it_lacks_is_no_failure() -> None:
    states = HolderStates()
    for hour in range(10):
        states.note(A, Outcome.LACKING, hour * AGAIN_S)
    assert states.counts(A, 10 * AGAIN_S)


def test_a_failure_outlives_a_restart_and_leaving_the_ring() -> None:
    states = HolderStates()
    for now in (0, AGAIN_S):
        states.note(A, Outcome.WRONG, now)
        states.note(B, Outcome.PROVEN, now)
    states.keep_only([], AGAIN_S)
    saved = states.saved(AGAIN_S + DAY_S)
    assert saved == {A: DAY_S}
    again = HolderStates()
    again.restore(saved, 10 * DAY_S)  # by another clock
    assert again.failed(10 * DAY_S) == {A}
    assert again.failed(9 * DAY_S + FAILED_S) == set()
