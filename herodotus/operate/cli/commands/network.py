"""How does somebody begin a network of their own? `network create`."""

import sys
from dataclasses import replace
from typing import Any

import click

from herodotus.core.charter import PUBLIC_CHARTER, Charter, founded_on
from herodotus.home.clock import unix_seconds
from herodotus.home.folder import HomeOccupied
from herodotus.operate.cli.commands.run import run
from herodotus.operate.cli.frame import CommandFrame, framed, main
from herodotus.operate.cli.home_making import contact_option, make_home, preset_option, runs_option


@main.group()
def network() -> None:
    """Begin a network of your own, to which you invite others.

    \b
    Examples:
      herodotus network create our-library --contact https://library.example/archive
      herodotus invite
    """


@network.command()
@click.argument("name")
@click.option(
    "--site", "sites", multiple=True, metavar="DOMAIN", help="Archive only this site; may be given often."
)
@click.option(
    "--dns",
    "contacts",
    multiple=True,
    metavar="NAME",
    help="A name of yours that DNS leads to members, for peers that find nobody else; may be given often.",
)
@click.option(
    "--private/--public",
    "is_private",
    default=None,
    help="All peers stand in one private network, as in a house, or reach each other over the internet.",
)
@contact_option
@preset_option
@click.option("--listen", metavar="IP:PORT", help="Where other peers reach this peer (default: [::]:4484).")
@runs_option
@framed(json=True)
@click.pass_context
def create(
    context: click.Context,
    frame: CommandFrame,
    name: str,
    sites: tuple[str, ...],
    contacts: tuple[str, ...],
    is_private: bool | None,
    contact: str | None,
    preset: str | None,
    listen: str | None,
    runs: bool,
) -> None:
    """Begin a network: make its charter and its first peer, run it, and print an invitation for others.

    Asks three questions at a terminal: which sites, whether over the internet, and how site owners reach you. All of
    it is written to network.toml, which nobody can change afterwards: another charter is another network.
    """
    if frame.home.exists():
        raise HomeOccupied(frame.home)
    asks = sys.stdin.isatty() and not frame.is_json
    if asks and not sites:
        words = "Sites to archive, with spaces between (none: all that pages link to)"
        sites = tuple(click.prompt(words, default="", show_default=False, err=True).split())
    if asks and is_private is None:
        is_private = click.confirm(
            "Do all peers stand in one private network (a house, an office)?", err=True
        )
    charter = _charter(name, sites, contacts, is_private=bool(is_private))
    if asks and contact is None and charter.contact_required:
        contact = click.prompt("A page (or mailto:) at which site owners reach you", err=True)
    given = {"operator.contact": ("--contact", contact), "ring.listen": ("--listen", listen)}
    facts: dict[str, Any] = dict(make_home(frame, charter, preset=preset, given=given))
    if runs:
        frame.say("Others join by an invitation: `herodotus invite` prints it while this peer runs.")
        context.invoke(run, begins_network=True)
        return
    frame.show(facts)
    frame.say("Start the peer with `herodotus run`; `herodotus invite` then prints an invitation for others.")


def _charter(name: str, sites: tuple[str, ...], contacts: tuple[str, ...], *, is_private: bool) -> Charter:
    table: dict[str, object] = {"name": name, "scope": list(sites), "contacts": list(contacts)}
    if is_private:
        # All of them are in one place as the internet counts; among themselves each machine is one.
        table |= {"allow_private_addresses": True, "places": "peer"}
    checked = Charter.from_table(table, source="network create")
    return founded_on(
        replace(PUBLIC_CHARTER, **{key: getattr(checked, key) for key in table}), unix_seconds()
    )
