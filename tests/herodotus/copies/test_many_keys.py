"""What can one machine with many keys do to honest peers' copies? It takes part, promises, proves, and vanishes."""

from collections.abc import Hashable, Iterator
from dataclasses import replace
from itertools import islice

import anyio
import pytest

from herodotus.core.copies.possession import EachItsOwn
from herodotus.core.settings.sections import CopiesSettings
from tests.herodotus.copies.world import SETTINGS, Net, contact_of, deposit, in_world, key_number, ring_of

HONEST, KEYS, PAGES = 7, 8, 40
HOUR_S = 3_600.0
FAR = bytes((0xF6,)) * 20


class Acquaintances(EachItsOwn):
    """By an honest peer's own sight: those that were there before the attack."""

    def __init__(self, net: Net) -> None:
        self._net = net

    def place_of(self, peer: bytes) -> Hashable:
        number = self._net.by_key[peer].number
        return number if number < HONEST else "the attacker's house"

    def is_veteran(self, peer: bytes) -> bool:
        return self._net.by_key[peer].number < HONEST


async def attacked(net: Net) -> set[bytes]:
    """Eight keys that sit where they want join an honest ring, hold what is theirs to hold as the best of
    peers for 45 minutes, and vanish with their disks. Returns what is lost."""
    await ring_of(net, *[None] * HONEST)
    keys = {await deposit(net.peers[n % HONEST], f"http://example.org/{n}") for n in range(PAGES)}
    await anyio.sleep(HOUR_S)
    for seat in islice(neighbours(net), KEYS):
        await net.start(net.add(seat=seat))
    await anyio.sleep(0.75 * HOUR_S)
    there = set[bytes]().union(*(peer.ids() for peer in net.peers[:HONEST]))
    return keys - there


def neighbours(net: Net) -> Iterator[int]:
    """Seats without an honest peer between them: they are alone responsible for what lies before them."""
    assert max(peer.contact.position for peer in net.peers) < FAR, "they leave a gap to sit behind"
    return (seat for seat in range(100, 10_000) if contact_of(key_number(0), seat).position > FAR)


def test_eight_keys_on_one_address_that_vanish_after_45_minutes_take_nothing_along() -> None:
    """By default nothing goes while there is room, and before the holders were the same for a day."""

    async def play(net: Net) -> None:
        by_default = CopiesSettings()
        net.settings = replace(SETTINGS, full_share=by_default.full_share, keep_s=by_default.keep_s)
        assert not await attacked(net)

    in_world(play)


@pytest.mark.parametrize("knows", [True, False])
def test_with_full_disks_and_long_waiting_old_acquaintances_keep_theirs(knows: bool) -> None:
    """As after a fortnight on full disks (`keep_s` is over). Without its acquaintances a peer trusts whoever proves."""

    async def play(net: Net) -> None:
        net.settings = replace(SETTINGS, promise_s=60.0)
        if knows:
            net.known = Acquaintances(net)
        lost = await attacked(net)
        assert bool(lost) is not knows
        if knows:  # and what went, went on the word of three old ones
            for key in {key for peer in net.peers for key in peer.ids()}:
                assert sum(key in peer.ids() for peer in net.peers[:HONEST]) >= 3

    in_world(play)
