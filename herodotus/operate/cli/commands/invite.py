"""How does a member let others in? `invite` prints the line for `join`."""

import click

from herodotus.core.errors import WorldFailure
from herodotus.operate.cli.commands.status import facts_of, operator_token, running_address
from herodotus.operate.cli.frame import CommandFrame, framed, main
from herodotus.operate.cli.printing import print_text


@main.command()
@click.option("--qr", "is_drawn", is_flag=True, help="Draw it as well, for a camera.")
@framed(json=True)
def invite(frame: CommandFrame, is_drawn: bool) -> None:
    """Print an invitation to this peer's network. It is no secret.

    A newcomer runs `herodotus join LINE`. The line names up to three members at which the newcomer can knock, so it
    serves for as long as one of them stays where it is.

    \b
    Examples:
      herodotus invite
      herodotus invite --qr
    """
    facts = facts_of(running_address(frame), operator_token(frame.home))
    ring = facts.get("ring")
    line = ring.get("invitation") if isinstance(ring, dict) else None
    if not isinstance(line, str) or not line:
        raise WorldFailure(
            "there is no invitation yet: no other peer could reach this one, and it knows no member that can be"
            " reached; `herodotus status` says what is missing"
        )
    if frame.is_json:
        frame.show({"invitation": line, "network": facts.get("network")})
        return
    if is_drawn:
        print_text(drawn(line))
    print_text(f"{line}\n")


def drawn(line: str) -> str:
    """As a QR code for terminals. Capital letters alone need fewer modules."""
    from io import StringIO

    import segno

    out = StringIO()
    segno.make(line.upper(), micro=False).terminal(out, border=2, compact=True)
    return out.getvalue()
