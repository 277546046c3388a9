"""What can go wrong in the ring's core?

    DhtError
    └── RingUsageError      we are wrong: the caller broke the machine's contract

Strangers cause no exceptions here: what they send wrong is dropped and counted.  An expected answer (no
holder found) is a value.
"""


class DhtError(Exception):
    """The root of everything that `dht` raises."""


class RingUsageError(DhtError):
    def __init__(self, operation: str, reason: str) -> None:
        super().__init__(f"{operation}: {reason}")
        self.operation = operation
        self.reason = reason
