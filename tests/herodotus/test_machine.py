"""What does a daemon find out about the other machines, by real sockets?"""

import pytest

from herodotus.machine import Machine
from herodotus.peers.calls import Services
from tests.dht.link_world import key_from
from tests.herodotus.peers.net.peers import called

pytestmark = pytest.mark.anyio


async def test_a_stream_reaches_the_peer_whose_key_is_there_and_no_other() -> None:
    machine, somebody_else = Machine(), key_from("somebody else").public_key().public_bytes_raw()
    async with called(Services()) as there:
        address = ("127.0.0.1", there.port)
        assert await machine.dial_stream(address, there.contact.peer)
        assert not await machine.dial_stream(address, somebody_else)
    assert not await machine.dial_stream(address, there.contact.peer), "nobody listens any more"
