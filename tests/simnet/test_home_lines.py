"""Does the simulated ring of home lines treat each kind of line as it is?"""

from dataclasses import replace

from herodotus.core.relays import KEPT_MAX, Mapping, Way
from simnet.homelines import HomeLines, HomePeer, Mix
from simnet.runs import Options, run_scenario
from simnet.scenarios import find_scenario

HOUR_S = 3_600.0
V4_ONLY = Mix(with_v6=0.01, only_v6=0.0, open_v4=0.3)


def ring(mix: Mix, *, peers: int = 60, hours: float = 2.0) -> HomeLines:
    found = HomeLines(1, peers=peers, mix=mix)
    found.run(hours * HOUR_S)
    return found


def closed(world: HomeLines, mapping: Mapping) -> list[HomePeer]:
    return [one for one in world.peers if not one.is_open and one.mapping is mapping and one.keeper.is_member]


def test_most_of_a_mixed_ring_are_full_members_after_an_hour() -> None:
    report, _ = run_scenario(
        find_scenario("home-lines"),
        Options(seed=1, peers=200, days=0.1, settings={"pairs": "500", "relayed": "10"}),
    )
    assert report.ok, report.checkers
    assert report.figures["pairs without a way, %"] == 0
    assert 0 < report.figures["lines kept at one relay, most"] <= KEPT_MAX


def test_before_half_an_hour_nobody_behind_a_closed_router_is_a_member() -> None:
    world = ring(V4_ONLY, hours=0.4)
    assert not [one for one in world.peers if one.is_member and not one.is_open]


def test_without_a_peer_that_can_be_called_nobody_is_a_member_and_the_run_fails() -> None:
    report, _ = run_scenario(
        find_scenario("home-lines"), Options(seed=1, peers=50, days=0.1, settings={"open_v4": "0"})
    )
    assert not report.ok


def test_lines_that_break_each_half_hour_make_no_member() -> None:
    world = ring(replace(V4_ONLY, steady=0.0), hours=8)
    found = [one for one in world.peers if not one.is_open]
    assert sum(one.keeper.is_member for one in found) < len(found) / 4


def test_two_routers_that_keep_their_port_open_at_once_and_others_are_joined() -> None:
    world = ring(V4_ONLY)
    one, other = closed(world, Mapping.SAME)[:2]
    changing = closed(world, Mapping.CHANGES)[0]
    reached = next(peer for peer in world.peers if peer.is_open and not peer.has_v6)
    assert world.way(one, other) is Way.OPEN_AT_ONCE
    assert world.way(one, changing) is Way.JOIN
    assert world.way(reached, changing) is Way.CALL_BACK


def test_peers_of_different_families_meet_at_a_relay_that_has_both() -> None:
    world = ring(Mix(with_v6=0.6, only_v6=0.2))
    first = next(one for one in world.peers if not one.has_v4 and one.keeper.is_member)
    second = next(one for one in world.peers if not one.has_v6 and one.keeper.is_member)
    assert world.way(first, second) is Way.JOIN
