"""Is a log line what it claims to be, and does the log stay within its bound?"""

import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from herodotus.core.errors import StorageFailure
from herodotus.core.settings.sections import LogSettings
from herodotus.home.log_tail import TAIL_BYTES, TAIL_LINES, log_tail
from herodotus.operate.logs import JsonFormatter, TextFormatter, configure

LOGGER = logging.getLogger("herodotus.test")


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level, raises = list(root.handlers), root.level, logging.raiseExceptions
    yield
    for one in list(root.handlers):
        root.removeHandler(one)
        if one not in handlers:
            one.close()
    for one in handlers:
        root.addHandler(one)
    root.setLevel(level)
    logging.raiseExceptions = raises
    for name in ("herodotus", "dht", "crawler", "simnet"):
        logging.getLogger(name).setLevel(logging.NOTSET)


def record(message: str, *values: object, with_traceback: bool = False) -> logging.LogRecord:
    trouble = None
    if with_traceback:
        try:
            raise ValueError("why")
        except ValueError:
            trouble = sys.exc_info()
    made = logging.LogRecord("herodotus.x", logging.WARNING, "f", 1, message, values, trouble)
    made.created = 1_763_467_200.9  # 2025-11-18 12:00:00.9 UTC
    return made


def test_a_text_line_has_time_level_logger_and_words() -> None:
    line = TextFormatter().format(record("lost peer=%s", "abc"))
    assert line == "2025-11-18T12:00:00Z WARNING herodotus.x lost peer=abc"


def test_a_stranger_cannot_forge_a_line_or_steer_the_terminal() -> None:
    line = TextFormatter().format(record("path=%s", "/a\n2025 INFO forged\x1b[2J\u202e"))
    assert line.splitlines() == [line]
    assert line.endswith(r"path=/a\n2025 INFO forged\x1b[2J\u202e")


def test_a_json_line_is_one_object() -> None:
    line = JsonFormatter().format(record("path=%s", "/a\nb", with_traceback=True))
    assert line.splitlines() == [line]
    entry = json.loads(line)
    assert entry.pop("traceback").endswith("ValueError: why")
    assert entry == {
        "time": "2025-11-18T12:00:00Z", "level": "warning", "logger": "herodotus.x", "message": "path=/a\nb",
    }  # fmt: skip


def test_a_traceback_follows_its_text_line() -> None:
    lines = TextFormatter().format(record("broke", with_traceback=True)).splitlines()
    assert lines[0].endswith("herodotus.x broke")
    assert lines[-1] == "ValueError: why"


def test_the_file_follows_the_setting_and_stderr_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    configure(LogSettings(level="error"), talk_level=logging.DEBUG, folder=tmp_path)
    LOGGER.debug("detail")
    LOGGER.error("trouble")
    assert [line.split(" ")[-1] for line in capsys.readouterr().err.splitlines()] == ["detail", "trouble"]
    assert [line.split(" ")[-1] for line in (tmp_path / "herodotus.log").read_text().splitlines()] == [
        "trouble"
    ]


def test_libraries_are_heard_only_when_they_warn(capsys: pytest.CaptureFixture[str]) -> None:
    configure(LogSettings(), talk_level=logging.DEBUG)
    logging.getLogger("aiohttp.server").info("chatter")
    logging.getLogger("aiohttp.server").warning("matter")
    assert "chatter" not in (talk := capsys.readouterr().err)
    assert "matter" in talk


def test_five_files_of_the_set_size_are_all_that_is_kept(tmp_path: Path) -> None:
    configure(LogSettings(file_bytes_max=100_000), talk_level=logging.CRITICAL, folder=tmp_path)
    for _ in range(700):
        LOGGER.info("%s", "x" * 1000)
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == ["herodotus.log", *(f"herodotus.log.{n}" for n in (1, 2, 3, 4))]
    assert all(file.stat().st_size <= 100_000 for file in files)


def test_words_that_are_not_unicode_are_written_all_the_same(tmp_path: Path) -> None:
    configure(LogSettings(format="json"), talk_level=logging.CRITICAL, folder=tmp_path)
    LOGGER.info("name=%s", "\udc80")
    assert json.loads((tmp_path / "herodotus.log").read_text())["message"] == "name=\udc80"


def test_a_full_disk_loses_the_line_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    configure(LogSettings(), talk_level=logging.CRITICAL)
    with open("/dev/full", "w", buffering=1) as full:  # noqa: PTH123  # a device that is always full
        handler = logging.StreamHandler(full)
        logging.getLogger().addHandler(handler)
        LOGGER.error("lost")
        logging.getLogger().removeHandler(handler)
        assert capsys.readouterr().err == ""
        with pytest.raises(OSError, match="No space left"):
            full.close()


def test_configuring_twice_writes_each_line_once(capsys: pytest.CaptureFixture[str]) -> None:
    configure(LogSettings(), talk_level=logging.INFO)
    configure(LogSettings(), talk_level=logging.INFO)
    LOGGER.info("once")
    assert capsys.readouterr().err.count("once") == 1


def test_a_log_that_cannot_be_opened_is_said(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("a file in the folder's place")
    with pytest.raises(StorageFailure, match=r"cannot open .*herodotus.log: file exists"):
        configure(LogSettings(), talk_level=logging.INFO, folder=tmp_path / "log")


def test_a_folder_in_the_place_of_the_log_is_set_aside(tmp_path: Path) -> None:
    (tmp_path / "herodotus.log").mkdir()
    configure(LogSettings(), talk_level=logging.INFO, folder=tmp_path)
    assert (tmp_path / "herodotus.log").is_file()
    assert (tmp_path / "herodotus.log.damaged").is_dir()


def test_the_tail_is_the_last_whole_lines_and_steers_nothing(tmp_path: Path) -> None:
    assert log_tail(tmp_path) == [], "there is no log yet"
    log = tmp_path / "herodotus.log"
    log.write_bytes(b"one\ntwo \x1b[2J \xff\n")
    assert log_tail(tmp_path) == ["one", "two \\x1b[2J \N{REPLACEMENT CHARACTER}"]
    log.write_text("".join(f"line {n}\n" for n in range(100)))
    assert log_tail(tmp_path) == [f"line {n}" for n in range(100 - TAIL_LINES, 100)]
    log.write_text("a" * TAIL_BYTES + "\n" + "b" * (TAIL_BYTES // 2) + "\nlast\n")
    assert log_tail(tmp_path) == ["b" * (TAIL_BYTES // 2), "last"], "half of a line is none"
