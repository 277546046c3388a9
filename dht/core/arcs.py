"""What must I hold so that every key has its copies?  For each of my virtual nodes, the keys that it is
among the first k for.
"""

from collections.abc import Sequence

from dht.core.effects import Arc
from dht.core.membership import Membership
from dht.core.records import Contact


def arc_of(me: Contact, predecessor: Contact | None, table: Membership, copies: int) -> Arc:
    """Back from me over `copies` distinct other hosts: the keys after the last of them are mine to hold.

    It ends early at another virtual node of my host, whose own arc goes on from there.  The first step is
    the ring's (my predecessor), the others are the table's.
    """
    hosts = set()
    if predecessor is not None:
        if predecessor.peer == me.peer:
            return Arc(start=predecessor.position, end=me.position)
        hosts.add(predecessor.peer)
        if len(hosts) == copies:
            return Arc(start=predecessor.position, end=me.position)
    for contact in table.counterclockwise(me.position):
        if contact.peer == me.peer:
            return Arc(start=contact.position, end=me.position)
        hosts.add(contact.peer)
        if len(hosts) >= copies:
            return Arc(start=contact.position, end=me.position)
    return Arc(start=me.position, end=me.position)


def arcs_of(
    nodes: Sequence[tuple[Contact, Contact | None]], table: Membership, copies: int
) -> tuple[Arc, ...]:
    arcs = [arc_of(contact, predecessor, table, copies) for contact, predecessor in nodes]
    return tuple(sorted(arcs, key=lambda arc: arc.end))
