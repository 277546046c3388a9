"""Which files of the archive are gone or too short, and how many of their captures are not back yet?

A loss stays until it is mended: other holders sent all captures that the index could name, and as many as it could
not, or the file is there again, or the operator gives the captures up. Everything else may be made anew meanwhile.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LostFile:
    number: int
    path: str
    slice: int
    size: int
    """It was so long."""
    left: int
    """Bytes of it that are here."""
    captures: int
    """That were lost with it: by the index if it knew them all, else what the manifest says less what is left."""
    named: int
    """Of them not back, and known by their names: rows of the index."""
    unnamed: int
    """Of them not back, and known by their number alone."""
    noted_s: int

    @property
    def waiting(self) -> int:
        return self.named + self.unnamed

    @property
    def what(self) -> str:
        return "is gone" if not self.left else f"has {self.left:,} of its {self.size:,} bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class LostBook:
    """What stands in `state/losses`."""

    losses: tuple[LostFile, ...] = ()
    returned: int = 0
    """Captures of before that came while some were known by their number alone."""

    def encode(self) -> bytes:
        facts = {"version": VERSION, **asdict(self)}
        return json.dumps(facts, indent=1).encode() + b"\n"


def decode_book(data: bytes) -> LostBook | None:
    """None for what is no such book, or of a later version."""
    try:
        facts = json.loads(data)
        if facts["version"] != VERSION:
            return None
        losses = tuple(_decode_loss(one) for one in facts["losses"])
        return LostBook(losses=losses, returned=int(facts["returned"]))
    except (ValueError, KeyError, TypeError):
        return None


def _decode_loss(facts: dict[str, Any]) -> LostFile:
    numbers = ("number", "slice", "size", "left", "captures", "named", "unnamed", "noted_s")
    return LostFile(path=str(facts["path"]), **{name: int(facts[name]) for name in numbers})


def waiting(losses: Iterable[LostFile]) -> int:
    return sum(loss.waiting for loss in losses)
