"""How does a peer tell its operator, in a few sentences, what is the case?

Five things in this order: who it is to the ring, what is wrong (`core/alarms.py`), what it does now, what it holds,
what comes next. A sentence says what worked: who has answered lately, which calls got through, which holders have
confirmed copies. The figures behind it are in the rest of the status.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Final

from herodotus.core.quantities import counted, readable_bytes, readable_duration, soon
from herodotus.core.status import (
    BudgetStatus,
    CopiesStatus,
    CrawlStatus,
    HelpingStatus,
    LeavingStatus,
    PeerStatus,
    RingStatus,
    SaidStatus,
)

CIRCLE: Final = 1 << 160
ALONE_AFTER_S: Final = 30
"""A peer with contacts that answer is in the ring by then."""
_JOIN: Final = (
    "Use `herodotus join INVITATION` or `--join`; or let others join this peer: `herodotus invite`."
)
_REST: Final = "Crawling and copies rest; the ring goes on, and readers are served."
_OPEN: Final = "open"
_NOT_YET: Final = "Not callable yet: "
"""As the tests of its reach begin when nothing gets through (`dht.core.reachability`)."""


def said(status: PeerStatus) -> SaidStatus:
    return SaidStatus(
        standing=_standing(status),
        doing=" ".join(_doing(status)),
        holds=" ".join(_holds(status)),
        next=" ".join(_next(status)),
    )


def share_of(arcs: Iterable[tuple[str, str]]) -> float:
    """Of the circle; the ends of an arc may lie around zero, and equal ends are all of it."""
    lengths = ((int(end, 16) - int(start, 16)) % CIRCLE or CIRCLE for start, end in arcs)
    return min(1.0, sum(lengths) / CIRCLE)


# -- who it is to the ring --------------------------------------------------------------------------------


def _standing(status: PeerStatus) -> str:
    ring, uptime_s = status.ring, status.uptime_s
    silent_s = uptime_s if ring.heard_s is None else ring.heard_s
    if ring.members <= 1:
        if uptime_s < ALONE_AFTER_S:
            return "Looking for other peers."
        return f"Alone: no peer answered since {_clock(status, silent_s)}. {_JOIN}"
    if silent_s >= ring.silent_after_s:
        others = counted(ring.members - 1, "other member")
        return (
            f"Cut off: none of {others} answered since {_clock(status, silent_s)}. Check this machine's line and"
            " its firewall."
        )
    if _is_helper(status):
        why = _sentence(ring.reachability.removeprefix(_NOT_YET))
        return f"Helper: nobody can call this line. {_helped(status.helping)} {why}"
    return f"{_sentence(ring.reachability)} {_neighbours(ring)}{_age(ring)}".strip()


def _is_helper(status: PeerStatus) -> bool:
    """And did something today: until then it says that it waits to be called."""
    helping = status.helping
    return helping.is_helper and helping.fetched > 0 and status.ring.reachability.startswith(_NOT_YET)


def _helped(helping: HelpingStatus) -> str:
    for_whom = f" for {counted(helping.owners, 'owner')}" if helping.owners else ""
    return f"Today it fetched {counted(helping.fetched, 'page')}{for_whom}."


def _neighbours(ring: RingStatus) -> str:
    if ring.ideal:
        return f"The ring has {ring.members:,} members, and calls get through to this peer's neighbours."
    if ring.uncallable:
        return f"The ring has {ring.members:,} members, and no call gets through to {len(ring.uncallable):,} of them."
    return f"The ring has {ring.members:,} members, and this peer's place among them is not settled yet."


def _age(ring: RingStatus) -> str:
    if ring.places.by != "prefix" or ring.places.is_counted:
        return ""
    days = counted(ring.places.probation_days, "day")
    return f" It does not count as a holder yet: a new member does after {days}."


def _clock(status: PeerStatus, ago_s: float) -> str:
    """When that was; with the day where it is another."""
    now = datetime.fromisoformat(status.started) + timedelta(seconds=status.uptime_s)
    then = (now - timedelta(seconds=ago_s)).astimezone(UTC)
    return f"{then:%H:%M} UTC" if then.date() == now.date() else f"{then:%Y-%m-%d %H:%M} UTC"


def _sentence(words: str) -> str:
    return (
        "" if not words else words[0].upper() + words[1:] + ("" if words.endswith((".", "!", "?")) else ".")
    )


# -- what it does now -------------------------------------------------------------------------------------


def _doing(status: PeerStatus) -> Iterator[str]:
    if status.leaving.state != LeavingStatus().state:
        yield _leaving(status.leaving)
    elif status.budget.closed_by:
        yield from _resting(status)
    elif status.helping.is_helper:
        told = "" if _is_helper(status) else f" {_helped(status.helping)}"
        yield f"Fetching for others, as it has no share of its own.{told}"
    else:
        yield _crawling(status.crawl)
    if status.copying.to_send + status.copying.to_fetch:
        yield _copying(status.copying, is_resting=bool(status.budget.closed_by))
    others = status.readers.connections - 1  # whoever asks is one
    if others > 0:
        yield f"{counted(others, 'other reader')} {'is' if others == 1 else 'are'} connected."


def _leaving(leaving: LeavingStatus) -> str:
    parts = (
        f"{leaving.parts_over:,} of {leaving.parts:,} parts are with {counted(leaving.peers, 'other peer')}"
    )
    return f"Leaving for good ({leaving.state}): {parts}."


def _resting(status: PeerStatus) -> Iterator[str]:
    why = {
        "paused": _pause(status.crawl),
        "battery": "Resting: this machine runs on its battery.",
        "metered line": "Resting: this machine's line is metered.",
        "hours": f"Resting: outside the hours that were offered, for another {soon(status.budget.closed_s)}.",
        "month": f"Resting: {_used(status.budget)} of this month's volume are used, for another"
        f" {soon(status.budget.closed_s)}.",
        "ahead of the month": f"Resting for another {soon(status.budget.closed_s)}, so that the month's volume"
        f" lasts ({_used(status.budget)} are used).",
    }
    yield from (why[word] for word in status.budget.closed_by if word in why)
    yield _REST


def _pause(crawl: CrawlStatus) -> str:
    if crawl.paused_s is None:
        return "Paused until you say `herodotus resume`."
    return f"Paused for another {soon(crawl.paused_s)} (`herodotus resume` ends it)."


def _used(budget: BudgetStatus) -> str:
    used = readable_bytes(budget.month_up_bytes + budget.month_down_bytes)
    return f"{used} of {readable_bytes(budget.month_bytes_max)}" if budget.month_bytes_max else used


def _crawling(crawl: CrawlStatus) -> str:
    done = f"{counted(crawl.fetched, 'page')} visited today"
    match crawl.state:
        case "crawling":
            return f"Crawling: {done}, {crawl.due:,} to go."
        case "done for today" if not crawl.known:
            return "Nothing to crawl: no page is known yet. Name one with `herodotus seed add URL`."
        case "done for today":
            return f"Nothing is due now: {done}."
        case "waiting for the archive":
            return "Opening the archive."
        case "no room on the disk":
            return f"Not crawling: there is no room on the disk. {_sentence(done)}"
        case "paused":  # the budget will say so in a moment
            return _pause(crawl)
        case _:
            return _sentence(f"crawl: {crawl.state}")


def _copying(copying: CopiesStatus, *, is_resting: bool) -> str:
    pace = (
        ", nothing moves now" if copying.done_in_s is None else f", done in about {soon(copying.done_in_s)}"
    )
    parts = [
        f"{count:,} to {verb}"
        for count, verb in ((copying.to_send, "send"), (copying.to_fetch, "fetch"))
        if count
    ]
    return f"Copies: {' and '.join(parts)}{' when it goes on' if is_resting else pace}."


# -- what it holds ----------------------------------------------------------------------------------------


def _holds(status: PeerStatus) -> Iterator[str]:
    store = status.store
    if store.state not in (_OPEN, "closed") or (store.problem and not store.captures):
        yield _sentence(f"The archive: {store.problem or store.state}")
        return
    if not store.captures:
        yield "It holds nothing yet."
    else:
        yield f"It holds {counted(store.captures, 'capture')} in {readable_bytes(store.bytes)}."
        yield _copies(status)
    if status.ring.members > 1:
        yield f"It is a holder of {share_of(status.ring.arcs):.1%} of all addresses."


def _copies(status: PeerStatus) -> str:
    here_alone, too_few = status.copies.get("1", 0), status.copying.too_few
    if status.ring.members <= 1:
        return "Nobody else has them."
    if not sum(status.copies.values()):
        return "How many copies others have is not known yet."
    if not too_few:
        return "All have the copies that they should have, as their holders last confirmed."
    alone = f", {here_alone:,} of them are here alone" if here_alone else ""
    return f"{too_few:,} have fewer copies than they should{alone}."


# -- what comes next --------------------------------------------------------------------------------------


def _next(status: PeerStatus) -> Iterator[str]:
    crawl, closed_by = status.crawl, status.budget.closed_by
    if status.leaving.state != LeavingStatus().state:
        yield "The peer ends when all is handed over (`herodotus drain --cancel` takes the order back)."
        return
    for site, problem in islice(crawl.closed.items(), 3):
        yield f"{site} cannot be reached: {problem}."
    if crawl.left_over:
        yield f"{counted(crawl.left_over, 'page')} of earlier days come first."
    if crawl.day_ends:
        ends = datetime.fromisoformat(crawl.day_ends)
        now = datetime.fromisoformat(status.started) + timedelta(seconds=status.uptime_s)
        left_s = max(0.0, (ends - now).total_seconds())
        goes_on = "a new day begins" if closed_by else "all pages are due again"
        yield f"At {ends:%H:%M} UTC, in {soon(left_s)}, {goes_on}."
    if status.uptime_s >= 86_400:
        yield f"Running for {readable_duration(status.uptime_s)}."
