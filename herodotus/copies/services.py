"""What does this peer tell others about its copies, and what does it take from them? The handlers of `copies/1/…`."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager
from functools import partial

import anyio

from dht.core.arcs import Arcs
from herodotus.copies import wire
from herodotus.copies.fetch_queue import receive_all
from herodotus.copies.full_proofs import FullProofService
from herodotus.copies.sampled_proofs import SampledProofService
from herodotus.copies.shared_state import COMPARING, Parts
from herodotus.core import reconciliation
from herodotus.core.copies import PeerKey
from herodotus.core.copies.ledger import PROMISE_KEPT_S, PROMISE_USED_WITHIN_S
from herodotus.core.copies.symbols import Symbols, encode_cells
from herodotus.core.errors import ArchiveError, MalformedError, MalformedRecordError
from herodotus.core.index_rows import CAPTURE, TOMBSTONE, unread_id
from herodotus.core.ports import Lane, Workers
from herodotus.core.reconciliation import Scope, member_of
from herodotus.peers.calls import RefusedError, Services
from herodotus.store import Held, Holdings, OnDisk

CELLS_AT_ONCE = 2
"""Peers who are sent cells at a time; each costs memory for all members of what it asked about."""
MEMBERS_MAX = 1 << 20
"""Of a scope whose cells are made: some 150 MB. For more, the asker asks about parts of it."""
PUT_PATIENCE_S = 60.0
"""For this peer's budget to allow it; the sender waits twice as long."""
LISTED_AT_ONCE = 4_096
SMALL_BYTES = 256 << 10
"""Of a parcel that is sent without booking: 50 MB for all connections."""
SENDING = Lane("large copies that are sent", 2)
_CELLS_FIRST, _CELLS_SHARE = 16, 8


class CopyServices:
    def __init__(
        self,
        parts: Parts,
        *,
        on_come: Callable[[], None],
        push: Callable[[PeerKey, Sequence[bytes]], None] = lambda peer, keys: None,
    ) -> None:
        """`push` sends captures to a peer that may lack them."""
        self._parts = parts
        self._on_come, self._push = on_come, push
        self._celled: set[PeerKey] = set()
        self._full_proofs = FullProofService(parts)
        self._sampled = SampledProofService(parts)
        self._is_sending_large = False

    def services(self) -> Services:
        return Services(
            calls={
                wire.ROOT: _guarded(self._root),
                wire.TOPS: _guarded(self._tops),
                wire.LACKS: _guarded(self._lacks),
                wire.PUT: _guarded(self._put),
                wire.COME: _guarded(self._come),
                wire.HAND_ON: _guarded(self._hand_on),
                wire.COPIED: _guarded(self._copied),
                wire.POLL: _guarded(self._poll),
                wire.HAS: _guarded(self._has),
                wire.PROVE: _guarded(self._full_proofs.prove),
                wire.SAMPLE: _guarded(self._sampled.sample),
                wire.REVEAL: _guarded(self._sampled.reveal),
            },
            streams={
                wire.CELLS: _guarded_stream(self._cells_of),
                wire.MEMBERS: _guarded_stream(self._members),
                wire.TAKE: _guarded_stream(self._take),
            },
        )

    async def _root(self, sender: PeerKey, body: bytes) -> bytes:
        scope, nonce, wants_promise = wire.decode_scope(body)
        arcs = reconciliation.arcs_of(scope)
        is_holder = self._parts.view.holds_all(arcs)
        if wants_promise:
            # Before the look at what there is: nothing of what the answer speaks of may go from now on.
            is_holder &= self._promise(sender, arcs, is_holder=is_holder)
        root = reconciliation.root_of(await self._parts.tops.of(self._parts.opened(), scope))
        return wire.encode_root(wire.RootAnswer(root=reconciliation.salted(root, nonce), is_holder=is_holder))

    def _promise(self, sender: PeerKey, arcs: Arcs, *, is_holder: bool) -> bool:
        view, now = self._parts.view, self._parts.now()
        if is_holder:
            return view.promise(sender, arcs, now, PROMISE_KEPT_S)
        # Somebody who leaves may be handing it over: soon we shall have to hold it.
        return view.may_hold_all(arcs) and view.promise(sender, arcs, now, PROMISE_USED_WITHIN_S)

    async def _tops(self, sender: PeerKey, body: bytes) -> bytes:
        del sender
        scope = wire.decode_scope(body).scope
        return wire.encode_list(await self._parts.tops.of(self._parts.opened(), scope))

    async def _cells_of(self, sender: PeerKey, body: bytes) -> AsyncGenerator[bytes]:
        """How many members there are, then cells for as long as the asker reads."""
        scope = wire.decode_scope(body).scope
        holdings = self._parts.opened()
        if sender in self._celled or len(self._celled) >= CELLS_AT_ONCE:
            raise RefusedError("busy", retry_after_s=5.0)
        self._celled.add(sender)
        try:
            symbols = await symbols_of(holdings, self._parts.workers, scope)
            if symbols is None:
                raise RefusedError("too-many")
            yield wire.encode_count(len(symbols))
            made = 0
            while True:
                end = made + max(_CELLS_FIRST, made // _CELLS_SHARE)
                yield await self._parts.workers.work(partial(_encoded, symbols, made, end), COMPARING)
                made = end
        finally:
            self._celled.discard(sender)

    async def _members(self, sender: PeerKey, body: bytes) -> AsyncGenerator[bytes]:
        del sender
        scope = wire.decode_scope(body).scope
        holdings = self._parts.opened()
        for _, part in reconciliation.directories(scope):
            members = await holdings.members((part,))
            for at in range(0, len(members), LISTED_AT_ONCE):
                yield wire.encode_list(members[at : at + LISTED_AT_ONCE])

    async def _lacks(self, sender: PeerKey, body: bytes) -> bytes:
        keys = wire.decode_keys(body)
        holdings = self._parts.opened()
        held, has_room = await holdings.held(keys), await holdings.has_room(wire.ROOM_BYTES)
        return wire.encode_outcomes(
            self._outcome(key, here, sender, has_room=has_room) for key, here in zip(keys, held, strict=True)
        )

    def _is_coming(self, key: bytes, sender: PeerKey) -> bool:
        parts = self._parts
        is_fetched = member_of(CAPTURE + key) in parts.wanted
        return is_fetched or not parts.offers.is_to_send(key, sender, parts.now())

    def _outcome(self, key: bytes, held: Held, sender: PeerKey, *, has_room: bool) -> int:
        if held is not Held.LACKING:
            return wire.DELETED if held is Held.DELETED else wire.KNOWN
        if not self._parts.view.may_hold(key):
            return wire.NOT_MINE
        doors = self._parts.doors
        if doors is not None and (why := doors.declined.why(key, self._parts.now())):
            return wire.outcome_of(why)
        if not has_room:
            if doors is not None:
                doors.had_no_room()
            return wire.FULL
        return wire.COMING if self._is_coming(key, sender) else wire.WANTED

    async def _has(self, sender: PeerKey, body: bytes) -> bytes:
        """Another holder was offered these, and asks for a second word."""
        self._check_member(sender)
        parts, contents = self._parts, wire.decode_contents(body)
        has = await parts.opened().has(contents)
        lacking = [key for (key, _), is_here in zip(contents, has, strict=True) if not is_here]
        held = dict(zip(lacking, await parts.opened().held(lacking), strict=True))
        return wire.encode_has(
            wire.Has.YES if is_here else self._of_lacking(key, held[key])
            for (key, _), is_here in zip(contents, has, strict=True)
        )

    def _of_lacking(self, key: bytes, held: Held) -> wire.Has:
        """What was deleted here, or has another content of that very second, may have come."""
        doors = self._parts.doors
        is_never = (
            held is Held.LACKING
            and doors is not None
            and doors.never_came(self._parts, key, unread_id(key).time_s)
        )
        return wire.Has.NEVER if is_never else wire.Has.NO

    def _check_member(self, sender: PeerKey) -> None:
        """Nothing of a stranger is unpacked, whatever it is."""
        doors = self._parts.doors
        if doors is not None and not doors.admits(self._parts, sender):
            raise RefusedError("no-member")

    async def _put(self, sender: PeerKey, body: bytes) -> bytes:
        self._check_member(sender)
        frames = wire.split_frames(body)
        if any(frame.kind != wire.PARCEL for frame in frames):
            raise MalformedError("only parcels are put")
        with anyio.move_on_after(PUT_PATIENCE_S) as waiting:
            await self._parts.download.spend(len(body))
        if waiting.cancelled_caught:
            raise RefusedError("busy", retry_after_s=300.0)
        received = await receive_all(self._parts, [frame.data for frame in frames], sender)
        return wire.encode_outcomes(outcome for outcome, _ in received)

    async def _come(self, sender: PeerKey, body: bytes) -> bytes:
        """The sender has members that are too large to be put."""
        self._check_member(sender)
        members = wire.decode_members(body)
        view = self._parts.view
        ours = [member for member in members if view.may_hold(member) and member[-1:] == CAPTURE]
        self._parts.wanted.add(await self._parts.opened().lacking(ours), sender)
        self._on_come()
        return b""

    async def _hand_on(self, sender: PeerKey, body: bytes) -> bytes:
        """Nothing but a relay's line leads from the sender to that peer. We send it what it should hold and we have."""
        self._check_member(sender)
        to, keys = wire.decode_hand_on(body)
        parts = self._parts
        if parts.contact(to) is None or parts.is_relayed(to) or to == parts.view.me:
            raise RefusedError("no-way")
        lacking = set(await parts.opened().lacking([member_of(CAPTURE + key) for key in keys]))
        taken = {
            key for key in keys if member_of(CAPTURE + key) not in lacking and to in parts.view.holders(key)
        }
        self._push(to, sorted(taken))
        return bytes(wire.COMING if key in taken else wire.NOT_MINE for key in keys)

    async def _copied(self, sender: PeerKey, body: bytes) -> bytes:
        """Who else acknowledged what the sender sent us: for the figures of `status`."""
        self._check_member(sender)
        for peer, keys in wire.decode_copied(body).items():
            if peer not in (sender, self._parts.view.me):
                self._parts.ledger.said_to_hold(peer, keys)
        return b""

    async def _take(self, sender: PeerKey, body: bytes) -> AsyncGenerator[bytes]:
        """Each member's parcels, or word that there are none."""
        members = wire.decode_members(body)
        for member in members:
            async with aclosing(self._frames_of(member, sender)) as frames:
                async for frame in frames:
                    await self._parts.upload.spend(len(frame))
                    yield frame

    async def _poll(self, sender: PeerKey, body: bytes) -> bytes:
        nonce, members = wire.decode_poll(body)
        question = nonce + self._parts.view.me + sender
        return wire.encode_proofs(await self._parts.opened().proofs(members, question))

    async def _frames_of(self, member: bytes, sender: PeerKey) -> AsyncGenerator[bytes]:
        holdings, is_here = self._parts.opened(), False
        if member[-1:] == TOMBSTONE:
            for key in await holdings.buried(member[:-1] + CAPTURE):
                is_here = True
                for frame in wire.frames_of(wire.TOMBSTONE, key):
                    yield frame
        else:
            for key in sorted(await holdings.keys_of([member])):
                async with self._parts.reading:
                    parcel = await holdings.parcel(key, self._parts.sign)
                if parcel is not None:
                    is_here = True
                    async with (
                        self._held(sender, len(parcel.data)),
                        aclosing(self._frames(parcel.data)) as frames,
                    ):
                        async for frame in frames:
                            yield frame
        if not is_here:
            for frame in wire.frames_of(wire.MISSING, member):
                yield frame

    async def _frames(self, data: bytes | OnDisk) -> AsyncGenerator[bytes]:
        frames = wire.frames_of(wire.PARCEL, data)
        if not isinstance(data, OnDisk):
            for frame in frames:
                yield frame
            return
        try:
            while frame := await self._parts.workers.work(lambda: next(frames, b""), SENDING):
                yield frame
        except FileNotFoundError as error:  # sealing moved it; its taker asks again
            raise RefusedError("busy", retry_after_s=60.0) from error

    @asynccontextmanager
    async def _held(self, taker: PeerKey, size: int) -> AsyncIterator[None]:
        """While a parcel is sent, as slowly as its taker reads. Of large ones, one at a time: other holders have it,
        too."""
        if size > wire.LARGE_BYTES:
            if self._is_sending_large:
                raise RefusedError("busy", retry_after_s=60.0)
            self._is_sending_large = True
            try:
                yield
            finally:
                self._is_sending_large = False
        elif size > SMALL_BYTES:
            async with self._parts.sending.held(taker, size):
                yield
        else:
            yield


async def symbols_of(holdings: Holdings, workers: Workers, scope: Scope) -> Symbols | None:
    """None when there are too many members."""
    members = await holdings.members(scope)
    if len(members) > MEMBERS_MAX:
        return None
    return await workers.work(lambda: Symbols(members), COMPARING)


def _encoded(symbols: Symbols, start: int, end: int) -> bytes:
    return encode_cells(symbols.cells(start, end))


Call = Callable[[PeerKey, bytes], Awaitable[bytes]]
Stream = Callable[[PeerKey, bytes], AsyncGenerator[bytes]]


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except (MalformedError, MalformedRecordError) as error:
        raise RefusedError("malformed") from error
    except ArchiveError as error:
        raise RefusedError(wire.CANNOT_STORE, retry_after_s=60.0) from error


def _guarded(handler: Call) -> Call:
    async def guarded(sender: PeerKey, body: bytes) -> bytes:
        with _refusals():
            return await handler(sender, body)

    return guarded


def _guarded_stream(handler: Stream) -> Stream:
    async def guarded(sender: PeerKey, body: bytes) -> AsyncGenerator[bytes]:
        with _refusals():
            async with aclosing(handler(sender, body)) as pieces:
                async for piece in pieces:
                    yield piece

    return guarded
