"""What do notes of several peers say together, and do peers still have the methods around which notes are taken?"""

from pathlib import Path

import pytest

from scripts.tracing.cases import Case
from scripts.tracing.lines import Line, causes, joined, read_lines, uncopied
from scripts.tracing.peer import note_all
from scripts.tracing.virtual import note_in_world, play

HOST = "http://a.example"
PAGE = f"{HOST}/page"


def lines(*said: tuple[float, str, str, str]) -> list[Line]:
    return [Line(*one) for one in said]


def test_the_steps_of_a_url_are_joined_over_the_peers_that_took_them() -> None:
    finder = lines(
        (0.5, "call", "copies/1/root", "ok"),  # while the ring came together
        (1.0, "outbox", PAGE, ""),
        (1.5, "sent", PAGE, ""),
        (1.6, "sent", PAGE, ""),
        (1.6, "call", "links.take", "ok"),
        (1.7, "call", "links.take", ""),
    )
    owner = lines(
        (1.75, "due", PAGE, ""),
        (2.0, "lease?", HOST, ""),
        (2.5, "lease!", HOST, "others are before"),
        (3.5, "lease?", HOST, ""),
        (3.75, "lease!", HOST, ""),
        (3.75, "begun", PAGE, ""),
        (4.0, "fresh", "0a", ""),
        (4.5, "copied", "0a", ""),
    )
    found = joined([finder, owner], since=1.0)
    assert {stage.name: stage.seconds for stage in found.stages} == {
        "outbox → batch sent": [0.5],
        "batch sent → due": [0.25],
        "due → fetch begun": [2.0],
        "durable → last copy answered": [0.5],
    }
    assert found.causes == {
        "it has no place in the crawl's round": 0.25,
        "it is asked for a lease": 0.75,
        "others are before": 1.0,
    }
    assert found.calls == {"links.take": 1, "links.take, failed": 1}
    assert found.begun == {1: 1}
    assert (found.last_begun, found.last_copied) == (3.75, 4.5)
    assert uncopied([finder, owner]) == 0
    assert uncopied([finder, owner[:-1]]) == 1


def test_a_wait_has_the_causes_of_its_own_time_alone() -> None:
    states = [(1.0, "resting"), (2.0, "others are before"), (9.0, "resting")]
    assert causes(states, 1.5, 4.0) == {"resting": 0.5, "others are before": 2.0}


def test_a_line_that_was_torn_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "peer.trace"
    file.write_text("1.5\tbegun\thttp://a.example/\t\n2.0\tbeg")
    assert read_lines(file) == lines((1.5, "begun", "http://a.example/", ""))


@pytest.mark.timeout(120)
def test_a_ring_is_traced_from_the_first_link_to_the_last_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    note_all(note_in_world, monkeypatch.setattr)
    case = Case(peers=2, settings="test", hosts=1, pages=20, delay_s=0.0, within_s=300.0)
    played = play(case, seed=1)
    assert played.visited == played.expected > 20
    assert not played.rude
    assert all(stage.seconds for stage in played.found.stages)
    assert {"links.take", "leases.ask", "copies/1/put"} <= played.found.calls.keys()
    assert "copies/1/root" not in played.found.calls, "nothing is compared while the ring stays as it is"
