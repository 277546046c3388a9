"""How does somebody take part in another's network? `join` with the line of an invitation."""

import sys

import anyio
import click

from herodotus.core.charter import Charter, NetworkId, shown_network_id
from herodotus.core.errors import Misuse
from herodotus.core.invitation import CHARTER_BYTES, Invitation
from herodotus.home.clock import unix_seconds
from herodotus.home.folder import open_home
from herodotus.operate.cli.commands.run import run
from herodotus.operate.cli.frame import CommandFrame, framed, main
from herodotus.operate.cli.home_making import contact_option, make_home, preset_option, runs_option


@main.command()
@click.argument("line", nargs=-1, required=True)
@contact_option
@preset_option
@click.option("--listen", metavar="IP:PORT", help="Where other peers reach this peer (default: [::]:4484).")
@click.option(
    "--http", metavar="IP:PORT", help="Where readers reach the portal (default: the peer's port + 1000)."
)
@runs_option
@framed(json=True)
@click.pass_context
def join(
    context: click.Context,
    frame: CommandFrame,
    line: tuple[str, ...],
    contact: str | None,
    preset: str | None,
    listen: str | None,
    http: str | None,
    runs: bool,
) -> None:
    """Join a network by an invitation: fetch its charter, make a home, and run the peer.

    LINE begins with `herodotus:`. A member prints it with `herodotus invite`. Where the home belongs to that network
    already, the peer only runs.

    \b
    Examples:
      herodotus join herodotus:AEAACAQDAQCQMBYI... --contact mailto:me@example.org
    """
    invitation = Invitation.parse(" ".join(line))
    contacts = tuple(map(str, invitation.contacts))
    if frame.home.exists():
        _check_home(frame, invitation)
    else:
        frame.say(f"asking {', '.join(contacts)} for the network's charter")
        charter = anyio.run(_fetched, invitation)
        if charter.contact_required and contact is None and sys.stdin.isatty() and not frame.is_json:
            contact = click.prompt("A page (or mailto:) at which site owners reach you", err=True)
        given = {
            "operator.contact": ("--contact", contact),
            "ring.listen": ("--listen", listen),
            "http.listen": ("--http", http),
            "ring.join": ("the invitation", ",".join(contacts)),
        }
        facts = make_home(frame, charter, preset=preset, given=given)
        if not runs:
            frame.show(facts)
    if runs:
        context.invoke(run, join=contacts)


def _check_home(frame: CommandFrame, invitation: Invitation) -> None:
    charter = open_home(frame.home)
    found = charter.network_id()
    if found[:CHARTER_BYTES] != invitation.charter_hash:
        invited = shown_network_id(NetworkId(invitation.charter_hash))
        raise Misuse(
            f"the invitation is for network {invited}, and {frame.home.path} belongs to {charter.name!r}"
            f" ({shown_network_id(found)}): join with a home of its own, `herodotus join --home FOLDER ...`"
        )


async def _fetched(invitation: Invitation) -> Charter:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from herodotus.peers.invited import Knocking, fetch_charter
    from herodotus.peers.net.certificate import caller_context
    from herodotus.peers.net.tls_line import dial_tls

    context = caller_context()
    knocking = Knocking(
        dial=lambda host, port: dial_tls(host, port, context),
        key=Ed25519PrivateKey.generate(),
        unix_s=unix_seconds(),
    )
    return await fetch_charter(invitation, knocking)
