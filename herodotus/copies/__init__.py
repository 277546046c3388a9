"""How do six peers come to hold the same captures, and keep holding them? Shells around `core.copies`.

`Copies` is the face: it serves other peers, and keeps this one's share right for as long as it is open.
"""
