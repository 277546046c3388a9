"""Which ring is traced?"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    peers: int
    settings: str
    hosts: int
    pages: int
    delay_s: float
    within_s: float
