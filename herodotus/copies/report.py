"""What does the copying say about itself? The figures for `status` and the operator's page."""

from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from typing import Any, Final

import anyio

from dht.core import ids
from herodotus.copies import wire
from herodotus.copies.audits import Audited
from herodotus.copies.rounds import Met
from herodotus.copies.shared_state import SHOWN_KEY, Parts, View
from herodotus.core.copies import PeerKey
from herodotus.core.errors import MalformedError
from herodotus.core.status import AuditStatus, HolderStatus
from herodotus.peers.calls import CallError

ASK_S: Final = 10.0
"""For a holder's answer."""


async def told_by_holders(parts: Parts, key: bytes, sha256: bytes) -> list[dict[str, Any]]:
    """Of each holder of a capture: where it counts, whether it says now that it has this very content, and how its
    proofs stand."""
    answers: dict[PeerKey, bool | None] = {}
    view, now = parts.view, parts.now()
    holders = view.holders(key)

    async def ask(peer: PeerKey) -> None:
        answers[peer] = None
        contact = parts.contact(peer)
        try:
            if contact is not None:
                body = wire.encode_contents([(key, sha256)])
                answer = await parts.calls().call(contact, wire.HAS, body, deadline_s=ASK_S)
                answers[peer] = wire.decode_has(answer, 1)[0] is wire.Has.YES
        except (CallError, MalformedError):
            pass

    async with anyio.create_task_group() as tasks:
        for peer in holders:
            if peer != view.me:
                tasks.start_soon(ask, peer)
    answers[view.me] = (await parts.opened().has([(key, sha256)]))[0]
    return [
        {
            "peer": peer.hex(),
            "is_this_peer": peer == view.me,
            "place": _place_of(view, peer),
            "has_it": answers[peer],
            "is_absent": peer in view.absent,
            "proofs": None if peer == view.me else parts.states.state(peer, now).value,
            "proven_s_ago": None if (at := parts.states.proven_at(peer)) is None else int(now - at),
        }
        for peer in holders
    ]


def _place_of(view: View, peer: PeerKey) -> str:
    """Empty where each key is a place of its own."""
    standing = view.table.standings.get(ids.PeerKey(peer))
    if standing is None or standing.place == peer:
        return ""
    size, prefix = standing.place[0], standing.place[1:]
    host = ip_address(prefix.ljust(size, bytes(1)))
    return f"{host}/{8 * len(prefix)}"


def holders_of(parts: Parts, met: Mapping[PeerKey, Met]) -> tuple[HolderStatus, ...]:
    now = parts.now()
    return tuple(
        HolderStatus(
            peer=shown(peer),
            compared_s_ago=None if (last := met.get(peer)) is None else int(now - last.at),
            differences=0 if last is None else last.differences,
            bytes=0 if last is None else last.bytes,
            is_absent=peer in parts.view.absent,
            proof=parts.states.state(peer, now).value,
            proven_s_ago=None if (at := parts.states.proven_at(peer)) is None else int(now - at),
        )
        for peer in parts.view.others()
    )


def audits_of(parts: Parts, past: Iterable[Audited]) -> tuple[AuditStatus, ...]:
    now = parts.now()
    return tuple(
        AuditStatus(peer=shown(one.peer), s_ago=int(now - one.at), asked=one.asked, result=one.result)
        for one in reversed(list(past))
    )


def suspects_of(parts: Parts) -> dict[str, str]:
    return {
        shown(peer): ", ".join(f"{how} ({number})" for how, number in sorted(known.items()))
        for peer, known in sorted(parts.suspects.counts.items())
    }


def shown(peer: PeerKey) -> str:
    return peer.hex()[:SHOWN_KEY]
