"""How does the peer's log look, and where does it go? Configured here once, by the command line."""

import json
import logging
import logging.handlers
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

from herodotus.core.settings.sections import LogSettings
from herodotus.home.durable import storage_failure

_OURS = ("herodotus", "dht", "crawler", "simnet")
_FILE = "herodotus.log"
_FILES_KEPT = 5
TAIL_LINES, TAIL_BYTES = 20, 16_384
"""Lines of the log's end that are shown: a screenful."""


class TextFormatter(logging.Formatter):
    """`2026-11-18T13:00:00Z INFO herodotus.peer ready http=http://...`"""

    def format(self, record: logging.LogRecord) -> str:
        words = _on_one_line(record.getMessage())
        line = f"{_utc(record)} {record.levelname} {record.name} {words}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonFormatter(logging.Formatter):
    """One object a line, for machines that collect logs."""

    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "time": _utc(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


def _on_one_line(words: str) -> str:
    """A message may hold a stranger's text, which must not look like our line or steer a terminal."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in words)


def _utc(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def configure(settings: LogSettings, *, talk_level: int, folder: Path | None = None) -> None:
    """Logs to stderr from `talk_level` on; with a folder also to its bounded files, from the settings' level on."""
    logging.raiseExceptions = False  # on a full disk lines are lost; a traceback for each would not help
    formatter = JsonFormatter() if settings.format == "json" else TextFormatter()
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
        old.close()
    stderr = logging.StreamHandler(sys.stderr)
    stderr.setLevel(talk_level)
    handlers: list[logging.Handler] = [stderr]
    file_level = logging.getLevelNamesMapping()[settings.level.upper()]
    if folder is not None:
        handlers.append(_file_handler(folder / _FILE, settings))
        handlers[-1].setLevel(file_level)
    for handler in handlers:
        handler.setFormatter(formatter)
        root.addHandler(handler)
    root.setLevel(logging.WARNING)  # libraries log only when an operator may want to act
    for name in _OURS:
        logging.getLogger(name).setLevel(min(talk_level, file_level))


def _file_handler(path: Path, settings: LogSettings) -> logging.Handler:
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        return logging.handlers.RotatingFileHandler(
            path,
            maxBytes=settings.file_bytes_max,
            backupCount=_FILES_KEPT - 1,
            encoding="utf-8",
            errors="backslashreplace",
        )
    except OSError as error:
        raise storage_failure(error, path, "open") from error


def log_tail(folder: Path) -> list[str]:
    """The last lines of the log, oldest first; empty if it cannot be read."""
    try:
        with (folder / _FILE).open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(0, end - TAIL_BYTES))
            lines = file.read(TAIL_BYTES).decode("utf-8", "replace").splitlines()
    except OSError:
        return []
    whole = lines if end <= TAIL_BYTES else lines[1:]
    return [_on_one_line(line) for line in whole[-TAIL_LINES:]]
