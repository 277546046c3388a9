"""Do a sixth of the holders that lie lose anything, and are just they named? Seeds draw who lies, and how."""

import random
from collections.abc import Callable
from functools import partial

import anyio
import pytest

from herodotus.copies import wire
from herodotus.core.signatures import Proof
from tests.herodotus.copies.world import Net, Tamper, deposit, in_world

PEERS, LIARS, PAGES = 12, 2, 40


def altering(_: random.Random) -> Tamper:
    """Its bytes are others: in what it gives, and in what it proves."""

    def tamper(service: str, answer: bytes) -> bytes:
        if service == wire.TAKE and len(answer) > 100:
            return answer[:60] + bytes((answer[60] ^ 1,)) + answer[61:]
        if service == wire.REVEAL:
            return bytes(len(answer))
        if service != wire.POLL:
            return answer
        proofs = wire.decode_proofs(answer, count_of(answer))
        altered = [
            [Proof(time_s=one.time_s, digest=one.digest, proof=bytes(20)) for one in of_member]
            for of_member in proofs
        ]
        return wire.encode_proofs(altered)

    return tamper


def withholding(_: random.Random) -> Tamper:
    """It acknowledges what it throws away, and gives nothing back."""

    def tamper(service: str, answer: bytes) -> bytes:
        if service == wire.PUT:
            return bytes(len(answer))
        if service == wire.REVEAL:
            return bytes(len(answer))
        if service == wire.POLL:
            return wire.encode_proofs([[]] * count_of(answer))
        return b"" if service == wire.TAKE else answer

    return tamper


def lying_in_digests(rng: random.Random) -> Tamper:
    def tamper(service: str, answer: bytes) -> bytes:
        if service == wire.TOPS:
            return rng.randbytes(len(answer))
        if service == wire.ROOT:
            root = rng.randbytes(20)
            return wire.encode_root(wire.RootAnswer(root=root, is_holder=wire.decode_root(answer).is_holder))
        return answer

    return tamper


def count_of(proofs: bytes) -> int:
    """MessagePack's array of up to 15, or of 16 and more."""
    return proofs[0] & 0x0F if proofs[0] < 0xA0 else int.from_bytes(proofs[1:3], "big")


KINDS: list[Callable[[random.Random], Tamper]] = [altering, withholding, lying_in_digests]


def lie(seed: int) -> None:
    """Raises where something is lost, a liar is not named, or somebody else is."""
    in_world(partial(play, rng=random.Random(seed)), seed=seed)


async def play(net: Net, rng: random.Random) -> None:
    for _ in range(PEERS):
        await net.start(net.add())
    liars = {number: rng.choice(KINDS) for number in rng.sample(range(PEERS), LIARS)}
    for number, kind in liars.items():
        net.peers[number].tamper = kind(rng)
    honest = [peer for peer in net.peers if peer.number not in liars]
    await anyio.sleep(60)
    keys = {await deposit(rng.choice(honest), f"http://example.org/{n}") for n in range(PAGES)}
    await anyio.sleep(2_000)
    for peer in rng.sample(honest, 3):  # with the two liars, five of six copies are none
        net.crash(peer, loses_disk=True)
        await anyio.sleep(rng.uniform(100, 2_000))
    for _ in range(2):
        await net.start(net.add())
    await anyio.sleep(8_000)
    for key in keys:
        for peer in (net.by_key[one] for one in net.holders(key)):
            assert peer.number in liars or key in peer.ids(), f"{peer.number} has not {key.hex()[:8]}"
    named = {
        net.by_key[one].number
        for peer in net.peers
        if peer.is_up and peer.number not in liars
        for one in peer.copies.parts.suspects.counts
    }
    assert named == set(liars), f"named {sorted(named)}, liars {[(n, k.__name__) for n, k in liars.items()]}"


@pytest.mark.parametrize("seed", [2])
def test_a_sixth_of_liars_loses_nothing_and_is_named(seed: int) -> None:
    lie(seed)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(100, 200))
def test_a_sixth_of_liars_loses_nothing_and_is_named_in_any_seed(seed: int) -> None:
    lie(seed)
