"""How does a shell complete our commands? Prints the script that click makes."""

import click
from click.shell_completion import get_completion_class

from herodotus.operate.cli.frame import main


@main.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of a shell.

    \b
    Examples:
      herodotus completion bash > ~/.local/share/bash-completion/completions/herodotus
      herodotus completion fish > ~/.config/fish/completions/herodotus.fish
    """
    maker = get_completion_class(shell)
    assert maker is not None  # the choices above are those that click knows
    click.echo(maker(main, {}, "herodotus", "_HERODOTUS_COMPLETE").source())
