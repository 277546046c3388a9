"""Which pages said this, and when? An index of words over the captures of this peer, derived from the archive.

It can be deleted at any time: the peer makes it again.
"""
