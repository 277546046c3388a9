"""How are thousands of peers together as polite as one? Leases from each host's steward (docs/protocol/leases.md)."""

from herodotus.crawl.stewards.office import StewardRing
from herodotus.crawl.stewards.ring_steward import RingSteward, StewardParts

__all__ = ["RingSteward", "StewardParts", "StewardRing"]
