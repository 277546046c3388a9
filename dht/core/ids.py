"""Where on the circle is it?  160-bit keys, distances and intervals, and the position of a virtual node.

A key is 20 bytes, most significant first, so that comparing bytes compares numbers, `bisect` works on plain
lists of keys, and the wire carries a key as it is.  Arithmetic (distance, density) goes through `int` and
is rare.
"""

import hashlib
from typing import Literal, NewType

Key = NewType("Key", bytes)  # a point of the circle: a hashed URL, or where a virtual node sits; 20 bytes
PeerKey = NewType("PeerKey", bytes)  # a host's Ed25519 public key, 32 bytes: who somebody is
NetworkId = NewType("NetworkId", bytes)  # first 8 bytes of the charter's hash

IdCheck = Literal[
    "ip", "off"
]  # the charter's rule: positions from the address alone, or from address and port (test rings)

KEY_BYTES = 20
PEER_KEY_BYTES = 32
NETWORK_ID_BYTES = 8
CIRCLE = 1 << 160

IPV4_BYTES = 4
IPV6_BYTES = 16
IPV4_MAPPED = bytes(10) + b"\xff\xff"  # how an IPv4 address begins where it is written as one of IPv6
IPV6_PREFIX_BYTES = 8  # a subscriber gets a /64, so anything longer could be chosen at will


def key_of(name: bytes) -> Key:
    """The key of anything with a name, as the thesis has it: SHA-1 of a URL."""
    return Key(hashlib.sha1(name, usedforsecurity=False).digest())


def key_from_number(number: int) -> Key:
    return Key((number % CIRCLE).to_bytes(KEY_BYTES, "big"))


def number_of(key: Key) -> int:
    return int.from_bytes(key, "big")


def distance(start: Key, end: Key) -> int:
    """How far one walks clockwise from `start` to `end`; 0 where they are the same point."""
    return (int.from_bytes(end, "big") - int.from_bytes(start, "big")) % CIRCLE


def is_between(start: Key, key: Key, end: Key) -> bool:
    """Is `key` strictly inside the arc from `start` to `end`?  Equal ends mean the whole circle but that
    point.
    """
    if start < end:
        return start < key < end
    return key > start or key < end if start != end else key != start


def is_in_arc(start: Key, key: Key, end: Key) -> bool:
    """Is `key` in the half-open arc (start, end], the keys that the node at `end` owns?  Equal ends mean
    everything.
    """
    if start < end:
        return start < key <= end
    return key > start or key <= end


def anchor_of(host: bytes) -> bytes:
    """What of an address counts for a position: all of IPv4, the /64 of IPv6."""
    return host if len(host) == IPV4_BYTES else host[:IPV6_PREFIX_BYTES]


def birth_host(host: bytes) -> bytes:
    """The host that a seat is from, in its one form: what does not count for the position is zero."""
    return anchor_of(host).ljust(len(host), b"\0")


def position_of(host: bytes, port: int, slot: int, index: int, id_check: IdCheck) -> Key:
    """Where virtual node `index` of the peer at this address sits.

    Slot 0 is left out, which gives the thesis's form SHA-1(address, index).  In rings that do not check
    addresses the port takes part, so that any number of peers can live on one machine.
    """
    place = anchor_of(host)
    if id_check == "off":
        place += port.to_bytes(2, "big")
    if slot:
        place += bytes((slot,))
    return key_of(place + index.to_bytes(2, "big"))
