"""What do whole peers keep, show and believe when some of them remove what others hold, or bring in invented history?

The attacker's peers are `herodotus.peer.Peer` as it is: their operator gives ordinary orders, as anybody may. Each is
in a place of its own here, which is the best case for the attacker.
"""

import gzip
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from uuid import UUID

import anyio
import anyio.abc
import trio
from msgspec import structs

from crawler.core.capture import Capture, FetchOutcome, PayloadDigest, payload_digests
from crawler.core.urls import host_of
from herodotus.core.captures import Deposit
from herodotus.core.doors import Door, Passage, through
from herodotus.core.index_rows import CAPTURE
from herodotus.core.orders import Import, NoticeOrder, Remove
from herodotus.core.signatures import SignedWindow, signed, window_field, window_statement
from herodotus.store.reader import Reader
from simnet.peers import Member, Peers, PeersSettings
from simnet.runs import ScenarioRun
from simnet.scenarios import scenario
from simnet.scenarios.peers import ALIVE, FAR_AHEAD, PeersTrial, first_of
from simnet.web import WebSettings
from simnet.web.site import EPOCH_S

KEEPS = "no honest peer deletes or hides on another's word"
INVENTS = "no honest peer shows invented history"
DAY_S = 1_800.0
AFTER_S = 900.0
FORGED_MAX = 20


class _StoreAttack(PeersTrial):
    """Honest peers archive a small web; on the next day some peers attack."""

    foes_usual = 2

    def __init__(self, run: ScenarioRun) -> None:
        self.foes = int(run.setting("foes", self.foes_usual, low=1, high=3))
        spreads = bool(run.setting("spread_imports", 0, high=1))
        settings = PeersSettings(peers=run.peers, day_s=DAY_S, copies=4, spread_imports=spreads)
        web = WebSettings(
            seed=run.options.seed, hosts=3, names="test", pages_min=2, pages_max=4, troubles=False
        )
        super().__init__(run, settings, web)

    async def live(self, peers: Peers, tasks: anyio.abc.TaskGroup) -> None:
        del tasks
        await anyio.sleep(60.0 + 5.0 * self._settings.peers)
        await peers.seed(peers.origins.oracle.front_pages())
        await trio.sleep_until(DAY_S - 60.0)
        honest, foes = peers.members[: -self.foes], peers.members[-self.foes :]
        await self.attack(peers, honest, foes)
        self.complaints[ALIVE] = first_of(peers.fallen)

    async def attack(self, peers: Peers, honest: list[Member], foes: list[Member]) -> None:
        raise NotImplementedError


class _Tombstones(_StoreAttack):
    def __init__(self, run: ScenarioRun) -> None:
        self._follows = bool(run.setting("follows", 0, high=1))
        super().__init__(run)

    async def attack(self, peers: Peers, honest: list[Member], foes: list[Member]) -> None:
        held = {one.number: _keys(one) for one in honest}
        urls = sorted({url for day in peers.origins.visits.values() for url in day})
        hosts = sorted({url.split("/")[2] for url in urls})
        order = Remove(subjects=tuple(("host", host) for host in hosts), reason="legal")
        for foe in foes:
            assert foe.peer is not None, "nobody is down in this story"
            await foe.peer.perform(order, lambda words: None)
        await anyio.sleep(AFTER_S / 2)
        told = 0
        for one in honest:
            assert one.peer is not None
            notices = (await one.peer.perform(NoticeOrder(verb="list"), lambda words: None)).facts
            told += len(notices)
            for notice in notices if self._follows else ():
                await one.peer.perform(NoticeOrder(verb="follow", id=notice["id"]), lambda words: None)
        await anyio.sleep(AFTER_S / 2)
        gone = [
            f"peer {one.number} lost {len(held[one.number] - _keys(one))} captures"
            for one in honest
            if not held[one.number] <= _keys(one)
        ]
        gone += [
            f"peer {one.number} hides {url}"
            for one in honest
            for url in urls
            if await _is_hidden(peers, one, url)
        ]
        self.figures = {
            "captures held by honest peers": float(sum(map(len, held.values()))),
            "removed hosts": float(len(hosts)),
            "notices seen by honest peers": float(told),
        }
        self.complaints[KEEPS] = first_of(gone) if told else "no honest peer was told of a notice"


class _Forged(_StoreAttack):
    """The attacker's peers import what they invented. With `crawled=1` they state that they fetched it: each under a
    window that the next of them signed as the host's steward, on days before the network began, and ahead of all
    clocks."""

    foes_usual = 1

    def __init__(self, run: ScenarioRun) -> None:
        self._states_crawled = bool(run.setting("crawled", 0, high=1))
        super().__init__(run)
        if self._states_crawled:
            began = f"{datetime.fromtimestamp(EPOCH_S, UTC):%Y-%m-%d}"
            self._settings = replace(self._settings, founded=began)

    async def attack(self, peers: Peers, honest: list[Member], foes: list[Member]) -> None:
        if self._states_crawled:
            await self._state_crawled(peers, honest, foes)
        else:
            await self._import(peers, honest, foes)

    async def _state_crawled(self, peers: Peers, honest: list[Member], foes: list[Member]) -> None:
        urls = sorted({url for day in peers.origins.visits.values() for url in day})[:FORGED_MAX]
        dates = [86_400, int(EPOCH_S) - 9 * 86_400, 4_102_444_800]
        digests = set[bytes]()
        for foe, steward in zip(foes, [*foes[1:], foes[0]], strict=True):
            assert foe.peer is not None, "nobody is down in this story"
            for url, at in ((url, at) for url in urls for at in dates):
                forged = _stated_crawled(peers, foe, steward, url, at)
                digests.add(forged.capture.sha256)
                for holder in foes:  # both have it, and both offer it
                    assert holder.peer is not None
                    await holder.peer._archive.opened_store().store(forged)
        await anyio.sleep(AFTER_S)
        self._judge(honest, foes, digests)

    async def _import(self, peers: Peers, honest: list[Member], foes: list[Member]) -> None:
        urls = sorted({url for day in peers.origins.visits.values() for url in day})[:FORGED_MAX]
        now = EPOCH_S + anyio.current_time()
        dates = [86_400.0, now - 86_400.0, datetime(2100, 1, 1, tzinfo=UTC).timestamp()]
        file = peers.folder / "forged.warc.gz"
        digests = _write(file, urls, dates)
        for foe in foes:
            assert foe.peer is not None, "nobody is down in this story"
            await foe.peer.perform(Import(files=(str(file),)), lambda words: None)
        await anyio.sleep(AFTER_S)
        self._judge(honest, foes, digests)

    def _judge(self, honest: list[Member], foes: list[Member], digests: set[bytes]) -> None:
        shown = [f"peer {one.number} has {url}" for one in honest for url in _invented(one, digests)]
        own = sum(len(_invented(one, digests)) for one in foes)
        self.figures = {"invented captures": float(len(digests)), "at the attacker's own peers": float(own)}
        self.complaints[INVENTS] = first_of(shown) if own else "the attacker's own peers took nothing"


def _keys(member: Member) -> set[bytes]:
    archive = member.archive
    return (
        set()
        if archive is None
        else {key for key, _ in archive.index.scan(CAPTURE, bytes((CAPTURE[0] + 1,)))}
    )


async def _is_hidden(peers: Peers, member: Member, url: str) -> bool:
    """Is it said to be removed? A page that this peer has not is answered by another one."""
    answer = await peers.read(member, f"/web/{FAR_AHEAD}id_/{url}")
    return answer is None or answer.status in (404, 410, 451)


def _invented(member: Member, digests: set[bytes]) -> list[str]:
    archive = member.archive
    if archive is None:
        return []
    reader, found = Reader(archive), []
    for key, value in archive.index.scan(CAPTURE, bytes((CAPTURE[0] + 1,))):
        capture = reader.try_read(key, value)
        if capture is not None and sha256(capture.body).digest() in digests:
            found.append(f"{capture.url} as of {capture.time_s}")
    return found


def _stated_crawled(peers: Peers, foe: Member, steward: Member, url: str, at: int) -> Deposit:
    """As if the foe had fetched it then, under a window of the steward."""
    window = SignedWindow(
        steward=steward.id,
        number=at,
        granted_s=at - 2,
        starts_ms=1_500,
        lasts_ms=7_000,
        count=100,
        addresses=[],
    )
    statement = window_statement(window, peers.charter.network_id()[:8], foe.id, f"host:{host_of(url)}")
    window = structs.replace(window, signature=steward.key.sign(statement))
    body = f"<!doctype html><title>Invented</title><p>{url} at {at} by {foe.number}".encode()
    sha256, sha1 = payload_digests(body)
    capture = Capture(
        url=url,
        requested_at=float(at),
        duration_s=0.1,
        request=b"GET / HTTP/1.1\r\n\r\n",
        status=200,
        head=b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n",
        body=body,
        sha256=PayloadDigest(sha256),
        sha1=sha1,
        remote_ip="",
        outcome=FetchOutcome.STORED,
        mime="text/html",
        redirect_to=None,
        via=None,
    )
    deposit = Deposit(capture=capture, extra=(window_field(window),))
    return signed(foe.key, through(Passage(Door.CRAWLED), deposit))


def _write(file: Path, urls: Iterable[str], dates: Iterable[float]) -> set[bytes]:
    """A WARC file of each page at each date. Gives the SHA-256 of the bodies."""
    digests, days = set(), list(dates)
    with file.open("wb") as stream:
        for number, (url, at) in enumerate((url, at) for url in urls for at in days):
            body = f"<!doctype html><title>Invented</title><p>{url} at {at:.0f}".encode()
            answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + body
            fields = (
                "WARC/1.1",
                "WARC-Type: response",
                f"WARC-Record-ID: <urn:uuid:{UUID(int=number)}>",
                f"WARC-Date: {datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%SZ}",
                f"WARC-Target-URI: {url}",
                "Content-Type: application/http; msgtype=response",
                f"Content-Length: {len(answer)}",
            )
            stream.write(gzip.compress("\r\n".join((*fields, "", "")).encode() + answer + b"\r\n\r\n"))
            digests.add(sha256(body).digest())
    return digests


@scenario("tombstones", summary="some whole peers remove every host of what all others archived",
          peers=6, peers_min=4, peers_max=50, seconds=1.0)  # fmt: skip
def tombstones(run: ScenarioRun) -> None:
    _Tombstones(run).ask(ALIVE, KEEPS)


@scenario("forged-history", summary="some whole peers bring in invented captures of 1970, yesterday and 2100",
          peers=6, peers_min=4, peers_max=50, seconds=1.0)  # fmt: skip
def forged_history(run: ScenarioRun) -> None:
    _Forged(run).ask(ALIVE, INVENTS)
