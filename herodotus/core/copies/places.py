"""In how many places are the copies of what this peer holds, and should somebody know that they are few?"""

from collections.abc import Mapping

NEWS_FROM = 2
"""Times the copies: a ring of so many places that still gives captures fewer is made of few large ones."""
NEWS_SHARE = 0.01


def places_told(in_places: Mapping[str, int], copies: int, places: int) -> str:
    """A sentence; "" where each key is a place of its own. `in_places`: captures by the places of their holders."""
    total = sum(in_places.values())
    if not total:
        return ""
    few = sum(count for places_there, count in in_places.items() if int(places_there) < copies)
    if not few:
        return f"copies in {copies} places"
    counts = sorted(int(places_there) for places_there, count in in_places.items() if count)
    span = f"{counts[0]}" if counts[0] == counts[-1] else f"{counts[0]} to {counts[-1]}"
    why = f": the ring has {places}" if places < copies else f", though the ring has {places}"
    shared = f"of {few:,} captures some copies share a place"
    return f"copies in {span} place{'' if span == '1' else 's'}{why}; {shared}"


def is_short_of_places(in_places: Mapping[str, int], copies: int, places: int) -> bool:
    """Is it news? In a young ring, or one of few places, nothing else can be."""
    few = sum(count for places_there, count in in_places.items() if int(places_there) < copies)
    return places >= NEWS_FROM * copies and few > NEWS_SHARE * sum(in_places.values())
