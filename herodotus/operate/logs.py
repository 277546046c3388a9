"""How does the peer's log look, and where does it go? Configured here once, by the command line."""

import json
import logging
import logging.handlers
import sys
from datetime import UTC, datetime
from pathlib import Path

from herodotus.core.settings.sections import LogSettings
from herodotus.home.durable import set_aside, storage_failure
from herodotus.home.log_tail import LOG_FILE, on_one_line

_OURS = ("herodotus", "dht", "crawler", "simnet")
_FILES_KEPT = 5


class TextFormatter(logging.Formatter):
    """`2026-11-18T13:00:00Z INFO herodotus.peer ready http=http://...`"""

    def format(self, record: logging.LogRecord) -> str:
        words = on_one_line(record.getMessage())
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
        handlers.append(_file_handler(folder / LOG_FILE, settings))
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
        if path.is_dir():
            set_aside(path)
        return logging.handlers.RotatingFileHandler(
            path,
            maxBytes=settings.file_bytes_max,
            backupCount=_FILES_KEPT - 1,
            encoding="utf-8",
            errors="backslashreplace",
        )
    except OSError as error:
        raise storage_failure(error, path, "open") from error
