"""Pure parts of the copying. See `herodotus.copies`."""

PeerKey = bytes
"""As calls have it (`herodotus.peers.calls`): whoever they proved to be the caller."""
