"""How do overlay nodes talk, so that strangers can use them for nothing but finding?

The kademlia package's protocol with its datagram side replaced. What was measured on the stock one (it
answers 77 B with 744 B, stores for anybody, pushes stored values at a spoofed sender) is closed like this:

- A request carries a token that we once sent to its address; without one the answer is a token and nothing
  else. So contacts, records, a place in our table and the right to store are only for senders who can hear
  us.
- No reply is longer than three times its request; requests that expect much are padded.
- A node's id is SHA-1(anchor || port) of where it answers from: made-up ids enter no table.
- Replies count only from the address that was asked. Whatever does not decode is counted and dropped.
- No task is started here: what the base class would do in the background (greeting a full bucket's oldest
  node, handing keys to a newcomer) becomes a chore, and the rendezvous does the chores when it next works.
"""

import asyncio
import hashlib
import hmac
import secrets
from collections import Counter, OrderedDict, deque
from typing import Annotated, Literal

import msgspec
from kademlia.node import Node
from kademlia.protocol import KademliaProtocol
from kademlia.routing import RoutingTable

from dht.core.limits import Buckets, Rate, prefix_of
from dht.discovery.addresses import Endpoint, overlay_node_id, parse_ip
from dht.discovery.record_store import RECORD_BYTES_MAX, RECORDS_PER_KEY_MAX, RecordStore

NEIGHBOURS = 20
"""kademlia's k: size of a bucket and of an answer."""
DATAGRAM_BYTES_MAX = 1200
REFLECTION_MAX = 3
PADDED_BYTES = DATAGRAM_BYTES_MAX // REFLECTION_MAX
"""A padded request may be answered with a full datagram."""
REPLY_TIMEOUT_S = 2.0
REQUESTS_PER_S = 20.0
TOKENS_MAX = 4096
PREFIXES_MAX = 4_096
"""Whose rates are kept; the least recently used is forgotten."""
CHORES_MAX = 64
HAND_OFF_RECORDS_MAX = 32
NODES_PER_PREFIX_MAX = 16
"""Of one /24: eight peers per address are allowed in a ring, and a household may have two addresses."""
SECRET_LIFE_S = 3600.0
SILENT_S = 120.0
SILENT_MAX = 512
_TOKEN_BYTES = 8
_ENVELOPE_BYTES = 21
_REQUEST, _REPLY = b"\x00", b"\x01"

Method = Literal["ping", "find_node", "find_value", "store"]
_Contact = tuple[bytes, str, int]
_Id = Annotated[bytes, msgspec.Meta(min_length=20, max_length=20)]


class OverlayRequest(msgspec.Struct, array_like=True, frozen=True):
    method: Method
    token: Annotated[bytes, msgspec.Meta(max_length=16)]
    node_id: _Id
    key: _Id = bytes(20)
    value: Annotated[bytes, msgspec.Meta(max_length=RECORD_BYTES_MAX)] = b""
    padding: Annotated[bytes, msgspec.Meta(max_length=DATAGRAM_BYTES_MAX)] = b""


class OverlayReply(msgspec.Struct, array_like=True, frozen=True):
    node_id: _Id
    token: Annotated[bytes, msgspec.Meta(max_length=16)]
    is_done: bool = False
    contacts: Annotated[tuple[_Contact, ...], msgspec.Meta(max_length=NEIGHBOURS)] = ()
    records: Annotated[tuple[bytes, ...], msgspec.Meta(max_length=RECORDS_PER_KEY_MAX)] = ()


_requests = msgspec.msgpack.Decoder(OverlayRequest)
_replies = msgspec.msgpack.Decoder(OverlayReply)
_encoder = msgspec.msgpack.Encoder()


class BoundedTable(RoutingTable):
    """The package's k-buckets, with a cap per prefix, and without its background ping."""

    protocol: "OverlayProtocol"

    def nodes(self) -> list[Node]:
        return [node for bucket in self.buckets for node in bucket.get_nodes()]

    def add_contact(self, node: Node) -> None:
        prefix = prefix_of((node.ip, node.port))
        if sum(prefix_of((other.ip, other.port)) == prefix for other in self.nodes()) >= NODES_PER_PREFIX_MAX:
            self.protocol.counts["prefix_full"] += 1
            return
        bucket = self.buckets[self.get_bucket_for(node)]
        while not bucket.add_node(node):
            if not bucket.has_in_range(self.node) and bucket.depth() % 5 == 0:
                self.protocol.add_chore("greet", bucket.head())
                return
            self.split_bucket(self.get_bucket_for(node))
            bucket = self.buckets[self.get_bucket_for(node)]


class OverlayProtocol(KademliaProtocol):
    def __init__(
        self,
        source_node: Node,
        store: RecordStore,
        *,
        is_public: bool,
        requests_per_s: float = REQUESTS_PER_S,
        reply_timeout_s: float = REPLY_TIMEOUT_S,
    ) -> None:
        super().__init__(source_node, store, NEIGHBOURS)
        self.router = BoundedTable(self, NEIGHBOURS, source_node)
        self.counts: Counter[str] = Counter()
        self.chores: deque[tuple[str, Node]] = deque(maxlen=CHORES_MAX)
        self._store = store
        self._is_public = is_public
        self._buckets = Buckets(PREFIXES_MAX)
        self._rate = Rate(per_second=requests_per_s, burst=max(1.0, requests_per_s))
        self._reply_timeout_s = reply_timeout_s
        self._tokens: OrderedDict[Endpoint, bytes] = OrderedDict()
        self._silent: OrderedDict[Endpoint, float] = OrderedDict()
        self._secrets = [secrets.token_bytes(16), secrets.token_bytes(16)]
        self._secret_since = asyncio.get_running_loop().time()
        self._waiting: dict[bytes, tuple[asyncio.Future[OverlayReply | None], Endpoint]] = {}

    # What arrives.
    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        sender = (addr[0], addr[1])
        try:
            if data[:1] == _REQUEST and self._may_ask(sender):
                self._answer(data, sender)
            elif data[:1] == _REPLY:
                self._match(data, sender)
            elif data[:1] != _REQUEST:
                self.counts["malformed"] += 1
        except (msgspec.MsgspecError, ValueError, RecursionError):
            self.counts["malformed"] += 1

    def error_received(self, exc: Exception) -> None:
        """The system saying that an earlier datagram met no listener; the timeout says the same."""
        del exc
        self.counts["system_errors"] += 1

    def _may_ask(self, sender: Endpoint) -> bool:
        is_allowed = self._buckets.take(prefix_of(sender), self._rate, asyncio.get_running_loop().time())
        self.counts["rate_limited"] += not is_allowed
        return is_allowed

    def _answer(self, data: bytes, sender: Endpoint) -> None:
        if len(data) > DATAGRAM_BYTES_MAX + 200:
            self.counts["oversized"] += 1
            return
        request = _requests.decode(data[_ENVELOPE_BYTES:])
        self.counts["requests"] += 1
        reply = OverlayReply(node_id=self.source_node.id, token=self._token_for(sender))
        if self._is_ours(request.token, sender):
            node = Node(request.node_id, *sender)
            self.welcome_if_new(node)
            reply = self._serve(request, node, reply)
        else:
            self.counts["without_token"] += 1
        self._send_reply(reply, data, sender)

    def _serve(self, request: OverlayRequest, asker: Node, reply: OverlayReply) -> OverlayReply:
        if request.method == "store":
            return msgspec.structs.replace(reply, is_done=self._store.offer(request.key, request.value))
        if request.method == "ping":
            return msgspec.structs.replace(reply, is_done=True)
        nearest = self.router.find_neighbors(Node(request.key), exclude=asker)
        contacts = tuple((node.id, node.ip, node.port) for node in nearest)
        records = tuple(self._store.records(request.key)) if request.method == "find_value" else ()
        return msgspec.structs.replace(reply, is_done=True, contacts=contacts, records=records)

    def _send_reply(self, reply: OverlayReply, request: bytes, sender: Endpoint) -> None:
        """Cut to what the request has paid for: the farthest contacts go first, then records."""
        bytes_max = min(DATAGRAM_BYTES_MAX, REFLECTION_MAX * len(request))
        while len(data := _REPLY + request[1:_ENVELOPE_BYTES] + _encoder.encode(reply)) > bytes_max:
            # Half of the room is for contacts, so that many large records cannot end a search.
            if len(reply.contacts) > (4 if reply.records else 0):
                reply = msgspec.structs.replace(reply, contacts=reply.contacts[:-1])
            elif reply.records:
                reply = msgspec.structs.replace(reply, records=reply.records[:-1])
            else:
                self.counts["unpaid"] += 1
                return
        self.transport.sendto(data, sender)

    def _match(self, data: bytes, sender: Endpoint) -> None:
        waiting = self._waiting.get(data[1:_ENVELOPE_BYTES])
        if waiting is None:
            self.counts["unknown_reply"] += 1
            return
        future, asked = waiting
        if asked != sender:
            self.counts["wrong_address"] += 1
            return
        reply = _replies.decode(data[_ENVELOPE_BYTES:])
        if not future.done():
            future.set_result(reply)

    # Tokens: a keyed hash of the address, so that we remember nothing of those who ask.
    def _token_for(self, sender: Endpoint) -> bytes:
        now = asyncio.get_running_loop().time()
        if now - self._secret_since > SECRET_LIFE_S:
            self._secrets = [secrets.token_bytes(16), self._secrets[0]]
            self._secret_since = now
        return self._hash(self._secrets[0], sender)

    @staticmethod
    def _hash(secret: bytes, sender: Endpoint) -> bytes:
        text = f"{sender[0]} {sender[1]}".encode()
        return hashlib.blake2b(text, key=secret, digest_size=_TOKEN_BYTES).digest()

    def _is_ours(self, token: bytes, sender: Endpoint) -> bool:
        return any(hmac.compare_digest(token, self._hash(secret, sender)) for secret in self._secrets)

    # What we ask.
    async def call(self, endpoint: Endpoint, method: Method, **fields: bytes) -> OverlayReply | None:
        """One question, answered or `None`; the token is fetched first where we have none or it has grown
        old.
        """
        if method == "ping" or endpoint not in self._tokens:
            first = await self._exchange(endpoint, "ping", {})
            # Without a token the first ping only brought one; the second shows it, and so makes us known.
            if first is None or (method == "ping" and first.is_done):
                return first
        reply = await self._exchange(endpoint, method, fields)
        if reply is not None and not reply.is_done and method != "store":
            reply = await self._exchange(endpoint, method, fields)
        return reply

    async def _exchange(
        self, endpoint: Endpoint, method: Method, fields: dict[str, bytes]
    ) -> OverlayReply | None:
        message_id = secrets.token_bytes(20)
        request = OverlayRequest(method, self._tokens.get(endpoint, b""), self.source_node.id, **fields)
        data = _REQUEST + message_id + _encoder.encode(request)
        if method in ("find_node", "find_value") and len(data) < PADDED_BYTES:
            request = msgspec.structs.replace(request, padding=bytes(PADDED_BYTES - len(data)))
            data = _REQUEST + message_id + _encoder.encode(request)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[OverlayReply | None] = loop.create_future()
        timer = loop.call_later(self._reply_timeout_s, self._give_up, future)
        self._waiting[message_id] = (future, endpoint)
        try:
            if self.transport is None or self.transport.is_closing():
                return None
            self.transport.sendto(data, endpoint)
            reply = await future
        except (OSError, ValueError):
            # An address of a family that this socket does not speak; each loop says it in its own way.
            self.counts["unsendable"] += 1
            return None
        finally:
            timer.cancel()
            del self._waiting[message_id]
        if reply is None:
            self.counts["timeouts"] += 1
            self._tokens.pop(endpoint, None)
            self._remember_silent(endpoint, loop.time())
            return None
        self._silent.pop(endpoint, None)
        self._keep_token(endpoint, reply.token)
        return reply

    @staticmethod
    def _give_up(future: "asyncio.Future[OverlayReply | None]") -> None:
        if not future.done():
            future.set_result(None)

    def abandon_all(self) -> None:
        """Every open question is answered with silence, so that nobody waits on a closed socket."""
        for future, _ in list(self._waiting.values()):
            self._give_up(future)

    def _remember_silent(self, endpoint: Endpoint, now: float) -> None:
        """Others still name the dead for a while; asking again in every crawl would make each wait for
        it.
        """
        self._silent[endpoint] = now + SILENT_S
        self._silent.move_to_end(endpoint)
        if len(self._silent) > SILENT_MAX:
            self._silent.popitem(last=False)

    def _keep_token(self, endpoint: Endpoint, token: bytes) -> None:
        self._tokens[endpoint] = token
        self._tokens.move_to_end(endpoint)
        if len(self._tokens) > TOKENS_MAX:
            self._tokens.popitem(last=False)

    async def ask(self, node: Node, method: Method, **fields: bytes) -> OverlayReply | None:
        """`call` for a node of the table: silence, or an answer by somebody else, removes it."""
        reply = await self.call((node.ip, node.port), method, **fields)
        if reply is None or reply.node_id != node.id:
            self.router.remove_contact(node)
            return None
        self.welcome_if_new(node)
        return reply

    # The names under which the package's crawls call us.
    async def call_ping(self, node_to_ask: Node) -> tuple[bool, bytes | None]:
        reply = await self.ask(node_to_ask, "ping")
        return (reply is not None, reply.node_id if reply else None)

    async def call_find_node(self, node_to_ask: Node, node_to_find: Node) -> tuple[bool, list[_Contact]]:
        reply = await self.ask(node_to_ask, "find_node", key=node_to_find.id)
        return (reply is not None, self._believable(reply) if reply else [])

    async def call_find_value(self, node_to_ask: Node, node_to_find: Node) -> tuple[bool, object]:
        reply = await self.ask(node_to_ask, "find_value", key=node_to_find.id)
        return (reply is not None, (self._believable(reply), reply.records) if reply else ([], ()))

    async def call_store(self, node_to_ask: Node, key: bytes, value: bytes) -> tuple[bool, bool]:
        reply = await self.ask(node_to_ask, "store", key=key, value=value)
        return (reply is not None, reply is not None and reply.is_done)

    def _believable(self, reply: OverlayReply) -> list[_Contact]:
        """Contacts whose id fits their address; ourselves and unreachable kinds of address left out."""
        now = asyncio.get_running_loop().time()
        contacts = []
        for node_id, host, port in reply.contacts:
            if node_id == self.source_node.id or self._silent.get((host, port), now) > now:
                continue
            if self.fits(node_id, host, port):
                contacts.append((node_id, host, port))
            else:
                self.counts["unbelievable_contacts"] += 1
        return contacts

    def fits(self, node_id: bytes, host: str, port: int) -> bool:
        ip = parse_ip(host)
        if ip is None or not 0 < port < 65536 or (self._is_public and not ip.is_global):
            return False
        return node_id == overlay_node_id(host, port)

    # Who enters the table.
    def welcome_if_new(self, node: Node) -> None:
        """Called only for those who proved that they hear us. Nothing is sent here."""
        if not self.fits(node.id, node.ip, node.port):
            self.counts["made_up_ids"] += 1
            return
        if node.id == self.source_node.id or not self.router.is_new_node(node):
            return
        self.router.add_contact(node)
        if len(self._store):
            self.add_chore("hand_off", node)

    def add_chore(self, kind: str, node: Node) -> None:
        if (kind, node.id) not in {(known, other.id) for known, other in self.chores}:
            self.chores.append((kind, node))

    async def do_chores(self) -> None:
        for _ in range(len(self.chores)):
            kind, node = self.chores.popleft()
            if kind == "greet":
                await self.call_ping(node)
            else:
                await self._hand_off(node)

    async def _hand_off(self, newcomer: Node) -> None:
        """Section 2.5 of the Kademlia paper: the closest holder gives a newcomer what it should hold.

        A stored key is a point already; the stock package hashes it again and so compares with a wrong place.
        """
        given = 0
        for key, value in self._store:
            point = Node(key)
            nearest = [node for node in self.router.find_neighbors(point) if node.id != newcomer.id]
            own = self.source_node.distance_to(point)
            is_closest = all(own < node.distance_to(point) for node in nearest)
            is_due = len(nearest) < NEIGHBOURS or newcomer.distance_to(point) < nearest[-1].distance_to(point)
            if not (is_closest and is_due):
                continue
            is_alive, _ = await self.call_store(newcomer, key, value)
            given += 1
            if not is_alive or given >= HAND_OFF_RECORDS_MAX:
                return
