"""What can go wrong on the ring's way in and out?

In the core nothing: what strangers send wrong is dropped and counted, an expected answer (no holder found) is a value,
and what a caller does wrong is asserted.

DhtError
└── DhtWorldError              the world failed
    ├── TransportClosedError       the socket is gone
    ├── RequestFailedError         nobody answered in time, or the handshake failed
    └── NoAnswerError              the ring did not say who owns a key
"""


class DhtError(Exception):
    """The root of everything that `dht` raises."""


class DhtWorldError(DhtError):
    """The world failed: retry or report."""


class TransportClosedError(DhtWorldError):
    """The transport was closed while somebody was using it."""

    def __init__(self) -> None:
        super().__init__("the ring's transport is closed")


class RequestFailedError(DhtWorldError):
    """A request had no answer."""

    def __init__(self, peer: str, reason: str) -> None:
        super().__init__(f"no answer from {peer}: {reason}")
        self.peer = peer
        self.reason = reason


class NoAnswerError(DhtWorldError):
    """A lookup found nobody."""

    def __init__(self, key: str) -> None:
        super().__init__(f"the ring named no owner of {key}")
        self.key = key
