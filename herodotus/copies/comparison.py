"""What do we and another holder not share of a scope? Root, directories, cells, and a plain list if those fail.

Each step is asked only if the previous one found a difference. Nothing is remembered: an interrupted comparison
starts again, and captures that were fetched or sent meanwhile are no longer a difference. Both sides may be written
to meanwhile; new captures show the next time.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass, field

from dht import Contact
from herodotus.copies import wire
from herodotus.copies.services import MEMBERS_MAX, symbols_of
from herodotus.copies.shared_state import COMPARING, Parts
from herodotus.core import reconciliation
from herodotus.core.copies.ledger import WANTED_MAX
from herodotus.core.copies.symbols import CellReader, Decoder, Symbols
from herodotus.core.errors import MalformedError
from herodotus.core.reconciliation import MEMBER_BYTES, Scope, reconcile
from herodotus.peers.calls import RefusedError

CELLS_MIN = 1_024
"""As many are always tried: they cost less than a list of the members of a common scope."""
CELL_BYTES, CELLS_A_DIFFERENCE = 26, 1.4
"""What a cell takes on the wire, and how many of them a difference needs (storage.md 3: 1.35 to 1.72)."""
MISSING_MAX = WANTED_MAX + 1
"""As much as can be wanted, and one more, which tells that it was not all: a liar may list without an end."""
BUSY_LISTED_MAX = 65_536
"""Members of our own in what is listed where the peer has no time for cells: 1 MB."""
LISTED_MAX = 1 << 20
"""Members that another peer may list of one directory: a share of 100 million has 400,000."""


class LiarError(MalformedError):
    """What the peer said contradicts itself."""


@dataclass(slots=True)
class SetDifference:
    is_holder: bool = False
    """The peer promises to hold all of the scope."""
    missing_here: set[bytes] = field(default_factory=set)
    missing_there: set[bytes] = field(default_factory=set)
    steps: list[str] = field(default_factory=list)
    sent: int = 0
    received: int = 0
    is_contradictory: bool = False
    """Its digests are others than ours, its members are not, and nothing came here meanwhile."""


async def compare(
    parts: Parts, contact: Contact, scope: Scope, nonce: bytes, *, wants_promise: bool = False
) -> SetDifference:
    """Raises a CallError when the peer does not answer, MalformedError when it breaks the protocol."""
    question = wire.encode_scope(scope, nonce, wants_promise=wants_promise)
    return await _Comparing(parts, contact).run(scope, nonce, question)


class _Comparing:
    """The `Side` of captures: digests of directories, then cells, which need no size of the difference."""

    def __init__(self, parts: Parts, contact: Contact) -> None:
        self._calls = parts.calls()
        self._holdings = parts.opened()
        self._workers = parts.workers
        self._tops = parts.tops
        self._contact = contact
        self._found = SetDifference()
        self._ours: Sequence[bytes] = ()
        """Digests of all that was asked about."""

    async def run(self, scope: Scope, nonce: bytes, question: bytes) -> SetDifference:
        before = self._holdings.stamp
        self._ours = await self._tops.of(self._holdings, scope)
        answer = wire.decode_root(await self._call(wire.ROOT, question))
        self._found.is_holder = answer.is_holder
        if answer.root != reconciliation.salted(reconciliation.root_of(self._ours), nonce):
            await reconcile(self, scope)
            is_same = not self._found.missing_here and not self._found.missing_there
            self._found.is_contradictory = is_same and before == self._holdings.stamp
        return self._found

    async def differing(self, part: Scope) -> AsyncGenerator[Scope]:
        """By the digests of directories first; what they showed to differ is taken directory by directory."""
        if wire.TOPS in self._found.steps:
            for _, directory in reconciliation.directories(part):
                yield (directory,)
            return
        theirs = wire.decode_tops(await self._call(wire.TOPS, wire.encode_scope(part)), part)
        for asked in reconciliation.split(reconciliation.differing(part, self._ours, theirs)):
            yield asked

    async def _call(self, service: str, body: bytes) -> bytes:
        self._found.steps.append(service)
        answer = await self._calls.call(self._contact, service, body)
        self._found.sent += len(body)
        self._found.received += len(answer)
        return answer

    async def settle(self, part: Scope) -> bool:
        """By cells where they pay; what is too much for them is cut into directories, and there listed."""
        if await self._by_cells(part):
            return True
        directories = [directory for _, directory in reconciliation.directories(part)]
        if len(directories) > 1 and await self._is_large(part):
            return False
        for directory in directories:
            await self._by_list((directory,))
        return True

    async def _is_large(self, scope: Scope) -> bool:
        return len(await self._holdings.members(scope)) > MEMBERS_MAX

    async def _by_cells(self, scope: Scope) -> bool:
        """False when it takes too many cells, or the peer wants to make none."""
        own = await symbols_of(self._holdings, self._workers, scope)
        if own is None:
            return False
        body = wire.encode_scope(scope)
        self._found.steps.append(wire.CELLS)
        self._found.sent += len(body)
        try:
            async with self._calls.stream(self._contact, wire.CELLS, body) as pieces:
                decoder = await self._decode(own, pieces)
        except RefusedError as error:
            is_listed = error.reason == "busy" and len(own) <= BUSY_LISTED_MAX
            if error.reason != "too-many" and not is_listed:
                raise
            return False
        if decoder is None:
            return False
        members, asked = set(await self._holdings.members(scope)), reconciliation.arcs_of(scope)
        if any(member not in asked or member[-1:] not in b"ct" for member in decoder.theirs):
            raise LiarError("cells of members that are outside of what was asked")
        # What we had when the cells were made may have gone since: then nobody lacks it.
        self._miss(decoder.theirs)
        self._found.missing_there |= decoder.ours & members
        return True

    async def _decode(self, own: Symbols, pieces: AsyncIterator[bytes]) -> Decoder | None:
        """None when a list is cheaper, or the cells lead nowhere."""
        head = bytearray()
        async for piece in pieces:
            self._found.received += len(piece)
            head += piece
            if len(head) >= 4:
                break
        count = wire.decode_count(bytes(head[:4]))
        if count > MEMBERS_MAX:
            raise LiarError("more members than it may make cells of")
        cells_max = max(CELLS_MIN, (count + 64) * MEMBER_BYTES // CELL_BYTES)
        if abs(count - len(own)) * CELLS_A_DIFFERENCE > cells_max:
            return None
        decoder, reader = Decoder(own), CellReader()
        await self._take(decoder, reader, bytes(head[4:]))
        async for piece in pieces:
            self._found.received += len(piece)
            await self._take(decoder, reader, piece)
            if decoder.is_complete:
                return decoder
            if len(decoder) > cells_max:
                return None
        raise LiarError("the cells ended before they said all")

    async def _take(self, decoder: Decoder, reader: CellReader, piece: bytes) -> None:
        await self._workers.work(lambda: decoder.take(reader.feed(piece)), COMPARING)

    async def _by_list(self, scope: Scope) -> None:
        body = wire.encode_scope(scope)
        self._found.steps.append(wire.MEMBERS)
        self._found.sent += len(body)
        theirs: set[bytes] = set()
        rest = b""
        async with self._calls.stream(self._contact, wire.MEMBERS, body) as pieces:
            async for piece in pieces:
                self._found.received += len(piece)
                data = rest + piece
                end = len(data) - len(data) % MEMBER_BYTES
                rest = data[end:]
                theirs.update(wire.decode_members(data[:end], LISTED_MAX))
                if len(theirs) > LISTED_MAX:
                    raise LiarError("a list longer than any share")
        asked = reconciliation.arcs_of(scope)
        if rest or any(member not in asked for member in theirs):
            raise LiarError("a list of members that are outside of what was asked")
        ours = set(await self._holdings.members(scope))
        self._miss(theirs - ours)
        self._found.missing_there |= ours - theirs

    def _miss(self, members: set[bytes]) -> None:
        room = max(0, MISSING_MAX - len(self._found.missing_here))
        self._found.missing_here |= members if len(members) <= room else set(sorted(members)[:room])
