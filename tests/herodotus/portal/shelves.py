"""A started peer with an archive that every test of a file reads."""

from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

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
