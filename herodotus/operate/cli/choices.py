"""What does a person choose when a home is made or opened? A network's charter, a passphrase."""

import os
import sys
from dataclasses import replace
from pathlib import Path

import click
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from herodotus.core.charter import PUBLIC_CHARTER, TEST_CHARTER, Charter, founded_on
from herodotus.core.errors import KeyLocked
from herodotus.home.folder import read_charter
from herodotus.home.identity import load_key

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


def founded_charter(network: str | None, name: str, unix_s: float) -> Charter:
    """Of a new network that begins today, with the rules of another."""
    checked = Charter.from_table({"name": name}, source="--found")
    return founded_on(replace(chosen_charter(network), name=checked.name), unix_s)
