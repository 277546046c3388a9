"""An owner's desk and a helper, joined without sockets, and an origin that both can ask."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import anyio
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from crawler.core.capture import Capture
from crawler.core.errors import UnreachableError
from crawler.core.politeness import HostSteward, OptOutList, PolitenessPolicy, Wait
from crawler.core.robots import ALLOW_ALL, RobotsRules
from crawler.core.scope import THE_WHOLE_WEB, ContentChoice, Territory
from crawler.core.urls import STANDARD, Origin, host_of
from crawler.ports import Fetcher, FetchRequest, Skipped
from dht import Contact
from dht.core.ids import Key
from dht.core.records import PeerRecord
from herodotus.core.signatures import SignedWindow, window_statement
from herodotus.crawl.helpers import DeskParts, HelpedFetcher, Helping, HelpingParts, WorkDesk
from herodotus.crawl.helpers.wire import GIVE, TAKE, Item, Result, Work, decode_work, encode_give, encode_take
from herodotus.peers.calls import PeerUnreachableError
from tests.crawler.visiting import answer

NETWORK = bytes(range(8))
ADDRESS = "192.0.2.1"
NOW_S = 1_700_000_000.0
WINDOW_S = 15.0
STEWARD = Ed25519PrivateKey.from_private_bytes(b"s" * 32)
OWNER, HELPER = b"o" * 32, b"h" * 32


def key_of(private: Ed25519PrivateKey) -> bytes:
    return private.public_key().public_bytes_raw()


def wall() -> float:
    return NOW_S + anyio.current_time()


def window_for(url: str, owner: bytes = OWNER, **changed: Any) -> SignedWindow:
    """As the host's steward signs it."""
    facts: dict[str, Any] = {
        "steward": key_of(STEWARD),
        "number": 7,
        "granted_s": int(wall()),
        "starts_ms": 0,
        "lasts_ms": int(WINDOW_S * 1000),
        "count": 5,
        "addresses": [ADDRESS],
    } | changed
    signature = STEWARD.sign(window_statement(SignedWindow(**facts), NETWORK, owner, f"host:{host_of(url)}"))
    return SignedWindow(**facts, signature=signature)


@dataclass
class Web:
    """What each asker is told, and who asked when."""

    asked: list[tuple[str, str, float]] = field(default_factory=list)
    body_of: Callable[[str, str, int], bytes] = lambda who, url, times: url.encode()
    status: int = 200
    takes_s: float = 0.2
    requests: list[FetchRequest] = field(default_factory=list)

    def by(self, who: str) -> "Asker":
        return Asker(self, who)

    def times(self, who: str) -> int:
        return sum(one == who for one, _, _ in self.asked)


@dataclass
class Asker:
    web: Web
    who: str
    address: str = ADDRESS

    async def address_of(self, host: str) -> str | Wait:
        del host
        return ADDRESS

    async def fetch(self, request: FetchRequest) -> Capture | Skipped:
        self.web.asked.append((self.who, request.url, anyio.current_time()))
        self.web.requests.append(request)
        began = wall()
        await anyio.sleep(self.web.takes_s)
        if not self.web.status:
            raise UnreachableError(request.url, "no connection")
        body = self.web.body_of(self.who, request.url, len(self.web.asked))
        return answer(request.url, body, status=self.web.status, requested_at=began)


class Rulebook:
    """A steward's rules, and a helper's own rests."""

    def __init__(self, rules: RobotsRules = ALLOW_ALL) -> None:
        self.core = HostSteward(PolitenessPolicy(delay_floor_s=1.0))
        self._rules = rules

    async def rules_alone(self, origin: Origin) -> RobotsRules | Wait:
        await anyio.lowlevel.checkpoint()
        self.core.set_rules(origin, self._rules, anyio.current_time())
        return self._rules


@dataclass
class SmallRing:
    """One owner, one steward."""

    owner: Contact
    stewards: Sequence[bytes] = (key_of(STEWARD),)
    record: Any = None

    def record_of(self, peer: bytes) -> PeerRecord | None:
        del peer
        return None

    def owners_that_are_well(self) -> list[Contact]:
        return [self.owner]

    def holders_by_place(self, key: Key, copies: int) -> tuple[Contact, ...]:
        del key, copies
        return tuple(contact(peer) for peer in self.stewards)


@dataclass(frozen=True)
class _Named:
    peer: bytes


def contact(peer: bytes) -> Any:
    """Only its key matters here."""
    return _Named(peer)


@dataclass
class Line:
    """Calls of one helper to one owner's desk."""

    desk: WorkDesk
    caller: bytes = HELPER
    is_broken: bool = False
    alter: Callable[[str, bytes], bytes] = lambda service, body: body

    async def call(self, to: Contact, service: str, body: bytes, *, deadline_s: float = 30.0) -> bytes:
        del to
        if self.is_broken:
            raise PeerUnreachableError
        with anyio.move_on_after(deadline_s):
            return await self.desk.services.calls[service](self.caller, self.alter(service, body))
        raise PeerUnreachableError


def desk_at(
    folder: Path, *, owns: Callable[[bytes], bool] = lambda peer: False, addresses: Sequence[str] = (ADDRESS,)
) -> WorkDesk:
    return WorkDesk(
        DeskParts(
            file=folder / "helpers.json",
            chance=Random(1),
            wall_clock=wall,
            window_of=lambda url, _time_s: window_for(url, addresses=list(addresses)),
            owns=owns,
            rules=STANDARD,
            today=lambda: 1,
        )
    )


def helping_with(
    web: Web,
    *,
    rules: RobotsRules = ALLOW_ALL,
    territory: Territory = THE_WHOLE_WEB,
    closed: Sequence[str] = (),
    fetcher: Fetcher | None = None,
) -> Helping:
    return Helping(
        HelpingParts(
            fetcher=fetcher or web.by("helper"),
            steward=Rulebook(rules),
            chance=Random(2),
            rules=STANDARD,
            territory=territory,
            content=ContentChoice.ALL,
            opted_out=OptOutList.of(closed),
            network=NETWORK,
            copies=6,
            wall_clock=wall,
            rests=lambda: "",
            charge=lambda size: None,
            today=lambda: 1,
        )
    )


@dataclass
class Owner:
    """Its crawl: asks for URLs one after the other, a rest apart, and looks again when its fetcher wants to."""

    desk: WorkDesk
    web: Web
    rest_s: float = 1.0
    has_more_leases: bool = True

    async def fetch(self, url: str) -> Capture | Skipped:
        return await HelpedFetcher(self.web.by("owner"), self.desk).fetch(self.request(url))

    def request(self, url: str) -> FetchRequest:
        async def again(found: Capture | Skipped) -> FetchRequest | None:
            del found
            await anyio.sleep(self.rest_s)
            return self.request(url) if self.has_more_leases else None

        return FetchRequest(url=url, address=ADDRESS, starts_by=anyio.current_time() + WINDOW_S, again=again)


Act = Callable[[Work], Awaitable[Sequence[Result]]]


async def work_by_hand(line: Line, act: Act, *, rounds: int = 1, want: int = 16) -> None:
    """A helper whose results the test makes."""
    for _ in range(rounds):
        body = encode_take(want=want, wait_ms=50_000)
        work = decode_work(await line.call(contact(OWNER), TAKE, body, deadline_s=60.0))
        results = await act(work)
        if results:
            await line.call(contact(OWNER), GIVE, encode_give(work.batch, results))


def honest(item: Item, index: int, body: bytes | None = None) -> Result:
    said = item.url.encode() if body is None else body
    return Result(index, 200, b"HTTP/1.1 200 X\r\nContent-Type: text/html\r\n\r\n", said, ADDRESS, 10, 100)
