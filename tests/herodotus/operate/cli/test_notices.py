"""What does an operator type to remove something, and about the notices of others, and what does wrong input say?"""

import json
from pathlib import Path

import pytest

from herodotus.core.notices import Kept, draft, issue
from herodotus.core.removals import subject_of
from herodotus.home.notices import change_notices, with_kept
from tests.herodotus.copies.world import key_number
from tests.herodotus.operate.cli.processes import called, new_home
from tests.herodotus.store.making import two_versions_file

URL = "http://example.org/"
NETWORK = b"network1"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = new_home(tmp_path / "home")
    assert called("import", "--home", made, two_versions_file(tmp_path, URL)).code == 0
    return made


def tell(home: Path, *names: str, text: str = "") -> list[str]:
    """Notices of another peer; their ids."""
    kept = [
        Kept(
            notice=issue(
                key_number(number),
                NETWORK,
                draft(
                    subject_of("host", name),
                    reason="legal",
                    text=text,
                    contact="",
                    issued=1_795_000_000 + number,
                    count=2,
                ),
            ),
            heard_s=0.0,
            place=b"\x04",
        )
        for number, name in enumerate(names)
    ]
    change_notices(home / "state", lambda file: with_kept(file, kept))
    return [one.notice.id.hex() for one in kept]


def is_shown(home: Path) -> bool:
    return called("history", "--home", home, URL).code == 0


def test_a_notice_is_shown_followed_and_undone(home: Path) -> None:
    (id_,) = tell(home, "example.org", text="order 12")
    assert is_shown(home)
    listed = called("notices", "--home", home)
    assert (listed.code, listed.out.split()[:2]) == (0, [id_[:8], "open"])
    shown = called("notices", "--home", home, "show", id_[:8])
    assert "here      2 captures of 1 addresses" in shown.out
    assert "because   legal: order 12" in shown.out
    followed = called("notices", "--home", home, "follow", id_[:8])
    assert (followed.code, is_shown(home)) == (0, False), followed.err
    assert called("notices", "--home", home, "--json").json[0]["erased_in_days"] == 30.0
    assert called("notices", "--home", home, "dismiss", id_).code == 2, "undo it first"
    assert called("notices", "--home", home, "undo", id_).code == 0
    assert is_shown(home)
    assert called("notices", "--home", home, "--json").json[0]["state"] == "dismissed"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["show"], 2),
        (["list", "abcd"], 2),
        (["show", "abc"], 2),
        (["show", "xyzw"], 2),
        (["show", "../../etc"], 2),
        (["show", "a" * 33], 2),
        (["follow", "0000"], 3),
        (["burn", "0000"], 2),
        (["undo", "{id}"], 2),
    ],
)
def test_wrong_words_say_what_is_wrong_and_do_nothing(home: Path, arguments: list[str], code: int) -> None:
    (id_,) = tell(home, "example.org")
    done = called("notices", "--home", home, *(one.format(id=id_) for one in arguments))
    assert done.code == code
    assert done.err
    assert "Traceback" not in done.err
    assert is_shown(home)


def test_another_peers_words_do_not_steer_the_terminal(home: Path) -> None:
    tell(home, "example.org", text="\x1b[2J\u202eevil")
    shown = called("notices", "--home", home)
    assert "\x1b" not in shown.out + shown.err
    assert "\u202e" not in shown.out


def test_erasing_is_asked_for_also_where_nobody_can_answer(home: Path) -> None:
    refused = called("remove", "--home", home, "--host", "example.org", "--erase")
    assert refused.code == 2
    assert "say --yes" in refused.err
    assert is_shown(home)
    assert not (home / "state" / "removed.json").exists()
    assert called("remove", "--home", home, "--host", "example.org", "--erase", "--yes").code == 0
    assert not is_shown(home)
    undone = called("remove", "--home", home, "--undo", "--host", "example.org")
    assert undone.code == 0
    assert not is_shown(home), "there is no way back"


def test_removing_lists_what_went_and_is_undone(home: Path) -> None:
    gone = called(
        "remove", "--home", home, "--prefix", "http://example.org/", "--reason", "privacy", "--json"
    )
    assert (gone.json["captures"], gone.json["listed"]) == (2, [[URL, 2]])
    assert not is_shown(home)
    (rule,) = json.loads((home / "state" / "removed.json").read_bytes())["rules"]
    assert (rule["state"], rule["captures"], rule["telling"]["reason"]) == ("hidden", 2, "privacy")
    assert called("remove", "--home", home, "--undo", "--prefix", "http://example.org/").code == 0
    assert is_shown(home)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--host", "http://a.example/"],
        ["--prefix", "http://a.example/?x"],
        ["--digest", "abc"],
        ["--reason", "because", "http://a.example/"],
        ["--text", "x" * 501, "http://a.example/"],
        ["--text", "two\nlines", "http://a.example/"],
        ["--contact", "x" * 201, "http://a.example/"],
        ["--erase", "--undo", "http://a.example/"],
        [],
    ],
)
def test_what_is_no_removal_is_refused(home: Path, arguments: list[str]) -> None:
    done = called("remove", "--home", home, *arguments)
    assert done.code == 2, done.err
    assert not (home / "state" / "removed.json").exists()
