"""How long does a URL wait in a ring, however busy the machine is? Whole simulated peers, in virtual time.

Processors cost nothing there, and a round trip takes a tenth of a second or two. So all that shows is waiting, and a
run is the same on any machine.
"""

from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass

import anyio

from herodotus.core.charter import TEST_CHARTER
from herodotus.peer import Peer
from scripts.tracing.cases import Case
from scripts.tracing.lines import Joined, Line, joined, uncopied
from simnet.origins import FetchStart
from simnet.peers import Peers, PeersSettings, run_peers
from simnet.web import Web, WebSettings

COPIED_LOOKS, COPIED_LOOK_S = 300, 0.1
"""After the last fetch: the calls that take its copies away are part of its cost."""

_noted_by: ContextVar[list[Line] | None] = ContextVar("_noted_by", default=None)
"""The lines of the peer whose task this is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    found: Joined
    expected: int
    visited: int
    crawled_s: float
    rude: int
    peers: int


def note_in_world(step: str, about: str, word: str = "") -> None:
    lines = _noted_by.get()
    if lines is not None:
        lines.append(Line(anyio.current_time(), step, about, word))


def play(case: Case, *, seed: int) -> Played:
    """After `note_all(note_in_world)`."""
    web = Web(
        WebSettings(
            seed=seed, hosts=case.hosts, names="test", pages_min=20, pages_max=case.pages, troubles=False
        )
    )
    settings = PeersSettings(
        peers=case.peers,
        copies=6,
        delay_s=case.delay_s,
        at_address=TEST_CHARTER.per_address_concurrency,
        day_s=86_400.0,
        wait_s=1.0 if case.settings == "test" else 600.0,
        connections=56,
        cross_fetch_share=0.0,
    )

    async def story(world: Peers) -> Played:
        noted: list[list[Line]] = []

        def begin(_peer: Peer) -> None:
            noted.append([])
            _noted_by.set(noted[-1])

        world.prepare = begin
        await anyio.sleep(60.0 + 5.0 * case.peers)
        began = anyio.current_time()
        fronts = world.origins.oracle.front_pages()
        expected = set(world.origins.oracle.reachable(fronts, 0))
        left, is_crawled, note = set(expected), anyio.Event(), world.origins.note

        def visited(start: FetchStart) -> None:
            note(start)
            left.discard(start.url)
            if not left:
                is_crawled.set()

        world.origins.note = visited
        await world.give(world.members[0], *fronts)
        with anyio.move_on_after(case.within_s):
            await is_crawled.wait()
        for _ in range(COPIED_LOOKS):
            if not uncopied(noted):
                break
            await anyio.sleep(COPIED_LOOK_S)
        found = joined(noted, since=began)
        return Played(
            found=found,
            expected=len(expected),
            visited=len(expected - left),
            crawled_s=found.last_begun - began,
            rude=len(world.origins.rude),
            peers=len(noted),
        )

    return run_peers(story, settings, web, seed=seed)


def told(played: Played) -> Sequence[str]:
    found = played.found
    total_s = sum(found.causes.values()) or 1.0
    calls = ", ".join(f"{name} {count}" for name, count in sorted(found.calls.items()))
    head = (
        f"{played.peers} peers in virtual time: {played.visited} of {played.expected} URLs after "
        f"{played.crawled_s:.1f} s, {played.rude} times ruder than one"
    )
    return [
        head,
        f"  calls a URL {sum(found.calls.values()) / max(1, found.urls):.2f} ({calls})",
        *(
            f"  {stage.name:30} median {stage.at(0.5):.3f} s, p95 {stage.at(0.95):.3f} s, mean {stage.mean:.3f} s"
            for stage in found.stages
        ),
        *(
            f"    {seconds / total_s:6.1%} {cause}"
            for cause, seconds in sorted(found.causes.items(), key=lambda item: -item[1])
            if seconds >= 0.005 * total_s
        ),
    ]
