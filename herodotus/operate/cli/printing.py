"""How do other people's words reach a terminal or a log? Escaped: nothing in them steers it, or turns writing around.

An address, a title, a peer's nickname and whatever else a stranger chose may hold control characters, marks that
change the direction of writing, and halves of characters. All that commands print goes through here, text and JSON.
"""

import json
from typing import Any

import click


def escaped(text: object) -> str:
    """One line: what is not printable as JSON would write it, line ends too."""
    line = str(text)
    if line.isprintable():
        return line
    return "".join(one if one.isprintable() else json.dumps(one)[1:-1] for one in line)


def escaped_lines(text: object) -> str:
    """As `escaped`, for a text of ours that may have several lines."""
    return "\n".join(map(escaped, str(text).split("\n")))


def print_line(line: object = "") -> None:
    """Data: to stdout."""
    click.echo(escaped(line))


def print_text(text: str) -> None:
    """Several lines as they are: a file of ours to be read or kept."""
    click.echo(escaped_lines(text), nl=False)


def print_json(value: Any) -> None:
    """Reading it gives what was said, also where it was escaped: outside of strings JSON is printable."""
    click.echo(escaped(json.dumps(value, ensure_ascii=False)))


def say(words: object) -> None:
    """Talk: to stderr."""
    click.echo(escaped(words), err=True)


def say_text(text: str) -> None:
    """Several lines of ours, to stderr."""
    click.echo(escaped_lines(text), err=True, nl=False)
