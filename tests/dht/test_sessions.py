"""The replay window against a set of everything seen, and the session table's bound."""

from hypothesis import given
from hypothesis import strategies as st

from dht.core.sessions import WINDOW, ReplayWindow, Session, SessionTable


@given(st.lists(st.one_of(st.integers(0, 3_000), st.integers(0, 1 << 64)), max_size=60))
def test_the_window_takes_each_counter_once_and_nothing_older_than_1023_behind(counters: list[int]) -> None:
    window, seen, top = ReplayWindow(), {0}, 0
    for counter in counters:
        expected = counter not in seen and top - counter < WINDOW
        assert window.is_fresh(counter) == expected
        if expected:
            window.note(counter)
            seen.add(counter)
            top = max(top, counter)
    assert len(window.missing) < 2 * WINDOW


def test_the_windows_edges_are_where_the_protocol_puts_them() -> None:
    window = ReplayWindow()
    window.note(2_000)
    assert not window.is_fresh(2_000)
    assert not window.is_fresh(976)
    assert window.is_fresh(977)
    window.note(977)
    assert not window.is_fresh(977)
    window.note(1 << 63)
    assert not window.is_fresh(1_999)
    assert window.is_fresh((1 << 63) - 1_023)
    assert not window.is_fresh((1 << 63) - 1_024)


def session_at(port: int, now: float = 0.0) -> Session:
    return Session(
        local_id=port.to_bytes(8, "big"),
        remote_id=bytes(8),
        public_key=bytes(32),
        address=("192.0.2.1", port),
        keys=(bytes(32), b"k" * 32),
        record=b"",
        is_initiator=True,
        now=now,
    )


def test_a_full_table_forgets_who_was_silent_the_longest() -> None:
    table = SessionTable(sessions_max=3)
    sessions = [session_at(port) for port in range(1, 5)]
    for number, session in enumerate(sessions[:3]):
        session.used_at = 10.0 - number
        assert table.add(session, 10.0) is None
    assert table.add(sessions[3], 10.0) is sessions[3]  # the newcomer's own used_at is the oldest of all
    sessions[3].used_at = 11.0
    assert table.add(sessions[3], 11.0) is sessions[2]
    assert table.at(("192.0.2.1", 3)) is None
    assert len(table) == 3
