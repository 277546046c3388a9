"""How much does it cost to bring links to all their holders? The real outbox, walk and codec; bytes counted at the
caller.

One peer walks a ring that it knows. The other end takes everything at once, after the batch was unpacked there; what a
link and receiver cost is the bodies, the frames, TLS records and IP headers of a call on a connection that is there
already, and apart from that the price of a connection that is not. Links are those of the synthetic web, and of a
vocabulary with more chance in it; both are told as they are, and scaled to the thesis's mean of 59 characters.
"""

import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from pydoc_data import topics
from random import Random

import anyio

from crawler.core.link import Link
from dht import Arc, Contact
from dht.core.ids import PeerKey
from dht.core.placement import Rule
from dht.core.places import Standing
from dht.core.records import Address
from herodotus.core.links.senders import Silences
from herodotus.crawl.links.disk import link_rows
from herodotus.crawl.links.outbox import Outbox
from herodotus.crawl.links.walks import LinkWalks, WalkReport
from herodotus.crawl.links.wire import Taken, decode_batch, encode_taken
from herodotus.peers.calls import CALL_DEADLINE_S
from herodotus.peers.net.wire import HEAD_BYTES, CallQuestion
from herodotus.peers.ring_view import RingView
from simnet.rings import peer_number
from simnet.runs import ScenarioRun
from simnet.scenarios import Figures, scenario, try_out
from simnet.web.hosts import Hosts, WebSettings

THESIS_URL_BYTES = 59
RECORD_BYTES = 22
"""The bytes that TLS 1.3 adds to a record: its head, the inner type, the tag."""
SEGMENT_BYTES = 40
"""IPv4 and TCP without options; each end also acknowledges once."""
SEGMENT_PAYLOAD = 1_460
CONNECTION_BYTES = 2_104
"""1,424 bytes of TLS, greeting and hello with records of 141 bytes, as both ends made them; and the heads of 17
packets: three to open, four to close, five flights and their acknowledgements."""
COPIES = 6


class KnownRing:
    """A ring that all know and that stays as it is, seen by its first peer."""

    def __init__(self, peers: int) -> None:
        line = [_member(number) for number in range(peers)]
        self.me = line[0]
        self._contacts = tuple(sorted(line, key=lambda contact: contact.position))

    def contacts(self) -> tuple[Contact, ...]:
        return self._contacts

    def clocks(self) -> Mapping[PeerKey, str]:
        return {}

    def standings(self) -> Mapping[PeerKey, Standing]:
        return {}

    def my_arcs(self, copies: int | None = None) -> tuple[Arc, ...]:
        """For peers that receive, as this one does not."""
        return ()


def _member(number: int) -> Contact:
    address = Address(host=bytes((10, *number.to_bytes(3, "big"))), port=4484)
    return Contact.at(peer_number(number).peer, address, 0, 0, "ip")


class CountingCalls:
    """Every peer takes all links; the bytes on the wire are added up."""

    def __init__(self) -> None:
        self.bytes = 0
        self.links = 0

    async def call(
        self, to: Contact, service: str, body: bytes, *, deadline_s: float = CALL_DEADLINE_S
    ) -> bytes:
        del to
        links = decode_batch(body)
        answer = encode_taken(Taken())
        asked = CallQuestion(service=service, deadline_s=deadline_s, is_stream=False, body=body).pack()
        self.bytes += on_wire(len(asked)) + on_wire(HEAD_BYTES + len(answer))
        self.links += len(links)
        await anyio.lowlevel.checkpoint()
        return answer


def on_wire(size: int) -> int:
    """A message of this size one way, and the other end's acknowledgement."""
    records = -(-size // 16_384)
    sealed = size + records * RECORD_BYTES
    return sealed + -(-sealed // SEGMENT_PAYLOAD) * SEGMENT_BYTES + SEGMENT_BYTES


def synthetic_urls(seed: int) -> Callable[[], str]:
    """Of the web that the rest of the tests crawl: few words, many pages, hosts by their fame."""
    hosts, chance = Hosts(WebSettings(seed=seed, hosts=20_000)), Random(seed)

    def url() -> str:
        number = min(int(chance.paretovariate(0.8)), 19_999)
        host = hosts.host(number)
        return host.origin + hosts.path(
            number, chance.randrange(1, max(host.pages, 2)), chance.random() < 0.2
        )

    return url


def varied_urls(seed: int) -> Callable[[], str]:
    """Of 3,400 words and 200,000 hosts: more in each URL that no packing can guess."""
    chance = Random(seed)
    words = sorted(
        {word for text in topics.topics.values() for word in re.findall(r"[a-z]{3,10}", text.lower())}
    )
    endings = (".com", ".com", ".org", ".net", ".de", ".co.uk", ".edu", ".info")
    hosts = [
        ("https://" if chance.random() < 0.7 else "http://")
        + ("www." if chance.random() < 0.6 else "")
        + chance.choice(words)
        + chance.choice(("", "-", ""))
        + chance.choice(words)
        + chance.choice(endings)
        for _ in range(200_000)
    ]

    def url() -> str:
        host = hosts[min(int(chance.paretovariate(0.6)), len(hosts) - 1)]
        path = "/" + "/".join(chance.choice(words) for _ in range(chance.randint(1, 3)))
        kind = chance.random()
        if kind < 0.4:
            return f"{host}{path}-{chance.choice(words)}.html"
        if kind < 0.6:
            return f"{host}{path}/{chance.randrange(100_000)}"
        if kind < 0.75:
            return f"{host}{path}?id={chance.randrange(10**6)}"
        return (
            f"{host}{path}/20{chance.randrange(5, 26):02d}/{chance.randint(1, 12):02d}/{chance.choice(words)}"
        )

    return url


async def walked(
    folder: Path, peers: int, per_peer: int, url: Callable[[], str]
) -> tuple[CountingCalls, WalkReport, float]:
    """One walk with this number of links for each peer, and their mean length."""
    ring, calls, disk = KnownRing(peers), CountingCalls(), link_rows(folder)
    try:
        outbox = Outbox(disk, host_links_max=peers * per_peer)
        letters = 0
        while len(outbox) < peers * per_peer:
            links = [Link(url(), depth=3) for _ in range(min(5_000, peers * per_peer - len(outbox)))]
            outbox.add(links, 0.0)
            letters += sum(len(link.url) for link in links)
        mean = letters / max(1, len(outbox) + outbox.repeated)
        report = await LinkWalks(outbox, calls, RingView(ring, Rule(COPIES)), Silences(Random(1)), "ip").walk(
            0.0
        )
    finally:
        disk.close()
    return calls, report, mean


@scenario("link-walk", summary="bytes to bring a link to its six holders, by the real codec and walk",
          peers=200, peers_min=7, peers_max=20_000, seconds=1.0)  # fmt: skip
def link_walk(run: ScenarioRun) -> None:
    per_peer = int(run.setting("links_per_peer", 40, low=1, high=10_000))

    def work() -> tuple[Figures, str | None]:
        figures: Figures = {}
        left = 0
        for name, urls in (("synthetic", synthetic_urls), ("varied", varied_urls)):
            with tempfile.TemporaryDirectory() as folder:
                calls, report, mean = anyio.run(
                    walked, Path(folder), run.peers, per_peer, urls(run.options.seed), backend="trio"
                )
            each = calls.bytes / calls.links
            figures[f"{name}, mean URL"] = mean
            figures[f"{name}, bodies per link and receiver"] = report.bytes_sent / calls.links
            figures[f"{name}, bytes per link and receiver"] = each
            figures[f"{name}, scaled to 59"] = each * THESIS_URL_BYTES / mean
            figures[f"{name}, with new connections"] = each + report.stops * CONNECTION_BYTES / calls.links
            figures[f"{name}, messages per link"] = 2 * report.batches / report.links
            figures[f"{name}, receivers per link"] = calls.links / report.links
            left += report.left
        return figures, f"{left} links did not arrive" if left else None

    try_out(run, "all links reach all holders", work)
