"""What should the operator know at once? Sentences, each with what to do, from what the peer says about itself.

An alarm is about something that somebody should act on; what mends itself, or is as it was ordered to be, is none.
"""

from collections.abc import Iterator

from herodotus.core.status import PeerStatus

ALONE_S = 3_600
"""A peer that knows nobody for so long will hardly find somebody by itself."""


def alarms(status: PeerStatus) -> tuple[str, ...]:
    """The most pressing first."""
    return tuple(_alarms(status))


def _alarms(status: PeerStatus) -> Iterator[str]:
    store, crawl, copying, budget = status.store, status.crawl, status.copying, status.budget
    if store.problem is not None:
        yield store.problem
    if store.damaged:
        yield f"{store.damaged:,} damaged records were met: look at the disk, and run `herodotus verify` when stopped"
    if crawl.problem is not None:
        yield f"The crawl: {crawl.problem}"
    if copying.suspects:
        first = ", ".join(sorted(copying.suspects)[:5])
        yield f"{len(copying.suspects):,} peers broke their word about copies: {first}"
    if copying.done_in_s is None and copying.to_send + copying.to_fetch:
        yield f"{copying.to_send + copying.to_fetch:,} copies are to be moved, and nothing moves: is the line in order?"
    if status.leaving.silent:
        yield f"{status.leaving.silent:,} peers that are to take over what this one holds do not take it now"
    if status.ring.members <= 1 and status.uptime_s >= ALONE_S:
        yield "No other peer was found: give it a contact (`herodotus run --join`), or see docs/discovery.md"
    used = budget.month_up_bytes + budget.month_down_bytes
    if budget.month_bytes_max and used >= budget.month_bytes_max:
        yield "The month's volume is used up: nothing is crawled or copied until it is over"
