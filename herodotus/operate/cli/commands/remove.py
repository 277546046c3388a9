"""How does an operator remove what must not be archived? `remove`."""

import sys
from datetime import UTC, datetime
from pathlib import Path

import click

from herodotus.core.errors import Misuse
from herodotus.core.orders import Remove
from herodotus.core.removals import DIGEST, HOST, PREFIX, URL, Removals, Subject, subject_of
from herodotus.home.removed import Rule, read_removed
from herodotus.home.seeds import remove_seeds, seeds_of
from herodotus.operate.cli.archive_access import archive_access
from herodotus.operate.cli.frame import CommandFrame, framed, main
from herodotus.operate.cli.printing import say

REASONS = ("legal", "privacy", "owner", "harmful", "spam", "other")
TEXT_CHARS_MAX = 500
CONTACT_CHARS_MAX = 200
SHOWN_MAX = 20


@main.command()
@click.option(
    "--host", "kind", flag_value=HOST, help="The names are hosts: all pages of them and of hosts below."
)
@click.option(
    "--prefix", "kind", flag_value=PREFIX, help="The names are starts of addresses, such as a folder."
)
@click.option(
    "--digest", "kind", flag_value=DIGEST, help="The names are SHA-256 of contents, at any address."
)
@click.option("--reason", type=click.Choice(REASONS), default="other", help="Why; the other peers are told.")
@click.option("--text", default="", help="The same in your words, 500 characters at most.")
@click.option("--contact", default=None, help="Whom others may ask; else operator.contact.")
@click.option("--no-notice", is_flag=True, help="Tell no other peer.")
@click.option("--erase", is_flag=True, help="Erase the bytes here now; there is no way back.")
@click.option(
    "--undo",
    "--forget",
    "undo",
    is_flag=True,
    help="Show these again, and allow them. Erased pages stay erased.",
)
@click.option("--list", "is_listed", is_flag=True, help="Show what was removed.")
@click.option("--yes", is_flag=True, help="Do not ask before erasing.")
@click.argument("names", nargs=-1, metavar="URL...")
@framed(json=True)
def remove(
    frame: CommandFrame,
    kind: str | None,
    reason: str,
    text: str,
    contact: str | None,
    no_notice: bool,
    erase: bool,
    undo: bool,
    is_listed: bool,
    yes: bool,
    names: tuple[str, ...],
) -> None:
    """Show pages, hosts or contents to nobody any more, and archive them no more.

    They are hidden at once and erased after `removals.grace_days`; until then --undo brings everything back. With
    --erase they are erased now. This covers this peer alone: the others are sent a notice with your reason and decide
    for themselves (`herodotus notices`). A URL means both http and https.

    \b
    Examples:
      herodotus remove https://example.org/private.html --reason privacy
      herodotus remove --host example.org --reason legal --erase
      herodotus remove --undo --host example.org
      herodotus remove --list
    """
    with archive_access(frame) as archive:
        if is_listed:
            _list(frame)
            return
        if not names:
            raise click.UsageError("name at least one URL, or a host with --host")
        subjects = _subjects(kind or URL, names)
        if erase and undo:
            raise click.UsageError("either --erase or --undo")
        if erase and not yes:
            _ask(subjects)
        order = Remove(
            subjects=tuple((subject.kind, subject.name) for subject in subjects),
            is_erased=erase,
            is_forgotten=undo,
            is_told=not no_notice,
            reason=reason,
            text=_bounded("--text", text, TEXT_CHARS_MAX),
            contact=_bounded("--contact", _contact(frame, contact), CONTACT_CHARS_MAX),
        )
        report = archive.perform(order).facts
        shown = report["listed"][:SHOWN_MAX]
        frame.show(report, (f"{count:>6}  {url}" for url, count in shown))
        for name in report["unknown"]:
            say(f"{name} had not been removed")
        if undo:
            say(f"{len(subjects) - len(report['unknown'])} are shown again, and may be archived")
            return
        _forget_seeds(frame.home.path, Removals.of_subjects(subjects))
    if report["addresses"] > len(shown):
        say(
            f"and {report['addresses'] - len(shown):,} more addresses (--json lists {len(report['listed']):,})"
        )
    what = f"{report['captures']} captures of {report['addresses']} addresses"
    if erase:
        say(f"{what} erased, {report['rewritten']} files rewritten")
        if report["quarantined_left"]:
            say(
                f"{report['quarantined_left']} damaged pieces in archive/quarantine may hold bytes of it beside other"
                " pages: they go once those are whole again; look at their .json, and delete them if they must go now"
            )
    else:
        say(
            f"{what} hidden; they are erased after removals.grace_days, and --undo brings them back until then"
        )


def _ask(subjects: list[Subject]) -> None:
    shown = ", ".join(map(str, subjects[:5])) + (
        f" and {len(subjects) - 5} more" if len(subjects) > 5 else ""
    )
    if not sys.stdin.isatty():
        raise Misuse(
            f"nothing was erased: say --yes to erase all captures of {shown} for good, without being asked"
        )
    click.confirm(f"Erase all captures of {shown} for good?", abort=True, err=True)


def _bounded(option: str, text: str, chars_max: int) -> str:
    if len(text) > chars_max or not text.isprintable():
        raise click.UsageError(f"{option}: one line of at most {chars_max} characters")
    return text


def _contact(frame: CommandFrame, contact: str | None) -> str:
    return frame.effective().settings.operator.contact if contact is None else contact


def _forget_seeds(home: Path, removals: Removals) -> None:
    covered = [seed.url for seed in seeds_of(home) if removals.covers(seed.url)]
    if covered:
        remove_seeds(home, covered)
        say(f"{len(covered)} of your seeds were removed too")


def _subjects(kind: str, names: tuple[str, ...]) -> list[Subject]:
    return list(dict.fromkeys(subject_of(kind, name) for name in names))


def _list(frame: CommandFrame) -> None:
    rules = sorted(read_removed(frame.home.state).rules, key=lambda rule: rule.subject)
    frame.show(
        [_as_json(rule) for rule in rules],
        (f"{_date(rule.removed)}  {rule.state:<7}  {rule.kind:<6}  {rule.name}" for rule in rules),
    )
    if not rules and not frame.is_json:
        say("nothing was removed")


def _as_json(rule: Rule) -> dict[str, object]:
    return {
        "kind": rule.kind,
        "name": rule.name,
        "removed": _date(rule.removed),
        "state": rule.state,
        "captures": rule.captures,
        "notice": rule.notice,
    }


def _date(unix_s: int) -> str:
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
