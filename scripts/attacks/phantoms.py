"""Who tells a ring of members that do not exist? A member whose table holds invented ones.

Each has a key and a record that is signed as it should be; only, nobody answers at its address. Anti-entropy and
rumours carry them to whoever believes signatures. It runs until it is ended, and prints a line when it has begun.
"""

import argparse
import secrets
import time
from collections.abc import Sequence
from ipaddress import ip_network
from pathlib import Path
from random import Random

import anyio
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec.structs import replace

from dht import open_node
from dht.core.records import Address, Line, SignedRecord
from dht.endpoint import packed_address
from dht.identity import peer_key, sign_record
from dht.node import RingNode
from dht.node_types import NodePorts, NodeSettings
from herodotus.core.settings.fields import HostPort
from herodotus.home.folder import Home, read_charter
from herodotus.operate.settings.load import Layer, resolve
from herodotus.peers.membership import rules_of

MEMBER_S = 60.0


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", type=Path, required=True, help="whose charter names the ring")
    parser.add_argument("--listen", required=True)
    parser.add_argument("--join", required=True)
    parser.add_argument("--network", required=True, help="where the invented ones are said to be")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--count", type=int, default=2_000)
    anyio.run(_tell, parser.parse_args(arguments))


async def _tell(asked: argparse.Namespace) -> None:
    rules = rules_of(read_charter(Home(asked.home).charter), resolve(Layer(preset="test")).settings)
    listen, contact = HostPort.parse(asked.listen), HostPort.parse(asked.join)
    own = packed_address((listen.host, listen.port))
    settings = NodeSettings(rules=rules, address=own, virtual_nodes=8)
    ports = NodePorts(wall_clock=time.time, random=Random(), entropy=secrets.token_bytes)
    key = Ed25519PrivateKey.generate()
    async with open_node(settings, key, ports, [(listen.host, listen.port)]) as node:
        with node.events() as events, anyio.fail_after(MEMBER_S):
            await node.join([packed_address((contact.host, contact.port))])
            while not node.statistics().is_joined:
                await events.wait()
        for signed in _invented(node, asked):
            node.machine.table.put(signed)
        print(f"{asked.count} invented members are told of", flush=True)
        await anyio.sleep_forever()


def _invented(node: RingNode, asked: argparse.Namespace) -> list[SignedRecord]:
    own = node.record
    assert own is not None, "a member has a record"
    hosts = [host.packed for host in ip_network(asked.network).hosts()]
    found = []
    for number in range(asked.count):
        key = Ed25519PrivateKey.generate()
        address = Address(host=hosts[number % len(hosts)], port=asked.port)
        slot = number // len(hosts) % 8
        record = replace(own.record, peer=peer_key(key), lines=(Line.at(address),), slot=slot)
        found.append(sign_record(key, record))
    return found


if __name__ == "__main__":
    main()
