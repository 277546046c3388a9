"""How do datagrams reach a peer behind a closed router? One of its relays asks it to come.

    asker   ── KNOCK, called's key ─────────────────► relay     (over their session)
    relay   ── KNOCKED, asker's key and address ────► called    (over the session that the called peer keeps open)
    called  ── HELLO, or an empty DATA ─────────────► asker     (and opens its router by that)

Two closed routers, of which one shows other ports to each, let neither through, and two peers of different families
have no way at all. Where knocks are in vain, a relay passes the datagrams on (POST, POSTED), sealed as ever. They come
from no address of their own: in the link an address stands for their sender that is nobody's, and it proves nothing.

What the asker has to say waits in its dial, or is asked again by the machine, as whatever was lost. Then the two speak
as others do, each seen at the address that it really has: a relay's word proves nothing here. Whoever may be called is
spared all of it.

The called peer's side keeps a session with each of its relays alive: routers forget UDP after half a minute.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Protocol

from dht.core.frames import Address as SocketAddress
from dht.core.ids import PeerKey
from dht.core.limits import Buckets, Rate
from dht.core.messages import POSTED_BYTES_MAX, Knock, Knocked, Post, Posted
from dht.core.records import CLOSED, LEAF, RELAY_BYTES, Contact, PeerRecord, SignedRecord
from dht.core.sessions import Session
from dht.endpoint import FRESH_S, SessionEndpoint, is_posted, posted_address, socket_address
from dht.transport import Received
from dht.wire import encode_message

KEEP_OPEN_S: Final = 15.0
KNOCK_AGAIN_S: Final = 1.0
RELAYS_ASKED: Final = 2
"""One of them may be gone."""
KNOCKS: Final = Rate(per_second=5, burst=20)
KNOCKS_AT: Final = Rate(per_second=10, burst=50)
ASKED_MAX: Final = 4_096
ASKED_FORGOTTEN_S: Final = 600.0
POST_AFTER_S: Final = 2.0
"""Of knocks in vain. Two of three tries of the ring's machine are over by then."""
POSTED_KNOCK_S: Final = 60.0
"""Between knocks at one that is reached by post: a router may have changed."""
POSTS: Final = Rate(per_second=4_000, burst=65_536)
"""Bytes of one sender: eight times what a ring of a thousand costs."""
POSTS_TO: Final = Rate(per_second=16_000, burst=131_072)


@dataclass(slots=True)
class _Asked:
    """One peer, since it last spoke to us directly."""

    first: float
    last: float = float("-inf")


class KnownPeers(Protocol):
    """What a table tells of closed peers, and of those in another family."""

    def record_of(self, peer: PeerKey) -> PeerRecord | None: ...
    def relays_of(self, peer: PeerKey) -> tuple[Contact, ...]: ...
    def own_relays(self) -> tuple[Contact, ...]: ...
    def is_apart(self, peer: PeerKey) -> bool: ...


class Relaying:
    """Of one endpoint: as asker, relay and called peer."""

    def __init__(
        self,
        endpoint: SessionEndpoint,
        known: KnownPeers,
        record: Callable[[], SignedRecord | None],
    ) -> None:
        self._endpoint, self._link = endpoint, endpoint.link
        self._known, self._record = known, record
        self._counts = endpoint.dropped
        self._buckets = Buckets()
        self._asked: OrderedDict[bytes, _Asked] = OrderedDict()
        self._posted: OrderedDict[SocketAddress, tuple[PeerKey, tuple[Contact, ...]]] = OrderedDict()

    def receive(
        self, message: Knock | Knocked | Post | Posted, sender: Contact, now: float
    ) -> list[Received]:
        """The messages in a datagram that was passed on to us."""
        match message:
            case Knock():
                self._knock_for(message, sender, now)
            case Knocked():
                self._come(message, sender, now)
            case Post():
                self._pass_on(message, sender, now)
            case Posted():
                datagram = self._unpacked(message, sender)
                return [] if datagram is None else self._endpoint.receive([datagram], now)
        return []

    # --- the asker

    def way_to(self, to: Contact, target: SocketAddress, now: float) -> tuple[SocketAddress, bool]:
        """Where to send what is for this peer, and whether it was proven that it is there.

        A closed one is knocked at, unless it just spoke. No knock brings one of another family here.
        """
        by_post, called_by = posted_address(to.peer), self._known.relays_of(to.peer)
        if self._known.is_apart(to.peer):
            passed_by = _without(called_by or self._known.own_relays(), to.peer)
            if not passed_by and by_post not in self._posted:
                return target, False
            if passed_by:
                self._remember(by_post, to.peer, passed_by)
            return by_post, True
        # Who can be called is spoken to directly, also by us: our router lets answers in.
        own = () if self._is_open(to.peer) else self._known.relays_of(PeerKey(self._link.public_key))
        passed_by = called_by or _without(own, to.peer)
        posted = self._link.sessions.at(by_post)
        is_by_post = posted is not None and by_post in self._posted and now - posted.used_at <= FRESH_S
        if not passed_by:
            return (by_post, True) if is_by_post else (target, False)
        session = self._session_of(to.peer, target[0])
        heard_at = float("-inf") if session is None else session.used_at
        if session is not None and called_by:
            target = session.address
        if now - heard_at > FRESH_S:
            if self._asks_in_vain(to.peer, called_by, heard_at, now) and not is_by_post:
                self._remember(by_post, to.peer, passed_by)
                is_by_post = True
            if is_by_post:
                return by_post, True
        return target, bool(called_by) and self._is_there(to.peer, to.address.host)

    def _asks_in_vain(self, peer: PeerKey, called_by: Iterable[Contact], heard_at: float, now: float) -> bool:
        """Knocks if it is closed. Whether it has been silent for so long that a relay is to pass on all."""
        known = self._asked.get(peer)
        if known is None or heard_at > known.first or now - known.last > ASKED_FORGOTTEN_S:
            known = self._asked[peer] = _Asked(first=now)
        self._asked.move_to_end(peer)
        if len(self._asked) > ASKED_MAX:
            self._asked.popitem(last=False)
        is_in_vain = now - known.first >= POST_AFTER_S
        if now - known.last >= (POSTED_KNOCK_S if is_in_vain else KNOCK_AGAIN_S):
            known.last = now
            if called_by:
                self._knock(peer, called_by, now)
        return is_in_vain

    def _knock(self, peer: PeerKey, relays: Iterable[Contact], now: float) -> None:
        self._counts["knocks"] += 1
        message = encode_message(Knock(id=self._counts["knocks"], called=peer))
        for relay in [relay for relay in relays if relay.peer != self._link.public_key][:RELAYS_ASKED]:
            at = socket_address(relay.address.host, relay.address.port)
            self._link.send(message, at, relay.peer, now)

    # --- the relay

    def _knock_for(self, message: Knock, sender: Contact, now: float) -> None:
        """Passed on only to who named us as its relay and speaks with us."""
        record, session = (
            self._known.record_of(PeerKey(message.called)),
            self._link.sessions.of(message.called),
        )
        is_ours = record is not None and self._link.public_key[:RELAY_BYTES] in record.relays
        if session is None or is_posted(session.address) or not is_ours:
            self._counts["knock_unknown"] += 1
            return
        take = self._buckets.take
        if not take(("by", sender.peer), KNOCKS, now) or not take(("at", message.called), KNOCKS_AT, now):
            self._counts["flood"] += 1
            return
        told = Knocked(id=message.id, caller=sender.peer, address=sender.address)
        self._link.send(encode_message(told), session.address, session.public_key, now)

    def _pass_on(self, message: Post, sender: Contact, now: float) -> None:
        """As many bytes out as in, and only between two that speak with us, one of which named us as its relay."""
        session = self._link.sessions.of(message.to)
        own = self._link.public_key[:RELAY_BYTES]
        ends = [self._known.record_of(PeerKey(peer)) for peer in (message.to, sender.peer)]
        is_ours = any(record is not None and own in record.relays for record in ends)
        if session is None or is_posted(session.address) or not is_ours:
            self._counts["post_unknown"] += 1
            return
        ration, size = self._buckets.ration, len(message.data)
        if ration(("from", sender.peer), POSTS, size, now) or ration(("to", message.to), POSTS_TO, size, now):
            self._counts["flood"] += 1
            return
        told = Posted(id=message.id, source=sender.peer, data=message.data)
        self._link.send(encode_message(told), session.address, session.public_key, now)

    # --- what is posted

    def divert(self, now: float) -> None:
        """What the link has for a peer that is reached by post goes to one of its relays."""
        outgoing = self._link.outgoing
        if not any(is_posted(address) for _, address in outgoing):
            return
        taken, outgoing[:] = outgoing[:], []
        for data, address in taken:
            if is_posted(address):
                self._post(data, address, now)
            else:
                outgoing.append((data, address))

    def _post(self, data: bytes, address: SocketAddress, now: float) -> None:
        known = self._posted.get(address)
        if known is None or len(data) > POSTED_BYTES_MAX:
            self._counts["post_unsendable"] += 1
            return
        peer, relays = known
        relay = next((one for one in relays if self._link.sessions.of(one.peer) is not None), relays[0])
        at = socket_address(relay.address.host, relay.address.port)
        message = encode_message(Post(id=self._counts["posts"], to=peer, data=data))
        self._counts["posts"] += 1
        self._link.send(message, at, relay.peer, now)

    def _unpacked(self, message: Posted, sender: Contact) -> tuple[bytes, SocketAddress] | None:
        """A datagram as if it came from its sender; only our relays, and the sender's, bring any."""
        own, source = self._record(), self._known.record_of(PeerKey(message.source))
        relay = sender.peer[:RELAY_BYTES]
        is_relay = (own is not None and relay in own.record.relays) or (
            source is not None and relay in source.relays
        )
        if not is_relay:
            self._counts["post_unknown"] += 1
            return None
        address = posted_address(message.source)
        self._remember(address, PeerKey(message.source), (sender,))
        return message.data, address

    def _remember(self, address: SocketAddress, peer: PeerKey, relays: tuple[Contact, ...]) -> None:
        self._posted[address] = peer, relays
        self._posted.move_to_end(address)
        if len(self._posted) > ASKED_MAX:
            self._posted.popitem(last=False)
        self._endpoint.divert = self.divert

    # --- the called peer

    def _come(self, message: Knocked, sender: Contact, now: float) -> None:
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

    def _is_open(self, peer: bytes) -> bool:
        """A member that others can call, by its record."""
        record = self._known.record_of(PeerKey(peer))
        return record is not None and not record.flags & (LEAF | CLOSED)

    def _session_of(self, peer: bytes, host: str) -> Session | None:
        """At that host: a session elsewhere would prove nothing of it."""
        session = self._link.sessions.of(peer)
        return session if session is not None and session.address[0] == host else None


def _without(relays: Iterable[Contact], peer: bytes) -> tuple[Contact, ...]:
    """Nobody passes on what is for itself."""
    return tuple(relay for relay in relays if relay.peer != peer)
