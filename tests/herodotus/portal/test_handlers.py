"""Does every request get the right answer, and can nothing a stranger writes become part of a page?"""

import dataclasses
import json
from html.parser import HTMLParser

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from herodotus.core.status import PeerStatus
from herodotus.portal.answer import Answer, Request
from herodotus.portal.handlers import Handlers
from tests.herodotus.portal.statuses import STATUS


def answer(path: str, method: str = "GET", status: PeerStatus = STATUS) -> Answer:
    async def of_peer() -> PeerStatus:
        return status

    return anyio.run(Handlers(of_peer).answer, Request(method=method, target=path))


class Elements(HTMLParser):
    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.words: list[str] = []
        self.feed(page.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.words.append(data.strip())


def test_the_start_page_says_what_the_peer_holds_and_who_it_is() -> None:
    page = answer("/")
    assert (page.status, page.content_type) == (200, "text/html; charset=utf-8")
    words = Elements(page.body).words
    for name, value in {"Captures": "1,234", "Known addresses": "5,678", "Members of its ring": "20"}.items():
        assert words[words.index(name) + 1] == value
    assert "evzt-oa44" in words
    assert "test" in words


@pytest.mark.parametrize(("network", "needs_rules"), [("herodotus", False), ("a<b", True)])
def test_the_start_page_says_how_to_join_this_ring(network: str, needs_rules: bool) -> None:
    body = answer("/", status=dataclasses.replace(STATUS, network=network)).body
    assert b"herodotus run --join 192.0.2.7:4484</pre>" in body
    assert (b"--network network.toml" in body) is needs_rules
    assert b"a<b" not in body


def test_a_page_may_load_run_and_post_nothing_elsewhere() -> None:
    policy = answer("/").headers["Content-Security-Policy"]
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules.pop("style-src").startswith("'sha256-")
    assert rules == {
        "default-src": "'none'", "img-src": "'self' data:", "form-action": "http: https:",
        "frame-ancestors": "'none'", "base-uri": "'none'",
    }  # fmt: skip
    assert answer("/").headers["X-Content-Type-Options"] == "nosniff"
    assert answer("/nothing").headers["Content-Security-Policy"] == policy
    assert "script" not in Elements(answer("/").body).tags


def test_a_nickname_is_words_and_never_markup() -> None:
    page = answer("/", status=dataclasses.replace(STATUS, nickname="<script>alert(1)</script>"))
    assert "script" not in Elements(page.body).tags
    assert b"&lt;script&gt;" in page.body


@settings(deadline=None)  # a busy machine takes what it takes
@given(st.text())
def test_no_path_becomes_markup_or_a_long_page(path: str) -> None:
    page = answer(f"/x{path}")
    assert Elements(page.body).tags == Elements(answer("/x").body).tags
    assert len(page.body) < len(answer("/x").body) + 2000


def test_an_unknown_page_is_a_page_for_people_and_a_problem_for_machines() -> None:
    page, problem = answer("/nothing"), answer("/api/v1/nothing")
    assert (page.status, page.content_type) == (404, "text/html; charset=utf-8")
    assert b"<code>/nothing</code>" in page.body
    assert (problem.status, problem.content_type) == (404, "application/problem+json")
    assert json.loads(problem.body) == {
        "type": "about:blank", "title": "Not Found", "status": 404,
        "detail": "this interface has no /api/v1/nothing",
    }  # fmt: skip


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "FROBNICATE"])
def test_what_can_only_be_read_says_how(method: str) -> None:
    refused = answer("/", method)
    assert (refused.status, refused.headers["Allow"]) == (405, "GET, HEAD")
    assert json.loads(refused.body)["detail"] == "/ allows reading only"


def test_liveness_is_two_letters() -> None:
    assert (answer("/healthz").status, answer("/healthz").body) == (200, b"ok\n")


def test_the_status_has_the_keys_that_machines_rely_on() -> None:
    status = json.loads(answer("/api/v1/status").body)
    assert status["peer_id"] == "evzt-oa44"
    assert status["http"] == "http://127.0.0.1:5484"
    assert set(status["ring"]) >= {"members", "ideal", "arcs"}  # more keys may come, these stay
    assert set(status["crawl"]) >= {"known", "due", "fetched", "unchanged", "failed"}
    assert set(status["store"]) >= {"captures", "bytes"}
    assert status["copies"] == {"1": 1234}
