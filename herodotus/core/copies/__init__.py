"""Pure parts of the copying. See `herodotus.copies`."""

PeerKey = bytes
"""As calls have it (`herodotus.peers.calls`): the key that the caller proved."""
