"""How are payloads sealed between two peers that know each other, and replays refused?

A session is a pair of ChaCha20-Poly1305 keys, one per direction, each used with a counter that never repeats.
The window accepts each counter once and tolerates reordering of up to 1,023 frames. The table holds the
sessions by the id that peers write into their frames and by address; the least recently used goes first.
"""

import struct
from collections.abc import Callable, Iterator
from dataclasses import InitVar, dataclass, field
from operator import attrgetter
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from dht.core.frames import DATA, MAGIC, SEALED_HEADER_BYTES, Address

LIFE_S: Final = 24 * 3_600.0
REKEY_AS_INITIATOR_S: Final = 22 * 3_600.0
REKEY_AS_RESPONDER_S: Final = 23 * 3_600.0  # an hour later, so that the two do not both do it
OVERLAP_S: Final = 60.0  # how long frames that were under way may still use the older session
SESSIONS_MAX: Final = 4_096
WINDOW: Final = 1_024

_SEALED = struct.Struct(">BB8sQ")
_COUNTER = struct.Struct(">Q")
COUNTER_AT: Final = 10
NONCE_AT: Final = 6  # half of the session id and the counter: unique for a key, and no bytes to be joined


class ReplayWindow:
    """Which counters may still come: those above `top`, and of the last 1,024 those in `missing`.

    Frames nearly always come in order, and then nothing but `top` changes.
    """

    __slots__ = ("missing", "top")

    def __init__(self) -> None:
        self.top = 0  # counter 0 is never sent
        self.missing: set[int] = set()

    def is_fresh(self, counter: int) -> bool:
        return counter > self.top or (counter in self.missing and self.top - counter < WINDOW)

    def note(self, counter: int) -> None:
        if counter <= self.top:
            self.missing.discard(counter)
            return
        self.missing.update(range(max(self.top + 1, counter - WINDOW + 1), counter))
        self.top = counter
        if len(self.missing) >= WINDOW:
            self.missing = {number for number in self.missing if counter - number < WINDOW}
        assert len(self.missing) < WINDOW, "what came too late is refused, and need not be remembered"


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class Session:
    """One pair of keys with one peer at one address."""

    local_id: bytes
    remote_id: bytes
    public_key: bytes
    address: Address
    keys: InitVar[tuple[bytes, bytes]]  # initiator's, responder's
    record: bytes
    is_initiator: bool
    now: InitVar[float]
    is_doubtful: bool = (
        False  # the peer has lost the keys, or knows us at another address: a dial comes first
    )
    sent: int = 0
    tag: object = None  # what the layer above keeps beside it
    window: ReplayWindow = field(default_factory=ReplayWindow)
    used_at: float = field(init=False)
    expires_at: float = field(init=False)
    rekey_at: float = field(init=False)
    _seal: Callable[[bytes, bytes, bytes], bytes] = field(init=False)
    _open: Callable[[bytes, bytes, bytes], bytes] = field(init=False)

    def __post_init__(self, keys: tuple[bytes, bytes], now: float) -> None:
        self.used_at, self.expires_at = now, now + LIFE_S
        self.rekey_at = now + (REKEY_AS_INITIATOR_S if self.is_initiator else REKEY_AS_RESPONDER_S)
        mine, theirs = keys if self.is_initiator else (keys[1], keys[0])
        assert mine != theirs, "with one key for both ways a frame could be sent back to its sender"
        self._seal = ChaCha20Poly1305(mine).encrypt
        self._open = ChaCha20Poly1305(theirs).decrypt

    def seal(self, payload: bytes, kind: int = DATA) -> bytes:
        self.sent = counter = self.sent + 1
        header = _SEALED.pack(MAGIC, kind, self.remote_id, counter)
        return header + self._seal(header[NONCE_AT:], payload, header)

    def open(self, data: bytes) -> bytes | str:
        """The payload, or why not: `replayed` or `forged`. Each frame opens once."""
        (counter,) = _COUNTER.unpack_from(data, COUNTER_AT)
        window = self.window
        is_next = counter == window.top + 1  # almost always
        if not is_next and not window.is_fresh(counter):
            return "replayed"
        header = data[:SEALED_HEADER_BYTES]
        try:
            payload = self._open(header[NONCE_AT:], data[SEALED_HEADER_BYTES:], header)
        except InvalidTag:
            return "forged"
        if is_next:
            window.top = counter
        else:
            window.note(counter)
        return payload


class SessionTable:
    """Sessions by the id in frames and, for sending, the youngest by address."""

    def __init__(self, sessions_max: int = SESSIONS_MAX) -> None:
        self._by_id: dict[bytes, Session] = {}
        self._by_address: dict[Address, Session] = {}
        self._by_key: dict[bytes, Session] = {}  # the youngest
        self.by_id = self._by_id.get
        self.at = self._by_address.get
        self.of = self._by_key.get
        self._max = sessions_max

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Session]:
        return iter(self._by_id.values())

    def add(self, session: Session, now: float) -> Session | None:
        """The session becomes the one for its address; gives the one that had to make room, if any."""
        older = self._by_address.get(session.address)
        if older is not None:
            older.expires_at = min(older.expires_at, now + OVERLAP_S)
        assert session.local_id not in self._by_id, "ids of sessions are drawn at random, 64 bits"
        self._by_id[session.local_id] = session
        self._by_address[session.address] = session
        self._by_key[session.public_key] = session
        if len(self._by_id) <= self._max:
            return None
        # A scan only when the table is full, so that receiving need not keep an order.
        evicted = min(self._by_id.values(), key=attrgetter("used_at"))
        self.remove(evicted)
        return evicted

    def remove(self, session: Session) -> None:
        self._by_id.pop(session.local_id, None)
        if self._by_address.get(session.address) is session:
            del self._by_address[session.address]
        if self._by_key.get(session.public_key) is session:
            del self._by_key[session.public_key]

    def sweep(self, now: float) -> list[Session]:
        """Takes out what has expired."""
        expired = [session for session in self._by_id.values() if session.expires_at <= now]
        for session in expired:
            self.remove(session)
        return expired
