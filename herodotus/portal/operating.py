"""What does the operator see? The status page, and the same figures for Prometheus. Nobody else sees either.

Names and meanings of the metrics are listed in docs/operating.md; what ends in `_total` counts from the peer's start.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from html import escape

from herodotus.core.status import CopiesStatus, LeavingStatus, NodeStatus, PeerStatus
from herodotus.portal.answer import Answer, html
from herodotus.portal.operator import OperatorRule, is_from_here
from herodotus.portal.ordering import order_form
from herodotus.portal.pages import page
from herodotus.portal.web import Asked

_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_PRIVATE = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PortalFigures:
    """Since the peer runs."""

    answered: Mapping[int, int] = field(default_factory=dict)
    """Requests by status."""
    connections_refused: int = 0
    slow_readers_left: int = 0
    malformed: int = 0
    rationed: int = 0
    saves_asked: int = 0
    answers_disbelieved: int = 0
    """Of other peers, as parts of an answer of all."""


class OperatingPages:
    def __init__(
        self,
        status: Callable[[], Awaitable[PeerStatus]],
        figures: Callable[[], PortalFigures],
        operator: OperatorRule,
    ) -> None:
        self._status = status
        self._figures = figures
        self._operator = operator

    async def answer(self, asked: Asked) -> Answer | None:
        request = asked.request
        if request.path not in ("/status", "/metrics") or request.method not in ("GET", "HEAD"):
            return None
        refused = self._operator.may_see(request)
        if refused is not None:
            return refused
        status, figures = await self._status(), self._figures()
        if request.path == "/status":
            answer = html(status_page(status, figures, has_orders=is_from_here(request)))
            # Where no referrer is told, browsers do not say either whose form it is that is posted.
            answer.headers["Referrer-Policy"] = "same-origin"
        else:
            answer = Answer(content_type=_METRICS_TYPE, body=metrics(status, figures).encode())
        answer.headers.update(_PRIVATE)
        return answer


# -- metrics ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Metric:
    name: str
    help: str
    samples: tuple[tuple[Mapping[str, str], float], ...]

    def lines(self) -> Iterator[str]:
        kind = "counter" if self.name.endswith("_total") else "gauge"
        yield f"# HELP herodotus_{self.name} {self.help}"
        yield f"# TYPE herodotus_{self.name} {kind}"
        for labels, value in self.samples:
            told = ",".join(f'{name}="{_label(text)}"' for name, text in labels.items())
            yield f"herodotus_{self.name}{f'{{{told}}}' if told else ''} {value:.15g}"


def _label(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def metrics(status: PeerStatus, figures: PortalFigures) -> str:
    """The text format of Prometheus, version 0.0.4."""
    return "".join(f"{line}\n" for metric in _metrics(status, figures) for line in metric.lines())


def _metrics(status: PeerStatus, figures: PortalFigures) -> Iterator[_Metric]:
    def one(name: str, help_: str, value: float) -> _Metric:
        return _Metric(name=name, help=help_, samples=(({}, value),))

    def many(name: str, help_: str, label: str, values: Mapping[str, float]) -> _Metric:
        return _Metric(
            name=name,
            help=help_,
            samples=tuple(({label: key}, value) for key, value in sorted(values.items())),
        )

    ring, store, crawl, traffic = status.ring, status.store, status.crawl, status.ring.traffic
    labels = {"version": status.version, "network": status.network, "network_id": status.network_id}
    yield _Metric(name="info", help="Which release, in which network.", samples=((labels, 1),))
    yield one("uptime_seconds", "Since the peer runs.", status.uptime_s)
    yield one("store_captures", "Captures in the archive.", store.captures)
    yield one("store_bytes", "Of the archive's WARC files.", store.bytes)
    yield one("store_index_bytes", "Of what is derived from them.", store.index_bytes)
    yield one("store_files", "WARC files of the archive.", store.files)
    yield one("store_stored_total", "Captures and visits that were stored.", store.stored)
    yield one("store_damaged_total", "Records that were found damaged.", store.damaged)
    yield one("store_is_open", "Whether the archive can be read.", store.state == "open")
    yield one("store_refuses", "Whether nothing can be stored.", store.problem is not None)
    yield one("ring_members", "Members that this peer knows.", ring.members)
    yield one("ring_ideal", "Whether the ring around this peer is as it should be.", ring.ideal)
    yield one("ring_unwell_members", "Members that do not answer.", len(ring.unwell))
    yield one("ring_sessions", "Sealed sessions with other peers.", traffic.sessions)
    yield one(
        "ring_gossip_bits_per_second", "What keeping the table of members costs.", traffic.gossip_bits_per_s
    )
    yield many("ring_bytes_total", "Datagrams of the ring.", "direction",
               {"in": traffic.bytes_in, "out": traffic.bytes_out})  # fmt: skip
    yield many("ring_datagrams_total", "Datagrams of the ring.", "direction",
               {"in": traffic.datagrams_in, "out": traffic.datagrams_out})  # fmt: skip
    yield many("ring_dropped_total", "Datagrams that were dropped.", "reason", traffic.dropped)
    yield one("crawl_known_urls", "Addresses that this peer has to visit.", crawl.known)
    yield one("crawl_due_urls", "Of these, still to be visited today.", crawl.due)
    yield one("crawl_left_over_urls", "Those that the days before were too short for.", crawl.left_over)
    yield one("crawl_hosts_held_back", "Hosts that had their share of today's visits.", crawl.held_back)
    yield many("crawl_links", "Today's links that others own, and those of ours that others found.", "way",
               {"handed_over": crawl.handed_over, "taken_over": crawl.taken_over})  # fmt: skip
    yield many("crawl_visits_total", "Visits by what came of them.", "result",
               {"fetched": crawl.fetched, "unchanged": crawl.unchanged, "failed": crawl.failed})  # fmt: skip
    yield many("copies_captures", "Captures by the number of peers that hold them.", "copies", status.copies)
    copying = status.copying
    yield one("copies_too_few", "Captures that fewer peers are known to have than should.", copying.too_few)
    yield one("copies_too_few_bytes", "About what these take.", copying.too_few_bytes)
    yield one("copies_to_move", "Captures to be sent and fetched.", copying.to_send + copying.to_fetch)
    yield one("copies_under_repair", "Damaged captures to be fetched again.", copying.under_repair)
    yield one("copies_suspects", "Peers that broke their word.", len(copying.suspects))
    yield one("copies_disputed_total", "Captures that another peer's contradict.", copying.disputed)
    yield one("copies_repaired_total", "Damaged captures that were fetched again.", copying.repaired)
    yield many("http_requests_total", "Answers of the portal by status.", "status",
               {str(code): count for code, count in figures.answered.items()})  # fmt: skip
    yield one("http_connections_refused_total", "Connections over the bound.", figures.connections_refused)
    yield one(
        "http_slow_readers_total", "Readers who were left for being too slow.", figures.slow_readers_left
    )
    yield one("http_malformed_total", "Requests that were no HTTP.", figures.malformed)
    yield one("http_rationed_total", "Requests over a reader's share.", figures.rationed)
    yield one(
        "http_disbelieved_total",
        "Answers of other peers that were left out for what stood in them.",
        figures.answers_disbelieved,
    )
    yield one("saves_asked_total", "Pages that readers asked to be archived.", figures.saves_asked)


# -- the page ---------------------------------------------------------------------------------------------


def status_page(status: PeerStatus, figures: PortalFigures, *, has_orders: bool = False) -> str:
    ring, store = status.ring, status.store
    trouble = f'<p class="trouble">{escape(store.problem)}</p>' if store.problem else ""
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
                    *((f"Captures with {escape(n)} cop{'y' if n == '1' else 'ies'}", f"{count:,}")
                      for n, count in sorted(status.copies.items())),
                ),
                "<h2>Ring</h2>",
                _facts(
                    ("Members", f"{ring.members:,}"),
                    ("Neighbours", "all as they should be" if ring.ideal else "still being sorted out"),
                    ("Our address", escape(ring.address)),
                    ("Reachable from outside", escape(ring.reachability)),
                    ("Our share", _share(ring.arcs)),
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
                "<h2>Traffic of the ring</h2>",
                _facts(
                    ("Received", f"{_bytes(ring.traffic.bytes_in)} in {ring.traffic.datagrams_in:,} datagrams"),
                    ("Sent", f"{_bytes(ring.traffic.bytes_out)} in {ring.traffic.datagrams_out:,} datagrams"),
                    ("Membership", f"{ring.traffic.gossip_bits_per_s:,.0f} bit/s"),
                    ("Dropped", _counts(ring.traffic.dropped)),
                ),
                *(("<h2>Orders</h2>", order_form(status)) if has_orders else ()),
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


def _share(arcs: tuple[tuple[str, str], ...]) -> str:
    """Of the circle; the ends of an arc may lie around zero, and equal ends are all of it."""
    circle = 1 << 160
    lengths = [(int(end, 16) - int(start, 16)) % circle or circle for start, end in arcs]
    return f"{min(1.0, sum(lengths) / circle):.1%} of all addresses"


def _copies(copying: CopiesStatus) -> list[str]:
    left, done_in_s = copying.to_send + copying.to_fetch, copying.done_in_s
    when = "nothing moves just now" if done_in_s is None else f"done in about {_duration(done_in_s)}"
    audits = ", ".join(f"{one.peer} {one.result} {_duration(one.s_ago)} ago" for one in copying.audits[:5])
    suspects = "; ".join(f"{peer}: {how}" for peer, how in sorted(copying.suspects.items()))
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
