"""What do stewards ask of the ring? Who owns a key, which keys are ours, and when that changes."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Protocol

from dht import Arc, Contact, EventsLost, Key, Subscription
from dht.core.arcs import Arcs
from dht.core.effects import ArcsChanged, RingChanged
from dht.errors import NoAnswerError


class StewardRing(Protocol):
    async def owner(self, key: Key) -> Contact | None:
        """None when nobody answers now."""
        ...

    def my_arcs(self) -> Arcs: ...

    def changes(self) -> AbstractAsyncContextManager[AsyncIterator[bool]]:
        """Each time our arcs may have changed; False when some changes were missed."""
        ...


class AskedRing(Protocol):
    """What of `dht.Ring` is needed here."""

    async def owner(self, key: Key) -> Contact: ...
    def my_arcs(self, copies: int | None = None) -> tuple[Arc, ...]: ...
    def events(self) -> AbstractContextManager[Subscription]: ...


class NodeRing:
    """The real one."""

    def __init__(self, node: AskedRing) -> None:
        self._node = node

    async def owner(self, key: Key) -> Contact | None:
        try:
            return await self._node.owner(key)
        except NoAnswerError:
            return None

    def my_arcs(self) -> Arcs:
        return Arcs(self._node.my_arcs(1))

    def changes(self) -> AbstractAsyncContextManager[AsyncIterator[bool]]:
        return _Changes(self._node)


class _Changes:
    def __init__(self, node: AskedRing) -> None:
        self._events = node.events()

    async def __aenter__(self) -> AsyncIterator[bool]:
        subscription = self._events.__enter__()

        async def listen() -> AsyncIterator[bool]:
            while True:
                events = await subscription.wait()
                # In a ring of few all hold everything: what we own changes there without what we hold.
                if any(isinstance(event, ArcsChanged | RingChanged | EventsLost) for event in events):
                    yield not any(isinstance(event, EventsLost) for event in events)

        return listen()

    async def __aexit__(self, *_details: object) -> None:
        self._events.__exit__(None, None, None)
