"""Where on the ring does a URL lie? Everything kept about a URL is sorted and found by its position."""

from crawler.core.urls import url_key
from dht.core.ids import Key


def position_of(url: str) -> Key:
    """Of a canonical URL, or of one that a file of others names: SHA-1, as in the thesis."""
    return Key(url_key(url))
