"""A started peer with an archive that every test of a file reads."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

import anyio
import anyio.to_thread

from herodotus.core.captures import Deposit
from herodotus.store.warc_export import export_warc
from tests.herodotus.operate.cli.processes import RunningPeer, called, new_home, running
from tests.herodotus.store.making import open_on, store

BOXED = "127.0.0.2"
"""Where pages are in a sandbox, as no names lead there."""
NAMED = "127.0.0.1"
"""Where they have names of their own."""


def warc_of(folder: Path, *deposits: Deposit) -> Path:
    folder.mkdir()
    archive = open_on(folder)
    store(archive, *deposits)
    out = BytesIO()
    export_warc(archive, out)
    archive.close()
    file = folder.with_suffix(".warc.gz")
    file.write_bytes(out.getvalue())
    return file


@contextmanager
def peer_with(
    folder: Path,
    *deposits: Deposit,
    public_url: str = "",
    arguments: tuple[str, ...] = (),
    at: str = BOXED,
    **http: str,
) -> Iterator[RunningPeer]:
    """`at`: by which address a reader comes, so which way pages are shown. `http`: more settings of that section."""
    home = new_home(folder / "home")
    imported = called("import", "--home", home, warc_of(folder / "made", *deposits))
    assert imported.code == 0, imported.err
    environment = {f"HERODOTUS_HTTP_{name.upper()}": value for name, value in http.items()}
    environment["HERODOTUS_HTTP_PUBLIC_URL"] = public_url
    with running(home, "--http", f"{at}:0", *arguments, environment=environment) as peer:
        yield peer


def found_in_words(peer: RunningPeer, words: str) -> list[str]:
    """As soon as there are any: captures are indexed within a minute."""

    async def waited() -> list[str]:
        with anyio.fail_after(120):
            while True:
                if found := await anyio.to_thread.run_sync(_found, peer, words):
                    return found
                await anyio.sleep(0.1)

    return anyio.run(waited)


def _found(peer: RunningPeer, words: str) -> list[str]:
    try:
        with urllib.request.urlopen(f"{peer.http}/search.json?q={words}", timeout=60) as answer:
            return [hit["url"] for hit in json.load(answer)["hits"]]
    except urllib.error.HTTPError:  # there is no index yet
        return []
