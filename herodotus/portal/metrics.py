"""How does a peer tell Prometheus of itself?

docs/look-up/metrics.md lists their names and meanings; what ends in `_total` counts from the start of the peer.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from herodotus.core.status import PeerStatus
from herodotus.portal.reader_counts import PortalFigures


def metrics(status: PeerStatus, figures: PortalFigures) -> bytes:
    """The text format of Prometheus, version 0.0.4."""
    return generate_latest(PeerMetrics(status, figures))


@dataclass(frozen=True, slots=True)
class PeerMetrics(Collector):
    """Asked for directly, and in no registry: the library's own one also tells of Python and its process."""

    status: PeerStatus
    figures: PortalFigures

    def collect(self) -> Iterator[Metric]:
        return _metrics(self.status, self.figures)


def _family(name: str, help_: str, labels: tuple[str, ...]) -> CounterMetricFamily | GaugeMetricFamily:
    kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
    return kind(f"herodotus_{name}", help_, labels=labels)


def _metrics(status: PeerStatus, figures: PortalFigures) -> Iterator[Metric]:
    def one(name: str, help_: str, value: float) -> Metric:
        family = _family(name, help_, ())
        family.add_metric((), value)
        return family

    def many(name: str, help_: str, label: str, values: Mapping[str, float]) -> Metric:
        family = _family(name, help_, (label,))
        for key, value in sorted(values.items()):
            family.add_metric((key,), value)
        return family

    ring, store, crawl, traffic = status.ring, status.store, status.crawl, status.ring.traffic
    labels = {"version": status.version, "network": status.network, "network_id": status.network_id}
    info = _family("info", "Which release, in which network.", tuple(labels))
    info.add_metric(tuple(labels.values()), 1)
    yield info
    yield one("uptime_seconds", "Since the peer runs.", status.uptime_s)
    yield one("alarms", "What somebody should act on.", len(status.alarms))
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
    crossed = copying.cross_fetches
    yield many("copies_cross_fetches_total", "Captures of others that the origin was asked for here as well.", "result",
               {"agreed": crossed.agreed, "differed": crossed.differed, "changing": crossed.changing,
                "unclear": crossed.unclear})  # fmt: skip
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
