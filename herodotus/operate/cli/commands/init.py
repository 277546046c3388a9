"""How does a home come to be? `init`."""

import os
from pathlib import Path

import click
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from herodotus.core.charter import shown_network_id
from herodotus.core.settings.sections import PRESETS
from herodotus.home.clock import unix_seconds
from herodotus.home.folder import HomeOccupied, NewHome, check_network, create_home
from herodotus.home.identity import key_to_pem, peer_id, shown_peer_id
from herodotus.operate.cli.choices import chosen_charter, founded_charter, passphrase_from_environment
from herodotus.operate.cli.frame import CommandFrame, framed, main
from herodotus.operate.settings.load import Layer, resolve, text_layer
from herodotus.operate.settings.render import commented_file


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
@click.option("--contact", metavar="URL", help="Page where site owners can reach you.")
@click.option(
    "--preset", type=click.Choice(list(PRESETS)), help="Defaults for a kind of network (default: wan)."
)
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
    if frame.home.exists():
        raise HomeOccupied(frame.home)
    contact_layer = text_layer({"operator.contact": ("--contact", contact)} if contact is not None else {})
    chosen = resolve(Layer(preset=preset, preset_source="--preset"), contact_layer)
    key = Ed25519PrivateKey.generate()
    secret = _ask_passphrase() if passphrase else passphrase_from_environment()
    content = NewHome(
        config=commented_file(chosen.preset, contact_layer.values),
        charter=charter,
        key_pem=key_to_pem(key, secret),
    )
    create_home(frame.home, content)
    shown, network_id = shown_peer_id(peer_id(key.public_key())), shown_network_id(charter.network_id())
    facts = {"home": str(frame.home.path), "peer_id": shown, "network": charter.name}
    frame.show({**facts, "network_id": network_id})
    frame.say(f"home     {frame.home.path}")
    frame.say(f"peer     {shown}")
    frame.say(f"network  {charter.name} ({network_id})")
    if name is not None:
        frame.say(f"Give {frame.home.charter} to all who join: `herodotus init --network network.toml`.")
    frame.say("Keep a copy of identity.key: it is the peer's name, and nobody can replace it.")
    if charter.contact_required and not chosen.settings.operator.contact:
        frame.say(
            f"Set operator.contact in {frame.home.config} before the first run: this network requires it."
        )


def _ask_passphrase() -> bytes:
    answer: str = click.prompt("Passphrase", hide_input=True, confirmation_prompt=True, err=True)
    return os.fsencode(answer)
