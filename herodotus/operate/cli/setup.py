"""How is a home made, and what does it hold? `init`, `config show`, `identity`."""

import os
import sys
from pathlib import Path

import click
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from herodotus import machine
from herodotus.core.charter import PUBLIC_CHARTER, TEST_CHARTER, Charter, shown_network_id
from herodotus.core.errors import IdentityError, KeyLocked
from herodotus.core.settings.sections import PRESETS
from herodotus.home.durable import write_durably
from herodotus.home.folder import HomeOccupied, NewHome, check_network, create_home, open_home, read_charter
from herodotus.home.identity import key_to_pem, load_key, peer_id, public_pem, shown_peer_id
from herodotus.home.rotation import rotate
from herodotus.operate.cli.frame import CommandFrame, common_options, json_option, main, pass_frame
from herodotus.operate.cli.printing import print_line, print_text
from herodotus.operate.settings import Layer, resolve
from herodotus.operate.settings.load import text_layer
from herodotus.operate.settings.render import commented_file, effective_rows

BUILT_IN_CHARTERS = {"public": PUBLIC_CHARTER, "test": TEST_CHARTER}


def passphrase_from_environment() -> bytes | None:
    value = os.environ.get("HERODOTUS_PASSPHRASE")
    return os.fsencode(value) if value else None


def unlocked_key(path: Path) -> tuple[Ed25519PrivateKey, bytes | None]:
    """The key and its passphrase, from the environment or typed at a terminal."""
    secret = passphrase_from_environment()
    try:
        return load_key(path, secret), secret
    except KeyLocked:
        if not sys.stdin.isatty():
            raise
    typed: str = click.prompt("Passphrase of the key", hide_input=True, err=True)
    return load_key(path, os.fsencode(typed)), os.fsencode(typed)


def chosen_charter(network: str | None) -> Charter:
    """A built-in charter by name, or the one in a file."""
    name = network or "public"
    return BUILT_IN_CHARTERS[name] if name in BUILT_IN_CHARTERS else read_charter(Path(name))


@main.command()
@click.option(
    "--network", metavar="FILE", help='Charter of the network: a file, "public" (default) or "test".'
)
@click.option("--contact", metavar="URL", help="Page where site owners can reach you.")
@click.option(
    "--preset", type=click.Choice(list(PRESETS)), help="Defaults for a kind of network (default: wan)."
)
@click.option("--passphrase", is_flag=True, help="Ask for a passphrase that locks the key.")
@common_options
@json_option
@pass_frame
def init(
    frame: CommandFrame, network: str | None, contact: str | None, preset: str | None, passphrase: bool
) -> None:
    """Make a home: key, settings and network charter.

    \b
    Examples:
      herodotus init --contact https://example.org/about-my-peer
      herodotus init --home /srv/herodotus --network our-library.toml
      herodotus init --home /tmp/peer --network test --preset test
    """
    charter = chosen_charter(network)
    if frame.home.exists() and network is not None:
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
    if frame.is_json:
        frame.print_json(
            {
                "home": str(frame.home.path),
                "peer_id": shown,
                "network": charter.name,
                "network_id": network_id,
            }
        )
    frame.say(f"home     {frame.home.path}")
    frame.say(f"peer     {shown}")
    frame.say(f"network  {charter.name} ({network_id})")
    frame.say("Keep a copy of identity.key: it is the peer's name, and nobody can replace it.")
    if charter.contact_required and not chosen.settings.operator.contact:
        frame.say(
            f"Set operator.contact in {frame.home.config} before the first run: this network requires it."
        )


def _ask_passphrase() -> bytes:
    answer: str = click.prompt("Passphrase", hide_input=True, confirmation_prompt=True, err=True)
    return os.fsencode(answer)


@main.group()
@common_options
def config() -> None:
    """Show the settings of this peer."""


@config.command()
@common_options
@json_option
@pass_frame
def show(frame: CommandFrame) -> None:
    """Print each setting and where its value came from.

    Later wins: default, preset, config.toml, environment HERODOTUS_SECTION_NAME, flag.
    """
    rows = effective_rows(frame.effective())
    if frame.is_json:
        frame.print_json({key: {"value": value, "origin": origin} for key, value, origin in rows})
        return
    width_key = max(len(key) for key, _, _ in rows)
    width_value = min(40, max(len(value) for _, value, _ in rows))
    for key, value, origin in rows:
        print_line(f"{key:<{width_key}} = {value:<{width_value}}  # {origin}")


@main.group()
@common_options
def identity() -> None:
    """Show, export or replace the key that is this peer's name."""


def _own_key(frame: CommandFrame) -> tuple[Ed25519PrivateKey, bytes | None]:
    open_home(frame.home)
    return unlocked_key(frame.home.key)


@identity.command("show")
@common_options
@json_option
@pass_frame
def identity_show(frame: CommandFrame) -> None:
    """Print the peer's id in a form that people can compare."""
    key, _ = _own_key(frame)
    shown = shown_peer_id(peer_id(key.public_key()))
    if frame.is_json:
        frame.print_json({"peer_id": shown, "public_key": key.public_key().public_bytes_raw().hex()})
    else:
        print_line(shown)


@identity.command("export")
@click.option("--private", is_flag=True, help="The private key, for a backup; needs -o.")
@click.option(
    "-o", "--output", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path), help="Write there."
)
@common_options
@pass_frame
def identity_export(frame: CommandFrame, private: bool, output: Path | None) -> None:
    """Write the public key, or a backup of the private one, as PEM.

    \b
    Examples:
      herodotus identity export
      herodotus identity export --private -o /media/stick/identity.key
    """
    if private and output is None:
        raise click.UsageError("a private key is never printed: name a file with -o FILE")
    key, secret = _own_key(frame)
    content = key_to_pem(key, secret) if private else public_pem(key)
    if output is None:
        print_text(content.decode())
        return
    if output.exists():
        raise IdentityError(file=str(output), problem="already exists", hint="choose another name")
    write_durably(output, content, mode=0o600 if private else 0o644)
    frame.say(f"wrote {output}")


@identity.command("rotate")
@common_options
@json_option
@pass_frame
def identity_rotate(frame: CommandFrame) -> None:
    """Replace the key; the old one signs for the new one.

    The peer must not be running. The old key stays beside the new one until the ring has accepted the change.
    """
    open_home(frame.home)
    _, secret = unlocked_key(frame.home.key)
    rotation = rotate(frame.home, secret, now_s=int(machine.unix_seconds()))
    old, new = (shown_peer_id(peer_id(key.public_key())) for key in (rotation.old, rotation.new))
    if frame.is_json:
        frame.print_json({"old": old, "new": new, "record": rotation.fingerprint})
        return
    print_line(f"old  {old}")
    print_line(f"new  {new}")
    if rotation.record is None:
        frame.say("This peer was never in a ring, so no peer needs to learn of the change.")
    else:
        print_line(f"record signed by both keys  {rotation.fingerprint}")
