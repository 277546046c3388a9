"""How does the operator see the peer at a glance? One page of HTML, without a script or anything from elsewhere.

How does the ring look from here? A circle with the arcs that this peer holds, its positions and its neighbours.

Zero is at the top, and positions grow clockwise. Tables beside it say the same in numbers, so for those who do not
see it a sentence is enough.
"""

import math
from collections.abc import Sequence

import segno
from markupsafe import Markup

from herodotus.core.quantities import readable_duration
from herodotus.core.sentences import CIRCLE, share_of
from herodotus.core.status import CopiesStatus, LeavingStatus, PeerStatus, RingStatus
from herodotus.portal.metrics import PortalFigures
from herodotus.portal.order_form import order_form
from herodotus.portal.rendering import render, render_part

RADIUS = 100
_MIDDLE = 110
ARCS_MAX = 64
"""A peer has no more positions than that."""


def ring_picture(ring: RingStatus) -> Markup:
    own = [node.position for node in ring.nodes]
    near = {one.position for node in ring.nodes for one in (node.predecessor, *node.successors) if one}
    return render_part(
        "ring_picture.html",
        arcs=[_arc(start, end) for start, end in ring.arcs[:ARCS_MAX]],
        own=[_place(one) for one in own],
        beside=[_place(one) for one in sorted(near.difference(own))],
        middle=_MIDDLE,
        radius=RADIUS,
    )


def _length(start: str, end: str) -> int:
    return (int(end, 16) - int(start, 16)) % CIRCLE or CIRCLE


def _arc(start: str, end: str) -> str:
    """As the data of a path; "" is the whole circle, which has no beginning."""
    length = _length(start, end)
    if length == CIRCLE:
        return ""
    is_large = int(length > CIRCLE // 2)
    return f"M{' '.join(_place(start))}A{RADIUS} {RADIUS} 0 {is_large} 1 {' '.join(_place(end))}"


def _place(position: str) -> tuple[str, str]:
    angle = int(position, 16) / CIRCLE * math.tau
    return f"{_MIDDLE + RADIUS * math.sin(angle):.1f}", f"{_MIDDLE - RADIUS * math.cos(angle):.1f}"


def qr_picture(line: str) -> Markup:
    """For the camera of a telephone. Capital letters alone need fewer modules."""
    picture = segno.make(line.upper(), micro=False).svg_inline(
        scale=4, border=4, light="#fff", title="The invitation as a QR code", omitsize=False
    )
    return Markup(picture)  # noqa: S704  # segno's own, of letters and digits


AUDITS_SHOWN_MAX = 5
UNWELL_SHOWN_MAX = 20


def status_page(
    status: PeerStatus, figures: PortalFigures, *, log: Sequence[str] = (), has_orders: bool = False
) -> str:
    """`log` are its last lines, oldest first."""
    copying = status.copying
    unwell = sorted(status.ring.unwell.items())[:UNWELL_SHOWN_MAX]
    audits = copying.audits[:AUDITS_SHOWN_MAX]
    return render(
        "status.html",
        status=status,
        figures=figures,
        is_leaving=status.leaving.state != LeavingStatus().state,
        histogram=sorted(status.copies.items(), key=lambda item: int(item[0])),
        captures=sum(status.copies.values()),
        ring_picture=ring_picture(status.ring),
        invitation=status.ring.invitation,
        invitation_picture=qr_picture(status.ring.invitation) if status.ring.invitation else "",
        share=f"{share_of(status.ring.arcs):.1%}",
        uncallable=", ".join(
            f"{one.address} ({one.why})" for one in status.ring.uncallable[:UNWELL_SHOWN_MAX]
        ),
        unwell=", ".join(f"{peer[:12]} ({clock})" for peer, clock in unwell),
        repair=_repair(copying),
        audits=", ".join(f"{one.peer} {one.result} {readable_duration(one.s_ago)} ago" for one in audits),
        differing=", ".join(
            f"{peer} {one['differed']:,} of {sum(one.values()):,}"
            for peer, one in copying.cross_fetches.peers.items()
            if one["differed"]
        ),
        suspects="; ".join(f"{peer}: {how}" for peer, how in sorted(copying.suspects.items())),
        came_in=", ".join(f"{count:,} {door}" for door, count in copying.doors.came.items()),
        turned_away=_turned_away(copying),
        answers={str(code): count for code, count in figures.answered.items()},
        waits=", ".join(
            f"{kind} for {readable_duration(int(wait_s))}"
            for kind, wait_s in sorted(status.budget.waits_s.items())
            if wait_s > 0
        ),
        connections=", ".join(
            f"{count:,} {use}" for use, count in status.budget.connections.items() if count
        ),
        log=log,
        order_form=order_form(status) if has_orders else "",
    )


def _turned_away(copying: CopiesStatus) -> str:
    by_reason = "; ".join(f"{count:,}: {why}" for why, count in copying.doors.turned_away.items())
    senders = ", ".join(copying.doors.peers)
    return f"{by_reason} (most by {senders})" if senders else by_reason


def _repair(copying: CopiesStatus) -> str:
    if not copying.to_send + copying.to_fetch:
        return "nothing to do"
    if copying.done_in_s is None:
        return "nothing moves at the moment"
    return f"done in about {readable_duration(copying.done_in_s)}"
