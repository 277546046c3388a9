"""How does a command make a home? `init`, `network create` and `join` do, each with another charter."""

from collections.abc import Mapping

import click
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from herodotus.core.charter import Charter, shown_network_id
from herodotus.core.settings.sections import PRESETS
from herodotus.home.folder import HomeOccupied, NewHome, create_home
from herodotus.home.identity import key_to_pem, peer_id, shown_peer_id
from herodotus.operate.cli.choices import passphrase_from_environment
from herodotus.operate.cli.frame import CommandFrame
from herodotus.operate.settings.load import Layer, resolve, text_layer
from herodotus.operate.settings.render import commented_file

contact_option = click.option("--contact", metavar="URL", help="Page where site owners can reach you.")
preset_option = click.option(
    "--preset", type=click.Choice(list(PRESETS)), help="Defaults for a kind of network (default: wan)."
)


runs_option = click.option(
    "--run/--no-run", "runs", default=True, help="Whether the peer starts at once (default: yes)."
)


def make_home(
    frame: CommandFrame,
    charter: Charter,
    *,
    preset: str | None,
    given: Mapping[str, tuple[str, str | None]],
    secret: bytes | None = None,
) -> dict[str, str]:
    """`given` are settings by name, each with the flag it came from; None is not given. Says what was made."""
    if frame.home.exists():
        raise HomeOccupied(frame.home)
    layer = text_layer({key: (flag, text) for key, (flag, text) in given.items() if text is not None})
    chosen = resolve(Layer(preset=preset, preset_source="--preset"), layer)
    key = Ed25519PrivateKey.generate()
    content = NewHome(
        config=commented_file(chosen.preset, layer.values),
        charter=charter,
        key_pem=key_to_pem(key, secret or passphrase_from_environment()),
    )
    create_home(frame.home, content)
    shown, network_id = shown_peer_id(peer_id(key.public_key())), shown_network_id(charter.network_id())
    frame.say(f"home     {frame.home.path}")
    frame.say(f"peer     {shown}")
    frame.say(f"network  {charter.name} ({network_id})")
    frame.say("Keep a copy of identity.key: it is the peer's name, and nobody can replace it.")
    if charter.contact_required and not chosen.settings.operator.contact:
        frame.say(
            f"Set operator.contact in {frame.home.config} before the first run: this network requires it."
        )
    return {
        "home": str(frame.home.path),
        "peer_id": shown,
        "network": charter.name,
        "network_id": network_id,
    }
