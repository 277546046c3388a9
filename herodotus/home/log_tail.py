"""What did the peer say last? The end of the log that it keeps in its home."""

import os
from pathlib import Path

LOG_FILE = "herodotus.log"
TAIL_LINES, TAIL_BYTES = 20, 16_384
"""Lines of the log's end that are shown: a screenful."""


def log_tail(folder: Path) -> list[str]:
    """The last lines of the log, oldest first; empty if it cannot be read."""
    try:
        with (folder / LOG_FILE).open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(0, end - TAIL_BYTES))
            lines = file.read(TAIL_BYTES).decode("utf-8", "replace").splitlines()
    except OSError:
        return []
    whole = lines if end <= TAIL_BYTES else lines[1:]
    return [on_one_line(line) for line in whole[-TAIL_LINES:]]


def on_one_line(words: str) -> str:
    """A message may hold a stranger's text, which must not look like our line or steer a terminal."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in words)
