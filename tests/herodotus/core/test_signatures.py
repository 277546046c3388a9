"""Does a capture's signature say who brought it in, and fit nothing else?"""

import base64
import hashlib
import random
from dataclasses import replace
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec import structs

from herodotus.core.signatures import (
    SIGNATURE,
    SignedWindow,
    field_of,
    is_signed_window,
    signed,
    signer_of,
    statement,
    window_field,
    window_of_field,
    window_statement,
)
from herodotus.store.holdings import unpacked
from herodotus.store.intake import compress_bundle
from tests.herodotus.deposits import altered
from tests.herodotus.store.making import NOW_S, page

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
SIGNER = KEY.public_key().public_bytes_raw()
DEPOSIT = page("http://example.org/", NOW_S, b"<p>hello</p>")


def test_the_bytes_of_the_statement_and_the_field() -> None:
    assert statement(DEPOSIT).hex() == (
        "6865726f646f7475732f636170747572652f31"
        "00000013687474703a2f2f6578616d706c652e6f72672f"
        "000000046553f100"
        "00000020a5652be1ca864d36d25cfb54a41f384e2de1b3acf7513a925d72ed7258fdc0ae"
        "00000020157c90259cab7052088676833ffedec3318b06deb1857dea47e95c7d5c6ce973"
        "000000093139322e302e322e31"
    )
    assert field_of(KEY, DEPOSIT) == (
        SIGNATURE,
        (
            "1 03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8 "
            "c3aba8c7aab3be94f45fe3dee93d4bd991ce4e2029640f6279bd4954669e6d792752f65640c04e8abfa51104705cb71b"
            "d3d7b09869a8361815637465078afd02"
        ),
    )


def test_it_outlives_the_way_through_a_parcel() -> None:
    vouched = signed(KEY, DEPOSIT)
    arrived = unpacked(b"".join(compress_bundle(vouched, None)))
    assert signer_of(arrived) == SIGNER
    assert compress_bundle(arrived, None) == compress_bundle(vouched, None)
    assert signed(Ed25519PrivateKey.from_private_bytes(bytes(32)), arrived) is arrived


def test_it_fits_nothing_else() -> None:
    vouched = signed(KEY, DEPOSIT)
    other = page("http://example.org/", NOW_S, b"<p>hallo</p>")
    for changed in (
        altered(vouched, url="http://example.org/2"),
        altered(vouched, requested_at=NOW_S + 1.0),
        altered(vouched, remote_ip="192.0.2.2"),
        altered(vouched, head=vouched.capture.head.replace(b"200", b"404")),
        altered(vouched, body=other.capture.body, sha256=other.capture.sha256, sha1=other.capture.sha1),
        replace(vouched, extra=((SIGNATURE, vouched.extra[0][1].replace("1 0", "2 0", 1)),)),
        replace(vouched, extra=((SIGNATURE, "1 zz zz"),)),
        DEPOSIT,
    ):
        assert signer_of(changed) is None
    forged = replace(DEPOSIT, extra=((SIGNATURE, "1 zz zz"),))
    assert signer_of(signed(KEY, forged)) == SIGNER
    assert len(signed(KEY, forged).extra) == 1


# -- windows ----------------------------------------------------------------------------------------------

STEWARD = Ed25519PrivateKey.from_private_bytes(hashlib.sha256(b"steward").digest())
ASKER, NETWORK, SUBJECT = hashlib.sha256(b"asker").digest(), bytes(range(8)), "host:a.example"
STATEMENT = (
    "9b01c4080001020304050607c42002a3dc085c1bc4d58c86ec9be3bfdfb7662f828138ee1c5d6005551380ba0cc8c420af46aa07307a473302"
    "d5991ffd3ac37344a9238cfe0404bfff6c92a5fcb772c1ae686f73743a612e6578616d706c650cce6553f100cd05dccd1b580390"
)
SIGNED = (
    "da2c87427151833fe998e0cf7c9ab915877f0e3779a3685237c969ff42afb0f2d00359aecdcfa8ad531a84358339ed1b51c5105d6d5f93d00d92"
    "a29b8737a90b"
)
FIELD = (
    "1 mMQgAqPcCFwbxNWMhuyb47/ft2YvgoE47hxdYAVVE4C6DMgMzmVT8QDNBdzNG1gDkMRA2iyHQnFRgz/pmODPfJq5FYd/Djd5o2hSN8lp/0KvsPLQ"
    "A1muzc+orVMahDWDOe0bUcUQXW1fk9ANkqKbhzepCw=="
)


def window() -> SignedWindow:
    return SignedWindow(
        steward=STEWARD.public_key().public_bytes_raw(),
        number=12,
        granted_s=1_700_000_000,
        starts_ms=1_500,
        lasts_ms=7_000,
        count=3,
        addresses=[],
        signature=bytes.fromhex(SIGNED),
    )


def test_the_bytes_of_a_signed_window_stay_what_they_are() -> None:
    statement = window_statement(window(), NETWORK, ASKER, SUBJECT)
    assert statement.hex() == STATEMENT
    assert STEWARD.sign(statement).hex() == SIGNED
    assert window_field(window()) == ("Herodotus-Window", FIELD)
    assert window_of_field(FIELD) == window()
    page = "".join((Path(__file__).parents[3] / "docs/protocol/leases.md").read_text().split())
    assert STATEMENT in page
    assert SIGNED in page


def test_a_window_is_for_one_network_asker_host_and_time() -> None:
    assert is_signed_window(window(), NETWORK, ASKER, SUBJECT)
    assert not is_signed_window(window(), bytes(8), ASKER, SUBJECT)
    assert not is_signed_window(window(), NETWORK, bytes(32), SUBJECT)
    assert not is_signed_window(window(), NETWORK, ASKER, "host:b.example")
    for change in (
        {"count": 4},
        {"granted_s": 1_700_000_001},
        {"lasts_ms": 7_001},
        {"addresses": ["192.0.2.1"]},
    ):
        assert not is_signed_window(structs.replace(window(), **change), NETWORK, ASKER, SUBJECT)
    assert [window().covers(1_700_000_000 + at) for at in (-599, -598, 608, 609)] == [
        False,
        True,
        True,
        False,
    ]


def test_any_field_is_a_window_or_none() -> None:
    rng = random.Random(5)
    for _ in range(2_000):
        raw = bytearray(base64.b64decode(FIELD[2:]))
        raw[rng.randrange(len(raw))] = rng.randrange(256)
        found = window_of_field("1 " + base64.b64encode(bytes(raw)).decode())
        assert found is None or not is_signed_window(found, NETWORK, ASKER, SUBJECT) or found == window()
    for field in (None, "", "1", "2 " + FIELD[2:], "1 ====", "1 é"):
        assert window_of_field(field) is None
