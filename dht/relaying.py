"""How do datagrams reach a peer behind a closed router? One of its relays asks it to come.

    asker   ── KNOCK, called's key ─────────────────► relay     (over their session)
    relay   ── KNOCKED, asker's key and address ────► called    (over the session that the called peer keeps open)
    called  ── HELLO, or an empty DATA ─────────────► asker     (and opens its router by that)

What the asker has to say waits in its dial, or is asked again by the machine, as whatever was lost. Then the two speak
as others do, each seen at the address that it really has: a relay's word proves nothing here. Whoever may be called is
spared all of it.

The called peer's side keeps a session with each of its relays alive: routers forget UDP after half a minute.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from dht.core.frames import Address as SocketAddress
from dht.core.ids import PeerKey
from dht.core.limits import Buckets, Rate
from dht.core.link import SessionKeeper
from dht.core.messages import Knock, Knocked
from dht.core.records import LEAF, RELAY_BYTES, Contact, PeerRecord, SignedRecord
from dht.core.sessions import Session
from dht.endpoint import FRESH_S, socket_address
from dht.wire import encode_message

KEEP_OPEN_S: Final = 15.0
KNOCK_AGAIN_S: Final = 1.0
RELAYS_ASKED: Final = 2
"""One of them may be gone."""
KNOCKS: Final = Rate(per_second=5, burst=20)
KNOCKS_AT: Final = Rate(per_second=10, burst=50)
KNOCKED_MAX: Final = 4_096


class KnownPeers(Protocol):
    """What a table tells of closed peers."""

    def record_of(self, peer: PeerKey) -> PeerRecord | None: ...
    def relays_of(self, peer: PeerKey) -> tuple[Contact, ...]: ...


class Relaying:
    """Of one endpoint: as asker, relay and called peer."""

    def __init__(
        self,
        link: SessionKeeper,
        known: KnownPeers,
        record: Callable[[], SignedRecord | None],
        counts: Counter[str],
    ) -> None:
        self._link, self._known, self._record = link, known, record
        self._counts = counts
        self._buckets = Buckets()
        self._knocked: OrderedDict[bytes, float] = OrderedDict()

    # --- the asker

    def way_to(self, to: Contact, target: SocketAddress, now: float) -> tuple[SocketAddress, bool]:
        """Where to send what is for this peer, and whether it was proven that it is there.

        A closed one is knocked at, unless it just spoke.
        """
        relays = self._known.relays_of(to.peer)
        if not relays:
            return target, False
        session = self._session_of(to.peer, target[0])
        if session is not None:
            target = session.address
        if session is None or now - session.used_at > FRESH_S:
            self._knock(to.peer, relays, now)
        return target, self._is_there(to.peer, to.address.host)

    def _knock(self, peer: PeerKey, relays: Iterable[Contact], now: float) -> None:
        if now - self._knocked.get(peer, float("-inf")) < KNOCK_AGAIN_S:
            return
        self._knocked[peer] = now
        self._knocked.move_to_end(peer)
        if len(self._knocked) > KNOCKED_MAX:
            self._knocked.popitem(last=False)
        self._counts["knocks"] += 1
        message = encode_message(Knock(id=self._counts["knocks"], called=peer))
        for relay in [relay for relay in relays if relay.peer != self._link.public_key][:RELAYS_ASKED]:
            at = socket_address(relay.address.host, relay.address.port)
            self._link.send(message, at, relay.peer, now)

    # --- the relay

    def knock(self, message: Knock, sender: Contact, now: float) -> None:
        """Passed on only to who named us as its relay and speaks with us."""
        record, session = (
            self._known.record_of(PeerKey(message.called)),
            self._link.sessions.of(message.called),
        )
        is_ours = record is not None and self._link.public_key[:RELAY_BYTES] in record.relays
        if session is None or not is_ours:
            self._counts["knock_unknown"] += 1
            return
        take = self._buckets.take
        if not take(("by", sender.peer), KNOCKS, now) or not take(("at", message.called), KNOCKS_AT, now):
            self._counts["flood"] += 1
            return
        told = Knocked(id=message.id, caller=sender.peer, address=sender.address)
        self._link.send(encode_message(told), session.address, session.public_key, now)

    # --- the called peer

    def knocked(self, message: Knocked, sender: Contact, now: float) -> None:
        own = self._record()
        if own is None or sender.peer[:RELAY_BYTES] not in own.record.relays:
            self._counts["knock_unknown"] += 1
            return
        target = socket_address(message.address.host, message.address.port)
        session = self._link.sessions.at(target)
        if session is not None and session.public_key == message.caller:
            self._link.outgoing.append((session.seal(b""), target))
            return
        self._link.dial(
            target, message.caller, now, is_chosen=self._is_there(message.caller, message.address.host)
        )

    def keep_open(self, relays: Iterable[Contact], now: float) -> None:
        """Our router lets through what they send."""
        for relay in relays:
            target = socket_address(relay.address.host, relay.address.port)
            session = self._link.sessions.at(target)
            if session is not None and session.public_key == relay.peer and now < session.rekey_at:
                self._link.outgoing.append((session.seal(b""), target))
            else:
                self._link.dial(target, relay.peer, now, is_chosen=True)

    # --- of all

    def _is_there(self, peer: bytes, host: bytes) -> bool:
        """A member of our table has proven that it is where its record says; a leaf has not."""
        record = self._known.record_of(PeerKey(peer))
        return (
            record is not None and not record.flags & LEAF and any(line.host == host for line in record.lines)
        )

    def _session_of(self, peer: bytes, host: str) -> Session | None:
        """At that host: a session elsewhere would prove nothing of it."""
        session = self._link.sessions.of(peer)
        return session if session is not None and session.address[0] == host else None
