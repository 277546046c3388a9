"""Can a stranger's words steer the terminal of whoever asks, or turn the writing around?"""

import ast
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

import herodotus.operate.cli
from herodotus.operate.cli import main
from herodotus.operate.cli.printing import escaped, escaped_lines

EVIL = "\x1b[2J\x1b]0;mine\x07\u202egnp.exe\u2066\u200f\x9b31m\x7f\r\n\u2028\U000e0001\ud800"
"""Clears the screen, names the window, turns the writing around, and goes on with a line of its own."""
VERSION = {"date": EVIL, "status": EVIL, "mime": f"text/{EVIL}", "url": f"http://a.example/{EVIL}", EVIL: EVIL,
           "visits": EVIL, "last_seen": EVIL}  # fmt: skip
STATUS = {"peer_id": EVIL, "nickname": EVIL, "alarms": [EVIL], EVIL: EVIL, "store": {EVIL: EVIL},
          "ring": {"address": EVIL, "unwell": {EVIL: EVIL}, "nodes": [{"position": EVIL}]},
          "copying": {"suspects": {EVIL: EVIL}, "audits": [{"peer": EVIL, "result": EVIL}]}}  # fmt: skip


class Liar(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        facts = STATUS if "/api/" in self.path else [VERSION]
        body = json.dumps(facts).encode()
        if "broken" in self.path:
            self.send_response(500, "\x1b[2J\x9bfail")
            body = b""
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name is http.server's
        pass


@pytest.fixture(scope="module")
def liar() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Liar) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def asked(*words: str) -> Result:
    result = CliRunner().invoke(main, words)
    assert [line for line in result.output.split("\n") if not line.isprintable()] == []
    return result


@pytest.mark.parametrize("command", [("history", "http://a.example/"), ("status",)])
def test_another_peers_words_come_escaped_and_machines_read_them_whole(
    liar: str, command: tuple[str, ...]
) -> None:
    people = asked(*command, "--peer", liar)
    assert people.exit_code == 0
    assert "\\u202egnp.exe" in people.stdout
    machines = asked(*command, "--peer", liar, "--json")
    assert json.loads(machines.stdout) == (STATUS if command == ("status",) else [VERSION])


@pytest.mark.parametrize(
    "words",
    [
        ("history", f"http://a.example/{EVIL[:-1]}broken"),
        ("get", f"http://a.example/broken{EVIL[:-1]}"),
        ("history", "--json", "http://a.example/broken"),
    ],
)
def test_neither_does_an_error_of_another_peer_steer_anything(liar: str, words: tuple[str, ...]) -> None:
    result = asked(*words, "--peer", liar)
    assert result.exit_code != 0
    assert result.stdout == ""
    assert result.stderr.startswith("herodotus: error: ")
    assert result.stderr.count("\n") == 1


def test_what_is_typed_comes_back_escaped_too() -> None:
    result = asked("status", f"--no{EVIL[:-1]}")
    assert result.exit_code == 2
    assert "No such option" in result.stderr


@settings(deadline=None)  # the first call of a busy machine
@given(st.text())
def test_a_line_is_one_printable_line_and_lines_stay_lines(text: str) -> None:
    assert escaped(text).isprintable()
    assert escaped_lines(text).count("\n") == text.count("\n")
    assert escaped(text) == text or not text.isprintable()


@settings(deadline=None)
@given(st.recursive(st.none() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_json_says_the_same_when_it_is_escaped(value: object) -> None:
    line = escaped(json.dumps(value, ensure_ascii=False))
    assert json.loads(line) == value


def prints_past_it(file: Path) -> list[str]:
    calls = (node.func for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call))
    ways = ("click.echo", "click.secho", "print", "sys.stdout.write", "sys.stderr.write")
    return [f"{file.name}: {ast.unparse(call)}" for call in calls if ast.unparse(call) in ways]


def test_no_command_prints_past_the_one_way() -> None:
    folder = Path(herodotus.operate.cli.__file__).parent
    found = [line for file in sorted(folder.rglob("*.py")) for line in prints_past_it(file)]
    allowed = {
        "completion.py: click.echo",  # click's own script, with tabs
        "console.py: click.echo",  # moves the cursor itself, over words that are escaped
        "printing.py: click.echo",
    }
    assert set(found) == allowed
