"""How is a peer asked what it holds and does? `status`."""

import contextlib
import shutil
import sys
from pathlib import Path
from typing import Any

import anyio
import click

from herodotus.home.folder import Home
from herodotus.home.log_tail import log_tail
from herodotus.operate.cli.frame import CommandFrame, framed, main
from herodotus.operate.cli.printing import print_text
from herodotus.operate.cli.status_text import harmless, sentence_lines, status_lines
from herodotus.operate.http_questions import NoAnswer, ask

_WATCH_PERIOD_S = 2.0
_LOG_LINES = 5


@main.command()
@click.option("--peer", metavar="URL", help="Ask this peer instead of the one of the home.")
@click.option("--watch", is_flag=True, help="Repeat until Ctrl-C; rates are then those of the moment.")
@framed(json=True)
def status(frame: CommandFrame, peer: str | None, watch: bool) -> None:
    """Say who a peer is to its ring, what is wrong, what it does, what it holds, and what comes next.

    `--verbose` adds tables and counters. Marked with `!` is what needs you. Another peer (`--peer`) tells strangers
    its figures alone.

    \b
    Examples:
      herodotus status
      herodotus status --verbose
      herodotus status --watch
      herodotus status --json --peer http://192.0.2.7:5484
    """
    address = peer or running_address(frame)
    token = "" if peer else operator_token(frame.home)  # which is for no other peer's eyes
    facts = facts_of(address, token)
    log = None if peer else frame.home.log
    _show(frame, facts, None, log)
    with contextlib.suppress(KeyboardInterrupt):  # the way out that `--watch` names
        while watch:
            anyio.run(anyio.sleep, _WATCH_PERIOD_S)
            facts, previous = facts_of(address, token), facts
            if not frame.is_json:
                click.clear()
            _show(frame, facts, previous, log)


def _width() -> int | None:
    """For people alone: what reads a pipe looks for whole sentences."""
    return max(40, min(100, shutil.get_terminal_size().columns)) if sys.stdout.isatty() else None


def running_address(frame: CommandFrame) -> str:
    running = frame.running()
    if not running.http:
        raise NoAnswer(str(frame.home.path), f"process {running.pid} is still starting")
    return running.http


def operator_token(home: Home) -> str:
    """Proves the operator at any address; without it the peer recognises its operator at a loopback address only."""
    try:
        return home.token.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def facts_of(address: str, token: str) -> dict[str, Any]:
    facts = ask(address, "/api/v1/status", token)
    if not isinstance(facts, dict):
        raise NoAnswer(address, "the answer is not a peer's status")
    return facts


def _show(
    frame: CommandFrame, facts: dict[str, Any], previous: dict[str, Any] | None, log: Path | None
) -> None:
    if frame.is_json:
        frame.show(facts)
        return
    sentences = sentence_lines(facts, _width())
    if sentences and frame.loudness <= 0:
        print_text("\n".join([*sentences, ""]))
        return
    tail = log_tail(log)[-_LOG_LINES:] if log is not None else []
    lines = ["", "the log's last lines", *map(harmless, tail)] if tail else []
    print_text(
        "\n".join([*sentences, *([""] if sentences else []), *status_lines(facts, previous), *lines, ""])
    )
