"""Who waits for which lookup? Tasks that await what a machine reports as an effect.

A machine that ends (we leave, or start over) forgets its lookups, so those who wait are told that there is no answer.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import anyio

from dht.core.effects import LookupDone
from dht.core.ids import Key
from dht.core.records import Contact
from dht.errors import NoAnswerError

LOOKUP_S = 60.0
"""A lookup that meets silent peers at each of its hops ends by itself before that."""


@dataclass(slots=True)
class _Waiter:
    event: anyio.Event = field(default_factory=anyio.Event)
    holders: tuple[Contact, ...] = ()


class OpenLookups:
    def __init__(self) -> None:
        self._waiters: dict[int, _Waiter] = {}

    async def holders(self, lookup_id: int, key: Key, act: Callable[[], None]) -> tuple[Contact, ...]:
        """`act` lets the machine act, which may end the lookup at once. Raises `NoAnswerError`."""
        waiter = self._waiters[lookup_id] = _Waiter()
        try:
            act()
            with anyio.move_on_after(LOOKUP_S):
                await waiter.event.wait()
        finally:
            del self._waiters[lookup_id]
        if not waiter.holders:
            raise NoAnswerError(key.hex())
        return waiter.holders

    def done(self, effect: LookupDone) -> None:
        waiter = self._waiters.get(effect.id)
        if waiter is not None:
            waiter.holders = effect.holders
            waiter.event.set()

    def end_all(self) -> None:
        for waiter in self._waiters.values():
            waiter.event.set()
