"""Whose bytes leave next by the line, how many at a time, and how fast? One pacer for all that a peer sends to others.

Bulk fills every queue on its way: the kernel's, the modem's. What is urgent then waits for most of a second. So bulk
leaves in small pieces, slower than the line by a tenth, and the queue stays here, where what is urgent passes it.
Leases never wait; they are counted, so that bulk makes room for them. Readers come before links, links before copies.

A line is free until it shows a queue: a fast one never does, and is not held up. Of a full line the rate is measured,
from the first sign of a queue until the last byte of it is acknowledged. Later signs measure again; where the line
carried all that was sent, the queue is somebody else's, and costs a tenth that comes back by 1 % a second. How the way
looks is told by the kernel's own clock for each connection (`WaySample`), because a busy machine looks like a queue to
its programs. Pure: every method takes the time.
"""

from bisect import insort
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from statistics import median
from typing import Final


class Traffic(IntEnum):
    """By urgency."""

    LEASES = 0
    READERS = 1
    LINKS = 2
    COPIES = 3

    @property
    def is_paced(self) -> bool:
        return self >= Traffic.READERS


PIECE_S: Final = 0.05
"""Of the rate: what an urgent byte waits for at most (design of the lines, 6: with pieces of 16 kB 470 ms at p95)."""
PIECE_BYTES_MIN, PIECE_BYTES_MAX = 1_200, 16_384
"""A packet, and what TLS takes for one record."""
FREE_PIECE_BYTES_MIN, FREE_PIECE_BYTES_MAX = 4_096, 1 << 18
"""What lies in the kernel when a line turns out to be full must leave first; a fast line soon has larger pieces."""
SPEED_S: Final = 0.25
WINDOW_BYTES_FIRST, WINDOW_BYTES_MAX = 1 << 14, 1 << 22
"""What may be outstanding on a line that is new to us; twice as much when so much arrived without a queue, and beyond
the largest without a bound. Three connections that start at once lose a third of their packets in a modem of 256
kbit/s, and no rate can be measured then."""
SHARE, SHARE_AGAIN = 0.93, 0.88
"""Of the measured rate; the rest is for what is not paced, and for headers, of which small pieces have more. A line
that slowed down is measured in less time, and a packet more or less makes more of a difference."""
QUEUE_MAX_S: Final = 0.15
SIGNS: Final = 4
SIGN_EVERY_S: Final = 0.15
"""Four signs of a queue, 150 ms apart: one late packet is none."""
REST_MAX_S: Final = 5.0
"""The longest queue that is waited for: modems hold a second or two."""
MEASURED_S: Final = 1.0
"""A full line is measured for so long, and until it is empty: shorter, a packet more or less makes a tenth."""
MEASURED_AGAIN_S: Final = 0.75
"""Of a line that became half as fast, longer than that overflows a queue of 800 ms."""
DELAYED_S: Final = 0.05
"""The last packet is acknowledged so much later than those that another follows: 40 ms on Linux, and a look."""
SETTLE_S: Final = 1.0
"""After a rest, until the line can tell something new."""
CARRIED_ALL: Final = 0.95
LOSS: Final = 0.9
REGAIN_PER_S: Final = 1.01
CEILING_S: Final = 600.0
"""A line that was measured is tried beyond what it showed after so long: it may have been slowed by something that is
over. A try costs a second of queue."""
FREE_FROM: Final = 8e6
"""64 Mbit/s: a line that came back to this is free again."""
DEBT_MAX_S: Final = 2.0
"""So long bulk makes room for urgent bytes that left already: a reader with a large file does not stop it."""
CATCH_UP_S: Final = 0.02
"""A busy machine wakes up late, and sends then what it should have sent; less than one piece of a slow line."""
STUCK_S: Final = 2.0
"""A connection that takes no piece for so long holds up no others: a full queue of a modem is shorter."""
RATE_MIN: Final = 4_000.0
"""32 kbit/s: slower lines cannot be members' anyway."""
SAMPLE_S: Final = 1.0
"""A connection that told nothing for so long does not know how the line is."""


@dataclass(frozen=True, slots=True)
class WaySample:
    """What a connection tells of its way: the last round trips, the shortest, the bytes that arrived since it was
    opened, those that are on their way, and those that have not left.
    """

    round_trip_s: float
    least_s: float
    acknowledged_bytes: int
    under_way_bytes: int
    unsent_bytes: int

    @property
    def queue_s(self) -> float:
        return max(0.0, self.round_trip_s - self.least_s)


@dataclass(frozen=True, slots=True, order=True)
class Ticket:
    """A place in the queue: by urgency, then by arrival."""

    traffic: Traffic
    number: int


@dataclass(slots=True)
class OwnQueue:
    """How long bytes wait in our line, as bulk shows it: what was seen holds for a moment, and while bulk rests."""

    wait_s: float = 0.0
    seen_until: float = float("-inf")
    carries: float | None = None
    """Bytes a second that the line carried when it was last full; None: it never was."""


NARROW: Final = 16_000.0
"""128 kbit/s: a window's asks, returns and answers of many hosts fill such a line (design of the lines, 6)."""
LATE_S, PROMPT_S = 2.0, 0.5
ASKED_WITHIN_S: Final = 120.0
ASKED_PEERS_MIN: Final = 3
ASKED_MAX: Final = 512
"""Answers that are remembered: some 4 a second."""
SLOW_AFTER_S, PROMPT_AFTER_S = 300.0, 3_600.0
"""Each change leaves hosts without a steward for the silence of a new one, two minutes at the public delay."""


class SlowLine:
    """Does our line keep up with what others wait for? Said after minutes, and taken back after an hour.

    Slow is a line that carries little, or by which our own short questions are answered late. These show the way out
    and back; who is asked may be late itself, or lie. So each peer counts once, by the median of its answers, and half
    of all peers that were asked must be late.
    """

    def __init__(self, queue: OwnQueue) -> None:
        self._queue = queue
        self._asked: deque[tuple[float, bytes, float]] = deque(maxlen=ASKED_MAX)
        self._differs_since: float | None = None
        self.is_slow = False

    def asked(self, peer: bytes, took_s: float, now: float) -> None:
        """A peer answered our question after so long."""
        self._asked.append((now, peer, took_s))

    def look(self, now: float) -> bool:
        """To be called at least each minute. True: `is_slow` is another now."""
        took_s, carries = self._took_s(now), self._queue.carries
        is_narrow = carries is not None and carries < NARROW
        if self.is_slow:
            differs, enough_s = not is_narrow and (took_s is None or took_s < PROMPT_S), PROMPT_AFTER_S
        else:
            differs, enough_s = is_narrow or (took_s is not None and took_s > LATE_S), SLOW_AFTER_S
        if not differs:
            self._differs_since = None
        elif self._differs_since is None:
            self._differs_since = now
        elif now - self._differs_since >= enough_s:
            self._differs_since = None
            self.is_slow = not self.is_slow
            return True
        return False

    def _took_s(self, now: float) -> float | None:
        while self._asked and self._asked[0][0] < now - ASKED_WITHIN_S:
            self._asked.popleft()
        by_peer: dict[bytes, list[float]] = {}
        for _, peer, took_s in self._asked:
            by_peer.setdefault(peer, []).append(took_s)
        return median(map(median, by_peer.values())) if len(by_peer) >= ASKED_PEERS_MIN else None


class LineRate:
    """How fast may bulk leave? Fed with samples of the connections that carry it."""

    def __init__(self, offered: float | None = None) -> None:
        """`offered`: what the operator allows, in bytes a second."""
        self._offered = offered
        self._rate = offered
        self._ceiling = offered
        self._ceiling_until = 0.0
        self._grown_at = 0.0
        self.own_queue = OwnQueue()
        self._signs = 0
        self._signed_at = 0.0
        self._first_sign = (0.0, 0)
        self._rests_since: float | None = None
        self._settled_at = 0.0
        self._speed = 0.0
        self._speed_from = (0.0, 0)
        self._window: int | None = WINDOW_BYTES_FIRST
        self._window_from = 0
        self._queued_at = float("-inf")
        self._heard: dict[object, int] = {}
        self._outstanding = 0
        self._is_told = True
        """False where connections say nothing: then no queue is ever seen, and nothing is held back."""
        self.measured = 0

    @property
    def is_resting(self) -> bool:
        return self._rests_since is not None

    def at(self, now: float) -> float | None:
        """Bytes a second; None: as fast as it goes."""
        if self._rate is None:
            return None
        if now > self._ceiling_until:
            self._ceiling = self._offered
        grown = self._rate * REGAIN_PER_S ** max(0.0, now - self._grown_at)
        self._grown_at = max(now, self._grown_at)
        self._rate = max(RATE_MIN, grown if self._ceiling is None else min(grown, self._ceiling))
        if self._rate >= FREE_FROM and self._offered is None:
            self._rate = None
        return self._rate

    def gave(self, size: int) -> None:
        """So many bytes to a connection, since it was last seen."""
        self._outstanding += size if self._is_told else 0

    def is_free(self, now: float) -> bool:
        """Neither full so far, nor new to us; or nobody can tell."""
        return self.at(now) is None and (self._window is None or not self._is_told)

    def is_window_full(self) -> bool:
        return self._rate is None and self._window is not None and self._outstanding >= self._window

    def free_piece_bytes(self) -> int:
        """On a line without a queue: as much as it takes in 50 ms, as small pieces would hold up a fast one."""
        return int(min(max(self._speed * PIECE_S, FREE_PIECE_BYTES_MIN), FREE_PIECE_BYTES_MAX))

    def saw(self, samples: Mapping[object, WaySample], acknowledged: int, now: float) -> None:
        """Of all connections with bulk lately. `acknowledged`: of all of them together, since the start."""
        self._is_told = bool(samples)
        if not samples:
            self._outstanding = 0
            if self.is_resting:  # they are closed, and with them their queue
                self._look_for_end(samples, acknowledged, now)
            return
        self._outstanding = sum(one.under_way_bytes + one.unsent_bytes for one in samples.values())
        self._note_speed(acknowledged, now)
        least_s = min(sample.least_s for sample in samples.values())
        # What is queued in our own line holds up all connections; what one alone sees is the other end's. Of those to
        # which nothing was acknowledged since the last look the kernel knows nothing new.
        told = [
            one.queue_s
            for key, one in samples.items()
            if one.acknowledged_bytes > self._heard.get(key, 1 << 62)
        ]
        self._heard = {key: one.acknowledged_bytes for key, one in samples.items()}
        self.own_queue.wait_s = min([self._queue_by_volume(samples, least_s, now), *told])
        self.own_queue.seen_until = now + SAMPLE_S
        if self.own_queue.wait_s > QUEUE_MAX_S / 2:
            self._queued_at = now
        if self.is_resting:
            self._look_for_end(samples, acknowledged, now)
        elif now >= self._settled_at:
            self._look_for_queue(acknowledged, now)

    def _note_speed(self, acknowledged: int, now: float) -> None:
        since, before = self._speed_from
        if now - since >= SPEED_S:
            self._speed = (acknowledged - before) / (now - since) if since else 0.0
            self._speed_from = (now, acknowledged)
        window = self._window
        if (
            window is None
            or acknowledged - self._window_from < window
            or now - self._queued_at < SETTLE_S  # one look without a queue may be wrong
        ):
            return
        self._window = 2 * window if window < WINDOW_BYTES_MAX else None
        self._window_from = acknowledged

    def _queue_by_volume(self, samples: Mapping[object, WaySample], least_s: float, now: float) -> float:
        """What is under way, by the speed at which it arrives. The kernel's round trips remember a queue that is gone:
        they forget an eighth with each packet, and these are few on a slow line. This remembers nothing, but takes a
        late acknowledgement for a queue.
        """
        speed = self.at(now) or self._speed
        if not speed:
            return 0.0
        return max(0.0, sum(sample.under_way_bytes for sample in samples.values()) / speed - least_s)

    def _look_for_queue(self, acknowledged: int, now: float) -> None:
        if self.own_queue.wait_s <= QUEUE_MAX_S:
            self._signs = 0
            return
        if self._signs and now - self._signed_at < SIGN_EVERY_S:
            return
        if not self._signs:
            self._first_sign = (now, acknowledged)
        self._signs, self._signed_at = self._signs + 1, now
        enough_s = MEASURED_S if self._rate is None else MEASURED_AGAIN_S
        if self._signs >= SIGNS and now - self._first_sign[0] >= enough_s:
            self._signs = 0
            self._rests_since = now
            self.own_queue.seen_until = float("inf")

    def _look_for_end(self, samples: Mapping[object, WaySample], acknowledged: int, now: float) -> None:
        assert self._rests_since is not None, "it rests"
        is_empty = not any(sample.under_way_bytes + sample.unsent_bytes for sample in samples.values())
        if not is_empty and now - self._rests_since < REST_MAX_S:
            return
        began, before = self._first_sign
        taken_s = max(now - began - DELAYED_S, MEASURED_S / 2)
        self._note((acknowledged - before) / taken_s, now)

    def _note(self, carried: float, now: float) -> None:
        before = self.at(now)
        if before is None:
            self._rate = self._ceiling = max(RATE_MIN, SHARE * carried)
            self.own_queue.carries = carried
        elif carried < CARRIED_ALL * before:
            self._rate = self._ceiling = max(RATE_MIN, SHARE_AGAIN * carried)
            self.own_queue.carries = carried
        else:  # it carried what was sent, so the queue is not ours: what this costs comes back
            self._rate, self._ceiling = max(RATE_MIN, LOSS * before), before
        if self._offered is not None:
            self._ceiling = min(self._ceiling, self._offered)
        self._window = None
        self._ceiling_until, self._grown_at = now + CEILING_S, now
        self._rests_since, self._settled_at = None, now + SETTLE_S
        self.own_queue.seen_until = now + SAMPLE_S
        self.measured += 1

    def start_over(self, now: float) -> None:
        """The line is another one now."""
        self._rate = self._ceiling = self._offered
        self._signs, self._rests_since, self._settled_at = 0, None, now
        self.own_queue.seen_until, self.own_queue.carries = now, None
        self._window = WINDOW_BYTES_FIRST


@dataclass(slots=True)
class _Begun:
    """The message of a lane that is under way."""

    ticket: Ticket
    seen_at: float
    """When it last took a turn, or came back for the next."""


class Pacer:
    """Whose turn is it, and for how much?

    Of each lane of bulk one message is under way, and the next begins after it: the other end's patience runs from a
    message's first byte. Only where its connection takes nothing for a while another begins. On a line that was
    never full, and is not new, all go at once.
    """

    def __init__(self, rate: LineRate) -> None:
        self.rate = rate
        self._queue: list[Ticket] = []
        self._numbers = 0
        self._next_at = 0.0
        self._begun: dict[Traffic, _Begun] = {}
        self._was_reader = False
        """The last turn was a reader's."""

    def __len__(self) -> int:
        return len(self._queue)

    def ticket(self, traffic: Traffic) -> Ticket:
        """For all pieces of one message; for readers, whom no patience binds, a new one for each piece: they take
        turns."""
        assert traffic.is_paced, "what is urgent does not wait"
        self._numbers += 1
        return Ticket(traffic, self._numbers)

    def enter(self, ticket: Ticket, now: float) -> None:
        """It waits for a turn; it leaves the queue while its connection takes the piece, which may last."""
        insort(self._queue, ticket)
        begun = self._begun.get(ticket.traffic)
        if begun is not None and begun.ticket == ticket:
            begun.seen_at = now

    def leave(self, ticket: Ticket) -> None:
        self._queue.remove(ticket)

    def end(self, ticket: Ticket) -> None:
        """Its message is whole, or given up."""
        begun = self._begun.get(ticket.traffic)
        if begun is not None and begun.ticket == ticket:
            del self._begun[ticket.traffic]

    def wait_s(self, ticket: Ticket, now: float) -> float | None:
        """0: its turn is now. None: others come before, or the line rests; look again when something changed."""
        if self.rate.is_resting or self.rate.is_window_full():
            return None
        if self.rate.is_free(now):
            return 0.0
        if self._head(now) == ticket:
            return max(0.0, self._next_at - now) if self.rate.at(now) is not None else 0.0
        begun = self._begun.get(ticket.traffic)
        if begun is None or begun.ticket in self._queue:
            return None
        return max(begun.seen_at + STUCK_S - now, CATCH_UP_S)

    def _head(self, now: float) -> Ticket | None:
        """While readers and bulk both wait they take turns: a large file is read for minutes, and what began must go
        on."""
        reader = self._queue[0] if self._queue and self._queue[0].traffic is Traffic.READERS else None
        bulk = self._bulk(now)
        return bulk if reader is None or (self._was_reader and bulk is not None) else reader

    def _bulk(self, now: float) -> Ticket | None:
        for lane in (Traffic.LINKS, Traffic.COPIES):
            begun = self._begun.get(lane)
            first = next((one for one in self._queue if one.traffic is lane), None)
            if first is None or begun is None:
                if first is not None:
                    return first
            elif begun.ticket in self._queue:
                return begun.ticket
            elif now - begun.seen_at >= STUCK_S:
                return first
        return None

    def take(self, ticket: Ticket, size: int, now: float) -> int:
        """For the ticket whose turn it is: how much of so many bytes leaves now."""
        self._was_reader = ticket.traffic is Traffic.READERS
        if not self._was_reader:
            self._begun[ticket.traffic] = _Begun(ticket, now)
        piece = min(size, self.piece_bytes(now))
        self.charge(piece, now)
        self.rate.gave(piece)
        return piece

    def piece_bytes(self, now: float) -> int:
        rate = self.rate.at(now)
        if rate is None:
            return self.rate.free_piece_bytes()
        return int(min(max(rate * PIECE_S, PIECE_BYTES_MIN), PIECE_BYTES_MAX))

    def charge(self, size: int, now: float) -> None:
        """So many bytes leave, whoever's."""
        rate = self.rate.at(now)
        if rate is not None:
            self._next_at = min(max(self._next_at, now - CATCH_UP_S) + size / rate, now + DEBT_MAX_S)
