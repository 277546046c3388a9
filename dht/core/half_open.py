"""Which handshakes have we answered that are not finished? The responder's half of a handshake, for ten seconds each.

Found by the session that it will open, and by the HELLO that it answered: a HELLO that is repeated, since our answer
was lost, is given the same answer, or each repetition would begin another handshake.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from dht.core.frames import Address
from dht.core.sessions import Session

HALF_OPEN_MAX: Final = 1_024
HALF_OPEN_S: Final = 10.0


@dataclass(slots=True, kw_only=True)
class HalfOpen:
    session: Session
    hello: bytes
    answer: bytes
    transcript: bytes = field(repr=False)
    dead_at: float


class HalfOpenTable:
    """Oldest first; as all live equally long, that is also the order in which they end."""

    def __init__(self) -> None:
        self._by_session: OrderedDict[bytes, HalfOpen] = OrderedDict()
        self._by_hello: dict[tuple[Address, bytes], bytes] = {}

    def __len__(self) -> int:
        assert len(self._by_session) == len(self._by_hello), "each has one HELLO"
        return len(self._by_session)

    def at(self, local_id: bytes, now: float) -> HalfOpen | None:
        half = self._by_session.get(local_id)
        return half if half is not None and now < half.dead_at else None

    def answer_to(self, hello: bytes, initiator_id: bytes, address: Address) -> bytes | None:
        """What this very HELLO was answered before."""
        local_id = self._by_hello.get((address, initiator_id))
        half = None if local_id is None else self._by_session[local_id]
        return half.answer if half is not None and half.hello == hello else None

    def add(self, session: Session, hello: bytes, answer: bytes, transcript: bytes, now: float) -> None:
        """Takes the place of an older one of the same initiator, whose HELLO was another."""
        key = session.address, session.remote_id
        previous = self._by_hello.get(key)
        if previous is not None:
            self.forget(previous)
        self._by_session[session.local_id] = HalfOpen(
            session=session, hello=hello, answer=answer, transcript=transcript, dead_at=now + HALF_OPEN_S
        )
        self._by_hello[key] = session.local_id

    def forget(self, local_id: bytes) -> None:
        session = self._by_session.pop(local_id).session
        del self._by_hello[session.address, session.remote_id]

    def sweep(self, now: float) -> int:
        """Forgets those that are too old, and the oldest where there are too many; gives how many."""
        count = 0
        while self._by_session:
            local_id, oldest = next(iter(self._by_session.items()))
            if oldest.dead_at > now and len(self._by_session) <= HALF_OPEN_MAX:
                break
            self.forget(local_id)
            count += 1
        assert len(self) <= HALF_OPEN_MAX
        return count
