"""How does a peer tell when it did what with each URL? As an ordinary `herodotus`, with notes taken around its methods.

    python -m scripts.tracing.peer FILE run --home ...      as `herodotus run --home ...`

A line of FILE is a time, a step, what it is about, and a word more, with tabs between. Times are those of the machine's
own clock since it started, so lines of several peers of one machine may be joined. A peer that is started as usual
knows nothing of this: not even a test whether notes are wanted is on its way.
"""

import atexit
import functools
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from crawler.core.link import Link
from crawler.core.politeness import Wait
from crawler.frontier import Frontier
from crawler.worker import Crawler
from herodotus.copies.push_queue import Backlog, Pusher
from herodotus.crawl.gear import ArchiveSink
from herodotus.crawl.links import walks
from herodotus.crawl.links.outbox import Outbox
from herodotus.crawl.stewards import RingSteward
from herodotus.operate.cli import main
from herodotus.peers.net.short_calls import ShortFirst

BUFFER_BYTES = 1 << 18
"""So that writing notes is seldom in the way of what they are about."""

Note = Callable[..., None]
"""With the arguments of the method that is noted; around one that returns something, with that in front."""


class Notes:
    def __init__(self, path: Path) -> None:
        self._file = path.open("w", encoding="utf-8", buffering=BUFFER_BYTES)
        atexit.register(self._file.close)

    def __call__(self, step: str, about: str, word: str = "") -> None:
        self._file.write(f"{time.monotonic():.6f}\t{step}\t{about}\t{word}\n")


Put = Callable[[object, str, object], None]
"""Sets an attribute; a test's takes it back afterwards."""


def before(put: Put, owner: object, name: str, note: Note) -> None:
    plain = getattr(owner, name)

    @functools.wraps(plain)
    def noted(*given: Any, **named: Any) -> Any:
        note(*given, **named)
        return plain(*given, **named)

    put(owner, name, noted)


def after(put: Put, owner: object, name: str, note: Note) -> None:
    plain = getattr(owner, name)

    @functools.wraps(plain)
    def noted(*given: Any, **named: Any) -> Any:
        result = plain(*given, **named)
        note(result, *given, **named)
        return result

    put(owner, name, noted)


def around(put: Put, owner: object, name: str, begins: Note, ended: Note) -> None:
    """Of a coroutine. `ended` gets None in front where it ended with an exception."""
    plain: Callable[..., Awaitable[Any]] = getattr(owner, name)

    @functools.wraps(plain)
    async def noted(*given: Any, **named: Any) -> Any:
        begins(*given, **named)
        result = None
        try:
            result = await plain(*given, **named)
            return result
        finally:
            ended(result, *given, **named)

    put(owner, name, noted)


def note_all(note: Callable[..., None], put: Put = setattr) -> None:
    before(put, Outbox, "add", lambda _, links, *rest, **more: _each(note, "outbox", links))
    before(put, walks, "encode_batch", lambda links: _each(note, "sent", links))

    def added(is_new: bool, _: object, _batch: object, _row: object, link: Link, *rest: object) -> None:
        if is_new:
            note("due", link.url)

    after(put, Frontier, "_add_new", added)
    for method, step in (("lease", "lease"), ("rules", "rules")):
        around(
            put,
            RingSteward,
            method,
            lambda _, origin, *rest, step=step: note(f"{step}?", origin),
            lambda found, _, origin, *rest, step=step: note(f"{step}!", origin, _reason(found)),
        )
    around(
        put,
        RingSteward,
        "give_back",
        lambda *given: None,
        lambda _found, _, lease, report: note("back", lease.origin),
    )
    around(
        put,
        Crawler,
        "_fetch",
        lambda _, entry, lease: note("begun", entry.known.url),
        lambda _found, _, entry, lease: note("fetched", entry.known.url),
    )
    around(
        put,
        ArchiveSink,
        "store",
        lambda *given: None,
        lambda _found, _, capture: note("durable", capture.url),
    )

    def fresh(_: object, keys: Sequence[bytes]) -> None:
        for key in keys:
            note("fresh", key.hex())

    before(put, Pusher, "add_fresh", fresh)
    before(put, Backlog, "settle", lambda _, key: note("copied", key.hex()))
    around(
        put,
        ShortFirst,
        "call",
        lambda *given, **named: None,
        lambda answer, _, to, service, body, **named: note("call", service, "" if answer is None else "ok"),
    )


def _each(note: Callable[..., None], step: str, links: Sequence[Link]) -> None:
    for link in links:
        note(step, link.url)


def _reason(found: object) -> str:
    return found.reason if isinstance(found, Wait) else ""


if __name__ == "__main__":
    note_all(Notes(Path(sys.argv.pop(1))))
    main()
