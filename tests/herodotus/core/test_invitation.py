"""Does an invitation come through mail, telephone and typing, or not at all?"""

import base64
import hashlib
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herodotus.core.invitation import (
    CONTACTS_MAX,
    SCHEME,
    BadInvitation,
    Invitation,
    InvitedContact,
    key_hash,
)

ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"


def invitation(*hosts: str) -> Invitation:
    return Invitation(
        charter_hash=bytes(range(16)),
        day=20_776,
        contacts=tuple(
            InvitedContact(key_hash=key_hash(host.encode()), host=host, port=4_484 + n)
            for n, host in enumerate(hosts)
        ),
    )


THREE = invitation("192.0.2.1", "198.51.100.77", "203.0.113.200")


def with_check(body: bytes) -> str:
    content = body + hashlib.sha256(body).digest()[:4]
    return SCHEME + base64.b32encode(content).decode().rstrip("=")


def test_the_line_is_as_written_down() -> None:
    """docs/protocol/invitation.md has this one."""
    assert str(THREE) == (
        "herodotus:AEAACAQDAQCQMBYIBEFAWDANBYHVCKADG76P6JF7MIBVWBGAAABACEMEG2LGND3PQJ2AOBGGGNSE2EMFY3VAS4DQY2ISOBGLABY4Q"
        "EMG26WTLMY"
    )
    assert len(str(THREE)) == 121


hosts = st.one_of(
    st.ip_addresses(v=4).map(str),
    st.ip_addresses(v=6).map(str),
    st.sampled_from(["ring.example.org", "a", "x-1.net"]),
)


@given(st.lists(hosts, min_size=1, max_size=CONTACTS_MAX), st.integers(0, 65_535))
def test_what_is_written_is_read(hosts: list[str], day: int) -> None:
    made = Invitation(charter_hash=bytes(16), day=day, contacts=invitation(*hosts).contacts)
    assert Invitation.parse(str(made)) == made
    assert Invitation.parse(f"  {str(made).lower()[:40]}\r\n {str(made).lower()[40:]}\n") == made


def test_no_line_with_one_other_character_passes() -> None:
    line, passed = str(THREE), 0
    chance = Random(1)
    for _ in range(5_000):
        at = chance.randrange(len(SCHEME), len(line))
        letter = chance.choice(ALPHABET.replace(line[at], ""))
        with pytest.raises(BadInvitation, match="character"):
            Invitation.parse(line[:at] + letter + line[at + 1 :])
        passed += 1
    assert passed == 5_000


@pytest.mark.parametrize(
    "text", ["", "herodotus:", "http://example.org/", SCHEME + "é", SCHEME + "0189", SCHEME + "A" * 5_000]
)
def test_what_is_no_invitation_is_refused(text: str) -> None:
    with pytest.raises(BadInvitation):
        Invitation.parse(text)


def test_a_shortened_line_is_refused_wherever_it_ends() -> None:
    line = str(THREE)
    for end in range(len(line)):
        with pytest.raises(BadInvitation):
            Invitation.parse(line[:end])


@given(st.binary(max_size=200))
def test_no_content_with_a_fitting_check_does_harm(body: bytes) -> None:
    try:
        found = Invitation.parse(with_check(body))
    except BadInvitation:
        return
    assert Invitation.parse(str(found)) == found


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"\x02" + bytes(40), "upgrade"),
        (b"\x01" + bytes(16) + bytes(2) + b"\x00", "names no peer"),
        (b"\x01" + bytes(16) + bytes(2) + b"\x09" + bytes(200), "names no peer"),
        (b"\x01" + bytes(16) + bytes(2) + b"\x01" + bytes(8) + b"\x00\x03a/b" + bytes(2), "cannot be read"),
        (b"\x01" + bytes(16) + bytes(2) + b"\x01" + bytes(8) + b"\x05\x01a" + bytes(2), "cannot be read"),
        (
            b"\x01" + bytes(16) + bytes(2) + b"\x01" + bytes(8) + b"\x04" + bytes(4) + bytes(2) + b"x",
            "cannot be read",
        ),
    ],
)
def test_an_invitation_of_strange_content_is_refused(body: bytes, says: str) -> None:
    with pytest.raises(BadInvitation, match=says):
        Invitation.parse(with_check(body))
