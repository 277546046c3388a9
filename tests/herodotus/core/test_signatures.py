"""Does a capture's signature say who brought it in, and fit nothing else?"""

from dataclasses import replace

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from herodotus.core.signatures import SIGNATURE, field_of, signed, signer_of, statement
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
