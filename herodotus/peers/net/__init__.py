"""How do calls between peers travel? TLS connections with pinned keys, and the same in memory for simulations.

The rest of the peer sees `herodotus.peers.calls.Calls`; `docs/protocol/calls.md` is the protocol to the byte.
"""
