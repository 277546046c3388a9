"""What one peer counts as having seen of another, whatever clocks and strangers do."""

import struct
from collections.abc import Iterable
from hashlib import blake2b

import pytest
from hypothesis import given
from hypothesis import strategies as some

from herodotus.core import observation
from herodotus.core.observation import (
    DamagedObservationError,
    Saved,
    Sighting,
    SightingLog,
    decode,
    encode,
    is_of_newer_release,
)

DAY = 86_400.0
ANNA, BORIS = b"a" * 32, b"b" * 32
NOON = 1_800_000_000.0


def new_log(*, now: float = 0.0, wall_s: float = NOON) -> SightingLog:
    return SightingLog(Saved(sightings={}), now=now, wall_s=wall_s)


def seen_hourly(log: SightingLog, peers: Iterable[bytes], *, since: float, until: float) -> None:
    now = since
    while now <= until:
        log.see(peers, now)
        now += 3600


def test_age_is_counted_from_the_first_proof() -> None:
    log = new_log(now=500.0)
    log.see([ANNA], 500.0 + DAY)
    assert log.age_days(ANNA, 500.0 + DAY) == 0
    assert log.age_days(ANNA, 500.0 + 4 * DAY) == 3
    assert log.age_days(BORIS, 500.0 + 4 * DAY) == 0, "a stranger has no age"


def test_a_member_that_spoke_each_hour_was_there_all_the_time() -> None:
    log = new_log()
    seen_hourly(log, [ANNA], since=0, until=10 * DAY)
    found = log.sighting(ANNA, 10 * DAY)
    assert found is not None
    assert found.share == 1.0


def test_a_silence_of_more_than_a_day_is_no_time_there() -> None:
    log = new_log()
    seen_hourly(log, [ANNA], since=0, until=4 * DAY)
    seen_hourly(log, [ANNA], since=8 * DAY, until=12 * DAY)
    found = log.sighting(ANNA, 12 * DAY)
    assert found is not None
    assert found.share == pytest.approx(8 / 12)
    assert log.age_days(ANNA, 12 * DAY) == 12, "it is known for all of that time"


def test_a_short_silence_of_a_member_found_dead_is_no_time_there() -> None:
    log = new_log()
    seen_hourly(log, [ANNA, BORIS], since=0, until=DAY)
    log.lose([ANNA])
    log.see([ANNA, BORIS], 1.5 * DAY)
    dead, quiet = log.sighting(ANNA, 2 * DAY), log.sighting(BORIS, 2 * DAY)
    assert dead is not None
    assert quiet is not None
    assert dead.share == pytest.approx(2 / 3)
    assert quiet.share == 1.0


def test_who_was_away_for_thirty_days_begins_anew() -> None:
    log = new_log()
    seen_hourly(log, [ANNA, BORIS], since=0, until=10 * DAY)
    log.see([BORIS], 39 * DAY)
    assert log.age_days(ANNA, 41 * DAY) == 0
    log.see([ANNA, BORIS], 41 * DAY)
    assert log.age_days(ANNA, 42 * DAY) == 1
    assert log.age_days(BORIS, 42 * DAY) == 42


def restarted(log: SightingLog, *, now: float, wall_s: float, later: float, wall_later: float) -> SightingLog:
    """A new run, with a steady clock that begins elsewhere."""
    return SightingLog(decode(encode(log.saved(now=now, wall_s=wall_s))), now=later, wall_s=wall_later)


def test_nobody_is_absent_because_we_were_away_ourselves() -> None:
    log = new_log()
    seen_hourly(log, [ANNA], since=0, until=10 * DAY)
    back = restarted(log, now=10 * DAY, wall_s=NOON + 10 * DAY, later=77.0, wall_later=NOON + 100 * DAY)
    assert back.age_days(ANNA, 77.0) == 11
    back.see([ANNA], 77.0)
    found = back.sighting(ANNA, 77.0)
    assert found is not None
    assert found.share == 1.0


def test_a_peer_that_runs_at_night_only_has_watched_all_day() -> None:
    log = new_log()
    for night in range(20):
        begin, wall = 1000.0 * night, NOON + night * DAY
        log = restarted(log, now=begin, wall_s=wall + 8 * 3600, later=begin, wall_later=wall + DAY)
        log.see([ANNA], begin)
        log.see([ANNA], begin + 8 * 3600)
        log = SightingLog(
            log.saved(now=begin + 8 * 3600, wall_s=wall + DAY + 8 * 3600),
            now=begin,
            wall_s=wall + DAY + 8 * 3600,
        )
    assert 18 <= log.age_days(ANNA, 20_000.0) <= 20


def test_a_clock_that_leapt_ahead_makes_no_stranger_old() -> None:
    log = new_log()
    log.see([ANNA], 600.0)
    year = 365 * DAY
    log = restarted(log, now=700.0, wall_s=NOON + 700 + year, later=0.0, wall_later=NOON + 2 * year)
    assert log.age_days(ANNA, 0.0) == 1, "one absence adds one day at most"
    log = restarted(log, now=60.0, wall_s=NOON + 2 * year, later=0.0, wall_later=NOON)
    assert log.age_days(ANNA, 0.0) == 1, "and the way back takes nothing and adds nothing"


def test_an_absence_of_ours_of_more_than_a_day_breaks_what_we_can_vouch_for() -> None:
    log = new_log()
    log.see([ANNA], 0.0)
    log = restarted(log, now=9 * DAY, wall_s=NOON + 9 * DAY, later=0.0, wall_later=NOON + 9.5 * DAY)
    assert log.unbroken_days(0.0) == 9
    log = restarted(log, now=0.0, wall_s=NOON + 9.5 * DAY, later=0.0, wall_later=NOON + 14 * DAY)
    assert log.unbroken_days(0.0) == 0
    assert log.unbroken_days(3 * DAY) == 3
    assert log.age_days(ANNA, 0.0) == 10


def test_rotation_passes_age_on_and_takes_it_from_the_old_key() -> None:
    log = new_log()
    seen_hourly(log, [ANNA], since=0, until=10 * DAY)
    log.see([BORIS], 10 * DAY)
    for _ in range(2):  # the ring names the heir for 30 days
        log.succeed(ANNA, BORIS)
    assert log.age_days(BORIS, 10 * DAY) == 10
    assert log.age_days(ANNA, 10 * DAY) == 0


def test_a_key_that_nobody_here_saw_has_nothing_to_pass_on() -> None:
    log = new_log()
    log.see([BORIS], 0.0)
    log.succeed(ANNA, BORIS)
    assert log.age_days(BORIS, 3 * DAY) == 3


def test_a_flood_of_new_keys_pushes_out_no_old_acquaintance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observation, "MEMBERS_MAX", 50)
    log = new_log()
    seen_hourly(log, [ANNA], since=0, until=DAY)
    for number in range(500):
        log.see([number.to_bytes(32, "big")], DAY + number)
    assert len(log) == 50
    assert log.age_days(ANNA, 2 * DAY) == 2


def test_the_bytes_of_version_1() -> None:
    saved = Saved(
        watch_min=20_000,
        unbroken_min=7,
        wall_s=1_795_000_000,
        sightings={BORIS: Sighting(5, 19_999, 19_994), ANNA: Sighting(0, 3, 2)},
    )
    content = bytes.fromhex(
        "686f627365727631 00004e20 00000007 006afd86c0 00000002"
        f"{'61' * 32} 00000000 00000003 00000002"
        f"{'62' * 32} 00000005 00004e1f 00004e1a"
    )
    data = content + blake2b(content, digest_size=8).digest()
    assert encode(saved) == data
    assert len(data) == 25 + 2 * 44 + 8
    assert data[-8:].hex() == "6a862f90d8790a27"
    assert decode(data) == saved


sightings = some.builds(
    lambda first, length, there: Sighting(first, first + length, min(there, first + length)),
    some.integers(0, 1 << 30),
    some.integers(0, 1 << 20),
    some.integers(0, 1 << 20),
)


@given(some.dictionaries(some.binary(min_size=32, max_size=32), sightings, max_size=5), some.integers(0, 9))
def test_what_is_written_is_read(rows: dict[bytes, Sighting], unbroken: int) -> None:
    saved = Saved(watch_min=1 << 31, unbroken_min=unbroken, wall_s=5, sightings=rows)
    assert decode(encode(saved)) == saved


@given(some.binary(max_size=200))
def test_any_other_bytes_are_told_apart(data: bytes) -> None:
    with pytest.raises(DamagedObservationError):
        decode(data)


def test_each_flipped_byte_is_noticed() -> None:
    data = encode(Saved(watch_min=9, sightings={ANNA: Sighting(1, 2, 1)}))
    for place in range(len(data)):
        with pytest.raises(DamagedObservationError):
            decode(data[:place] + bytes((data[place] ^ 1,)) + data[place + 1 :])


def test_sightings_from_after_the_end_are_no_observation() -> None:
    with pytest.raises(DamagedObservationError, match="ended"):
        decode(encode(Saved(watch_min=9, sightings={ANNA: Sighting(1, 10, 1)})))


def test_a_file_of_a_newer_release_is_known_as_such() -> None:
    assert is_of_newer_release(b"hobserv2" + bytes(40))
    assert not is_of_newer_release(b"hobserv1" + bytes(40))
    assert not is_of_newer_release(struct.pack(">I", 9))
