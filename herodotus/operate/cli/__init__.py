"""How does a person or a script talk to a peer? One module per group of commands, one frame for all."""

from herodotus.operate.cli.frame import main

__all__ = ["main"]
