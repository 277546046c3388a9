"""Do URLs whose bytes are no UTF-8 keep one position the whole way? Files of others have them; here they are text with
lone surrogates.
"""

import hashlib
import random
from pathlib import Path
from typing import cast

import anyio
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from crawler.core.capture import Capture, PayloadDigest
from crawler.core.urls import url_key
from dht import Contact, Key, Member, Ring, key_of
from dht.core.arcs import WHOLE
from dht.core.holders import Table
from dht.core.ids import PeerKey
from dht.core.placement import Rule
from dht.core.places import Standing
from herodotus.copies.fetch_queue import receive_all
from herodotus.copies.shared_state import Parts, View
from herodotus.copies.wire import STORED
from herodotus.core.captures import Deposit, position_of
from herodotus.core.signatures import signed
from herodotus.portal.holders import RingDirections
from herodotus.store.holdings import ArchiveHoldings
from herodotus.store.intake import compress_bundle
from herodotus.store.reader import Reader
from herodotus.store.sealing import seal
from tests.herodotus.copies.world import new_store
from tests.herodotus.deposits import make_deposit
from tests.herodotus.store.making import NOW_S, open_on, store
from tests.herodotus.store.memory_store import AtOnce

pytestmark = pytest.mark.anyio
NAME = b"http://example.org/caf\xe9/\xff"
URL = NAME.decode("utf-8", "surrogateescape")
POSITION = hashlib.sha1(NAME).digest()


def deposit() -> Deposit:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"
    return make_deposit(url=URL, time_s=NOW_S, head=head, body=b"hello", ip="192.0.2.1")


def test_all_who_ask_for_a_position_are_told_the_same() -> None:
    fetched = Capture(
        url=URL, requested_at=NOW_S, duration_s=1.0, request=b"", status=200, head=b"", body=b"",
        sha256=PayloadDigest(bytes(32)), sha1=bytes(20), remote_ip="",
    )  # fmt: skip
    found: set[bytes] = {position_of(URL), url_key(URL), fetched.key, deposit().key, key_of(NAME)}
    assert found == {POSITION}


def test_it_is_found_again_in_the_log_and_in_a_segment(tmp_path: Path) -> None:
    archive = open_on(tmp_path)
    store(archive, deposit())
    for _ in ("log", "segment"):
        (version,) = Reader(archive).history(URL)
        assert version.id.key == POSITION
        found = Reader(archive).newest(URL, NOW_S)
        assert found is not None
        assert (found.url, found.id.key) == (URL, POSITION)
        seal(archive)
    archive.close()


async def test_it_travels_to_other_holders() -> None:
    there, key = new_store(), Ed25519PrivateKey.from_private_bytes(b"\3" * 32)
    parts = Parts(
        view=View(me=bytes(32), table=Table((), Rule(6)), wide_share=WHOLE),
        holdings=lambda: ArchiveHoldings(there),
        workers=AtOnce(),
        calls=lambda: pytest.fail("nobody is called"),
        sign=lambda one: one,
        random=random.Random(1),
    )
    parcel = b"".join(compress_bundle(signed(key, deposit()), None))
    ((outcome, _),) = await receive_all(parts, [parcel], b"\2" * 32)
    assert outcome == STORED
    assert await there.read(deposit().id) is not None


class AskedRing:
    """Whose holders a reader is sent to."""

    def __init__(self) -> None:
        self.keys: list[Key] = []

    async def holders(self, key: Key, copies: int) -> tuple[Contact, ...]:
        await anyio.lowlevel.checkpoint()
        self.keys.append(key)
        return ()[:copies]

    def members(self) -> tuple[Member, ...]:
        return ()

    def standings(self) -> dict[PeerKey, Standing]:
        return {}


async def test_readers_are_sent_to_the_holders_of_its_position() -> None:
    ring = AskedRing()
    assert await RingDirections(lambda: cast("Ring", ring), bytes(32), 6).holders(URL) == ()
    assert ring.keys == [POSITION]
