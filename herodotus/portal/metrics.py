"""How does a peer tell Prometheus of itself?

A metric is a row of `METRICS`; scripts/docs.py makes docs/look-up/metrics.md of them. What ends in `_total` counts from
the start of the peer. What the portal counts of its readers, for its operator, is in `PortalFigures`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from herodotus.core.status import PeerStatus

PREFIX = "herodotus_"
INFO = "info"
INFO_HELP = "Always 1; the labels are the release and the network."


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


class MetricRow(NamedTuple):
    name: str
    help: str
    value: Callable[[PeerStatus, PortalFigures], float | Mapping[str, float]]
    label: str = ""
    """What the keys of its values are; empty for a single value."""


METRICS = (
    MetricRow("uptime_seconds", "Time since the peer started.", lambda s, _: s.uptime_s),
    MetricRow(
        "alarms",
        "Things that somebody should act on; `herodotus status` names them.",
        lambda s, _: len(s.alarms),
    ),
    MetricRow("store_captures", "Captures in the archive.", lambda s, _: s.store.captures),
    MetricRow("store_bytes", "Bytes of the archive's WARC files.", lambda s, _: s.store.bytes),
    MetricRow("store_index_bytes", "Bytes of the index.", lambda s, _: s.store.index_bytes),
    MetricRow(
        "search_documents",
        "Runs of captures of one page with one text, in the index of words.",
        lambda s, _: s.search.documents,
    ),
    MetricRow("search_bytes", "Bytes of the index of words.", lambda s, _: s.search.bytes),
    MetricRow(
        "search_waiting",
        "Captures that came and cannot be found by their words yet.",
        lambda s, _: s.search.waiting,
    ),
    MetricRow(
        "search_ring_share",
        "Of the ring, the share for which this peer answers questions in words.",
        lambda s, _: s.search.ring_share,
    ),
    MetricRow(
        "search_questions_total",
        "Other peers' questions in words, and answers of theirs that were not believed.",
        lambda s, _: {
            "answered": s.search.answered,
            "refused": s.search.refused,
            "disbelieved": s.search.disbelieved,
        },
        "outcome",
    ),
    MetricRow("store_files", "WARC files of the archive.", lambda s, _: s.store.files),
    MetricRow("store_stored_total", "Captures and visits that were stored.", lambda s, _: s.store.stored),
    MetricRow("store_damaged_total", "Records that were found damaged.", lambda s, _: s.store.damaged),
    MetricRow(
        "store_quarantined",
        "Damaged captures in quarantine that are not whole again.",
        lambda s, _: s.store.quarantined,
    ),
    MetricRow("store_quarantine_bytes", "Bytes in quarantine.", lambda s, _: s.store.quarantine_bytes),
    MetricRow(
        "store_scrubbed_share",
        "Of the archive's files, the share that was read in this round of scrubbing.",
        lambda s, _: s.store.scrubbed_share,
    ),
    MetricRow("store_lost", "Captures that went with files, and are not back.", lambda s, _: s.store.lost),
    MetricRow("store_is_open", "1 if the archive can be read.", lambda s, _: s.store.state == "open"),
    MetricRow("store_refuses", "1 if nothing can be stored.", lambda s, _: s.store.problem is not None),
    MetricRow(
        "copies_declined",
        "Captures with fewer copies, as holders removed theirs or do not let them in.",
        lambda s, _: s.copying.declined,
    ),
    MetricRow(
        "notices",
        "Notices of removals: kept, open, and open ones that name much of what is held.",
        lambda s, _: {"kept": s.notices.kept, "open": s.notices.open, "much": s.notices.much},
        "state",
    ),
    MetricRow(
        "removed",
        "Subjects that were removed here.",
        lambda s, _: {"hidden": s.notices.hidden, "erased": s.notices.erased},
        "state",
    ),
    MetricRow("ring_members", "Members that this peer knows.", lambda s, _: s.ring.members),
    MetricRow(
        "ring_ideal", "1 if the neighbours on the ring are as they should be.", lambda s, _: s.ring.ideal
    ),
    MetricRow("ring_unwell_members", "Members that do not answer.", lambda s, _: len(s.ring.unwell)),
    MetricRow("ring_sessions", "Sealed sessions with other peers.", lambda s, _: s.ring.traffic.sessions),
    MetricRow(
        "ring_gossip_bits_per_second",
        "What keeping the table of members costs.",
        lambda s, _: s.ring.traffic.gossip_bits_per_s,
    ),
    MetricRow(
        "ring_bytes_total",
        "Bytes of the ring's datagrams: in, out.",
        lambda s, _: {"in": s.ring.traffic.bytes_in, "out": s.ring.traffic.bytes_out},
        "direction",
    ),
    MetricRow(
        "ring_datagrams_total",
        "Datagrams of the ring: in, out.",
        lambda s, _: {"in": s.ring.traffic.datagrams_in, "out": s.ring.traffic.datagrams_out},
        "direction",
    ),
    MetricRow(
        "ring_received_bytes_total",
        "Of these bytes, what came in messages of each kind.",
        lambda s, _: {kind: size for kind, (size, _out) in s.ring.traffic.kinds.items()},
        "kind",
    ),
    MetricRow(
        "ring_sent_bytes_total",
        "What left in messages of each kind.",
        lambda s, _: {kind: size for kind, (_in, size) in s.ring.traffic.kinds.items()},
        "kind",
    ),
    MetricRow(
        "ring_dropped_total", "Datagrams that were dropped.", lambda s, _: s.ring.traffic.dropped, "reason"
    ),
    MetricRow(
        "helpers_urls_total",
        "URLs that helpers fetched for this peer: given to them, brought, checked with the origin, differing, lost.",
        lambda s, _: {
            "given": s.helpers.given,
            "brought": s.helpers.brought,
            "checked": s.helpers.checked,
            "differed": s.helpers.differed,
            "lost": s.helpers.lost,
        },
        "state",
    ),
    MetricRow(
        "helping_pages",
        "Pages that this peer fetched today for others, as nobody can call it.",
        lambda s, _: s.helping.fetched,
    ),
    MetricRow("crawl_known_urls", "URLs that this peer has to visit.", lambda s, _: s.crawl.known),
    MetricRow("crawl_due_urls", "Of these, still to be visited today.", lambda s, _: s.crawl.due),
    MetricRow(
        "crawl_left_over_urls",
        "URLs that are due since earlier days. If they grow, the peer or a host's delay is too slow.",
        lambda s, _: s.crawl.left_over,
    ),
    MetricRow(
        "crawl_hosts_held_back",
        "Hosts that had their share of today's visits.",
        lambda s, _: s.crawl.held_back,
    ),
    MetricRow(
        "crawl_links",
        "Today's links: handed_over to their owners, taken_over from other peers.",
        lambda s, _: {"handed_over": s.crawl.handed_over, "taken_over": s.crawl.taken_over},
        "way",
    ),
    MetricRow(
        "crawl_visits_total",
        "Visits by result.",
        lambda s, _: {"fetched": s.crawl.fetched, "unchanged": s.crawl.unchanged, "failed": s.crawl.failed},
        "result",
    ),
    MetricRow(
        "copies_captures", "Captures by the number of peers that hold them.", lambda s, _: s.copies, "copies"
    ),
    MetricRow(
        "copies_too_few",
        "Captures that fewer peers are known to have than should.",
        lambda s, _: s.copying.too_few,
    ),
    MetricRow("copies_too_few_bytes", "Roughly the bytes of these.", lambda s, _: s.copying.too_few_bytes),
    MetricRow(
        "copies_to_move",
        "Captures to be sent and fetched.",
        lambda s, _: s.copying.to_send + s.copying.to_fetch,
    ),
    MetricRow(
        "copies_under_repair", "Damaged captures to be fetched again.", lambda s, _: s.copying.under_repair
    ),
    MetricRow("copies_spare_held", "Spare copies kept for others.", lambda s, _: s.copying.spares.held),
    MetricRow(
        "copies_spare_known", "Spare copies of ours that others keep.", lambda s, _: s.copying.spares.known
    ),
    MetricRow("copies_full_holders", "Holders that have no room.", lambda s, _: len(s.copying.full)),
    MetricRow("copies_suspects", "Peers that broke a promise.", lambda s, _: len(s.copying.suspects)),
    MetricRow(
        "copies_turned_away_total",
        "Captures of other peers that no door let in.",
        lambda s, _: sum(s.copying.doors.turned_away.values()),
    ),
    MetricRow(
        "copies_disputed_total",
        "Captures that another peer's capture of the same page and day contradicts.",
        lambda s, _: s.copying.disputed,
    ),
    MetricRow(
        "copies_cross_fetches_total",
        "Captures of other peers that were compared with the origin: agreed, differed, changing (the origin says"
        " something else each time), unclear (no answer that day).",
        lambda s, _: {
            "agreed": s.copying.cross_fetches.agreed,
            "differed": s.copying.cross_fetches.differed,
            "changing": s.copying.cross_fetches.changing,
            "unclear": s.copying.cross_fetches.unclear,
        },
        "result",
    ),
    MetricRow(
        "copies_repaired_total", "Damaged captures that were fetched again.", lambda s, _: s.copying.repaired
    ),
    MetricRow(
        "http_requests_total",
        "Answers of the portal, without those repeated from memory.",
        lambda _, f: {str(code): count for code, count in f.answered.items()},
        "status",
    ),
    MetricRow("http_connections", "Open connections of readers.", lambda s, _: s.readers.connections),
    MetricRow(
        "http_connections_refused_total",
        "Connections that were refused because there were too many, in all or of one address or network.",
        lambda _, f: f.connections_refused,
    ),
    MetricRow(
        "http_slow_readers_total",
        "Readers that were dropped because they read too slowly.",
        lambda _, f: f.slow_readers_left,
    ),
    MetricRow("http_malformed_total", "Requests that were not HTTP.", lambda _, f: f.malformed),
    MetricRow("http_rationed_total", "Requests over a reader's ration.", lambda _, f: f.rationed),
    MetricRow(
        "http_disbelieved_total",
        "Answers of other peers that did not answer the question and were left out.",
        lambda _, f: f.answers_disbelieved,
    ),
    MetricRow("saves_asked_total", "Pages that readers asked to be archived.", lambda _, f: f.saves_asked),
)


def metrics(status: PeerStatus, figures: PortalFigures) -> bytes:
    """The text format of Prometheus, version 0.0.4."""
    return generate_latest(PeerMetrics(status, figures))


@dataclass(frozen=True, slots=True)
class PeerMetrics(Collector):
    """Asked for directly, and in no registry: the library's own one also tells of Python and its process."""

    status: PeerStatus
    figures: PortalFigures

    def collect(self) -> Iterator[Metric]:
        of = self.status
        labels = {"version": of.version, "network": of.network, "network_id": of.network_id}
        info = GaugeMetricFamily(PREFIX + INFO, INFO_HELP, labels=tuple(labels))
        info.add_metric(tuple(labels.values()), 1)
        yield info
        for row in METRICS:
            yield _metric(row, row.value(self.status, self.figures))


def _metric(row: MetricRow, value: float | Mapping[str, float]) -> Metric:
    kind = CounterMetricFamily if row.name.endswith("_total") else GaugeMetricFamily
    family = kind(PREFIX + row.name, row.help, labels=(row.label,) if row.label else ())
    if isinstance(value, Mapping):
        for key, count in sorted(value.items()):
            family.add_metric((key,), count)
    else:
        family.add_metric((), value)
    return family
