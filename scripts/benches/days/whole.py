"""A day of whole peers, with its crawl, copies, comparisons, proofs, windows and notices.

It begins when they have known each other, and crawled, for two hours. They have real sessions and keys, and all
periods as by default. Calls count with TLS records of 22 bytes, TCP heads of 40 for each 1,400 bytes, and for each
connection the bytes of a real TLS handshake. Processor time is that of the whole simulation, its web included.
Signatures are counted by a profiler in a second process with the same seed, as it slows the first; TLS adds one made
and one checked for each connection.
"""

import cProfile
import pstats
import ssl
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context

import trio
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from herodotus.peers.net.certificate import called_context, caller_context
from herodotus.peers.net.wire import (
    FROM_CALLED,
    FROM_CALLER,
    HEAD_BYTES,
    CallFrame,
    CallQuestion,
    FrameKind,
    read_head,
)
from scripts.benches.days.ring import UDP_BYTES
from simnet.host import TrioCarrier
from simnet.lines import Lines, SimulatedLine, _Way
from simnet.peers import Peers, PeersSettings, run_peers
from simnet.web import Web, WebSettings
from simnet.world.hosts import WorldHost
from simnet.world.network import Address

DAY_S = 86_400.0
DAY_START, BEGUN_S = "02:00", 7_200.0
TCP_BYTES, TCP_PIECE = 40, 1_400
TLS_BYTES, TLS_PIECE = 22, 16_384
TCP_OPEN_AND_CLOSE_BYTES = 7 * TCP_BYTES
_ANY = FROM_CALLER | FROM_CALLED
_SIGN, _VERIFY = "method 'sign' of", "method 'verify' of"
SHOWN_SHARE = 0.002


class CountedLines(Lines):
    """Knows of each frame which service it belongs to: on a line one call follows the other."""

    def __init__(self, carrier: TrioCarrier) -> None:
        super().__init__(carrier)
        self.bytes_of: Counter[str] = Counter()
        self.calls_of: Counter[str] = Counter()
        self._back: dict[_Way, _Way] = {}
        self._begun: dict[_Way, bytearray] = {}
        self._service: dict[_Way, str] = {}

    async def dial(self, caller: WorldHost, address: Address) -> SimulatedLine:
        line = await super().dial(caller, address)
        self._back[line._out], self._back[line._into] = line._into, line._out
        return line

    def end(self, way: _Way) -> None:
        super().end(way)
        for known in (self._back, self._begun, self._service):
            known.pop(way, None)

    def carry(self, way: _Way, data: bytes) -> None:
        super().carry(way, data)
        held = self._begun.setdefault(way, bytearray())
        held += data
        while len(held) >= HEAD_BYTES:
            kind, length = read_head(bytes(held[:HEAD_BYTES]), _ANY)
            if len(held) < HEAD_BYTES + length:
                break
            self._count(way, kind, bytes(held[HEAD_BYTES : HEAD_BYTES + length]))
            del held[: HEAD_BYTES + length]

    def _count(self, way: _Way, kind: FrameKind, content: bytes) -> None:
        if kind in (FrameKind.CALL, FrameKind.STREAM):
            service = CallQuestion.read(CallFrame(kind, content)).service
            self._service[way] = service
            back = self._back.get(way)
            if back is not None:
                self._service[back] = service
            self.calls_of[service] += 1
        name = "greetings" if kind in (FrameKind.GREETING, FrameKind.HELLO) else self._service.get(way, "?")
        self.bytes_of[name] += on_the_line(HEAD_BYTES + len(content))


def on_the_line(size: int) -> int:
    return size + TLS_BYTES * (1 + size // TLS_PIECE) + TCP_BYTES * (1 + size // TCP_PIECE)


def tls_handshake_bytes() -> int:
    """Both ways, as connections have them."""
    to_caller, to_called = ssl.MemoryBIO(), ssl.MemoryBIO()
    caller = caller_context().wrap_bio(to_caller, to_called)
    called = called_context(Ed25519PrivateKey.generate()).wrap_bio(to_called, to_caller, server_side=True)
    sent_bytes = TCP_OPEN_AND_CLOSE_BYTES
    waiting = [(caller, to_called), (called, to_caller)]
    while waiting:
        for end, out in tuple(waiting):
            before = out.pending
            try:
                end.do_handshake()
                waiting.remove((end, out))
            except ssl.SSLWantReadError:
                pass
            sent_bytes += out.pending - before
    return sent_bytes


@dataclass(slots=True)
class Spent:
    """In the second day, by all peers."""

    cpu_s: float = 0.0
    datagrams: int = 0
    datagram_bytes: int = 0
    connections: int = 0
    fetches: int = 0
    captures: int = 0
    bytes_of: Counter[str] = field(default_factory=Counter)
    calls_of: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeDay:
    peers: int
    pages: int
    """Of each host; there is a host for each peer."""
    seed: int

    def run(self) -> list[str]:
        with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
            spent, profiled = pool.submit(self.spent), pool.submit(self.signatures)
            return self._told(spent.result(), *profiled.result())

    def spent(self) -> Spent:
        return self._played(lambda: None)

    def signatures(self) -> tuple[int, int]:
        """Made, and checked."""
        profile = cProfile.Profile()
        self._played(profile.enable)
        profile.disable()
        return _calls_of(profile, _SIGN), _calls_of(profile, _VERIFY)

    def _played(self, on_day: Callable[[], None]) -> Spent:
        settings = PeersSettings(
            peers=self.peers,
            day_s=DAY_S,
            day_start=DAY_START,
            copies=6,
            compare_s=DAY_S,
            wait_s=600.0,
            cross_fetch_share=0.02,
        )
        web = WebSettings(
            seed=self.seed,
            hosts=self.peers,
            names="test",
            pages_min=self.pages,
            pages_max=self.pages + 1,
            html_change_share=0.05,
            troubles=False,
        )
        return run_peers(partial(_live, on_day=on_day), settings, Web(web), seed=self.seed, loss=0.01)

    def _told(self, spent: Spent, made: int, checked: int) -> list[str]:
        tls_bytes = tls_handshake_bytes()
        sizes = dict(spent.bytes_of)
        sizes["datagrams"] = spent.datagram_bytes + UDP_BYTES * spent.datagrams
        sizes["TLS handshakes"] = spent.connections * tls_bytes
        total, peers = sum(sizes.values()), self.peers
        head = f"{peers} whole peers, {spent.fetches / peers:,.1f} fetches, {spent.captures / peers:,.1f} new captures"
        lines = [f"{head}, {spent.connections / peers:,.1f} connections (TLS {tls_bytes} B); a peer and day:"]
        for name, size in sorted(sizes.items(), key=lambda one: -one[1]):
            if size >= SHOWN_SHARE * total:
                calls = f" {spent.calls_of[name] / peers:>8,.1f} calls" if spent.calls_of[name] else ""
                lines.append(
                    f"  {name:<24} {size / peers / 1e3:>10,.1f} kB {8 * size / peers / DAY_S:>8.1f} bit/s{calls}"
                )
        lines.append(
            f"  {'sent in all':<24} {total / peers / 1e3:>10,.1f} kB {8 * total / peers / DAY_S:>8.1f} bit/s"
        )
        made, checked = made + spent.connections, checked + spent.connections
        lines.append(f"  signatures made {made / peers:,.0f}, checked {checked / peers:,.0f}")
        lines.append(f"  CPU {spent.cpu_s / peers:.1f} s, of the simulation in all")
        return lines


async def _live(peers: Peers, *, on_day: Callable[[], None]) -> Spent:
    lines = peers.around.lines = CountedLines(peers.carrier)
    for member in peers.members:  # each in an area of its own, as volunteers are
        member.host.change_address((f"{20 + member.number}.{member.number}.1.1", member.host.address[1]))
    await trio.sleep(60.0 + 5.0 * len(peers.members))
    await peers.seed(peers.origins.oracle.front_pages())
    await trio.sleep_until(BEGUN_S)
    counters = peers.carrier.world.network.counters
    fetched = sum(len(starts) for starts in peers.origins.starts.values())
    before = counters.sent, counters.sent_bytes, lines.dialled, len(peers.committed), fetched
    lines.bytes_of.clear()
    lines.calls_of.clear()
    on_day()
    begun = time.process_time()
    await trio.sleep_until(BEGUN_S + DAY_S)
    assert not peers.fallen, peers.fallen
    return Spent(
        cpu_s=time.process_time() - begun,
        datagrams=counters.sent - before[0],
        datagram_bytes=counters.sent_bytes - before[1],
        connections=lines.dialled - before[2],
        captures=len(peers.committed) - before[3],
        fetches=sum(len(starts) for starts in peers.origins.starts.values()) - before[4],
        bytes_of=lines.bytes_of,
        calls_of=lines.calls_of,
    )


def _calls_of(profile: cProfile.Profile, what: str) -> int:
    """Of Ed25519 keys."""
    stats: dict[tuple[str, int, str], tuple[int, ...]] = vars(pstats.Stats(profile))["stats"]
    return sum(counts[1] for (_, _, name), counts in stats.items() if what in name and "Ed25519" in name)
