"""What does a lease cost? A steward's books, the whole way of a call that asks for leases, and a fetch's permission.

    scripts/bench leases [--hosts N] [--rounds N] [--json]

Per CPU-second of one process: grants of the books alone; leases granted to calls of 64 asks (decoded, looked up,
judged, granted with a window of the host's address, encoded; the ring and names answer at once); permissions for
fetches within leases that are held, beside those of a peer that is alone, in the same run. The median of the rounds.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import anyio
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from crawler.core.lease_office import LeaseOffice
from crawler.core.politeness import HostSteward, Lease, LeaseTerms, OriginReport, PolitenessPolicy, Window
from crawler.core.robots import ALLOW_ALL
from crawler.core.urls import Origin
from crawler.ports import FetchRequest
from crawler.steward import LocalSteward
from dht import Contact, Key, Subscription
from dht.core.arcs import Arc, Arcs
from dht.core.ids import PeerKey
from dht.core.limits import Rate
from dht.core.records import Address
from herodotus.crawl.gear import ROBOT
from herodotus.crawl.stewards import RingSteward, StewardParts, office
from herodotus.crawl.stewards.ask_queue import ASK_SERVICE
from herodotus.crawl.stewards.wire import Ask, Granted, Return, decode_answers, encode_asks
from herodotus.peers.calls import PeerUnreachableError

BATCH = 64
GOOD = OriginReport(status=200, duration_s=0.05)
OWN, OTHER = PeerKey(bytes(31) + b"\1"), PeerKey(bytes(31) + b"\2")
POLICY = PolitenessPolicy(delay_floor_s=0.0, per_address_concurrency=64)


class Alone:
    """A ring of one, with names that all lead to public addresses."""

    def __init__(self) -> None:
        self.me = Contact.at(OWN, Address(host=bytes([10, 0, 0, 1]), port=4_484), 0, 0, "off")

    async def prompt_owner(self, key: Key) -> Contact:
        return self.me

    def prompt_arcs(self) -> tuple[Arc, ...]:
        return tuple(~Arcs())

    def positions(self) -> tuple[Contact, ...]:
        return (self.me,)

    def life_of(self, peer: PeerKey) -> int | None:
        return 1

    def say_slow(self, *, is_slow: bool) -> None:
        raise AssertionError("nobody is asked, so nobody is late")

    def events(self) -> AbstractContextManager[Subscription]:
        return nullcontext(Subscription())

    async def address_of(self, host: str) -> str:
        return f"93.184.{len(host)}.{sum(host.encode()) % 250}"

    async def fetch(self, request: FetchRequest) -> "object":
        raise AssertionError(f"nothing is fetched here, least of all {request.url}")

    async def call(self, to: Contact, service: str, body: bytes, *, deadline_s: float = 1.0) -> bytes:
        raise PeerUnreachableError


def books_per_s(hosts: int) -> float:
    books = LeaseOffice(LeaseTerms.of(PolitenessPolicy()))
    now, start = 0.0, time.process_time()
    for number in range(20_000):
        subject = f"host:h{number % hosts}.example"
        window = books.ask(OTHER, subject, 4, now)
        assert isinstance(window, Window)
        books.give_back(OTHER, subject, window.number, GOOD, now)
        now += 10.0 / hosts
    return 20_000 / (time.process_time() - start)


def steward() -> RingSteward:
    alone = Alone()
    parts = StewardParts(
        own_key=OWN,
        terms=LeaseTerms.of(POLICY),
        fetcher=alone,  # type: ignore[arg-type]  # it never fetches
        product_token=ROBOT,
        wall_clock=lambda: 0.0,
        slept_s=lambda: 0.0,
        ring=lambda: alone,
        calls=lambda: alone,
        may_visit_private=False,
        network=bytes(8),
        sign=Ed25519PrivateKey.generate().sign,
    )
    return RingSteward(parts, HostSteward(POLICY))


async def served_per_s(hosts: int) -> float:
    """Calls of 64 asks, each giving back what the call before was granted."""
    office.ASKS = Rate(per_second=1e9, burst=1e9)  # of one peer; here it stands for many
    one = steward()
    async with one.running():
        await anyio.sleep(LeaseTerms.of(POLICY).silent_s + 0.1)
        for number in range(hosts):
            one.core.set_rules(Origin(f"http://h{number}.example"), ALLOW_ALL, anyio.current_time())
        serve = one.services.calls[ASK_SERVICE]
        returns: list[Return] = []
        granted, used = 0, 0.0
        for call in range(200):
            names = [f"h{(call * BATCH + at) % hosts}.example" for at in range(BATCH)]
            body = encode_asks([Ask(f"host:{name}", 4, purpose=f"http://{name}") for name in names], returns)
            start = time.process_time()
            reply = await serve(OTHER, body)
            used += time.process_time() - start
            answers = decode_answers(reply, expected=BATCH).answers
            returns = [
                Return(f"host:{name}", answer.number, 1, 200, 50)
                for name, answer in zip(names, answers, strict=True)
                if isinstance(answer, Granted)
            ]
            granted += len(returns)
        assert granted > 100 * BATCH, "most asks are granted, or this measures refusals"
        return granted / used


async def permissions_per_s(one: LocalSteward, fetches: int = 20_000) -> float:
    origins = [Origin(f"http://h{number}.example") for number in range(50)]
    for origin in origins:
        one.core.set_rules(origin, ALLOW_ALL, anyio.current_time())
        await one.rules(origin)
    done, start = 0, time.process_time()
    while done < fetches:
        for origin in origins:
            lease = await one.lease(origin, "")
            if isinstance(lease, Lease):
                await one.give_back(lease, GOOD)
                done += 1
    return done / (time.process_time() - start)


async def permissions() -> tuple[float, float]:
    """In the ring, and alone."""
    one = steward()
    async with one.running():
        await anyio.sleep(LeaseTerms.of(POLICY).silent_s + 0.1)
        ring = await permissions_per_s(one)
    core = HostSteward(POLICY)
    alone = LocalSteward(core, Alone(), product_token=ROBOT, wall_clock=lambda: 0.0)  # type: ignore[arg-type]
    return ring, await permissions_per_s(alone)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hosts", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()

    def median(measure: Callable[[], float]) -> float:
        return statistics.median(measure() for _ in range(asked.rounds))

    pairs = [anyio.run(permissions) for _ in range(asked.rounds)]
    found = {
        "books_grants_per_s": median(lambda: books_per_s(asked.hosts)),
        "leases_served_per_s": median(lambda: anyio.run(served_per_s, asked.hosts)),
        "permissions_in_a_ring_per_s": statistics.median(ring for ring, _ in pairs),
        "permissions_alone_per_s": statistics.median(alone for _, alone in pairs),
    }
    if asked.json:
        print(json.dumps({name: round(value) for name, value in found.items()}))
        return
    for name, value in found.items():
        print(f"{name.replace('_', ' '):<30} {value:>12,.0f}")


if __name__ == "__main__":
    main()
