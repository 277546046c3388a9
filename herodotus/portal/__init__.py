"""What does a reader see on the peer's HTTP port? Pages without I/O, and a server that carries them."""

from herodotus.portal.server import Portal

__all__ = ["Portal"]
