"""What of the members' seats outlives a restart, a power cut and a damaged file?"""

from hashlib import blake2b
from pathlib import Path

import pytest

from dht.core.ids import PeerKey
from dht.core.records import Birth
from dht.core.seats import DEAD_S, DEPARTED_S, Remembered
from herodotus.core.errors import FileSyntaxError
from herodotus.core.seats import DamagedSeatsError, SavedSeats, decode, encode, is_of_newer_release
from herodotus.peers.seat_book import SAVE_EVERY_S, SeatBook
from tests.herodotus.peers.test_observation import Time

ANNA, BORIS = (PeerKey(letter * 32) for letter in (b"a", b"b"))
FOUR, SIX = bytes((203, 0, 113, 7)), bytes.fromhex("20010db800010002") + bytes(8)
SAVED = SavedSeats(
    wall_s=1_795_000_000,
    has_departed=True,
    known={
        ANNA: Remembered(Birth(host=FOUR, day=20_710)),
        BORIS: Remembered(Birth(host=SIX, day=20_650), 1_794_990_000, True),
    },
)


def test_golden_bytes() -> None:
    content = bytes.fromhex(
        "686f736561747331 01 006afd86c0 00000002"
        f"{'61' * 32} 50e6 0000000000 00 04 cb007107"
        f"{'62' * 32} 50aa 006afd5fb0 01 08 20010db800010002"
    )
    data = content + blake2b(content, digest_size=8).digest()
    assert encode(SAVED) == data
    assert decode(data) == SAVED


def test_damaged_bytes_are_refused_and_newer_ones_told_apart() -> None:
    data = encode(SAVED)
    for at in range(len(data)):
        with pytest.raises(DamagedSeatsError):
            decode(data[:at] + bytes((data[at] ^ 1,)) + data[at + 1 :])
    for cut in (0, 10, 30, len(data) - 1):
        with pytest.raises(DamagedSeatsError):
            decode(data[:cut])
    for wrong in (b"hoseats2" + data[8:-8], data[:-8] + b"more", data[:-12]):
        with pytest.raises(DamagedSeatsError):
            decode(wrong + blake2b(wrong, digest_size=8).digest())
    assert is_of_newer_release(b"hoseats2")
    assert not is_of_newer_release(data)


@pytest.mark.parametrize(
    ("has_departed", "away_s", "keeps"),
    [
        (True, 0.9 * DEPARTED_S - 1, True),
        (True, 0.9 * DEPARTED_S, False),
        (False, 0.9 * DEPARTED_S, True),
        (False, 0.9 * DEAD_S, False),
    ],
)
def test_a_peer_gives_its_seat_up_before_the_others_forget_it(
    has_departed: bool, away_s: float, keeps: bool
) -> None:
    saved = SavedSeats(wall_s=1_000_000, has_departed=has_departed)
    assert saved.keeps_own(1_000_000 + away_s) is keeps
    assert not SavedSeats().keeps_own(1.0), "it has never run"


@pytest.mark.anyio
async def test_what_is_remembered_outlives_a_run_and_a_kill(tmp_path: Path) -> None:
    (tmp_path / "second").mkdir()
    file, time = tmp_path / "seats", Time()
    book = SeatBook(file, time)
    async with book.kept():
        book.memory.learn(ANNA, Birth(host=FOUR, day=20_710))
        book.save()
        killed = SeatBook(file, time)
        assert (killed.memory.of(ANNA), killed.before.has_departed) == (Birth(host=FOUR, day=20_710), False)
    again = SeatBook(file, time)
    assert again.memory.of(ANNA) == Birth(host=FOUR, day=20_710)
    assert again.before.has_departed
    assert again.before.keeps_own(time.wall + SAVE_EVERY_S)


def test_a_damaged_file_is_put_aside_and_a_newer_one_refused(tmp_path: Path) -> None:
    file = tmp_path / "seats"
    file.write_bytes(b"nonsense")
    assert len(SeatBook(file, Time()).memory) == 0
    assert (tmp_path / "seats.damaged").read_bytes() == b"nonsense"
    file.write_bytes(b"hoseats2 and whatever a later release writes")
    with pytest.raises(FileSyntaxError, match="newer release"):
        SeatBook(file, Time())
