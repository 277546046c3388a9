"""How a peer watches its ring: what counts as proof, and what a restart leaves of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dht.core.ids import PeerKey
from dht.core.reader import Member
from dht.core.records import Address
from herodotus.core.errors import FileSyntaxError
from herodotus.peers.observation import SHOWN_MAX, Observation

DAY = 86_400.0
ME, ANNA, BORIS = (PeerKey(letter * 32) for letter in (b"m", b"a", b"b"))


@dataclass
class Time:
    now: float = 0.0
    wall: float = 1_800_000_000.0

    def unix_s(self) -> float:
        return self.wall

    def elapsed_s(self) -> float:
        return self.now

    def steady_s(self) -> float:
        return self.now

    def local_offset_s(self, unix_s: float) -> float:
        del unix_s
        return 0.0

    def passes(self, seconds: float) -> None:
        self.now += seconds
        self.wall += seconds


@dataclass
class Watched:
    """A ring of keys, and the frames that each has sent."""

    table: set[PeerKey] = field(default_factory=set)
    frames: dict[bytes, int] = field(default_factory=dict)
    rotated: dict[PeerKey, PeerKey] = field(default_factory=dict)

    def members(self) -> tuple[Member, ...]:
        at = Address(host=bytes((192, 0, 2, 1)), port=4484)
        return tuple(
            Member(peer=peer, address=at, virtual_nodes=1, clock="well") for peer in sorted(self.table)
        )

    def frames_received(self) -> Mapping[bytes, int]:
        return self.frames

    def heirs(self) -> Mapping[PeerKey, PeerKey]:
        return self.rotated


@pytest.mark.anyio
async def test_only_what_was_proven_to_us_grows_old(tmp_path: Path) -> None:
    """The attack: two hundred signed records, of which none ever answered."""
    time = Time()
    phantoms = {PeerKey(number.to_bytes(32, "big")) for number in range(200)}
    ring = Watched(table={ME, ANNA, BORIS, *phantoms})
    seen = Observation(tmp_path / "observation", time, ME)
    async with seen.kept(ring):
        for shift in range(10 * 4):
            ring.frames = {ANNA: shift + 1}
            seen.met(BORIS)
            seen.look()
            time.passes(6 * 3600)
        assert seen.age_days(ANNA) == 10
        assert seen.age_days(BORIS) == 10
        assert {seen.age_days(one) for one in phantoms} == {0}
        status = seen.status()
        assert status.seen == 2
        assert {one.there for one in status.members} == {1.0}


@pytest.mark.anyio
async def test_an_open_session_in_which_nothing_comes_is_no_sign_of_life(tmp_path: Path) -> None:
    time, ring = Time(), Watched(table={ANNA}, frames={ANNA: 7})
    seen = Observation(tmp_path / "observation", time, ME)
    async with seen.kept(ring):
        for _ in range(48):
            seen.look()
            time.passes(3_600)
        (one,) = seen.status().members
        assert one.seen_min_ago == 48 * 60
        time.passes(29 * DAY)
        seen.look()
        assert seen.age_days(ANNA) == 0


@pytest.mark.anyio
async def test_a_key_that_is_no_member_is_not_remembered(tmp_path: Path) -> None:
    """Anybody may shake hands with any number of keys."""
    time, ring = Time(), Watched(table={ANNA}, frames={BORIS: 1})
    seen = Observation(tmp_path / "observation", time, ME)
    async with seen.kept(ring):
        seen.look()
    assert (tmp_path / "observation").stat().st_size == 25 + 8


@pytest.mark.anyio
async def test_ages_survive_a_restart_and_a_rotation(tmp_path: Path) -> None:
    time, ring = Time(), Watched(table={ANNA})
    seen = Observation(tmp_path / "observation", time, ME)
    async with seen.kept(ring):
        for hour in range(5 * 24):
            ring.frames = {ANNA: hour + 1}
            seen.look()
            time.passes(3600)
    time.now = 3.0  # another boot
    time.wall += 3600
    ring = Watched(table={BORIS}, rotated={ANNA: BORIS})
    again = Observation(tmp_path / "observation", time, ME)
    async with again.kept(ring):
        assert again.age_days(ANNA) == 5
        again.look()
        assert again.age_days(BORIS) == 5
        assert again.age_days(ANNA) == 0
        assert again.age_days(ME) == again.unbroken_days() == 5


@pytest.mark.anyio
async def test_a_member_found_dead_was_not_there_in_the_meantime(tmp_path: Path) -> None:
    time, ring = Time(), Watched(table={ANNA}, frames={ANNA: 1})
    seen = Observation(tmp_path / "observation", time, ME)
    async with seen.kept(ring):
        seen.look()
        ring.table = set()
        time.passes(300)
        seen.look()
        time.passes(DAY / 2)
        ring.table, ring.frames = {ANNA}, {ANNA: 2}
        seen.look()
        assert [one.there for one in seen.status().members] == [0.0]


def test_a_damaged_file_is_put_aside_and_ages_begin_anew(tmp_path: Path) -> None:
    (tmp_path / "observation").write_bytes(b"hobserv1 and rot")
    seen = Observation(tmp_path / "observation", Time(), ME)
    assert seen.age_days(ANNA) == 0
    assert (tmp_path / "observation.damaged").read_bytes() == b"hobserv1 and rot"


def test_a_file_of_a_newer_release_is_refused(tmp_path: Path) -> None:
    (tmp_path / "observation").write_bytes(b"hobserv2" + bytes(30))
    with pytest.raises(FileSyntaxError, match="newer"):
        Observation(tmp_path / "observation", Time(), ME)


@pytest.mark.anyio
async def test_the_status_lists_a_bounded_number_the_least_present_first(tmp_path: Path) -> None:
    time = Time()
    crowd = [PeerKey(number.to_bytes(32, "big")) for number in range(2 * SHOWN_MAX)]
    ring = Watched(table=set(crowd))
    seen = Observation(tmp_path / "observation", time, ME)
    async with seen.kept(ring):
        for hour in range(100):
            ring.frames = {peer: hour for peer in crowd if hour % 60 == 0 or peer != crowd[9]}
            seen.look()
            time.passes(3600)
        status = seen.status()
    assert len(status.members) == SHOWN_MAX
    assert status.seen == 2 * SHOWN_MAX
    assert status.members[0].peer == crowd[9].hex()[:16]
    assert status.there == 1.0
    assert status.watched_days == 4
