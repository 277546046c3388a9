"""What can go wrong in a peer, and whose fault is it?

HerodotusError                 the root; each class writes its own sentence, with the way out
"""

from typing import ClassVar


class HerodotusError(Exception):
    """A sentence for people, and the exit code that machines rely on."""

    exit_code: ClassVar[int] = 1
