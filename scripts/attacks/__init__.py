"""What can one person with one machine do to a ring? Attacks on real peers, for anybody to try.

Each attack is a function of a `Siege`, which it names what must hold. `run` lists them.
"""
