"""Who is asked instead of peers that fail or are late, and whose answers count?"""

from dht.core.ids import PeerKey
from herodotus.core.search.cover import Arc, Stretch
from herodotus.core.search.rounds import ASKED_MAX, Part, Round

ONE, TWO, THREE, FOUR = (PeerKey(bytes([number]) * 32) for number in range(1, 5))
HALF = 1 << 63
STRETCHES = [
    Stretch(Arc(3 * HALF // 2, HALF // 2), (ONE, TWO, THREE)),
    Stretch(Arc(HALF // 2, HALF), (ONE, TWO, THREE)),
    Stretch(Arc(HALF, 3 * HALF // 2), (ONE, FOUR)),
]


def test_all_that_were_asked_answer() -> None:
    round_ = Round[str](STRETCHES)
    (part,) = round_.parts
    assert part.share.peer == ONE
    assert not Round[str](STRETCHES).is_settled
    round_.answered(part, "all")
    assert round_.is_settled
    assert [one.answer for one in round_.told()] == ["all"]
    assert round_.covered() == 1.0
    assert round_.silent() == set()


def test_in_the_place_of_one_that_fails_others_answer_for_parts() -> None:
    round_ = Round[str](STRETCHES)
    instead = round_.failed(round_.parts[0])
    assert {part.share.peer for part in instead} == {TWO, FOUR}
    for part in instead:
        assert not round_.is_settled
        round_.answered(part, "a part")
    assert round_.is_settled
    assert round_.covered() == 1.0


def test_the_next_is_asked_when_one_in_its_place_fails_too() -> None:
    round_ = Round[str](STRETCHES)
    of_two = next(part for part in round_.failed(round_.parts[0]) if part.share.peer == TWO)
    (of_three,) = round_.failed(of_two)
    assert of_three.share.peer == THREE
    assert round_.failed(of_three) == []
    round_.answered(next(part for part in round_.parts[0].instead or () if part.share.peer == FOUR), "four")
    assert round_.is_settled, "nobody is left to ask"
    assert round_.covered() == 0.25


def test_an_answer_that_comes_late_stands_in_the_place_of_its_parts_and_nothing_counts_twice() -> None:
    round_ = Round[str](STRETCHES)
    first, second = round_.late()
    assert {first.share.peer, second.share.peer} == {TWO, FOUR}
    round_.answered(first, "a part")
    round_.answered(round_.parts[0], "late, and whole")
    assert [part.answer for part in round_.told()] == ["late, and whole"]
    assert round_.covered() == 1.0
    assert round_.is_settled
    assert round_.silent() == set()


def test_one_that_stays_silent_is_known_afterwards_and_not_waited_for() -> None:
    round_ = Round[str](STRETCHES)
    for part in round_.late():
        round_.answered(part, "a part")
    assert round_.is_settled
    assert round_.silent() == {ONE}
    assert round_.late() == []


def test_others_are_asked_instead_of_those_in_the_place_of_the_silent() -> None:
    round_ = Round[str](STRETCHES)
    round_.late()
    (again,) = round_.late()
    assert again.share.peer == THREE
    round_.answered(again, "a part")
    assert round_.covered() == 0.75
    assert not round_.is_settled, "the first may answer yet"


def test_peers_to_avoid_are_asked_only_where_nobody_else_is() -> None:
    round_ = Round[str](STRETCHES, avoid={ONE, FOUR})
    assert {part.share.peer: part.share.stretches for part in round_.parts} == {TWO: (0, 1), ONE: (2,)}


def test_who_asks_is_never_called_silent() -> None:
    round_ = Round[str](STRETCHES, first=ONE)
    round_.late()
    assert round_.silent() == set()


def test_a_large_ring_is_asked_in_sections() -> None:
    peers = [PeerKey(number.to_bytes(32, "big")) for number in range(10)]
    ends = [1 + number * (1 << 60) for number in range(10)]
    stretches = [Stretch(Arc(ends[number - 1], ends[number]), (peers[number],)) for number in range(10)]
    sections = [Round[str](stretches, section=section, peers_max=4) for section in range(4)]
    assert [len(one.parts) for one in sections] == [4, 4, 2, 0]
    assert [one.has_more for one in sections] == [True, True, False, False]
    asked = [part.share.peer for one in sections for part in one.parts]
    assert sorted(asked) == peers


def test_no_more_than_so_many_are_asked_in_all() -> None:
    count = 300
    ends = [1 + number * (1 << 50) for number in range(count)]
    spare = [PeerKey((1_000 + number).to_bytes(32, "big")) for number in range(2 * count)]
    first = PeerKey(b"\xff" * 32)
    stretches = [
        Stretch(Arc(ends[number - 1], ends[number]), (first, spare[number], spare[count + number]))
        for number in range(count)
    ]
    round_ = Round[str](stretches)
    asked = 1 + len(round_.late()) + len(round_.late()) + len(round_.late())
    assert asked <= ASKED_MAX


def test_where_all_lack_some_stretch_they_are_asked_for_one_at_a_time() -> None:
    """As after a member left, when each of the others has to read another arc."""
    round_ = Round[str](STRETCHES)

    def refuse(part: Part[str]) -> list[Part[str]]:
        part.is_elsewhere = True
        return round_.failed(part)

    of_two, of_four = sorted(refuse(round_.parts[0]), key=lambda part: part.share.peer)
    round_.answered(of_four, "four")
    (of_three,) = refuse(of_two)
    assert of_three.share.stretches == (0, 1)
    first, second = refuse(of_three)
    assert [(part.share.peer, part.share.stretches) for part in (first, second)] == [(ONE, (0,)), (ONE, (1,))]
    round_.answered(first, "one")
    (again,) = refuse(second)
    assert (again.share.peer, again.share.stretches) == (TWO, (1,))
    assert round_.silent() == set()
    round_.answered(again, "two")
    assert round_.is_settled
    assert round_.covered() == 1.0


def test_each_is_asked_for_a_stretch_alone_once() -> None:
    round_ = Round[str](STRETCHES)
    waiting, asked = [*round_.parts], []
    while waiting:
        part = waiting.pop()
        asked.append((part.share.peer, part.share.stretches))
        part.is_elsewhere = True
        waiting += round_.failed(part)
    alone = [one for one in asked if len(one[1]) == 1]
    assert len(alone) == len({*alone}) == 3 + 3 + 2
    assert round_.is_settled
    assert round_.covered() == 0.0
