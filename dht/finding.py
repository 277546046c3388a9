"""How do the finders keep a node in touch with its ring? Remembered peers, the local network, the rendezvous.

Each finder only gives the node peers to compare tables with. They run beside the node for as long as it lives, and
each can be missing. What was found once is remembered, so that a restart needs none of them.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from random import Random

import anyio

from dht.core.records import LEAF, Address, Contact, SignedRecord, contacts_of
from dht.core.rules import RingRules
from dht.discovery.lan import LanDiscovery
from dht.discovery.remembered import RememberedPeers
from dht.discovery.rendezvous import PublishedRecord, Rendezvous, RendezvousTimes, run_rendezvous
from dht.endpoint import packed_address, socket_address
from dht.identity import Verifier
from dht.node import RingNode
from dht.wire import decode_record, encode_record

logger = logging.getLogger(__name__)

CONTACTS_WANTED = 8
"""A join asks two of them; the others are for when those are slow or lie."""
LAN_LOOK_S = 30.0
SAVE_S = 300.0
RENDEZVOUS_AGAIN_S = 60.0


Given = Callable[[], Awaitable[Sequence[tuple[str, int]]]]
"""Contacts that the owner named, as they are now: a name may have other addresses tomorrow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finders:
    given: Given
    remembered: RememberedPeers
    lan: LanDiscovery
    rendezvous: Rendezvous
    times: RendezvousTimes
    wall_clock: Callable[[], float]
    random: Random


def record_facts(rules: RingRules, verifier: Verifier) -> Callable[[bytes], PublishedRecord | None]:
    """What the rendezvous asks of the ring: is this a signed record of our network, and what does it state?"""

    def validate(data: bytes) -> PublishedRecord | None:
        signed = decode_record(data)
        if not isinstance(signed, SignedRecord) or signed.record.network != rules.network:
            return None
        contacts = contacts_of(signed.record, rules.id_check)
        if not contacts or not verifier.is_record_signed(signed):
            return None
        record = signed.record
        return PublishedRecord(
            network=record.network,
            peer_id=record.peer,
            incarnation=record.incarnation,
            expires_at=float(record.expires_s),
            addresses=tuple(socket_address(line.host, line.udp) for line in record.lines if line.udp),
            first_position=contacts[0].position,
        )

    return validate


async def first_contacts(finders: Finders, own: Address) -> list[Address]:
    """Contacts for the first join: from what the owner said to what strangers say, each source asked only when those
    before it did not suffice. The rendezvous is asked later, beside a ring of one.
    """
    given, us = await finders.given(), socket_address(own.host, own.port)
    wanted = max(CONTACTS_WANTED, len(given))
    found = dict.fromkeys(endpoint for endpoint in given if endpoint != us)
    if len(found) < wanted:
        met = (peer.endpoint for peer in finders.remembered.in_order())
        found |= dict.fromkeys(endpoint for endpoint in met if endpoint != us)
    if len(found) < wanted:
        found |= dict.fromkeys(endpoint for endpoint in await finders.lan.contacts() if endpoint != us)
    return [packed_address(endpoint) for endpoint in list(found)[:wanted]]


async def keep_finding(finders: Finders, node: RingNode) -> None:
    """Until cancelled."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_look_on_lan, finders, node)
        tasks.start_soon(_ask_again, finders, node)
        tasks.start_soon(_save, finders)
        tasks.start_soon(_meet_at_rendezvous, finders, node)


async def _meet_at_rendezvous(finders: Finders, node: RingNode) -> None:
    async def found(data: bytes) -> None:
        signed = decode_record(data)
        if isinstance(signed, SignedRecord) and node.show_record(signed):
            logger.info("met at the rendezvous peer=%s", signed.record.peer.hex()[:16])

    def own_record() -> bytes | None:
        """A leaf's record shows no member, so the rendezvous takes none."""
        signed = node.record
        return None if signed is None or signed.record.flags & LEAF else encode_record(signed)

    while True:
        try:
            await run_rendezvous(
                finders.rendezvous,
                own_record=own_record,
                members=lambda: len(node.members()),
                on_found=found,
                chance=finders.random,
                times=finders.times,
            )
        except OSError as error:  # its port is taken: a ring without a rendezvous is a ring all the same
            logger.warning("no rendezvous for now error=%s", error)
        await anyio.sleep(RENDEZVOUS_AGAIN_S)


async def _look_on_lan(finders: Finders, node: RingNode) -> None:
    while True:
        for endpoint in await finders.lan.contacts():
            address = packed_address(endpoint)
            if not node.is_known(address) and await node.show(address):
                logger.info("met on the local network address=%s", endpoint)
        await anyio.sleep(LAN_LOOK_S)


async def _ask_again(finders: Finders, node: RingNode) -> None:
    """Contacts that were given and are not in our ring: they may be of another half of it, or were down."""
    while True:
        await anyio.sleep(LAN_LOOK_S)
        for endpoint in await finders.given():
            address = packed_address(endpoint)
            if address != node.me.address and not node.is_known(address):
                await node.show(address)


async def _save(finders: Finders) -> None:
    try:
        while True:
            await anyio.sleep(SAVE_S)
            finders.remembered.save(finders.wall_clock())
    finally:
        finders.remembered.save(finders.wall_clock())


def remember(finders: Finders, contact: Contact) -> None:
    endpoint = socket_address(contact.address.host, contact.address.port)
    finders.remembered.met(contact.peer, endpoint, finders.wall_clock())


def is_wildcard(host: str) -> bool:
    return ip_address(host).is_unspecified
