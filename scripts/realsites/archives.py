"""How do three archives take a site in? Ours by its ordinary crawler, wget with its page requisites.

pywb shows what ours took.
"""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

import anyio
import anyio.to_thread
from warcio.archiveiterator import ArchiveIterator

from crawler.core.politeness import PolitenessPolicy
from crawler.core.scope import ContentChoice, ScopeKind
from crawler.core.urls import UrlRules, canonical
from crawler.http import FetchSettings, HttpFetcher
from herodotus.crawl.gear import CrawlOrder
from herodotus.crawl.single_run import crawl_into
from herodotus.home.clock import unix_seconds
from herodotus.machine import Machine
from tests.herodotus.operate.cli.processes import herodotus, new_home, running
from tests.herodotus.store import judging

WAIT_S = 120.0
QUICK = PolitenessPolicy(delay_floor_s=0.0, per_address_concurrency=8)
"""The sites are ours and on this machine."""


class _Loopback(Machine):
    """Every name leads to this machine."""

    def fetcher(
        self, settings: FetchSettings, rules: UrlRules, wall_clock: Callable[[], float]
    ) -> HttpFetcher:
        async def here(host: str) -> list[str]:
            return ["127.0.0.1"]

        return HttpFetcher(settings, wall_clock=wall_clock, rules=rules, resolve=here)


async def crawled(home: Path, urls: Sequence[str]) -> dict[str, object]:
    """The pages, and what they embed from anywhere, as the public network takes it."""
    await anyio.to_thread.run_sync(new_home, home)
    order = CrawlOrder(
        urls=tuple(canonical(url) for url in urls),
        scope=ScopeKind.ANY,
        depth_max=0,
        content=ContentChoice.PAGES,
        allow_private_addresses=True,
        politeness=QUICK,
        patience_s=5.0,
    )
    return await crawl_into(home, order, _Loopback(), wall_clock=unix_seconds, console=None)


@contextmanager
def shown(home: Path) -> Iterator[str]:
    """The port of a peer that shows what it has and visits none of the sites."""
    environment = {"HERODOTUS_CRAWL_OPT_OUT": "example"}
    with running(home, "--http", "0.0.0.0:0", environment=environment) as peer:  # both loopback addresses
        yield peer.http.rpartition(":")[2]


def got(portal: str, date: str, url: str) -> bytes | None:
    """The original bytes that the archive has there; of a redirect its own, which are few. None: there is nothing."""
    opener = build_opener(ProxyHandler({}))
    try:
        with opener.open(Request(f"{portal}/web/{date}id_/{url}"), timeout=WAIT_S) as answer:  # noqa: S310  # ours
            body: bytes = answer.read()
            return body
    except HTTPError as error:
        error.close()
        return None


def wgot(folder: Path, proxy: str, urls: Sequence[str]) -> dict[str, str] | None:
    """SHA-1s of what wget took, by address; None where there is no wget. Redirects have that of nothing."""
    wget = shutil.which("wget")
    if wget is None:
        return None
    folder.mkdir()
    command = [
        wget, "--quiet", "--page-requisites", "--span-hosts", "-e", "robots=off", "--tries=1", "--timeout=10",
        "--warc-file=taken", "--no-warc-keep-log", "--delete-after", *urls,
    ]  # fmt: skip
    environment = {**os.environ, "http_proxy": f"http://{proxy}", "no_proxy": ""}
    subprocess.run(command, cwd=folder, env=environment, check=False, timeout=WAIT_S)
    taken: dict[str, str] = {}
    with (folder / "taken.warc.gz").open("rb") as file:
        for record in ArchiveIterator(file):
            if record.rec_type == "response":
                status = int(record.http_headers.get_statuscode())
                if status < 400:
                    body = record.content_stream().read() if status < 300 else b""
                    url = str(record.rec_headers.get_header("WARC-Target-URI")).strip("<>")
                    taken[url] = hashlib.sha1(body, usedforsecurity=False).hexdigest()
    return taken


class Pywb:
    """One for all sites, each of which is a collection."""

    def __init__(self, folder: Path, address: str) -> None:
        self._folder, self._address = folder, address

    def showing(self, home: Path, name: str) -> str:
        """Where it shows what ours took."""
        collection = self._folder / "collections" / name
        for part in ("archive", "indexes"):
            (collection / part).mkdir(parents=True)
        warc = home.with_suffix(".warc.gz")
        done = herodotus("export", "--home", home, "--warc", warc)
        assert done.code == 0, done.err
        judging.run(judging.judge("wb-manager"), "add", name, warc, cwd=self._folder)
        return f"{self._address}/{name}"


@contextmanager
def pywb(folder: Path) -> Iterator[Pywb | None]:
    """None where it is not installed."""
    if not Path(judging.PYTHON).exists():
        yield None
        return
    folder.mkdir()
    with judging.pywb(folder) as address:
        yield Pywb(folder, address)
