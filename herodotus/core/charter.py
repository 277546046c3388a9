"""Which network is this, and what did its members agree on?

A charter is the file `network.toml`. Its identity, the network id, is the SHA-256 of its canonical form
(docs/protocol/charter.md). Peers with different ids never talk to each other. The canonical form holds only values
that differ from the defaults below, so a later release can add a key without splitting existing networks. The price:
a default here can never change.
"""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import NewType, Self

from herodotus.core.errors import SettingError
from herodotus.core.settings.fields import (
    PeerDoor,
    choice,
    fields_of,
    flag,
    kind_of,
    line,
    many,
    number,
    peer_door,
    read_table,
    reason_of,
    whole,
)

NetworkId = NewType("NetworkId", bytes)
NETWORK_ID_BYTES = 32

_PREFIX = b"herodotus/charter/1\n"
_TIME_OF_DAY = r"([01]\d|2[0-3]):[0-5]\d"


@dataclass(frozen=True, slots=True, kw_only=True)
class Charter:
    name: str = line(64, "a name").setting("", "what people call the network")
    copies: int = whole(1, 16).setting(6, "k: how many peers keep each capture (the thesis keeps 6)")
    successors: int = whole(1, 16).setting(
        16, "r: distinct hosts in a successor list; only if all fail at once, the ring tears"
    )
    slots: int = whole(1, 256).setting(
        8, "peers behind one address; each may take positions_per_address / slots. The ring itself uses 8"
    )
    positions_per_address: int = whole(1, 4096).setting(
        64,
        "positions of one address, over all its slots, that ring.virtual_nodes = 0 may take. The ring itself takes 64",
    )
    places: str = choice("prefix", "peer").setting(
        "prefix",
        'what counts as one place for copies: a prefix of addresses, or with "peer" each key, which id_check = "off"'
        " implies; one machine may then hold all copies",
    )
    place_v4: int = whole(8, 32, "bits").setting(24, "length of the IPv4 prefix that is one place")
    place_v6: int = whole(16, 64, "bits").setting(48, "length of the IPv6 prefix that is one place")
    area_v4: int = whole(4, 32, "bits").setting(
        16, "length of the IPv4 prefix that is one area, in which at most a third of the copies lie"
    )
    area_v6: int = whole(0, 64, "bits").setting(
        0, "length of the IPv6 prefix that is one area; 0: all of IPv6, as anybody gets a prefix for nothing"
    )
    positions_per_place: int = whole(1, 1024).setting(
        32, "positions of one place that count for holders; a peer's table admits eight times as many"
    )
    spare_copies: int = whole(0, 16).setting(4, "copies beyond k that are kept while there is room")
    founded: str = line(10, "a UTC date YYYY-MM-DD, or empty", r"(\d{4}-\d{2}-\d{2})?").setting(
        "", "when the network began: while it is young, members are of age sooner; empty is long ago"
    )
    probation_days: int = whole(0, 365, "days").setting(
        7, "after which a member counts as a holder, or a quarter of the network's age if that is less"
    )
    veteran_days: int = whole(0, 3650, "days").setting(
        60, "after which a member is a veteran, or half of the network's age if that is less"
    )
    id_check: str = choice("ip", "off").setting(
        "ip", "whether positions must follow from the address; off only if all peers trust each other"
    )
    allow_private_addresses: bool = flag().setting(
        False, "whether private and loopback addresses may be peers and may be crawled"
    )
    delay_floor_s: float = number(0, 3600, "seconds").setting(
        2.0,
        "shortest pause between two requests to one host, for all peers together; 0 only with private addresses",
    )
    per_address_concurrency: int = whole(1, 64).setting(
        2, "requests that all peers together may have open to one IP address"
    )
    fetch_by: str = choice("owner", "all").setting(
        "owner", "whether the owner fetches and sends copies, or every holder fetches"
    )
    recrawl: str = choice("daily", "adaptive").setting(
        "daily", "whether each URL is due every day, or as often as it changes"
    )
    day_start: str = line(5, "a UTC time HH:MM", _TIME_OF_DAY).setting(
        "00:00", "when the crawl's day begins, in UTC"
    )
    day_length_s: int = whole(10, 86_400, "seconds").setting(
        86_400, "length of the crawl's day; shorter for demonstrations and tests"
    )
    scope: tuple[str, ...] = many(line(253, "a domain or URL prefix"), 10_000).setting(
        (), "domains or URL prefixes to archive; empty is the whole web"
    )
    dropped_parameters: tuple[str, ...] = many(
        line(64, "the name of a query parameter", r"[^\s&=?#]+"), 1_000
    ).setting(
        (),
        "query parameters that do not change the page; removed from URLs, like those for tracking and sessions",
    )
    content: str = choice("html", "html+images", "pages", "all").setting(
        "html+images",
        "kinds of documents that are archived; pages takes what they need to be shown, too. The public network and new "
        "ones have pages",
    )
    contacts: tuple[PeerDoor, ...] = many(peer_door(), 16).setting(
        (),
        "where peers find the ring beside what ring.join names: names that DNS leads to peers, since the charter itself"
        " can never change",
    )
    contact_required: bool = flag().setting(
        True, "whether a peer must name a contact page to the sites it visits"
    )
    save_endpoint: bool = flag().setting(False, "whether readers may ask for a page to be archived now")
    spread_imports: bool = flag().setting(
        False,
        "whether captures that a member brings in from elsewhere (imported files, saved pages) are copied to the "
        "other holders; they are always shown as brought in. Where id_check is off they are",
    )
    protocol_min: int = whole(1, 65_535).setting(
        1, "oldest protocol version that may join; this release speaks 1 only"
    )

    @classmethod
    def from_table(cls, table: Mapping[str, object], *, source: str) -> Self:
        charter = cls(**read_table(cls, table, source=source))
        charter._check_together(source)
        return charter

    def _check_together(self, source: str) -> None:
        def refuse(key: str, problem: str) -> SettingError:
            return SettingError(source=source, key=key, problem=problem)

        if not self.name:
            raise refuse("name", "must be given: it is what people call the network")
        if self.delay_floor_s == 0 and not self.allow_private_addresses:
            raise refuse(
                "delay_floor_s", "may be 0 only where allow_private_addresses is true: be polite to strangers"
            )
        if round(self.delay_floor_s, 3) != self.delay_floor_s:
            raise refuse("delay_floor_s", f"may have at most three decimals, not {self.delay_floor_s!r}")
        if self.copies > self.successors + 1:
            raise refuse(
                "copies", f"must be at most successors + 1 = {self.successors + 1}, not {self.copies}"
            )

        for family in ("v4", "v6"):
            place, area = getattr(self, f"place_{family}"), getattr(self, f"area_{family}")
            if area > place:
                raise refuse(
                    f"area_{family}",
                    f"must be at most place_{family} = {place}, not {area}: an area is made of places",
                )
        try:
            if self.founded:
                date.fromisoformat(self.founded)
        except ValueError:
            raise refuse("founded", f"must be a date of the calendar, not {self.founded!r}") from None

    @property
    def imports_spread(self) -> bool:
        """Where all peers trust each other they do."""
        return self.spread_imports or self.id_check == "off"

    def canonical(self) -> bytes:
        """JSON with sorted keys, without spaces and defaults; numbers of seconds as decimal text."""
        given = {
            one.name: _canonical_value(getattr(self, one.name))
            for one in dataclasses.fields(self)
            if getattr(self, one.name) != one.default
        }
        return json.dumps(given, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()

    def network_id(self) -> NetworkId:
        return NetworkId(hashlib.sha256(_PREFIX + self.canonical()).digest())

    def to_toml(self) -> str:
        lines = [
            "# The charter of a network. All its peers have this very file: another value makes another network."
        ]
        for name, one in fields_of(Charter).items():
            value, kind = getattr(self, name), kind_of(one)
            lines += ["", f"# {reason_of(one)}", f"# {kind.what}"]
            mark = "# " if value == one.default else ""
            lines.append(f"{mark}{name} = {kind.write(value)}")
        return "\n".join(lines) + "\n"


def _canonical_value(value: object) -> object:
    # JSON does not fix how a fraction is written, so fractions travel as text, to the millisecond. Finer ones are
    # refused: two charters that differ must never have one id.
    if isinstance(value, tuple):
        return [str(one) for one in value]
    return f"{value:.3f}" if isinstance(value, float) else value


def founded_s(charter: Charter) -> float | None:
    """In seconds since 1970; None where it does not say."""
    if not charter.founded:
        return None
    return datetime.combine(date.fromisoformat(charter.founded), datetime.min.time(), UTC).timestamp()


def founded_on(charter: Charter, unix_s: float) -> Charter:
    """Of a network that begins now: its first members need not wait for the days of probation of an old one."""
    return dataclasses.replace(charter, founded=f"{datetime.fromtimestamp(unix_s, UTC):%Y-%m-%d}")


def shown_network_id(network_id: NetworkId) -> str:
    """People compare these eight bytes; the handshake compares the whole id."""
    return network_id[:8].hex()


PROTOCOL_VERSION = 1
"""Of the peers' protocol, the newest that this release speaks."""


def check_protocol(charter: Charter, *, source: str) -> None:
    """A network may have moved to a protocol that is newer than this release."""
    if charter.protocol_min > PROTOCOL_VERSION:
        raise SettingError(
            source=source,
            key="protocol_min",
            problem=f"asks for version {charter.protocol_min} of the peers' protocol",
            hint=f"upgrade herodotus: this release speaks version {PROTOCOL_VERSION}",
        )


PUBLIC_CHARTER = Charter(name="herodotus", content="pages")
TEST_CHARTER = Charter(
    name="test",
    id_check="off",
    allow_private_addresses=True,
    delay_floor_s=0.0,
    per_address_concurrency=64,
    contact_required=False,
    save_endpoint=True,
)
