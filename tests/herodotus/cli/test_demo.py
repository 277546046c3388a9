"""`scripts/run` as a stranger has it, but for the setting up: what it says is there can be read."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from tests.herodotus.cli.processes import clean_environment

ROOT = Path(__file__).parents[3]

pytestmark = pytest.mark.e2e


@pytest.mark.timeout(120)
def test_the_demonstration_archives_two_days_and_names_a_page_that_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    demo = shutil.copy(ROOT / "scripts" / "demo.py", tmp_path / "scripts")
    reader, writer = os.pipe()
    command = [sys.executable, str(demo), "--http", "127.0.0.1:0", "--ready-fd", str(writer)]
    with (
        os.fdopen(reader) as ready,
        subprocess.Popen(
            command, env=clean_environment(), pass_fds=(writer,), stderr=subprocess.PIPE, text=True
        ) as process,
    ):
        try:
            os.close(writer)
            line = ready.readline()
            assert line, "it ended before it was ready"
            http = json.loads(line)["http"]
            page = (tmp_path / ".demo" / "archived").read_text()
            versions = json.load(
                urlopen(Request(f"{http}/web/*/{page}", headers={"Accept": "application/json"}))
            )
            assert versions
            assert re.fullmatch(
                rf"{http}/web/\d{{14}}\w*/{re.escape(page)}", urlopen(f"{http}/web/{page}").geturl()
            )
        finally:
            process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    day_one = re.search(r"day one: (\d+) documents archived", said)
    day_two = re.search(r"day two: (\d+) visited, (\d+) unchanged, (\d+) archived", said)
    assert day_one is not None, said
    assert day_two is not None, said
    visited, unchanged, archived = map(int, day_two.groups())
    assert int(day_one[1]) > 100
    assert visited > 100
    assert unchanged > 0.8 * visited
    assert archived <= visited - unchanged
    assert process.returncode == 0
