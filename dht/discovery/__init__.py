"""How does a peer find the ring, and can the ring reach the peer?

Contacts given, remembered, met on the local network or left at a rendezvous; ports mapped on the router.
Shells and adapters around other people's libraries, each behind a small interface and each able to be
switched off.
"""
