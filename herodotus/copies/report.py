"""What does the copying say about itself? The figures for `status` and the operator's page."""

from collections.abc import Iterable, Mapping

from herodotus.copies.audits import Audited
from herodotus.copies.rounds import Met
from herodotus.copies.shared_state import SHOWN_KEY, Parts
from herodotus.core.copies import PeerKey
from herodotus.core.status import AuditStatus, HolderStatus


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
