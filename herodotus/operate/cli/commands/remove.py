"""How does an operator remove what must not be archived? `remove`."""

import sys
from datetime import UTC, datetime
from pathlib import Path

import click

from crawler.core.errors import MalformedUrlError
from crawler.core.politeness import OptOutList
from crawler.core.urls import canonical
from herodotus.core.orders import Remove
from herodotus.home.removed import Removals, read_removed
from herodotus.home.seeds import remove_seeds, seeds_of
from herodotus.operate.cli.archive_access import archive_access
from herodotus.operate.cli.frame import CommandFrame, framed, main
from herodotus.operate.cli.printing import say


@main.command()
@click.option(
    "--host",
    "is_host",
    is_flag=True,
    help="The names are hosts: remove all pages of them and of hosts below.",
)
@click.option("--erase", is_flag=True, help="Also rewrite the files now; otherwise upkeep does so later.")
@click.option("--forget", is_flag=True, help="Allow these addresses again. Deleted captures stay deleted.")
@click.option("--list", "is_listed", is_flag=True, help="Show what was removed.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.argument("names", nargs=-1, metavar="URL...")
@framed(json=True)
def remove(
    frame: CommandFrame,
    is_host: bool,
    erase: bool,
    forget: bool,
    is_listed: bool,
    yes: bool,
    names: tuple[str, ...],
) -> None:
    """Delete pages or hosts for good, and never archive them again.

    Every capture is deleted. A lasting note keeps this peer from visiting the addresses and from accepting captures of
    them from files or other peers. Other peers decide for themselves. A URL means both http and https.

    \b
    Examples:
      herodotus remove https://example.org/private.html
      herodotus remove --host example.org --erase
      herodotus remove --list
    """
    with archive_access(frame) as archive:
        if is_listed:
            _list(frame)
            return
        if not names:
            raise click.UsageError("name at least one URL, or a host with --host")
        urls, hosts = ((), _hosts(names)) if is_host else (_urls(names), ())
        if not forget and not yes and sys.stdin.isatty():
            click.confirm(
                f"Delete all captures of {', '.join(hosts or urls)} for good?", abort=True, err=True
            )
        order = Remove(urls=urls, hosts=hosts, is_erased=erase, is_forgotten=forget)
        report = archive.perform(order).facts
        frame.show(report)
        for name in report["unknown"]:
            say(f"{name} had not been removed")
        if forget:
            say(f"{len(urls) + len(hosts) - len(report['unknown'])} may be archived again")
            return
        _forget_seeds(frame.home.path, Removals.of(hosts=hosts, urls=urls))
    rewritten = f", {report['rewritten']} files rewritten" if erase else ""
    say(f"{report['captures']} captures of {report['addresses']} addresses deleted{rewritten}")


def _forget_seeds(home: Path, removals: Removals) -> None:
    covered = [seed.url for seed in seeds_of(home) if removals.covers(seed.url)]
    if covered:
        remove_seeds(home, covered)
        say(f"{len(covered)} of your seeds were removed too")


def _urls(names: tuple[str, ...]) -> tuple[str, ...]:
    try:
        return tuple(canonical(name if "://" in name else f"https://{name}") for name in names)
    except MalformedUrlError as error:
        raise click.UsageError(str(error)) from error


def _hosts(names: tuple[str, ...]) -> tuple[str, ...]:
    if any("/" in name for name in names):
        raise click.UsageError("with --host, name hosts, such as example.org")
    try:
        return tuple(sorted(OptOutList.of(names).hosts))
    except MalformedUrlError as error:
        raise click.UsageError(str(error)) from error


def _list(frame: CommandFrame) -> None:
    found = read_removed(frame.home.state)
    rows = [("host", one) for one in found.hosts] + [("url", one) for one in found.urls]
    frame.show(
        [{"kind": kind, "name": one.name, "removed": _date(one.removed)} for kind, one in rows],
        (f"{_date(one.removed)}  {kind:<4}  {one.name}" for kind, one in rows),
    )
    if not rows and not frame.is_json:
        say("nothing was removed")


def _date(unix_s: int) -> str:
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
