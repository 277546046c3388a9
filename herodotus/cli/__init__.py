"""How does a person or a script talk to a peer? One module per group of commands, one frame for all."""

from herodotus.cli import completion, daemon, ring, setup
from herodotus.cli.frame import main

__all__ = ["completion", "daemon", "main", "ring", "setup"]
