"""What does the copying say about itself? The figures for `status` and the operator's page."""

from collections.abc import Iterable, Mapping
from typing import TypedDict

from herodotus.copies.audits import Audited
from herodotus.copies.rounds import Met
from herodotus.copies.shared_state import SHOWN_KEY, Parts
from herodotus.core.copies import PeerKey
from herodotus.core.status import AuditStatus, HolderStatus


class Counted(TypedDict):
    pushed: int
    pulled: int
    received: int
    refused: int
    dropped: int
    compared: int
    failed: int
    audited: int
    disputed: int
    repaired: int
    bytes_in: int
    bytes_out: int


def counted(parts: Parts) -> Counted:
    counts = parts.counts
    return Counted(
        pushed=counts.pushed,
        pulled=counts.pulled,
        received=counts.received,
        refused=counts.refused,
        dropped=counts.dropped,
        compared=counts.compared,
        failed=counts.failed,
        audited=counts.audited,
        disputed=counts.disputed,
        repaired=counts.repaired,
        bytes_in=parts.download.spent,
        bytes_out=parts.upload.spent,
    )


def holders_of(parts: Parts, met: Mapping[PeerKey, Met]) -> tuple[HolderStatus, ...]:
    now = parts.now()
    return tuple(
        HolderStatus(
            peer=shown(peer),
            compared_s_ago=None if (last := met.get(peer)) is None else int(now - last.at),
            differences=0 if last is None else last.differences,
            bytes=0 if last is None else last.bytes,
            is_absent=peer in parts.view.absent,
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
