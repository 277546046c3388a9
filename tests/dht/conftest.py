"""What tests of nodes share."""

from collections.abc import Iterator

import pytest
import trio.testing

from tests.dht import memory_sockets


@pytest.fixture
def virtual_time(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, dict[str, object]]]:
    """An `anyio_backend`: a clock that jumps when nothing is left to do, and sockets that hide nothing from it."""
    memory_sockets.net.clear()
    monkeypatch.setattr("dht.udp.bind", memory_sockets.bind)
    monkeypatch.setattr("dht.dialback.bind", memory_sockets.bind)
    yield "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}
    left = list(memory_sockets.net.bound)
    memory_sockets.net.clear()
    assert not left, f"never closed: {left}"
