"""How much memory does a peer spend on each member that it knows?

Signed records of as many peers as asked for come in as bytes, as from the network, are decoded, verified and entered
into the table of one machine. What is left when the bytes are gone, all caches included (positions, fingerprints,
verified signatures), is divided by the members; so is the growth of the process, which holds what the allocator
wastes.
"""

import argparse
import gc
import json
import platform
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from random import Random
from resource import getpagesize

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dht.core.ids import NetworkId
from dht.core.machine import RingMachine
from dht.core.records import RECORD_LIFE_S, RECORD_VERSION, Address, Line, PeerRecord, SignedRecord
from dht.core.rules import RingRules
from dht.identity import KeyNotary, peer_key, sign_record
from dht.wire import decode_record, encode_record
from simnet.rings import learn

NETWORK = NetworkId(b"bench\0\0\0")
NOW = 1_790_000_000.0
BATCH = 500


def record(key: Ed25519PrivateKey, host: bytes, virtual_nodes: int) -> PeerRecord:
    return PeerRecord(
        version=RECORD_VERSION,
        network=NETWORK,
        peer=peer_key(key),
        lines=(Line.at(Address(host=host, port=4484)),),
        slot=0,
        virtual_nodes=virtual_nodes,
        incarnation=int(NOW),
        issued_s=int(NOW),
        expires_s=int(NOW) + RECORD_LIFE_S,
        flags=0,
        previous=b"",
        since=0,
    )


def encoded_records(count: int, virtual_nodes: int, random: Random) -> Iterator[list[bytes]]:
    made = 0
    while made < count:
        batch = []
        for _ in range(min(BATCH, count - made)):
            key = Ed25519PrivateKey.from_private_bytes(random.randbytes(32))
            host = random.randbytes(4)
            batch.append(encode_record(sign_record(key, record(key, host, virtual_nodes))))
        made += len(batch)
        yield batch


def resident_bytes() -> int:
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * getpagesize()


def measure(members: int, virtual_nodes: int, *, is_traced: bool) -> dict[str, float | int]:
    random = Random(1)
    key = Ed25519PrivateKey.from_private_bytes(random.randbytes(32))
    rules = RingRules(network=NETWORK)
    own = record(key, random.randbytes(4), 1)
    machine = RingMachine(record=own, rules=rules, notary=KeyNotary(key, NETWORK), random=random)
    machine.create(NOW)
    machine.take_effects()
    gc.collect()
    if is_traced:
        tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0] if is_traced else resident_bytes()
    started_s = time.process_time()
    for batch in encoded_records(members, virtual_nodes, random):
        decoded = [signed for signed in map(decode_record, batch) if isinstance(signed, SignedRecord)]
        learn(machine, decoded, NOW)
        machine.take_effects()
        del decoded
    batch = []
    gc.collect()
    after = tracemalloc.get_traced_memory()[0] if is_traced else resident_bytes()
    if is_traced:
        tracemalloc.stop()
    known = len(machine.table) - 1
    return {
        "members": known,
        "virtual_nodes": virtual_nodes,
        "bytes_per_member": round((after - before) / known),
        "cpu_s": round(time.process_time() - started_s, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/bench ring_memory", description=__doc__)
    parser.add_argument("--members", type=int, default=20_000)
    parser.add_argument("--virtual-nodes", type=int, default=1)
    parser.add_argument(
        "--resident", action="store_true", help="the growth of the process instead of objects"
    )
    options = parser.parse_args()
    figures = measure(options.members, options.virtual_nodes, is_traced=not options.resident)
    kind = "resident" if options.resident else "objects"
    print(json.dumps({"python": platform.python_version(), "counted": kind, **figures}))


if __name__ == "__main__":
    main()
