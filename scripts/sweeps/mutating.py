"""How does a fuzzer make bad bytes of good ones? A few random changes, one upon the other, from a seed."""

from collections.abc import Callable, Sequence
from random import Random

BYTES_MAX = 200_000
CHANGES_MAX = 8
_EDGES = (0, 1, 0x7F, 0x80, 0xFF)
_NUMBERS = (b"0", b"-1", b"1", b"255", b"65536", b"4294967296", b"18446744073709551616", b"9" * 30, b"1e309")


def mutated(random: Random, samples: Sequence[bytes]) -> bytes:
    """One of the samples, bent; now and then nothing but noise."""
    if random.random() < 0.05:
        return random.randbytes(random.choice((0, 1, 17, 300, 5_000)))
    data = random.choice(samples)
    for _ in range(random.randint(0, CHANGES_MAX)):
        data = random.choice(_CHANGES)(random, data, samples)
    return data[:BYTES_MAX]


def _place(random: Random, data: bytes) -> int:
    return random.randrange(len(data) + 1)


def _flip(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    if not data:
        return data
    at = random.randrange(len(data))
    return data[:at] + bytes((data[at] ^ 1 << random.randrange(8),)) + data[at + 1 :]


def _set(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    if not data:
        return data
    at = random.randrange(len(data))
    return data[:at] + bytes((random.choice(_EDGES),)) * random.choice((1, 1, 2, 4)) + data[at + 1 :]


def _cut(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    return data[: _place(random, data)]


def _remove(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    at = _place(random, data)
    return data[:at] + data[at + random.choice((1, 2, 8, 64)) :]


def _insert(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    at = _place(random, data)
    return data[:at] + random.randbytes(random.choice((1, 2, 8, 64))) + data[at:]


def _repeat(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    at = _place(random, data)
    piece = data[at : at + random.choice((1, 4, 32, 500))]
    return data[:at] + piece * random.choice((2, 10, 300)) + data[at:]


def _splice(random: Random, data: bytes, samples: Sequence[bytes]) -> bytes:
    other = random.choice(samples)
    return data[: _place(random, data)] + other[_place(random, other) :]


def _number(random: Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """Another in the place of one that is written out."""
    digits = [at for at, byte in enumerate(data[:10_000]) if chr(byte).isdecimal() and byte < 128]
    if not digits:
        return data
    begin = end = random.choice(digits)
    while end < len(data) and end in digits:
        end += 1
    return data[:begin] + random.choice(_NUMBERS) + data[end:]


_CHANGES: tuple[Callable[[Random, bytes, Sequence[bytes]], bytes], ...] = (
    _flip, _set, _cut, _remove, _insert, _repeat, _splice, _number,
)  # fmt: skip
