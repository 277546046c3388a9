"""What a status says of the places of copies, and when it is an alarm."""

import pytest

from herodotus.core.copies.places import is_short_of_places, places_told


@pytest.mark.parametrize(
    ("in_places", "places", "told"),
    [
        ({}, 0, ""),
        ({"6": 1_200}, 40, "copies in 6 places"),
        ({"1": 7}, 1, "copies in 1 place: the ring has 1; of 7 captures some copies share a place"),
        ({"3": 2_000}, 3, "copies in 3 places: the ring has 3; of 2,000 captures some copies share a place"),
        (
            {"4": 20, "6": 80, "5": 10},
            7,
            "copies in 4 to 6 places, though the ring has 7; of 30 captures some copies share a place",
        ),
    ],
)
def test_a_sentence_says_in_how_many_places_copies_are(
    in_places: dict[str, int], places: int, told: str
) -> None:
    assert places_told(in_places, 6, places) == told


@pytest.mark.parametrize(
    ("in_places", "places", "is_news"),
    [
        ({"3": 9}, 3, False),
        ({"6": 99, "5": 1}, 40, False),
        ({"6": 90, "5": 10}, 40, True),
        ({"5": 10}, 11, False),
    ],
)
def test_few_places_are_news_only_where_the_ring_has_many(
    in_places: dict[str, int], places: int, is_news: bool
) -> None:
    assert is_short_of_places(in_places, 6, places) is is_news
