"""How does somebody with an invitation get the charter, before the ring knows anything of him?

Any peer of a network gives its charter to any caller (`charter.get`, docs/protocol/invitation.md). What comes must
have the hash that the invitation names, so neither the contact nor anybody on the way can pass off another one.
"""

import hmac
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass

import anyio
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from herodotus.core.charter import Charter, shown_network_id
from herodotus.core.errors import MalformedError, Misuse, WorldFailure
from herodotus.core.invitation import CHARTER_BYTES, Invitation, InvitedContact, key_hash
from herodotus.peers.calls import PeerKey, RefusedError, Services
from herodotus.peers.net.acquaintance import shown_rotation
from herodotus.peers.net.connection import FrameConnection
from herodotus.peers.net.line import Dial, LineBrokenError, WrongProtocolError
from herodotus.peers.net.wire import (
    CallHello,
    CallQuestion,
    CallRefusal,
    FrameKind,
    Greeting,
    signed_by_caller,
)

SERVICE = "charter.get"
CHARTER_BYTES_MAX = 60_000
ASK_S = 15.0
"""A contact that answers later is one that does not answer: there are others."""
NETWORK_BYTES = 8
_DAY_S = 86_400
_OLD_DAYS = 30
_ANSWERS = frozenset({FrameKind.ANSWER, FrameKind.REFUSED})


def charter_services(charter: Charter) -> Services:
    """For anybody who names the charter."""
    text, hashed = charter.to_toml().encode(), charter.network_id()[:CHARTER_BYTES]

    async def get(_caller: PeerKey, body: bytes) -> bytes:
        if body != hashed:
            raise RefusedError("another charter")
        if len(text) > CHARTER_BYTES_MAX:
            raise RefusedError("too large")
        return text

    return Services(calls={SERVICE: get}, for_anybody=frozenset({SERVICE}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Knocking:
    """What asking at a door needs of the world."""

    dial: Dial
    """It finds a name's addresses itself."""
    key: Ed25519PrivateKey
    unix_s: float


class NobodyAnswered(WorldFailure):
    def __init__(self, invitation: Invitation, reasons: Sequence[str], today: int) -> None:
        count, age = len(invitation.contacts), today - invitation.day
        said = "; ".join(reasons)
        old = (
            f"; the invitation is {age} days old: ask for a new one (`herodotus invite`)"
            if age > _OLD_DAYS
            else "; check the line and a firewall's rules for outgoing TCP, then try again"
        )
        super().__init__(
            f"none of the {count} peers in the invitation gave the network's charter ({said}){old}"
        )


class _NoCharter(Exception):
    """Why, in words."""


async def fetch_charter(invitation: Invitation, knocking: Knocking) -> Charter:
    """From whichever contact answers first. Raises NobodyAnswered."""
    found: list[Charter] = []
    reasons: dict[InvitedContact, str] = {}
    async with anyio.create_task_group() as tasks:

        async def knock(contact: InvitedContact) -> None:
            try:
                with anyio.fail_after(ASK_S):
                    found.append(await _ask(invitation, contact, knocking))
                tasks.cancel_scope.cancel()
            except TimeoutError:
                reasons[contact] = "no answer"
            except _NoCharter as error:
                reasons[contact] = str(error)

        for contact in invitation.contacts:
            tasks.start_soon(knock, contact)
    if found:
        return found[0]
    said = [f"{contact}: {reasons[contact]}" for contact in invitation.contacts if contact in reasons]
    raise NobodyAnswered(invitation, said, int(knocking.unix_s // _DAY_S))


async def _ask(invitation: Invitation, contact: InvitedContact, knocking: Knocking) -> Charter:
    try:
        connection = FrameConnection(await knocking.dial(contact.host, contact.port))
    except WrongProtocolError:
        raise _NoCharter("no peer of herodotus") from None
    except (OSError, LineBrokenError):
        raise _NoCharter("no connection") from None
    try:
        return _checked(await _answer(connection, invitation, contact, knocking), invitation)
    except (LineBrokenError, MalformedError):
        raise _NoCharter("it broke off") from None
    finally:
        with anyio.CancelScope(shield=True):
            await connection.close()


async def _answer(
    connection: FrameConnection, invitation: Invitation, contact: InvitedContact, knocking: Knocking
) -> bytes:
    network = invitation.charter_hash[:NETWORK_BYTES]
    greeting = Greeting.read((await connection.read(frozenset({FrameKind.GREETING}))).content)
    called = connection.key
    if greeting.network != network:
        raise _NoCharter(f"it is now of network {greeting.network.hex()}, not of {network.hex()}")
    if called is None or not _is_invited(called, greeting, contact, knocking.unix_s):
        raise _NoCharter("another peer sits there now")
    own = knocking.key.public_key().public_bytes_raw()
    signed = signed_by_caller(network=network, called=called, nonce=greeting.nonce, caller=own)
    await connection.send(CallHello(network, own, knocking.key.sign(signed)).pack())
    body = invitation.charter_hash
    await connection.send(CallQuestion(service=SERVICE, deadline_s=ASK_S, is_stream=False, body=body).pack())
    found = await connection.read(_ANSWERS)
    if found.kind is FrameKind.REFUSED:
        raise _NoCharter(f"it answered {CallRefusal.read(found.content).reason!r}")
    return found.content


def _is_invited(called: bytes, greeting: Greeting, contact: InvitedContact, now: float) -> bool:
    if hmac.compare_digest(key_hash(called), contact.key_hash):
        return True
    rotation = shown_rotation(greeting.record, greeting.network, now)
    return rotation is not None and rotation[1] == called and key_hash(rotation[0]) == contact.key_hash


def _checked(text: bytes, invitation: Invitation) -> Charter:
    try:
        charter = Charter.from_table(tomllib.loads(text.decode()), source="the charter")
    except (Misuse, tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError):
        raise _NoCharter("its charter cannot be read by this release") from None
    if charter.network_id()[:CHARTER_BYTES] != invitation.charter_hash:
        raise _NoCharter(f"it gave the charter of another network, {shown_network_id(charter.network_id())}")
    return charter
