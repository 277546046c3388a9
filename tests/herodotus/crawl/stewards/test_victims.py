"""What does the owner of an address see who never asked to be visited, when somebody points many names at it?"""

from collections.abc import Awaitable, Callable
from itertools import count

import anyio
import pytest

from simnet.origins import Site
from simnet.peers import Peers, run_peers
from simnet.scenarios.steward import NO_WEB, add_sites, all_serve, crowd, settings_of, steward_of
from simnet.web import Web

pytestmark = pytest.mark.timeout(600)
VICTIM, MAPPED = "93.184.0.1", "::ffff:93.184.0.1"
CAP = 2
"""The charter's, of requests that all peers together may have open to an address."""


def run(seed: int, story: Callable[[Peers], Awaitable[None]], *, peers: int) -> None:
    async def told(world: Peers) -> None:
        await story(world)
        assert world.fallen == []

    run_peers(told, settings_of(peers), Web(NO_WEB), seed=seed)


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

    run(1, story, peers=6)
