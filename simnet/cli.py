"""How does a tester start a world? The command `simnet`."""

import click

from herodotus import __version__


@click.group(name="simnet", context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="simnet")
def main() -> None:
    """Worlds in virtual time for testers of Herodotus."""
