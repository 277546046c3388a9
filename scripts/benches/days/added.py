"""What do proofs, windows and notices add to a day of a peer in a ring of 1,000? By rule, from what one of each costs.

Counts: a member has one to eight positions, and proves once a day to each other holder of its share, and they to it.
A large ring visits 177,000 URLs a peer and day (the thesis's million for six peers); a tenth is new. A window permits
15 fetches; its steward signs it, and each of the five other holders of a new capture checks it. Notices are asked for
24 times of four members, over new connections. Prices: signing and checking as timed here; 27 ms of a processor for a
proof, the mean of what docs/understand/measurements.md has.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dht.core.holders import Table
from dht.core.ids import PeerKey
from dht.core.placement import Rule
from dht.core.places import PlaceRules
from herodotus.copies import wire
from herodotus.copies.notice_wire import LIST
from herodotus.core.signatures import (
    ADDRESSES_MAX,
    SignedWindow,
    is_signed_window,
    window_field,
    window_statement,
)
from herodotus.peers.net.wire import HEAD_BYTES
from scripts.benches.days.ring import DAY_S
from scripts.benches.days.whole import on_the_line, tls_handshake_bytes
from scripts.benches.places import honest_ring

URLS, NEW_SHARE, WINDOW_FETCHES = 177_000, 0.1, 15
OTHER_HOLDERS = 5
PROOF_BODIES = 193
PROOF_CPU_S = 0.027
NOTICE_CALLS = 24 * 4
NOTICE_QUESTION = 17
QUESTION_HEAD = 5
"""Of a call beside the frame's: milliseconds, and the length of the service's name."""
TIMED = 400
MEMBERS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    name: str
    sent_bytes: float
    made: float = 0.0
    checked: float = 0.0
    cpu_s: float = 0.0


def co_holders(copies: int, chance: Random) -> float:
    """The mean number of others with which a member holds something."""
    table = Table(honest_ring(MEMBERS, chance), Rule(copies, PlaceRules()))
    others: dict[PeerKey, set[PeerKey]] = defaultdict(set)
    for stretch in range(len(table)):
        together = {one.peer for one in table.holders(stretch)}
        for peer in together:
            others[peer] |= together
    return sum(len(one) - 1 for one in others.values()) / len(others)


def a_call(service: str, question: int, answer: int) -> int:
    """Both ways, on a connection that is open."""
    return on_the_line(HEAD_BYTES + QUESTION_HEAD + len(service) + question) + on_the_line(
        HEAD_BYTES + answer
    )


def seconds_of(work: Callable[[], object]) -> float:
    begun = time.process_time()
    for _ in range(TIMED):
        work()
    return (time.process_time() - begun) / TIMED


def added(copies: int) -> Iterator[Added]:
    key, network, asker = Ed25519PrivateKey.generate(), bytes(8), bytes(32)
    window = SignedWindow(
        steward=key.public_key().public_bytes_raw(), number=1_000, granted_s=1_790_000_000, starts_ms=2_000,
        lasts_ms=60_000, count=WINDOW_FETCHES, addresses=["192.0.2.17"][:ADDRESSES_MAX], signature=bytes(64),
    )  # fmt: skip
    statement = window_statement(window, network, asker, "host:www.example.org")
    sign_s = seconds_of(lambda: key.sign(statement))
    check_s = seconds_of(lambda: is_signed_window(window, network, asker, "host:www.example.org"))
    pairs = co_holders(copies, Random(1))
    ends = a_call(wire.SAMPLE, PROOF_BODIES // 2, 0) + a_call(
        wire.REVEAL, PROOF_BODIES - PROOF_BODIES // 2, 0
    )
    yield Added(
        name=f"proofs with {pairs:.0f} others", sent_bytes=pairs * ends / 2, cpu_s=pairs * PROOF_CPU_S
    )
    new, windows = URLS * NEW_SHARE, URLS / WINDOW_FETCHES
    size = len(": ".join(window_field(window))) + 2
    yield Added(
        name=f"windows, {size} B a new capture",
        sent_bytes=OTHER_HOLDERS * new * size,
        made=windows,
        checked=OTHER_HOLDERS * new,
        cpu_s=windows * sign_s + OTHER_HOLDERS * new * check_s,
    )
    dial = tls_handshake_bytes() + a_call(LIST, NOTICE_QUESTION, 0)
    yield Added(
        name="notices, no news",
        sent_bytes=NOTICE_CALLS * dial,  # half of one's own, and of one by others
        made=2 * NOTICE_CALLS,  # TLS and the caller's greeting, one end each
        checked=2 * NOTICE_CALLS,
        cpu_s=NOTICE_CALLS * 2 * (sign_s + check_s),
    )


def told(copies: int) -> Iterator[str]:
    yield f"added to a day of a peer, {MEMBERS:,} members, {copies} copies, {URLS:,} URLs, {NEW_SHARE:.0%} of them new:"
    for one in added(copies):
        yield (
            f"  {one.name:<32} {one.sent_bytes / 1e3:>10,.1f} kB {8 * one.sent_bytes / DAY_S:>8.1f} bit/s"
            f"  signatures {one.made:,.0f}, checks {one.checked:,.0f}, CPU {one.cpu_s:.2f} s"
        )
