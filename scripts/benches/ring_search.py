"""Does a ring answer questions in words as the texts themselves would, how soon, and at what cost?

    scripts/bench ring_search [--peers 8 --pages 60 --days 5 --questions 200 --dead 2 --silent 0]

A made-up web of some days lies on the peers that hold its addresses; each has an archive and an index of its own,
filled day by day. Questions are words that stood on some pages on one day and not on another, asked as of that day
through each living peer in turn, and compared with what the web's maker knows. Between the peers are the real messages,
but no sockets: a call takes 20 to 120 ms of virtual time, and answering takes none. `--dead` peers cannot be reached,
`--silent` ones take a call and never answer; nobody knows of either beforehand.
"""

import argparse
import json
import random
import statistics
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import anyio
import trio.testing

from herodotus.core.errors import SearchRestsError
from herodotus.peers.calls import PeerUnreachableError
from herodotus.search import wire
from tests.herodotus.search.made_web import MadeWeb, date_of, made_web
from tests.herodotus.search.small_ring import SmallRing

TRAVEL_S = (0.02, 0.12)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, count in (
        ("peers", 8),
        ("pages", 60),
        ("days", 5),
        ("questions", 200),
        ("dead", 2),
        ("silent", 0),
    ):
        parser.add_argument(f"--{name}", type=int, default=count)
    options = parser.parse_args()
    web = made_web(seed=1, pages=options.pages, days=options.days, words=100)
    with tempfile.TemporaryDirectory(prefix="ring-search-") as folder:
        ring = SmallRing(Path(folder), options.peers, web.end_s, patience_s=0.7)
        for day in range(web.days):
            ring.put(web.deposits(day))
        clock = trio.testing.MockClock(autojump_threshold=0)
        found = anyio.run(measured, ring, web, options, backend="trio", backend_options={"clock": clock})
        ring.close()
    print(json.dumps(found, indent=1))


async def dead(service: str, body: bytes) -> bytes:
    raise PeerUnreachableError("dead")


async def silent(service: str, body: bytes) -> bytes:
    await anyio.sleep_forever()
    raise AssertionError("never")


async def measured(ring: SmallRing, web: MadeWeb, options: argparse.Namespace) -> dict[str, Any]:
    chance = random.Random(7)
    ring.begin()
    ring.travel_s = lambda: chance.uniform(*TRAVEL_S)
    odd = chance.sample(sorted(ring.peers), options.dead + options.silent)
    ring.odd.update(dict.fromkeys(odd[: options.dead], dead))
    ring.odd.update(dict.fromkeys(odd[options.dead :], silent))
    living = [peer for key, peer in sorted(ring.peers.items()) if key not in ring.odd]
    telling = web.telling()
    questions = chance.sample(telling, min(options.questions, len(telling)))
    count: Counter[str] = Counter()
    shares, took_s, asked, carried = [], [], [], []
    for number, (word, day) in enumerate(questions):
        peer = living[number % len(living)]
        ring.carried.clear()
        started_s = anyio.current_time()
        try:
            results = await peer.ask(f'"{word}" on:{date_of(day)}', limit=10)
        except SearchRestsError:
            count["unanswered"] += 1
            continue
        took_s.append(anyio.current_time() - started_s)
        assert results.ring is not None
        shares.append(results.ring.share)
        asked.append(sum(service == wire.ASK and key != peer.key for service, key, _ in ring.carried))
        carried.append(sum(size for _, _, size in ring.carried))
        wanted = web.with_word(word, day)
        shown = {one.url for first in results.shown for one in (first, *first.alike)}
        count["wrong counts"] += results.answer.pages != len(wanted)
        count["wrong pages"] += not shown <= wanted
        count["pages missing"] += len(shown) < min(10, len(wanted))
    return {
        **vars(options),
        "asked": len(questions),
        **{name: count[name] for name in ("unanswered", "wrong counts", "wrong pages", "pages missing")},
        "whole": sum(share == 1 for share in shares),
        "covered_mean": round(statistics.mean(shares), 4),
        "covered_least": round(min(shares), 4),
        "others_asked_mean": round(statistics.mean(asked), 1),
        "bytes_mean": round(statistics.mean(carried)),
        "virtual_s": {f"p{part}": round(_at(took_s, part), 3) for part in (50, 95, 100)},
    }


def _at(values: list[float], percent: int) -> float:
    return sorted(values)[min(len(values) - 1, len(values) * percent // 100)]


if __name__ == "__main__":
    main()
