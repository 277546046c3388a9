"""What does the frame of all commands let through to a terminal, and how does it name what went wrong?"""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from herodotus.operate.cli import commands, frame, main
from herodotus.operate.cli.frame import CommandFrame, _sentence


def test_json_of_a_strange_peer_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    said = {"nickname": "\x1b[2J\x9b31m\u202e\x7f\U000e0001 Grüße", "half a character": "\ud800"}
    CommandFrame(is_json=True).show(said)
    out = capsys.readouterr().out
    assert out.removesuffix("\n").isprintable()
    assert "Grüße" in out
    assert json.loads(out) == said


def test_a_mistake_of_ours_says_where_it_was_made() -> None:
    """A daemon that ended by it cannot be asked again with --debug."""
    with pytest.raises(ZeroDivisionError) as raised:
        divmod(1, len(()))
    assert " at test_frame.py:" in _sentence(raised.value)[0]


def test_ctrl_c_that_hit_an_import_is_an_interruption() -> None:
    error = RuntimeError("Error calling __set_name__ on 'Field' instance")
    assert "a mistake of ours" in _sentence(error)[0]
    error.__cause__ = KeyboardInterrupt()
    assert _sentence(error) == ("interrupted", 130)


NEW_COMMAND = """
from herodotus.operate.cli.frame import CommandFrame, framed, main

@main.command()
@framed()
def count_sheep(frame: CommandFrame) -> None:
    \"\"\"Fall asleep.\"\"\"
    frame.say("one")
"""


def test_a_new_command_is_one_new_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "count_sheep.py").write_text(NEW_COMMAND)
    monkeypatch.setattr(commands, "__path__", [*commands.__path__, str(tmp_path)])
    frame.command_modules.cache_clear()
    try:
        assert "count-sheep    Fall asleep." in CliRunner().invoke(main, ["--help"]).stdout
        assert CliRunner().invoke(main, ["count-sheep"]).stderr == "one\n"
        assert CliRunner().invoke(main, ["count-wolves"]).exit_code == 2
    finally:
        frame.command_modules.cache_clear()
        main.commands.pop("count-sheep", None)
        sys.modules.pop("herodotus.operate.cli.commands.count_sheep", None)


def test_every_command_is_in_the_module_of_its_name() -> None:
    listed = main.list_commands(main.make_context("herodotus", [], resilient_parsing=True))
    assert {"add-slice", "import", "rebuild-index", "run", "status"} <= set(listed)
    for name in listed:
        command = main.get_command(main.make_context("herodotus", [], resilient_parsing=True), name)
        assert command is not None, name
        assert command.name == name
        assert command.get_short_help_str(), name


def test_the_list_of_commands_says_what_the_commands_say() -> None:
    """It is read from their texts, as importing them all takes long."""
    lines = CliRunner().invoke(main, ["--help"], terminal_width=300).stdout.splitlines()
    said = [line.split(maxsplit=1) for line in lines[lines.index("Commands:") + 1 :]]
    context = main.make_context("herodotus", [], resilient_parsing=True)
    commands_there = [(name, main.get_command(context, name)) for name in main.list_commands(context)]
    assert said == [[name, one.get_short_help_str(280)] for name, one in commands_there if one is not None]


def test_help_brings_no_module_of_a_command() -> None:
    program = """
import sys
from herodotus.operate.cli import main
try:
    main(["--help"])
except SystemExit:
    heavy = ("cryptography", "importlib.metadata", "msgspec", "rich", "herodotus.core.settings", "herodotus.home")
    print([one for one in sys.modules if one.startswith(("herodotus.operate.cli.commands.", *heavy))])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_help_brings_neither_store_nor_ring_nor_portal() -> None:
    program = """
import sys
from herodotus.operate.cli import main
try:
    main(["--help"])
except SystemExit:
    heavy = ("aiohttp", "dht", "herodotus.portal", "herodotus.store", "jinja2", "kademlia", "rocksdict", "zeroconf")
    print([one for one in heavy if one in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
