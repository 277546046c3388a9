"""How do new captures get to their other holders, each at its own pace? A queue for every peer, and a list on disk.

What has just come to be here, nobody else has: it goes out in lists, unasked. Of anything else a holder first hears
what there is, and says what it lacks. It acknowledges each capture once it is durable there. A peer that does not
answer is tried again a few times, then left to the comparisons; no other holder waits for it.

Which new captures do their holders not have yet, also after a crash? A short list on disk.

Segments of capture keys in `state/copies/`, written after the store has acknowledged: a crash may lose a key, because
comparing copies finds it anyway. A segment goes when every holder of every key in it has answered. Captures that do
not fit are not listed; their holders are compared with instead.
"""

import logging
import os
import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import anyio
import anyio.abc

from dht import Contact
from herodotus.copies import wire
from herodotus.copies.shared_state import Parts
from herodotus.copies.wire import CAPTURE_KEY_BYTES
from herodotus.core.copies import PeerKey
from herodotus.core.copies.schedule import AGAIN_S
from herodotus.core.errors import MalformedError
from herodotus.core.index_rows import CAPTURE
from herodotus.core.reconciliation import member_of
from herodotus.peers.calls import CallError, PeerUnreachableError, RefusedError

logger = logging.getLogger(__name__)

SEGMENT_KEYS = 4_096
BACKLOG_MAX = 65_536
"""Captures that wait for a holder: ten minutes of a fast crawl, 20 MB of memory."""
_HEAD = b"herodotus copies 1\n"
_NAME = re.compile(r"\d{8}\.keys")


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    segment: int
    taken: list[bytes]
    """Those that are new on the list."""
    refused: list[bytes]
    """For which there was no room."""


class Backlog:
    """Without a folder it forgets, for tests and simulations. Not for use from several threads."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._segment_of: dict[bytes, int] = {}
        self._left: dict[int, int] = {}
        self._open = 1
        self._added = 0

    def __len__(self) -> int:
        return len(self._segment_of)

    def __contains__(self, key: bytes) -> bool:
        return key in self._segment_of

    def load(self) -> list[bytes]:
        """What was on it when the peer ended, in order. A torn end is left out."""
        if self._folder is None:
            return []
        self._folder.mkdir(mode=0o700, exist_ok=True)
        for path in sorted(path for path in self._folder.iterdir() if _NAME.fullmatch(path.name)):
            number = int(path.name[:8])
            self._open = max(self._open, number + 1)
            for key in _keys_in(path):
                if key not in self._segment_of and len(self._segment_of) < BACKLOG_MAX:
                    self._segment_of[key] = number
                    self._left[number] = self._left.get(number, 0) + 1
            if number not in self._left:
                with suppress(OSError):  # a folder of that name
                    path.unlink()
        return list(self._segment_of)

    def add(self, keys: Iterable[bytes]) -> "Added":
        """`write` makes them durable."""
        if self._added >= SEGMENT_KEYS:
            self._begin_segment()
        taken: list[bytes] = []
        refused: list[bytes] = []
        for key in keys:
            if key in self._segment_of:
                continue
            if len(self._segment_of) >= BACKLOG_MAX:
                refused.append(key)
                continue
            self._segment_of[key] = self._open
            taken.append(key)
        self._added += len(taken)
        if taken:
            self._left[self._open] = self._left.get(self._open, 0) + len(taken)
        return Added(segment=self._open, taken=taken, refused=refused)

    def _begin_segment(self) -> None:
        self.end()
        self._open += 1
        self._added = 0

    def write(self, added: "Added") -> None:
        """Blocks on the disk; may be called in a thread. An OSError is logged: the list is a help, not the truth."""
        if self._folder is None or not added.taken:
            return
        try:
            with self._path(added.segment).open("ab") as file:
                if file.tell() == 0:
                    file.write(_HEAD)
                file.write(b"".join(added.taken))
                file.flush()
                os.fdatasync(file.fileno())
        except OSError as error:
            logger.warning("the list of copies to send cannot be written error=%s", error)

    def settle(self, key: bytes) -> None:
        """Every holder has answered for it."""
        number = self._segment_of.pop(key, None)
        if number is None:
            return
        self._left[number] -= 1
        if not self._left[number]:
            del self._left[number]
            if self._folder is not None and number != self._open:
                self._path(number).unlink(missing_ok=True)

    def end(self) -> None:
        """Leave no segment behind that has nothing in it."""
        if self._folder is not None and self._open not in self._left:
            self._path(self._open).unlink(missing_ok=True)

    def _path(self, number: int) -> Path:
        assert self._folder is not None
        return self._folder / f"{number:08}.keys"


def _keys_in(path: Path) -> list[bytes]:
    try:
        data = path.read_bytes()
    except OSError as error:
        logger.warning("list of copies to send cannot be read path=%s error=%s", path, error)
        return []
    if not data.startswith(_HEAD):
        logger.warning("not a list of copies to send, left alone path=%s", path)
        return []
    data = data[len(_HEAD) :]
    whole = len(data) - len(data) % CAPTURE_KEY_BYTES
    return [data[at : at + CAPTURE_KEY_BYTES] for at in range(0, whole, CAPTURE_KEY_BYTES)]


PEERS_AT_ONCE = 16
"""A peer that is only waited for does not count."""
OFFERED_AT_ONCE = 512
TRIES = 4
"""Over a minute; then the peer is compared with when it is back."""
QUEUE_MAX = 65_536
"""Captures for one peer."""
PUT_DEADLINE_S = 120.0
COMING_S = 20.0
"""Until a peer is asked again whether it got what another was sending it."""
COMING_TRIES = 30
TOLD_EVERY_S = 5.0
"""A holder hears which others acknowledged what it has."""
HAND_ON_TRIES = 2
"""The first time the other holders may not have it yet."""
PUT_BYTES = 1 << 20
PUT_CAPTURES = 64
"""Sent at once, whichever is reached first: beyond 64, a call and a flush are a small part of what a capture costs."""
GATHER_S = 0.2
"""So long the first new capture waits for others of its list."""


class Pusher:
    def __init__(self, parts: Parts, backlog: Backlog, *, on_given_up: Callable[[PeerKey], None]) -> None:
        """`on_given_up`: this peer did not get what it should have."""
        self._parts = parts
        self._backlog = backlog
        self._on_given_up = on_given_up
        self._queues: dict[PeerKey, deque[bytes]] = {}
        self._waiting: dict[bytes, set[PeerKey]] = {}
        """For captures of the backlog, the peers that have not answered yet."""
        self._held_by: dict[bytes, list[PeerKey]] = {}
        """Of those, the peers that have it."""
        self._news: dict[PeerKey, dict[PeerKey, list[bytes]]] = {}
        """For each peer, what it has and others acknowledged, by these."""
        self._has_news = anyio.Event()
        self._settled: dict[bytes, anyio.Event] = {}
        self._coming: dict[PeerKey, dict[bytes, None]] = {}
        """What the peer gets from another; it is asked again whether it came."""
        self._handed_on: dict[PeerKey, Counter[bytes]] = {}
        """How often others were asked to send it to the peer."""
        self._fresh: dict[PeerKey, set[bytes]] = {}
        """What the peer need not be asked about: it came to be here a moment ago, and was not sent to it yet."""
        self._busy: set[PeerKey] = set()
        self._lines = anyio.Semaphore(PEERS_AT_ONCE)
        self._changed = anyio.Event()

    @property
    def pending(self) -> int:
        return sum(map(len, self._queues.values())) + sum(map(len, self._coming.values()))

    def is_pending(self, peer: PeerKey) -> bool:
        return bool(self._queues.get(peer) or self._coming.get(peer))

    def add_fresh(self, keys: Iterable[bytes]) -> Added:
        """Captures that came to be here. What is returned is to be written to the backlog."""
        added = self._backlog.add(keys)
        self._dispatch(added.taken, is_fresh=True)
        for key in added.refused:
            for peer in self._holders(key):
                self._on_given_up(peer)
        return added

    def resume(self) -> None:
        """What was on the list when the peer ended."""
        self._dispatch(self._backlog.load(), is_fresh=False)

    def _dispatch(self, keys: Iterable[bytes], *, is_fresh: bool) -> None:
        for key in keys:
            for peer in self._learners(key):
                self._put(peer, key, is_fresh=is_fresh)  # nobody waits for them, as they do not count
            peers = self._holders(key)
            if not peers:
                self._backlog.settle(key)
                continue
            self._waiting[key] = set(peers)
            for peer in peers:
                self._put(peer, key, is_fresh=is_fresh)
        self._changed.set()

    def _holders(self, key: bytes) -> list[PeerKey]:
        """Also those next to them on the ring, for as many as have no room."""
        parts, view = self._parts, self._parts.view
        full = parts.full.now_full(parts.now())
        holders = view.holders(key)
        without = sum(peer in full for peer in holders)
        others = [peer for peer in view.next_holders(key) if peer not in full] if without else []
        return [peer for peer in (*holders, *others[:without]) if peer != view.me]

    def _learners(self, key: bytes) -> list[PeerKey]:
        view = self._parts.view
        return [peer for peer in view.learners(key) if peer != view.me and peer not in view.absent]

    def add_missing(self, peer: PeerKey, keys: Iterable[bytes]) -> None:
        """What a comparison found that the peer lacks."""
        for key in keys:
            self._put(peer, key, is_fresh=False)
        self._changed.set()

    def _put(self, peer: PeerKey, key: bytes, *, is_fresh: bool) -> None:
        if self._is_full(peer):
            self._answered(peer, key)
            return
        queue = self._queues.setdefault(peer, deque())
        if len(queue) + len(self._coming.get(peer, ())) < QUEUE_MAX:
            queue.append(key)
            if is_fresh:
                self._fresh.setdefault(peer, set()).add(key)
        else:
            self._answered(peer, key)
            self._on_given_up(peer)

    async def wait_settled(self, key: bytes) -> None:
        """Until every holder that can be reached has answered for a capture of the backlog."""
        if key in self._waiting:
            event = self._settled.setdefault(key, anyio.Event())
            self._changed.set()
            await event.wait()

    def write(self, added: Added) -> None:
        """To the list on disk; blocks."""
        self._backlog.write(added)

    async def wait_idle(self, peer: PeerKey) -> None:
        """Until there is nothing more for a peer, or it was given up."""
        while self._queues.get(peer) or peer in self._busy:
            await self._changed.wait()

    async def run(self) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._tell_now_and_then)
            while True:
                self._changed = anyio.Event()
                for peer in sorted(self._queues):
                    if peer not in self._busy:
                        self._busy.add(peer)
                        tasks.start_soon(self._push_to, peer)
                await self._changed.wait()

    async def _push_to(self, peer: PeerKey) -> None:
        failures = waits = 0
        ask_at: float | None = None
        try:
            while queue := self._queues.get(peer):
                await self._gather_list(peer, queue)
                async with self._lines:
                    left = deque(queue.popleft() for _ in range(min(OFFERED_AT_ONCE, len(queue))))
                    error = await self._try_send(peer, left)
                    queue.extendleft(reversed(left))
                failures = failures + 1 if error is not None else 0
                if self._is_full(peer):
                    self._leave_out(peer)
                elif failures >= TRIES or (error is not None and not self._is_worth_waiting(peer, error)):
                    self._give_up(peer)
                elif error is not None:
                    await anyio.sleep(_pause_s(error, failures))
                elif peer in self._coming:
                    if ask_at is None:
                        waits += 1
                        ask_at = anyio.current_time() + COMING_S
                    if waits > COMING_TRIES:
                        self._give_up(peer)
                    elif await self._is_time(ask_at, queue):
                        ask_at = None
                        queue.extend(self._coming.pop(peer))
        finally:
            self._busy.discard(peer)
            if not self._queues.get(peer):
                self._queues.pop(peer, None)
                self._coming.pop(peer, None)
                self._handed_on.pop(peer, None)
                self._fresh.pop(peer, None)
            self._changed.set()

    async def _gather_list(self, peer: PeerKey, queue: "deque[bytes]") -> None:
        """Captures come one by one, and travel together. Nobody is kept waiting who waits for a copy."""
        with anyio.move_on_after(GATHER_S):
            while len(queue) == len(self._fresh.get(peer, ())) < PUT_CAPTURES and not self._settled:
                await self._changed.wait()

    async def _is_time(self, ask_at: float, queue: "deque[bytes]") -> bool:
        """To ask again whether it came. Until then this waits, but for nothing else that is to be sent."""
        with anyio.CancelScope(deadline=ask_at):
            while not queue:
                await self._changed.wait()
        return not queue or anyio.current_time() >= ask_at

    async def _try_send(self, peer: PeerKey, left: "deque[bytes]") -> Exception | None:
        try:
            await self._send(peer, left)
        except (CallError, MalformedError) as error:
            if isinstance(error, RefusedError) and error.reason == wire.CANNOT_STORE:
                self._parts.full.note(peer, self._parts.now())
            return error
        return None

    def _is_worth_waiting(self, peer: PeerKey, error: Exception) -> bool:
        if isinstance(error, MalformedError):
            self._parts.suspects.note(peer, "malformed answer")
            return False
        return peer not in self._parts.view.absent

    def _is_full(self, peer: PeerKey) -> bool:
        return self._parts.full.is_full(peer, self._parts.now())

    def _give_up(self, peer: PeerKey) -> None:
        logger.info("a holder does not take copies, left for later copies=%d", self._leave_out(peer))
        self._on_given_up(peer)

    def _leave_out(self, peer: PeerKey) -> int:
        """It gets nothing of what waits for it."""
        queue = self._queues.pop(peer, deque())
        queue.extend(self._coming.pop(peer, ()))
        for key in queue:
            self._answered(peer, key)
        return len(queue)

    async def _send(self, peer: PeerKey, left: "deque[bytes]") -> None:
        """Offer, and put what is lacking; what was answered for goes from `left`."""
        contact = self._parts.contact(peer)
        if contact is None:
            raise PeerUnreachableError
        keys = list(dict.fromkeys(left))
        if self._parts.is_relayed(peer):
            self._fresh.pop(peer, None)  # others may have sent it by now
            asked = self._handed_on.get(peer, Counter())
            await self._hand_on(peer, [key for key in keys if asked[key] < HAND_ON_TRIES])
            keys = [key for key in keys if key not in self._coming.get(peer, ())]
        lacking = self._take_fresh(peer, keys)
        offered = [key for key in keys if key not in lacking]
        if offered:
            answer = await self._parts.calls().call(contact, wire.LACKS, wire.encode_list(offered))
            for key, outcome in zip(offered, wire.decode_outcomes(answer, len(offered)), strict=True):
                if outcome == wire.WANTED:
                    lacking[key] = None
                elif outcome == wire.COMING:
                    self._coming.setdefault(peer, {})[key] = None
                else:
                    self._settle(peer, [key], outcome)
        left.clear()
        left.extend(lacking)
        while left:
            await self._put_batch(peer, contact, left)

    def _take_fresh(self, peer: PeerKey, keys: Iterable[bytes]) -> dict[bytes, None]:
        """Those that need not be asked about, this once: if no answer comes, the peer may have them already."""
        fresh = self._fresh.pop(peer, set())
        found = {key: None for key in keys if key in fresh}
        if left := fresh - found.keys():
            self._fresh[peer] = left
        return found

    async def _hand_on(self, peer: PeerKey, keys: Sequence[bytes]) -> None:
        """Has other holders send it what they have, before it is offered from here: what we offered it would wait for.

        Then it is asked whether it came, and gets the rest from us.
        """
        if not keys:
            return
        coming, left = self._coming.setdefault(peer, {}), set(keys)
        coming.update(dict.fromkeys(keys))
        times = self._handed_on.setdefault(peer, Counter())
        times.update(keys)
        for other in sorted({other for key in keys for other in self._holders(key)} - {peer}):
            contact = self._parts.contact(other)
            asked = sorted(key for key in left if other in self._parts.view.holders(key))
            if not asked or contact is None or self._parts.is_relayed(other):
                continue
            body = wire.encode_hand_on(peer, asked)
            try:
                answer = await self._parts.calls().call(contact, wire.HAND_ON, body)
                found = wire.decode_outcomes(answer, len(asked))
            except (CallError, MalformedError):
                continue
            for key, outcome in zip(asked, found, strict=True):
                if outcome == wire.COMING:
                    left.discard(key)
                    times[key] = HAND_ON_TRIES

    async def _put_batch(self, peer: PeerKey, contact: Contact, left: "deque[bytes]") -> None:
        """Some of what is left, in one call; also when nothing of it could be read it is left no more."""
        batch, count = await self._gather(contact, left)
        outcomes: dict[bytes, int] = {}
        if batch:
            body = b"".join(frames for _, frames in batch)
            await self._parts.upload.spend(len(body))
            answer = await self._parts.calls().call(contact, wire.PUT, body, deadline_s=PUT_DEADLINE_S)
            found = wire.decode_outcomes(answer, len(batch))
            outcomes = {key: outcome for (key, _), outcome in zip(batch, found, strict=True)}
        settled: dict[int, list[bytes]] = {}
        for _ in range(count):
            key = left.popleft()
            settled.setdefault(outcomes.get(key, wire.BROKEN), []).append(key)
        for outcome, some in settled.items():
            self._settle(peer, some, outcome)

    async def _gather(self, contact: Contact, left: Iterable[bytes]) -> tuple[list[tuple[bytes, bytes]], int]:
        """Frames of the first of these, by their keys, and how many were looked at."""
        keys = list(islice(left, PUT_CAPTURES))
        parcels = await self._parts.opened().parcels(keys, self._parts.sign, PUT_BYTES)
        batch: list[tuple[bytes, bytes]] = []
        size = count = 0
        for key, parcel in zip(keys, parcels, strict=False):
            length = 0 if parcel is None else wire.framed_length(len(parcel.data))
            if size and size + length > wire.PUT_BYTES_MAX:
                break
            count += 1
            if length > wire.PUT_BYTES_MAX:
                await self._call_for(contact, key)
            elif parcel is not None:
                batch.append((key, b"".join(wire.frames_of(wire.PARCEL, parcel.data))))
                size += length
        return batch, count

    async def _call_for(self, contact: Contact, key: bytes) -> None:
        member = member_of(CAPTURE + key)
        await self._parts.calls().call(contact, wire.COME, wire.encode_list([member]))

    def _settle(self, peer: PeerKey, keys: Sequence[bytes], outcome: int) -> None:
        if outcome in wire.HELD:
            self._parts.ledger.held(peer, keys)
            self._note_news(peer, keys)
            self._parts.counts.pushed += len(keys) if outcome == wire.STORED else 0
        elif outcome in wire.UNWANTED:
            for key in keys:
                self._parts.ledger.declined(peer, key)
        elif outcome == wire.AHEAD and self._parts.doors is not None:
            self._parts.doors.was_ahead(self._parts, peer)
        elif outcome == wire.FULL:
            self._parts.full.note(peer, self._parts.now())
        for key in keys:
            self._answered(peer, key)

    def _note_news(self, peer: PeerKey, keys: Iterable[bytes]) -> None:
        for key in keys:
            if peer not in self._waiting.get(key, ()):
                continue  # nobody waits for it, or not for this peer
            others = self._held_by.setdefault(key, [])
            for other in others:
                self._add_news(other, peer, key)
                self._add_news(peer, other, key)
            others.append(peer)

    def _add_news(self, told: PeerKey, holder: PeerKey, key: bytes) -> None:
        known = self._news.setdefault(told, {}).setdefault(holder, [])
        if len(known) < wire.ASKED_MAX:
            known.append(key)
        self._has_news.set()

    async def _tell_now_and_then(self) -> None:
        """Only the sender hears all acknowledgements. Without its word the others know of two copies
        until they compare, once a day."""
        while True:
            await self._has_news.wait()
            await anyio.sleep(TOLD_EVERY_S)
            news, self._news, self._has_news = self._news, {}, anyio.Event()
            async with anyio.create_task_group() as tasks:
                for peer, held in sorted(news.items()):
                    tasks.start_soon(self._tell, peer, held)

    async def _tell(self, peer: PeerKey, held: Mapping[PeerKey, Sequence[bytes]]) -> None:
        """Once: if it does not hear of it, it finds out by comparing."""
        contact = self._parts.contact(peer)
        if contact is None or self._parts.is_relayed(peer):
            return
        some = {other: held[other] for other in sorted(held)[: wire.HOLDERS_TOLD_MAX]}
        with suppress(CallError):
            async with self._lines:
                await self._parts.calls().call(contact, wire.COPIED, wire.encode_copied(some))

    def _answered(self, peer: PeerKey, key: bytes) -> None:
        waiting = self._waiting.get(key)
        if waiting is None:
            return
        waiting.discard(peer)
        if not waiting:
            del self._waiting[key]
            self._held_by.pop(key, None)
            self._backlog.settle(key)
            event = self._settled.pop(key, None)
            if event is not None:
                event.set()


def _pause_s(error: Exception, failures: int) -> float:
    if isinstance(error, RefusedError) and error.retry_after_s is not None:
        return min(error.retry_after_s, AGAIN_S[-1])
    return AGAIN_S[min(failures - 1, len(AGAIN_S) - 1)]
