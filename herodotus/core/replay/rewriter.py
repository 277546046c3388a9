"""How does a body become one that leads into the archive? Bytes in, bytes out, in pieces of any size.

The pieces make no difference: any split of a body gives the same bytes. Memory is bounded whatever the body
is. A rewriter raises nothing and is used once.
"""

from typing import Protocol


class Rewriter(Protocol):
    def feed(self, data: bytes) -> bytes:
        """What is certain so far; perhaps nothing."""
        ...

    def close(self) -> bytes:
        """The rest; called once, at the end."""
        ...
