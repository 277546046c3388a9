"""How does the operator see the peer at a glance? One page of HTML, without a script or anything from elsewhere."""

from collections.abc import Mapping, Sequence
from html import escape

from herodotus.core.status import BudgetStatus, CopiesStatus, LeavingStatus, NodeStatus, PeerStatus
from herodotus.portal.order_form import order_form
from herodotus.portal.pages import page
from herodotus.portal.reader_counts import PortalFigures
from herodotus.portal.ring_picture import ring_picture, share_of


def status_page(
    status: PeerStatus, figures: PortalFigures, *, log: Sequence[str] = (), has_orders: bool = False
) -> str:
    """`log` are its last lines, oldest first."""
    ring, store = status.ring, status.store
    trouble = "".join(f'<p class="trouble">{escape(one)}</p>' for one in status.alarms)
    return page(
        "Status of this peer",
        "\n".join(
            [
                "<h1>Status of this peer</h1>",
                (f'<p class="lead">{escape(status.nickname) or "A peer"} of the network {escape(status.network)}, '
                f"running for {_duration(status.uptime_s)}.</p>"),
                trouble,
                _leaving(status.leaving),
                "<h2>Archive</h2>",
                _facts(
                    ("State", escape(store.state)),
                    ("Captures", f"{store.captures:,}"),
                    ("Size", f"{_bytes(store.bytes)}; files {store.files:,}, index {_bytes(store.index_bytes)}"),
                    ("Stored since the start", f"{store.stored:,}"),
                    ("Damaged records met", f"{store.damaged:,}"),
                ),
                _histogram(status.copies),
                "<h2>Ring</h2>",
                ring_picture(ring),
                _facts(
                    ("Members", f"{ring.members:,}"),
                    ("Neighbours", "all as they should be" if ring.ideal else "still being sorted out"),
                    ("Our address", escape(ring.address)),
                    ("Reachable from outside", escape(ring.reachability)),
                    ("Our share", f"{share_of(ring.arcs):.1%} of all addresses"),
                    ("Not answering", _unwell(ring.unwell)),
                ),
                _nodes(ring.nodes),
                "<h2>Copies</h2>",
                *_copies(status.copying),
                "<h2>Crawl</h2>",
                _facts(
                    ("State", escape(status.crawl.state)),
                    ("Known addresses", f"{status.crawl.known:,}"),
                    ("Due today", f"{status.crawl.due:,}"),
                    ("Fetched", f"{status.crawl.fetched:,}"),
                    ("Unchanged", f"{status.crawl.unchanged:,}"),
                    ("Failed", f"{status.crawl.failed:,}"),
                    ("Links handed to others, and theirs to us",
                     f"{status.crawl.handed_over:,}, {status.crawl.taken_over:,}"),
                    ("Left over from the days before", f"{status.crawl.left_over:,}"),
                    ("Hosts that had their day's share", f"{status.crawl.held_back:,}"),
                    ("The day ends", escape(status.crawl.day_ends) or "–"),
                ),
                "<h2>Readers</h2>",
                _facts(
                    ("Answers", _answers(figures.answered)),
                    ("Refused: too many connections", f"{figures.connections_refused:,}"),
                    ("Refused: over their share", f"{figures.rationed:,}"),
                    ("Left: too slow", f"{figures.slow_readers_left:,}"),
                    ("No HTTP at all", f"{figures.malformed:,}"),
                    ("Pages asked to be saved", f"{figures.saves_asked:,}"),
                    ("Answers of peers not believed", f"{figures.answers_disbelieved:,}"),
                ),
                "<h2>Traffic</h2>",
                _facts(
                    ("Calls, received and sent",
                     f"{_bytes(status.calls.bytes_in)}, {_bytes(status.calls.bytes_out)}"),
                    ("Copies, received and sent",
                     f"{_bytes(status.copying.bytes_in)}, {_bytes(status.copying.bytes_out)}"),
                    ("This month", _month(status.budget)),
                    ("Waits for its budget", _waits(status.budget)),
                ),
                "<h2>Traffic of the ring</h2>",
                _facts(
                    ("Received", f"{_bytes(ring.traffic.bytes_in)} in {ring.traffic.datagrams_in:,} datagrams"),
                    ("Sent", f"{_bytes(ring.traffic.bytes_out)} in {ring.traffic.datagrams_out:,} datagrams"),
                    ("Membership", f"{ring.traffic.gossip_bits_per_s:,.0f} bit/s"),
                    ("Dropped", _counts(ring.traffic.dropped)),
                ),
                *(("<h2>Orders</h2>", order_form(status)) if has_orders else ()),
                *(("<h2>The log's last lines</h2>", _log(log)) if log else ()),
                "<h2>Who it is</h2>",
                _facts(
                    ("Peer", f'<span class="id">{escape(status.peer_id)}</span>'),
                    ("Network", f'<span class="id">{escape(status.network_id)}</span>'),
                    ("Process", str(status.pid)),
                    ("Release", escape(status.version)),
                ),
                ('<p class="quiet">The same for machines: <a href="/metrics">metrics</a>, '
                '<a href="/api/v1/status">JSON</a>.</p>'),
            ]
        ),
    )  # fmt: skip


def _leaving(leaving: LeavingStatus) -> str:
    if leaving.state == LeavingStatus().state:
        return ""
    silent = f"; {leaving.silent:,} of them do not take it now" if leaving.silent else ""
    return (
        f'<p class="trouble">This peer is leaving for good ({escape(leaving.state)}): {leaving.parts_over:,} of '
        f"{leaving.parts:,} parts are with {leaving.peers:,} other peers{silent}.</p>"
    )


def _facts(*rows: tuple[str, str]) -> str:
    return "<dl>\n" + "\n".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in rows) + "\n</dl>"


def _histogram(copies: Mapping[str, int]) -> str:
    """By how many peers have a capture; the bars say how much of all that is."""
    total = sum(copies.values())
    rows = "".join(
        f"<dt>With {escape(n)} cop{'y' if n == '1' else 'ies'}</dt>"
        f'<dd>{count:,} <meter value="{count}" max="{total}" aria-label="{count:,} of {total:,}"></meter></dd>'
        for n, count in sorted(copies.items(), key=lambda item: int(item[0]))
        if total
    )
    return f'<dl class="histogram">{rows}</dl>' if rows else ""


def _month(budget: BudgetStatus) -> str:
    used = f"{_bytes(budget.month_down_bytes)} received, {_bytes(budget.month_up_bytes)} sent"
    return f"{used} of {_bytes(budget.month_bytes_max)}" if budget.month_bytes_max else used


def _waits(budget: BudgetStatus) -> str:
    waits = {kind: wait_s for kind, wait_s in budget.waits_s.items() if wait_s > 0}
    return (
        escape(", ".join(f"{kind} for {_duration(int(s))}" for kind, s in sorted(waits.items()))) or "nothing"
    )


def _log(lines: Sequence[str]) -> str:
    return f'<pre class="log" tabindex="0">{escape(chr(10).join(lines))}</pre>'


def _nodes(nodes: tuple[NodeStatus, ...]) -> str:
    if not nodes:
        return ""
    rows = "".join(
        f'<tr><td class="id">{escape(node.position[:12])}…</td><td>{"member" if node.is_member else "joining"}</td>'
        f"<td>{escape(node.predecessor.address) if node.predecessor else '–'}</td>"
        f"<td>{escape(node.successors[0].address) if node.successors else '–'}</td></tr>"
        for node in nodes
    )
    return (
        f'{_wide("Positions on the ring")}<th scope="col">Position</th><th scope="col">State</th>'
        f'<th scope="col">Before it</th><th scope="col">Behind it</th></tr></thead><tbody>{rows}</tbody></table></div>'
    )


def _wide(name: str) -> str:
    """The start of a table that a narrow screen scrolls: so it has a name, and the keyboard reaches it."""
    return (
        f'<div class="wide" role="region" aria-label="{name}" tabindex="0"><table class="figures"><thead><tr>'
    )


def _copies(copying: CopiesStatus) -> list[str]:
    left, done_in_s = copying.to_send + copying.to_fetch, copying.done_in_s
    when = "nothing moves just now" if done_in_s is None else f"done in about {_duration(done_in_s)}"
    audits = ", ".join(f"{one.peer} {one.result} {_duration(one.s_ago)} ago" for one in copying.audits[:5])
    suspects = "; ".join(f"{peer}: {how}" for peer, how in sorted(copying.suspects.items()))
    crossed = copying.cross_fetches
    differing = ", ".join(
        f"{peer} {one['differed']:,} of {sum(one.values()):,}"
        for peer, one in crossed.peers.items()
        if one["differed"]
    )
    rows = "".join(
        f'<tr><td class="id">{escape(one.peer)}</td><td>{"absent" if one.is_absent else "there"}</td>'
        f"<td>{'–' if one.compared_s_ago is None else f'{_duration(one.compared_s_ago)} ago'}</td>"
        f"<td>{one.differences:,}</td><td>{_bytes(one.bytes)}</td></tr>"
        for one in copying.holders
    )
    head = "".join(
        f'<th scope="col">{name}</th>' for name in ("Holder", "Now", "Compared", "Differences", "Bytes")
    )
    return [
        _facts(
            ("With too few copies", f"{copying.too_few:,} captures, about {_bytes(copying.too_few_bytes)}"),
            ("To be sent, to be fetched", f"{copying.to_send:,}, {copying.to_fetch:,}"),
            ("Repair", when if left else "nothing to do"),
            ("Damaged, fetched again", f"{copying.under_repair:,} to do, {copying.repaired:,} done"),
            ("Disputed days met", f"{copying.disputed:,}"),
            ("Last audits", escape(audits) or "none"),
            (
                "Cross-fetched",
                f"{crossed.made:,}: {crossed.agreed:,} agree, {crossed.differed:,} differ, {crossed.changing:,} change",
            ),
            ("Differing, by peer", escape(differing) or "none"),
            ("Suspects", escape(suspects) or "none"),
        ),
        f"{_wide('Holders of copies')}{head}</tr></thead><tbody>{rows}</tbody></table></div>" if rows else "",
    ]


def _unwell(unwell: Mapping[str, str]) -> str:
    return (
        escape(", ".join(f"{peer[:12]} ({clock})" for peer, clock in sorted(unwell.items())[:20])) or "none"
    )


def _answers(answered: Mapping[int, int]) -> str:
    return _counts({str(status): count for status, count in answered.items()})


def _counts(counts: Mapping[str, int]) -> str:
    return escape(", ".join(f"{count:,} × {name}" for name, count in sorted(counts.items()))) or "none"


def _bytes(size: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1_000:
            return f"{size:,.0f} {unit}" if unit == "B" else f"{size:,.1f} {unit}"
        size /= 1_000
    return f"{size:,.1f} TB"


def _duration(seconds: int) -> str:
    minutes, hours, days = seconds // 60, seconds // 3_600, seconds // 86_400
    if days:
        return f"{days:,} d {hours % 24} h"
    return f"{hours} h {minutes % 60} min" if hours else f"{minutes} min"
