"""Whose key is it? The ring's records know a caller, and a called peer that has rotated its key.

A member's key is in the table. A newcomer's may be missing still, and a peer that keeps a sample of a large ring
knows few keys. An unknown caller shows its signed record, which must name the address that it calls from.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Protocol

from dht.core.ids import NetworkId, PeerKey
from dht.core.places import Standing
from dht.core.records import Address, Contact, Line, SignedRecord, record_fault
from dht.core.rules import RingRules
from dht.endpoint import packed_address
from dht.identity import Verifier
from dht.wire import decode_record, encode_record
from herodotus.core.admission import CallerStanding


class Acquaintance(Protocol):
    """The questions that calls ask of the ring."""

    def own_record(self) -> bytes:
        """Our record, for peers that do not know us; empty if we have none yet."""
        ...

    def standing(self, caller: bytes, record: bytes, host: str) -> CallerStanding: ...

    def is_rotation(self, record: bytes, *, old: bytes, new: bytes) -> bool:
        """Do both keys say that one follows the other?"""
        ...


def shown_rotation(record: bytes, network: bytes, now: float) -> tuple[bytes, bytes] | None:
    """The old and the new key of a peer whose sound record has both, for a caller that knows neither ring nor table."""
    signed = decode_record(record) if record else None
    if not isinstance(signed, SignedRecord) or not signed.record.previous:
        return None
    is_sound = record_fault(signed.record, NetworkId(network), now) is None and Verifier().is_record_signed(
        signed
    )
    return (signed.record.previous, signed.record.peer) if is_sound else None


class RingTable(Protocol):
    @property
    def record(self) -> SignedRecord | None: ...
    def knows(self, peer: PeerKey) -> bool: ...


class AskingRing(RingTable, Protocol):
    def lines_of(self, peer: PeerKey) -> tuple[Line, ...]:
        """Where it says that it can be called; nothing of a peer that the ring's table has not."""
        ...

    def relays_of(self, peer: PeerKey) -> tuple[Contact, ...]:
        """Through whom we reach a peer that is closed or apart from us; nothing of one that we can call."""
        ...

    def is_apart(self, peer: PeerKey) -> bool:
        """Has it no address in a family of ours?"""
        ...

    @property
    def is_apart_from_some(self) -> bool:
        """Are there members without an address in the one family that we have?"""
        ...

    @property
    def is_closed(self) -> bool:
        """Has a test shown that others cannot call us?"""
        ...

    def relay_candidates(self) -> list[Contact]:
        """Members that could be relays of ours, at an address that we can call."""
        ...

    def standings(self) -> Mapping[PeerKey, Standing]:
        """How each member counts today."""
        ...

    def keep_relays(self, relays: Sequence[PeerKey], *, is_member: bool) -> None:
        """These keep a line of ours; `is_member`: for so long that we may own keys."""
        ...

    async def answers(self, address: Address) -> bool:
        """Does a peer answer datagrams there?"""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RingAcquaintance:
    ring: RingTable
    rules: RingRules
    wall_clock: Callable[[], float]
    verifier: Verifier

    def own_record(self) -> bytes:
        signed = self.ring.record
        return encode_record(signed) if signed is not None else b""

    def standing(self, caller: bytes, record: bytes, host: str) -> CallerStanding:
        if self.ring.knows(PeerKey(caller)):
            return CallerStanding.MEMBER
        signed = self._sound(record)
        if signed is None or signed.record.peer != caller:
            return CallerStanding.UNKNOWN
        packed = packed_address((str(ip_address(host.partition("%")[0])), 1)).host
        is_there = any(line.host == packed for line in signed.record.lines)
        return CallerStanding.NEWCOMER if is_there else CallerStanding.UNKNOWN

    def is_rotation(self, record: bytes, *, old: bytes, new: bytes) -> bool:
        signed = self._sound(record)
        return signed is not None and (signed.record.peer, signed.record.previous) == (new, old)

    def _sound(self, record: bytes) -> SignedRecord | None:
        signed = decode_record(record) if record else None
        if not isinstance(signed, SignedRecord):
            return None
        if record_fault(signed.record, self.rules.network, self.wall_clock()) is not None:
            return None
        return signed if self.verifier.is_record_signed(signed) else None
