"""How do links that this peer found reach those who are to remember them, and how are other peers' links received?

The outbox keeps them, the walk delivers them around the ring, the receiver checks and remembers them. What is decided
without input or output is in `herodotus.core.links`; `docs/protocol/links.md` is the protocol to the byte.
"""
