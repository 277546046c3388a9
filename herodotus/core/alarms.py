"""What should the operator know at once? Sentences, each with what to do, from what the peer says about itself.

An alarm needs action by the operator. Troubles that repair themselves and states that the operator ordered are not
alarms.
"""

from collections.abc import Iterator

from herodotus.core.notices import MUCH
from herodotus.core.quantities import counted
from herodotus.core.status import CopiesStatus, DoorStatus, PeerStatus, RingStatus, StoreStatus

ALONE_S = 3_600
"""A peer that has known no other for so long will hardly find one by itself."""


SILENT_MIN = 8
SILENT_SHARE = 0.1
"""Of the members known, those that do not answer now. In an honest ring they are out of the table after minutes."""


def alarms(status: PeerStatus) -> tuple[str, ...]:
    """The most pressing first."""
    return tuple(_alarms(status))


def _alarms(status: PeerStatus) -> Iterator[str]:
    store, crawl, copying, budget = status.store, status.crawl, status.copying, status.budget
    if store.problem is not None:
        yield store.problem
    yield from _of_the_files(store, copying.without_source)
    if status.search.problem is not None:
        yield f"The search: {status.search.problem}"
    if status.restored:
        yield (
            f"{', '.join(status.restored)} of the home was lost or damaged, and is as it was before: check the disk,"
            " and what lies beside it as `.damaged`"
        )
    if crawl.problem is not None:
        yield f"The crawl: {crawl.problem}"
    yield from _copying_alarms(copying)
    yield from _standing_still(status)
    yield from _alarms_of_removals(status)
    if status.leaving.silent:
        yield f"{status.leaving.silent:,} peers that should take over what this peer holds do not take it now"
    if status.helping.distrusted:
        yield (
            f"{counted(status.helping.distrusted, 'owner')} found that pages which this peer fetched are not what"
            " their sites say, and gives it no more work for 30 days: a proxy or a virus scanner on this line may"
            " alter them"
        )
    yield from _crowds(status)
    yield from _alarms_of_the_ring(status.ring, status.uptime_s)
    if copying.places.is_short:
        yield (
            f"The {copying.places.told}: few networks have most of the ring. Invite members elsewhere, as one provider"
            " that goes takes those copies along"
        )
    used = budget.month_up_bytes + budget.month_down_bytes
    if budget.month_bytes_max and used >= budget.month_bytes_max:
        yield (
            "This month's volume is used up: the peer crawls and copies nothing until next month; the ring and readers"
            " go on"
        )


def _crowds(status: PeerStatus) -> Iterator[str]:
    if status.readers.crowd:
        yield (
            f"{status.readers.crowd} wants more connections to the portal than one address or its network may have: "
            "block it in the firewall, or raise http.connections_per_address if it is a proxy of yours"
        )
    if status.calls.crowd:
        yield (
            f"{status.calls.crowd} wants more connections for calls than one address or its network may have: "
            "block it in the firewall if it goes on"
        )


def _alarms_of_the_ring(ring: RingStatus, uptime_s: int) -> Iterator[str]:
    silent, members = ring.silent, ring.members
    asked = silent.members + silent.strangers
    if asked >= max(SILENT_MIN, members * SILENT_SHARE):
        yield (
            f"{asked:,} members of the ring do not answer, {silent.in_network:,} of them at {silent.network}: check"
            " this peer's line; if it is sound, somebody tells the ring of members that do not exist. Those"
            f" that this peer never reached ({silent.strangers:,}) do not count"
        )
    if ring.uncallable:
        first = ", ".join(f"{one.peer} at {one.address} ({one.why})" for one in ring.uncallable[:3])
        yield (
            f"{len(ring.uncallable):,} members answer datagrams, and no call gets through to them: {first}. Copies,"
            " links and leases need TCP at the same port: tell their operators; if it is so with most, check this"
            " peer's firewall"
        )
    if members <= 1 and uptime_s >= ALONE_S:
        yield "No other peer was found: name a contact (`herodotus run --join`), or see docs/do/connect.md"


def _doors(doors: DoorStatus) -> Iterator[str]:
    if doors.clock:
        refused = "captures of others are" if doors.clock == "behind" else "this peer's captures are"
        yield f"This machine's clock seems to be {doors.clock}: set it; until then {refused} refused"

    if doors.quotas_hit:
        hit = ", ".join(f"{peer} ({size / 1e6:,.0f} MB)" for peer, size in doors.quotas_hit.items())
        yield (
            f"More captures came today than this peer takes of one peer or place; turned away were those of {hit}. If"
            " you know these peers, raise copies.quota_mb; else let others of the network know"
        )


def _of_the_files(store: StoreStatus, without_source: int) -> Iterator[str]:
    if store.lost:
        more = f" and {len(store.lost_files) - 1:,} more" if len(store.lost_files) > 1 else ""
        yield (
            f"{store.lost:,} captures are lost: {store.lost_files[0]}{more}. Check the disk. Other holders send them "
            "again by themselves; if they do not come, put the file back from a backup, "
            "or give them up with `herodotus verify --give-up`"
        )
    if store.damaged:
        yield (
            f"{store.damaged:,} damaged records were found since the start: check the disk. What other holders have"
            " comes back by itself; `herodotus verify` says what is left"
        )
    if store.is_index_damaged:
        yield (
            "The archive's index is damaged: check the disk. The peer starts again by itself, to make it again from"
            " the files"
        )
    if store.quarantined:
        yield _quarantine(store, without_source)


def _quarantine(store: StoreStatus, without_source: int) -> str:
    urls = f" ({', '.join(store.quarantined_urls)})" if store.quarantined_urls else ""
    held = f"Quarantine holds {store.quarantined:,} captures that this disk could not read{urls}"
    if without_source:
        return (
            f"{held}, and of {without_source:,} no peer that answers is known to have a copy: keep"
            " `archive/quarantine`, check the disk, and import the pages again if you have them elsewhere"
        )
    return f"{held}: they wait for other holders. Check the disk"


def _alarms_of_removals(status: PeerStatus) -> Iterator[str]:
    notices, declined = status.notices, status.copying.declined
    if notices.much:
        named = ", ".join(notices.first)
        yield (
            f"{notices.much:,} notices of removals each name over a thousandth of what is held here; nothing was done:"
            f" look at them (`herodotus notices`), then follow or dismiss each: {named}"
        )
    if declined * MUCH > status.store.captures:
        yield (
            f"{declined:,} captures have fewer copies than they should: other holders removed theirs, or do not let"
            " them in. Nothing was removed here: see why with `herodotus notices` and `herodotus why URL`"
        )


def _copying_alarms(copying: CopiesStatus) -> Iterator[str]:
    if copying.too_few and copying.full:
        yield (
            f"{copying.too_few:,} captures have fewer copies than they should, as {len(copying.full):,} holders have no"
            f" room ({', '.join(copying.full[:5])}): their next neighbours get copies instead. If you know their"
            " operators, ask for more room; else invite more members"
        )
    if copying.suspects:
        first = ", ".join(sorted(copying.suspects)[:5])
        yield f"{len(copying.suspects):,} peers broke a promise about copies: {first}"
    yield from _doors(copying.doors)
    failed = [one.peer for one in copying.holders if one.proof == "failed"]
    if failed:
        yield (
            f"{len(failed):,} holders failed proofs of what they hold: {', '.join(sorted(failed)[:5])}; what they hold"
            " gets copies elsewhere until they prove all of it. If you know an operator, ask to have the disk checked"
        )


def _standing_still(status: PeerStatus) -> Iterator[str]:
    copying, ring = status.copying, status.ring
    waiting = copying.to_send + copying.to_fetch
    if copying.done_in_s is not None or not waiting or status.budget.closed_by:
        return
    if ring.uncallable:
        why = f"no call gets through to {len(ring.uncallable):,} members"
    elif copying.full:
        why = f"{len(copying.full):,} holders have no room"
    else:
        why = "check the line" + (", as the ring is ideal and calls get through" if ring.ideal else "")
    yield f"{waiting:,} copies wait to be moved, and nothing moves: {why}"
