"""What do all commands share?"""

import click

from herodotus import __version__


@click.group(name="herodotus", context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="herodotus")
def main() -> None:
    """A peer of the web archive that nobody can switch off."""
