"""How does a home come to be? `init`."""

import os
from pathlib import Path

import click

from herodotus.home.clock import unix_seconds
from herodotus.home.folder import check_network
from herodotus.operate.cli.choices import chosen_charter, founded_charter
from herodotus.operate.cli.frame import CommandFrame, framed, main
from herodotus.operate.cli.home_making import contact_option, make_home, preset_option


@main.command()
@click.option(
    "--network", metavar="FILE", help='Charter of the network: a file, "public" (default) or "test".'
)
@click.option(
    "--found",
    "name",
    metavar="NAME",
    help="Found a new network of this name, today, by the rules of --network. The others need its network.toml.",
)
@contact_option
@preset_option
@click.option("--passphrase", is_flag=True, help="Ask for a passphrase that locks the key.")
@framed(json=True)
def init(
    frame: CommandFrame,
    network: str | None,
    name: str | None,
    contact: str | None,
    preset: str | None,
    passphrase: bool,
) -> None:
    """Make a home: key, settings and network charter.

    \b
    Examples:
      herodotus init --contact https://example.org/about-my-peer
      herodotus init --home /srv/herodotus --found our-library
      herodotus init --home /srv/herodotus --network our-library.toml
      herodotus init --home /tmp/peer --network test --preset test
    """
    charter = chosen_charter(network) if name is None else founded_charter(network, name, unix_seconds())
    if frame.home.exists() and network is not None and name is None:
        check_network(charter, frame.home, file=Path(network))
    secret = _ask_passphrase() if passphrase and not frame.home.exists() else None
    facts = make_home(
        frame, charter, preset=preset, given={"operator.contact": ("--contact", contact)}, secret=secret
    )
    frame.show(facts)
    if name is not None:
        frame.say(f"Give {frame.home.charter} to all who join: `herodotus init --network network.toml`.")


def _ask_passphrase() -> bytes:
    answer: str = click.prompt("Passphrase", hide_input=True, confirmation_prompt=True, err=True)
    return os.fsencode(answer)
