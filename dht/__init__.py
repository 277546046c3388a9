"""Who answers for this key, and who is alive?

Identity, signed records, the Chord ring, membership, lookups, walks and the datagrams between peers.
It knows nothing of URLs, captures or crawling.
"""
