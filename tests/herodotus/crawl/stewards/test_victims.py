"""What does the owner of an address see who never asked to be visited, when somebody points many names at it?"""

from collections.abc import Awaitable, Callable
from itertools import count, cycle, islice

import anyio
import pytest

from herodotus.core.captures import position_of
from simnet.origins import Site
from simnet.peers import Member, Peers, run_peers
from simnet.scenarios.steward import (
    NO_WEB,
    add_sites,
    all_serve,
    crowd,
    deaths_of_stewards,
    settings_of,
    steward_in,
    steward_of,
    terms_of,
)
from simnet.web import Web

pytestmark = pytest.mark.timeout(600)
VICTIM, MAPPED = "93.184.0.1", "::ffff:93.184.0.1"
CAP = 2
"""The charter's, of requests that all peers together may have open to an address."""


def run(seed: int, story: Callable[[Peers], Awaitable[None]], *, peers: int, loss: float = 0.0) -> None:
    async def told(world: Peers) -> None:
        await story(world)
        assert world.fallen == []

    try:
        run_peers(told, settings_of(peers), Web(NO_WEB), seed=seed, loss=loss)
    except BaseException as error:
        error.add_note(f"seed {seed}")
        raise


def elsewhere(number: int) -> str:
    """An address of the attacker's."""
    return f"93.186.{number >> 8}.{number & 255}"


def aim_the_fetchers(world: Peers, site: Site, number: int, victim: str) -> None:
    """DNS tells the host's steward of an address of its own, and everybody else of the victim's."""
    steward = steward_of(world, site.name).number
    site.leads = lambda peer: elsewhere(number) if peer == steward else victim


def aim_in_turn(site: Site, number: int) -> None:
    """Every other question has another answer, whoever asks."""
    questions = count()
    site.leads = lambda _peer: VICTIM if next(questions) % 2 else elsewhere(number)


def test_names_that_resolve_differently_for_stewards_and_fetchers_do_not_pass_the_cap_of_an_address() -> None:
    async def story(world: Peers) -> None:
        await all_serve(world)
        for number, site in enumerate(add_sites(world, *(f"h{number}.example" for number in range(36)))):
            site.answer_s = 3.0
            if number % 3:
                aim_the_fetchers(world, site, number, MAPPED if number % 3 == 1 else VICTIM)
            else:
                aim_in_turn(site, number)
        await crowd(world, each=2)
        await anyio.sleep(120)
        assert len(world.origins.at_address[VICTIM]) > 20, "or nobody was attacked"
        assert world.origins.most_open[VICTIM] == CAP

    run(2, story, peers=6)


async def come_and_go(world: Peers, sites: list[Site]) -> None:
    """Hosts of one address have work in turn, then all; stewards of hosts and addresses die meanwhile."""
    await all_serve(world)
    await anyio.sleep(terms_of(2.0).silent_s + 1)
    for site, member in zip(sites[:3], cycle(world.members), strict=False):
        await give_work_at(world, site, member, 6)
        await anyio.sleep(30)
    for number, site in enumerate(sites):
        await give_work_at(world, site, world.members[number % len(world.members)], 400)
    await anyio.sleep(60)
    await deaths_of_stewards(world, 600)
    await anyio.sleep(200)


async def give_work_at(world: Peers, site: Site, member: Member, each: int) -> None:
    urls = [f"http://{site.name}/{number}" for number in range(10 * each)]
    owned = member.owned()
    await world.give(member, *islice((url for url in urls if position_of(url) in owned), each))


def deputies(world: Peers) -> int:
    return sum(len(steward_in(member).office._mandates) for member in world.serving)


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.sweep) for seed in range(2, 20))])
def test_deputies_keep_the_cap_of_an_address_while_stewards_die_and_datagrams_are_lost(seed: int) -> None:
    async def story(world: Peers) -> None:
        sites = add_sites(world, *(f"h{number}.example" for number in range(5)))
        for site in sites[:4]:
            site.address, site.answer_s = VICTIM, 3.0
        await come_and_go(world, sites)
        assert deputies(world), "or nobody was one"
        assert world.origins.most_open[VICTIM] <= CAP
        assert not world.origins.rude

    run(seed, story, peers=4, loss=0.02)
