"""What does the frame of all commands let through to a terminal, and how does it name what went wrong?"""

import json

import pytest

from herodotus.operate.cli.frame import CommandFrame, _sentence


def test_json_of_a_strange_peer_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    said = {"nickname": "\x1b[2J\x9b31m\u202e\x7f\U000e0001 Grüße", "half a character": "\ud800"}
    CommandFrame().print_json(said)
    out = capsys.readouterr().out
    assert out.removesuffix("\n").isprintable()
    assert "Grüße" in out
    assert json.loads(out) == said


def test_ctrl_c_that_hit_an_import_is_an_interruption() -> None:
    error = RuntimeError("Error calling __set_name__ on 'Field' instance")
    assert "a mistake of ours" in _sentence(error)[0]
    error.__cause__ = KeyboardInterrupt()
    assert _sentence(error) == ("interrupted", 130)
