"""How does the operator see the peer at a glance? One page of HTML, without a script or anything from elsewhere."""

from collections.abc import Sequence

from herodotus.core.status import CopiesStatus, LeavingStatus, PeerStatus
from herodotus.portal.order_form import order_form
from herodotus.portal.reader_counts import PortalFigures
from herodotus.portal.rendering import readable_duration, render
from herodotus.portal.ring_picture import ring_picture, share_of

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
        share=f"{share_of(status.ring.arcs):.1%}",
        unwell=", ".join(f"{peer[:12]} ({clock})" for peer, clock in unwell),
        repair=_repair(copying),
        audits=", ".join(f"{one.peer} {one.result} {readable_duration(one.s_ago)} ago" for one in audits),
        differing=", ".join(
            f"{peer} {one['differed']:,} of {sum(one.values()):,}"
            for peer, one in copying.cross_fetches.peers.items()
            if one["differed"]
        ),
        suspects="; ".join(f"{peer}: {how}" for peer, how in sorted(copying.suspects.items())),
        answers={str(code): count for code, count in figures.answered.items()},
        waits=", ".join(
            f"{kind} for {readable_duration(int(wait_s))}"
            for kind, wait_s in sorted(status.budget.waits_s.items())
            if wait_s > 0
        ),
        log=log,
        order_form=order_form(status) if has_orders else "",
    )


def _repair(copying: CopiesStatus) -> str:
    if not copying.to_send + copying.to_fetch:
        return "nothing to do"
    if copying.done_in_s is None:
        return "nothing moves at the moment"
    return f"done in about {readable_duration(copying.done_in_s)}"
