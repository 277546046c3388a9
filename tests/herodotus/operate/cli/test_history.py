"""What `history` says to people."""

from pathlib import Path

import anyio
import pytest

from herodotus.core.settings.sections import Settings
from herodotus.machine import Machine
from herodotus.store import archive_at, archive_settings, open_store
from tests.herodotus.operate.cli.processes import called, new_home
from tests.herodotus.store.making import NOW_S, page

URL = "http://example.org/"


@pytest.mark.parametrize("is_failing", [True, False])
def test_a_page_out_of_reach_is_told_behind_its_versions(tmp_path: Path, is_failing: bool) -> None:
    home = new_home(tmp_path / "home")

    async def work() -> None:
        archive = archive_at(home, lambda: float(NOW_S), archive_settings(Settings()))
        async with open_store(archive, Machine()) as store:
            await store.store(page(URL, NOW_S))
            if is_failing:
                await store.note_failure(URL, NOW_S + 60, "name\nnot found")

    anyio.run(work)
    lines = called("history", "--home", home, URL).out.splitlines()
    assert lines[0].startswith("2023-11-14T22:13:20Z  200  text/html")
    assert lines[1:] == is_failing * [
        "unreachable since 2023-11-14T22:14:20Z: name not found (tries: 1, the last on 2023-11-14T22:14:20Z)"
    ]
    (told,) = called("history", "--home", home, "--json", URL).json
    assert ("unreachable" in told) is is_failing
