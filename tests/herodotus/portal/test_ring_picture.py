"""Does the picture of the ring show what its tables say?"""

import re
from dataclasses import replace

import pytest

from herodotus.core.sentences import share_of
from herodotus.core.status import NeighbourStatus, NodeStatus
from herodotus.portal.status_page import ring_picture
from tests.herodotus.portal.statuses import STATUS


def at(eighths: int) -> str:
    """A position so many eighths of the way around."""
    return f"{(eighths << 157) % (1 << 160):040x}"


@pytest.mark.parametrize(
    ("arc", "path"),
    [
        ((at(0), at(2)), "M110.0 10.0A100 100 0 0 1 210.0 110.0"),
        ((at(0), at(6)), "M110.0 10.0A100 100 0 1 1 10.0 110.0"),
        ((at(6), at(2)), "M10.0 110.0A100 100 0 0 1 210.0 110.0"),  # around zero, which is at the top
    ],
)
def test_an_arc_goes_clockwise_the_short_or_the_long_way(arc: tuple[str, str], path: str) -> None:
    picture = ring_picture(replace(STATUS.ring, arcs=(arc,)))
    assert re.findall(r'<path class="held" d="([^"]+)"/>', picture) == [path]


def test_one_who_holds_everything_has_a_whole_circle() -> None:
    picture = ring_picture(replace(STATUS.ring, arcs=((at(3), at(3)),)))
    assert '<circle class="held" cx="110" cy="110" r="100"/>' in picture
    assert "<path" not in picture
    assert share_of([(at(3), at(3))]) == 1.0
    assert share_of([(at(7), at(1)), (at(2), at(4))]) == 0.5


def test_own_positions_and_neighbours_are_dots_each_once() -> None:
    def neighbour(eighths: int) -> NeighbourStatus:
        return NeighbourStatus(position=at(eighths), address="192.0.2.1:4484", clock="well")

    nodes = (
        NodeStatus(
            position=at(0), is_member=True, predecessor=neighbour(6), successors=(neighbour(2), neighbour(4))
        ),
        NodeStatus(position=at(2), is_member=True, predecessor=neighbour(0), successors=(neighbour(4),)),
    )
    picture = ring_picture(replace(STATUS.ring, nodes=nodes))
    assert re.findall(r'class="own" cx="([0-9.]+)" cy="([0-9.]+)"', picture) == [
        ("110.0", "10.0"),
        ("210.0", "110.0"),
    ]
    assert len(re.findall('class="other"', picture)) == 2
    assert (
        'role="img" aria-label="The ring: 1 arcs that this peer holds, 2 positions of its own, 2 of neighbours"'
        in picture
    )


def test_a_picture_is_no_larger_than_a_peer_may_have_positions() -> None:
    picture = ring_picture(replace(STATUS.ring, arcs=((at(0), at(1)),) * 5_000))
    assert picture.count("<path") == 64
