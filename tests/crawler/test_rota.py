"""Whose turn it is, with origins that rest for long beside those that do not."""

import pytest

from crawler.core.urls import Origin
from crawler.rota import LONG_REST_S, Rota

pytestmark = pytest.mark.anyio


def origins(count: int) -> list[Origin]:
    return [Origin(f"http://{number}.example") for number in range(count)]


async def test_origins_that_rest_for_long_do_not_keep_others_from_their_turn() -> None:
    waiting = origins(6)
    rests = {waiting[0]: 2 * LONG_REST_S, waiting[1]: 2 * LONG_REST_S}

    def activate(wanted: int) -> list[Origin]:
        found = waiting[:wanted]
        del waiting[:wanted]
        return found

    rota = Rota(activate, active_max=2, rest_s=lambda origin: rests.get(origin, 0.0))
    turns = []
    while (origin := await rota.next()) is not None:
        turns.append(origin)
        if len(turns) == 4:
            rota.close()
        rota.done()
    assert turns == origins(6)[2:]
    assert [origin for _, origin in rota.resting(LONG_REST_S)] == origins(2)


async def test_a_rota_waits_for_short_rests_and_loses_patience_with_long_ones() -> None:
    once = origins(2)
    rests = dict(zip(origins(2), (0.02, 50.0), strict=True))

    def activate(wanted: int) -> list[Origin]:
        found = once[:wanted]
        del once[:wanted]
        return found

    rota = Rota(activate, active_max=8, rest_s=lambda origin: rests[origin], patience_s=10.0)
    assert await rota.next() == origins(1)[0]
    rota.done()
    assert await rota.next() is None
    assert rota.has_lost_patience
    assert rota.left() == [origins(2)[1]]


async def test_a_rota_with_nothing_left_is_done_and_lost_no_patience() -> None:
    rota = Rota(lambda wanted: [], active_max=8, patience_s=10.0)
    assert await rota.next() is None
    assert not rota.has_lost_patience
