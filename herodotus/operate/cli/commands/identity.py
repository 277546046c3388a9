"""What is this peer's name? `identity show`, `identity export`, `identity rotate`."""

from pathlib import Path

import click
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from herodotus.core.errors import IdentityError
from herodotus.home.clock import unix_seconds
from herodotus.home.durable import write_durably
from herodotus.home.folder import open_home
from herodotus.home.identity import key_to_pem, peer_id, public_pem, shown_peer_id
from herodotus.operate.cli.choices import unlocked_key
from herodotus.operate.cli.frame import CommandFrame, common_options, framed, main
from herodotus.operate.cli.printing import print_text


@main.group()
@common_options
def identity() -> None:
    """Show, export or replace the key that is this peer's name."""


def _own_key(frame: CommandFrame) -> tuple[Ed25519PrivateKey, bytes | None]:
    open_home(frame.home)
    return unlocked_key(frame.home.key)


@identity.command("show")
@framed(json=True)
def identity_show(frame: CommandFrame) -> None:
    """Print the peer's id in a form that people can compare."""
    key, _ = _own_key(frame)
    shown = shown_peer_id(peer_id(key.public_key()))
    frame.show({"peer_id": shown, "public_key": key.public_key().public_bytes_raw().hex()}, [shown])


@identity.command("export")
@click.option("--private", is_flag=True, help="The private key, for a backup; needs -o.")
@click.option(
    "-o", "--output", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path), help="Write there."
)
@framed()
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
@framed(json=True)
def identity_rotate(frame: CommandFrame) -> None:
    """Replace the key; the old one signs for the new one.

    The peer must not be running. The old key stays beside the new one until the ring has accepted the change.
    """
    from herodotus.home.rotation import rotate  # with what a ring is told

    _, secret = _own_key(frame)
    rotation = rotate(frame.home, secret, now_s=int(unix_seconds()))
    old, new = (shown_peer_id(peer_id(key.public_key())) for key in (rotation.old, rotation.new))
    lines = [f"old  {old}", f"new  {new}"]
    if rotation.record is not None:
        lines.append(f"record signed by both keys  {rotation.fingerprint}")
    frame.show({"old": old, "new": new, "record": rotation.fingerprint}, lines)
    if rotation.record is None and not frame.is_json:
        frame.say("This peer was never in a ring, so no peer needs to learn of the change.")
