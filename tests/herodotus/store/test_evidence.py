"""Does the archive tell what stands for a capture?"""

from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from herodotus.core.doors import Door, Passage, through
from herodotus.core.signatures import SignedWindow, helper_field, signed, window_field
from herodotus.store import id_of_facts
from herodotus.store.evidence import evidence
from tests.herodotus.copies.world import new_store
from tests.herodotus.store.making import NOW_S, page

pytestmark = pytest.mark.anyio
URL = "http://example.org/"
ONE, OTHER = (Ed25519PrivateKey.from_private_bytes(bytes([n]) * 32) for n in (1, 2))
HELPER = b"h" * 32
WINDOW = SignedWindow(
    steward=b"s" * 32, number=7, granted_s=NOW_S, starts_ms=0, lasts_ms=7_000, count=3, addresses=[]
)


def keyed(key: Ed25519PrivateKey) -> str:
    return key.public_key().public_bytes_raw().hex()


async def test_who_fetched_it_by_whose_leave_and_who_differs() -> None:
    store = new_store()
    deposit = page(URL, NOW_S, b"one")
    deposit = replace(deposit, extra=(*deposit.extra, window_field(WINDOW), helper_field(HELPER.hex())))
    deposit = through(Passage(Door.CRAWLED), signed(ONE, deposit))
    other = signed(OTHER, page(URL, NOW_S - 60, b"other"))
    for one in (deposit, other, page(URL, NOW_S - 3 * 86_400, b"of another day")):
        await store.store(one)
    facts = await evidence(store, NOW_S, URL)
    assert facts == {
        "url": URL,
        "date": "2023-11-14T22:13:20Z",
        "digest": f"sha256:{deposit.id.digest.hex()}",
        "door": "crawled",
        "fetched_by": keyed(ONE),
        "is_signature_sound": True,
        "helper": HELPER.hex(),
        "window": {
            "permitted_by": (b"s" * 32).hex(),
            "number": 7,
            "granted": "2023-11-14T22:13:20Z",
            "starts_ms": 0,
            "lasts_ms": 7_000,
            "count": 3,
            "addresses": [],
        },
        "differs": [
            {
                "date": "2023-11-14T22:12:20Z",
                "digest": f"sha256:{other.id.digest.hex()}",
                "fetched_by": keyed(OTHER),
            }
        ],
    }
    assert id_of_facts(facts) == deposit.id
    assert await evidence(store, NOW_S - 4 * 86_400, URL) is None


async def test_what_no_record_says_is_not_made_up() -> None:
    store = new_store()
    await store.store(page(URL, NOW_S, b"of before"))
    facts = await evidence(store, NOW_S, URL)
    assert facts is not None
    told = (
        facts["door"],
        facts["fetched_by"],
        facts["is_signature_sound"],
        facts["window"],
        facts["differs"],
    )
    assert told == ("unknown", "", False, None, [])
