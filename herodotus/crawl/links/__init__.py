"""How do this peer's links reach their holders, and how does it receive other peers' links?

The outbox keeps them, the walk delivers them around the ring, the receiver checks and remembers them. What is decided
without input or output is in `herodotus.core.links`; `docs/protocol/links.md` is the protocol to the byte.
"""
