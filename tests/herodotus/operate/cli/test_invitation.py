"""Does one line lead a newcomer from nothing into another's network, as its users type it?"""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from herodotus.core.charter import shown_network_id
from herodotus.core.invitation import Invitation
from herodotus.home.folder import Home, open_home
from herodotus.operate.http_questions import ask
from tests.herodotus.operate.cli.processes import called, herodotus, running
from tests.herodotus.portal.library import response
from tests.herodotus.portal.shelves import warc_of
from tests.herodotus.test_ring_copies import wait_until
from tests.herodotus.test_ring_lab import free_base

pytestmark = pytest.mark.e2e
URL = "http://example.org/page"


@pytest.fixture
def founder(tmp_path: Path) -> Iterator[Any]:
    home = tmp_path / "founder"
    port = free_base(2)
    made = called(
        *("network", "create", "our-library", "--home", home, "--private", "--no-run", "--preset", "test"),
        *("--contact", "mailto:me@example.org", "--listen", f"127.0.0.1:{port}", "--json"),
    )
    assert made.code == 0, made.err
    assert made.json["network"] == "our-library"
    with running(home) as peer:
        yield peer


def test_a_newcomer_reads_the_other_archive_by_one_line(founder: Any, tmp_path: Path) -> None:
    warc = warc_of(tmp_path / "made", response(URL, "20260101", b"<p>kept by the founder</p>"))
    assert called("import", "--home", founder.home, warc).code == 0
    invited = herodotus("invite", "--home", founder.home, "--json")
    line = invited.json["invitation"]
    assert Invitation.parse(line).charter_hash == open_home(Home(founder.home)).network_id()[:16]
    drawn = herodotus("invite", "--home", founder.home, "--qr")
    assert drawn.out.endswith(f"{line}\n")
    assert "█" in drawn.out

    home, port = tmp_path / "newcomer", free_base(2)
    joined = herodotus(
        *("join", line.upper(), "--home", home, "--no-run", "--preset", "test"),
        *("--contact", "mailto:you@example.org", "--listen", f"127.0.0.1:{port}"),
    )
    assert joined.code == 0, joined.err
    assert open_home(Home(home)) == open_home(Home(founder.home))
    with running(home) as newcomer:
        wait_until(
            lambda: ask(newcomer.http, "/api/v1/status")["ring"]["members"] == 2,
            lambda: ask(newcomer.http, "/api/v1/status")["ring"],
        )
        wait_until(
            lambda: page_at(newcomer.http) == b"<p>kept by the founder</p>", lambda: page_at(newcomer.http)
        )
        contacts = Invitation.parse(herodotus("invite", "--home", home).out).contacts
        assert len(contacts) == 2
        again = called("join", line, "--home", home, "--no-run")
        assert again.code == 0, again.err


def test_a_charter_may_lead_to_members_by_itself(tmp_path: Path) -> None:
    port = free_base(2)
    made = called(
        *(
            "network",
            "create",
            "ours",
            "--home",
            tmp_path / "one",
            "--private",
            "--no-run",
            "--preset",
            "test",
        ),
        *(
            "--contact",
            "mailto:me@example.org",
            "--listen",
            f"127.0.0.1:{port}",
            "--dns",
            f"127.0.0.1:{port}",
        ),
    )
    assert made.code == 0, made.err
    charter = tmp_path / "one" / "network.toml"
    init = ("init", "--home", tmp_path / "two", "--network", charter, "--preset", "test")
    assert called(*init, "--contact", "mailto:you@example.org").code == 0
    with running(tmp_path / "one"), running(tmp_path / "two") as second:
        wait_until(
            lambda: ask(second.http, "/api/v1/status")["ring"]["members"] == 2,
            lambda: ask(second.http, "/api/v1/status")["ring"],
        )
    wrong = called("network", "create", "theirs", "--home", tmp_path / "no", "--dns", "http://x/", "--no-run")
    assert (wrong.code, "contacts must be" in wrong.err) == (2, True), wrong.err


def page_at(portal: str) -> bytes:
    try:
        with urllib.request.urlopen(f"{portal}/web/2026id_/{URL}", timeout=30) as answer:
            return bytes(answer.read())
    except urllib.error.HTTPError as error:
        return str(error).encode()


def test_an_invitation_that_does_not_fit_says_why(founder: Any, tmp_path: Path) -> None:
    line = herodotus("invite", "--home", founder.home).out.strip()
    wrong = called("join", line[:-1], "--home", tmp_path / "new")
    assert (wrong.code, "at least one character" in wrong.err) == (2, True)
    other = tmp_path / "other"
    assert called("init", "--home", other, "--network", "test").code == 0
    mixed = called("join", line, "--home", other)
    network = shown_network_id(open_home(Home(founder.home)).network_id())
    assert (mixed.code, f"is for network {network}" in mixed.err) == (2, True), mixed.err
    founder.end()
    nobody = called("join", line, "--home", tmp_path / "late")
    assert (nobody.code, "none of the 1 peers" in nobody.err) == (1, True), nobody.err
    assert not (tmp_path / "late").exists()
    asleep = called("invite", "--home", founder.home)
    assert (asleep.code, "no peer runs" in asleep.err) == (3, True)


def test_a_network_of_certain_sites_has_a_charter_that_says_so(tmp_path: Path) -> None:
    made = called(
        *("network", "create", "two sites", "--home", tmp_path / "home", "--no-run", "--json"),
        *("--site", "example.org", "--site", "example.net", "--public", "--contact", "mailto:me@example.org"),
    )
    assert made.code == 0, made.err
    charter = open_home(Home(tmp_path / "home"))
    assert (charter.scope, charter.allow_private_addresses) == (("example.org", "example.net"), False)
    assert charter.founded
    assert json.loads(made.out)["network_id"] == shown_network_id(charter.network_id())
    twice = called("network", "create", "again", "--home", tmp_path / "home")
    assert twice.code == 2, twice.err
