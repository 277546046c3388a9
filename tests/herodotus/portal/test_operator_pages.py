"""Does the operator see and order what nobody else can, and has every reader a share and no more?"""

import json
import re
import stat
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from dht.core.limits import Buckets, Rate
from herodotus.core.errors import StoreRefusedError
from herodotus.core.orders import Import, Order, OrderReport, Say
from herodotus.home.folder import Home
from herodotus.portal.answer import BODY_BYTES_MAX, Answer, Request
from herodotus.portal.api import imports
from herodotus.portal.client_limits import RATE, client_of
from herodotus.portal.metrics import PortalFigures, metrics
from herodotus.portal.operator_rule import operator_token
from herodotus.portal.status_page import status_page
from tests.herodotus.portal.library import HOME, HOST, response
from tests.herodotus.portal.rooms import TOKEN, Room
from tests.herodotus.portal.statuses import STATUS
from tests.herodotus.portal.test_copies_shown import COPYING

BEARER = {"authorization": f"Bearer {TOKEN}"}
JSON = {"content-type": "application/json"}
ORDER = b'{"files": ["/data/a.warc.gz"]}'


# -- who the operator is ----------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/status", "/metrics"])
def test_the_operator_sees_from_this_machine_or_with_the_token(path: str) -> None:
    room = Room()
    assert room.ask(path).status == 200
    assert room.ask(path, {"host": "localhost:5484"}).status == 200
    assert room.ask(path, {"host": "[::1]:5484"}).status == 200
    room.client = "192.0.2.9"
    refused = room.ask(path)
    assert (refused.status, refused.headers["WWW-Authenticate"]) == (401, 'Bearer realm="operator"')
    assert "Access-Control-Allow-Origin" not in refused.headers
    assert room.ask(path, {"authorization": "Bearer wrong"}).status == 401
    assert room.ask(path, {"authorization": TOKEN}).status == 401
    assert room.ask(path, BEARER).status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "192.0.2.7:5484"},  # asked for under an address of the outside, through whatever led it here
        {"x-forwarded-for": "203.0.113.5"},
        {"forwarded": "for=203.0.113.5"},
        {"via": "1.1 proxy"},
        {"user-agent": "Herodotus/0.1.0 (+https://example.org/)"},  # a crawl, whose captures anybody may read
        {"x-herodotus-relayed": "1"},  # another peer's reader
        {"user-agent": "Mozilla/5.0"},  # a browser here would say whose page asks
        {"referer": "https://archive.example.org/"},
        {"referer": "http://[x/"},
        {"origin": "https://archive.example.org"},
    ],
)
def test_what_comes_from_this_machine_for_somebody_else_is_not_the_operator(headers: dict[str, str]) -> None:
    assert Room().ask("/status", headers).status == 401


def test_a_browser_on_this_machine_is_the_operators() -> None:
    headers = {
        "user-agent": "Mozilla/5.0",
        "sec-fetch-site": "same-origin",
        "referer": "http://127.0.0.1:5484/",
    }
    assert Room().ask("/status", headers).status == 200


def test_a_proxy_that_says_nothing_is_known_by_its_old_tongue() -> None:
    request = Request(
        target="/status", headers={"host": "127.0.0.1:5484"}, client="127.0.0.1", is_http_1_0=True
    )
    assert anyio.run(Room().handlers.answer, request).status == 401


def test_a_name_that_leads_here_is_refused_before_anything_is_shown() -> None:
    assert Room().ask("/status", {"host": "evil.example"}).status == 421  # DNS rebinding
    assert Room().ask("/status", {"origin": "null"}).status == 403  # an archived page


def test_with_a_public_name_this_machine_is_not_enough() -> None:
    room = Room(public_url="https://archive.example.org")
    assert room.ask("/status").status == 401
    assert room.ask("/status", BEARER).status == 200


@pytest.mark.parametrize(
    ("client", "headers", "status"),
    [
        ("127.0.0.1", JSON, 401),
        ("127.0.0.1", {**JSON, "authorization": "Bearer x"}, 401),
        ("192.0.2.9", {**JSON, **BEARER}, 403),
        ("127.0.0.1", {**JSON, **BEARER, "host": "192.0.2.7"}, 403),
        ("127.0.0.1", {**JSON, **BEARER, "x-real-ip": "192.0.2.9"}, 403),
        ("127.0.0.1", {**JSON, **BEARER, "origin": "null"}, 403),
        ("127.0.0.1", {**JSON, **BEARER, "host": "evil.example"}, 421),
    ],
)
def test_orders_need_this_machine_and_the_token(client: str, headers: dict[str, str], status: int) -> None:
    room = Room(client=client)  # whose `perform` would fail the test
    assert room.ask("/api/v1/imports", headers, "POST", ORDER).status == status


def test_no_other_method_or_path_takes_an_order_from_a_reader() -> None:
    room = Room()
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        for path in (
            "/",
            "/status",
            "/metrics",
            f"/web/2026/{HOME}",
            "/api/v1/captures",
            "/cdx/search/cdx",
            "/web/diff/1",
        ):
            answer = room.ask(path, {**JSON, **BEARER}, method, ORDER)
            assert answer.status == 405, (method, path)
    assert (
        room.ask("/save/https://example.org/", method="POST").status == 405
    )  # the charter does not allow it


def test_the_token_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.state.mkdir()
    token = operator_token(home)
    assert len(token) >= 40
    assert stat.S_IMODE(home.token.stat().st_mode) == 0o600
    assert operator_token(home) == token
    home.token.chmod(0o644)
    assert operator_token(home) != token, "others may have read it"
    assert stat.S_IMODE(home.token.stat().st_mode) == 0o600


# -- what the operator sees -------------------------------------------------------------------------------


def test_metrics_are_what_prometheus_reads_and_all_of_them_are_documented() -> None:
    answer = Room().ask("/metrics")
    assert answer.content_type == "text/plain; version=0.0.4; charset=utf-8"
    text = answer.body.decode()
    sample = re.compile(r'herodotus_([a-z_]+)(\{([a-z_]+="(?:[^"\\\n]|\\[\\"n])*",?)+\})? -?[0-9.e+]+')
    names, typed = set(), set()
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            name, kind = line.split()[2:]
            typed.add(name)
            assert kind == ("counter" if name.endswith("_total") else "gauge")
        elif not line.startswith("#"):
            match = sample.fullmatch(line)
            assert match is not None, line
            names.add(f"herodotus_{match[1]}")
    assert names <= typed
    assert "herodotus_store_captures 1234" in text
    assert "herodotus_crawl_left_over_urls 64" in text
    assert 'herodotus_crawl_links{way="handed_over"} 61' in text
    assert 'herodotus_http_requests_total{status="200"} 7' in text
    documented = set(re.findall(r"`(herodotus_[a-z_]+)`", Path("docs/look-up/metrics.md").read_text()))
    assert typed == documented


def told(exposition: str) -> set[tuple[str, str, frozenset[tuple[str, str]], float]]:
    return {
        (sample.name, family.type, frozenset(sample.labels.items()), sample.value)
        for family in text_string_to_metric_families(exposition)
        for sample in family.samples
    }


def test_dashboards_read_the_same_metrics_as_before_a_library_wrote_them() -> None:
    """The file has what our own writer made of the same figures: names, types, labels and values."""
    status = replace(STATUS, copying=COPYING, version='0.1 "beta"\\\n')
    written = metrics(status, PortalFigures(answered={200: 7, 404: 2})).decode()
    before = told(Path("tests/data/metrics-before-prometheus-client.txt").read_text())
    assert len(before) == 49
    assert before <= told(written), "a metric may be added, and none may change"


def test_a_nickname_or_reason_breaks_neither_page_nor_metrics() -> None:
    answer = Room().ask("/status")
    assert b"Halikarnassos" in answer.body
    assert answer.headers["Cache-Control"] == "no-store"
    assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]


def test_the_status_page_shows_alarms_picture_copies_and_the_log_without_a_script() -> None:
    alarmed = replace(STATUS, alarms=("the disk <is> full",), copies={"1": 250, "10": 50, "2": 700})
    page = status_page(alarmed, PortalFigures(), log=("INFO ready", "WARNING <script>"))
    assert '<p class="trouble">the disk &lt;is&gt; full</p>' in page
    assert '<figure class="ring"><svg' in page
    shown = re.findall(r"<dt>With (\d+) cop\w+</dt><dd>[\d,]+ <meter value=\"(\d+)\" max=\"1000\"", page)
    assert shown == [("1", "250"), ("2", "700"), ("10", "50")]
    assert "INFO ready\nWARNING &lt;script&gt;</pre>" in page
    assert not re.search(r"<script|<link rel=.stylesheet|src=|style=|url\(", page)


def test_the_log_is_shown_to_the_operator_alone() -> None:
    room = Room()
    assert b"WARNING herodotus.peers.net &lt;script&gt;" in room.ask("/status").body
    room.client = "192.0.2.9"
    assert b"herodotus.peers.net" not in room.ask("/status").body


# -- orders -----------------------------------------------------------------------------------------------


class Importing:
    """Carries out what is ordered when it is let."""

    def __init__(self) -> None:
        self.ordered: list[Order] = []
        self.may_go_on = anyio.Event()

    async def __call__(self, order: Order, say: Say) -> OrderReport:
        self.ordered.append(order)
        say("half")
        await self.may_go_on.wait()
        assert isinstance(order, Import)
        if order.files == ("/bad",):
            raise StoreRefusedError("the disk is full")
        if order.files == ("/worse",):
            raise ZeroDivisionError
        return OrderReport(facts=[{"file": order.files[0], "stored": 3}])


async def asked(room: Room, target: str, method: str = "GET", body: bytes = b"") -> Answer:
    request = Request(
        method=method, target=target, headers={"host": HOST, **JSON, **BEARER}, client="127.0.0.1", body=body
    )
    return await room.handlers.answer(request)


def order(*files: str) -> bytes:
    return json.dumps({"files": files}).encode()


def test_files_are_registered_imported_in_turn_and_told_of() -> None:
    performing = Importing()
    room = Room(perform=performing)

    async def work() -> None:
        async with room.opened():
            first = json.loads((await asked(room, "/api/v1/imports", "POST", order("/a", "/b"))).body)
            assert (first["number"], first["state"], first["files"]) == (1, "waiting", ["/a", "/b"])
            for files in ("/bad", "/worse"):
                assert (await asked(room, "/api/v1/imports", "POST", order(files))).status == 202
            await anyio.wait_all_tasks_blocked()
            running = json.loads((await asked(room, "/api/v1/imports/1")).body)
            assert (running["state"], running["progress"]) == ("running", "half")
            performing.may_go_on.set()
            await anyio.wait_all_tasks_blocked()
            done = json.loads((await asked(room, "/api/v1/imports")).body)["imports"]
            assert [(one["state"], one["problem"]) for one in done] == [
                ("done", ""), ("failed", "nothing can be stored: the disk is full"),
                ("failed", "a mistake of ours: ZeroDivisionError"),
            ]  # fmt: skip
            assert done[0]["report"] == [{"file": "/a", "stored": 3}]
            assert performing.ordered[0] == Import(files=("/a", "/b"))
            assert (await asked(room, "/api/v1/imports/9")).status == 404

    anyio.run(work)


def test_orders_that_wait_and_those_remembered_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imports, "REMEMBERED_MAX", 5)

    performing = Importing()
    room = Room(perform=performing)

    async def work() -> None:
        async with room.opened():
            answers = []
            for _ in range(30):
                answers.append((await asked(room, "/api/v1/imports", "POST", order("/a"))).status)
                await anyio.wait_all_tasks_blocked()
            assert answers == [202] * (imports.WAITING_MAX + 1) + [503] * (29 - imports.WAITING_MAX)
            performing.may_go_on.set()
            await anyio.wait_all_tasks_blocked()
            await asked(room, "/api/v1/imports", "POST", order("/a"))
            assert len(json.loads((await asked(room, "/api/v1/imports")).body)["imports"]) == 5

    anyio.run(work)


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b"", JSON),
        (b"{", JSON),
        (b"[]", JSON),
        (b'{"files": []}', JSON),
        (b'{"files": ["relative.warc"]}', JSON),
        (b'{"files": ["/a\\u0000b"]}', JSON),
        (b'{"files": ["/a"], "more": 1}', JSON),
        (b"\xff", JSON),
        (b'{"files": ["/a"]}', {}),
        (b"x" * (BODY_BYTES_MAX + 1), JSON),
    ],
)
def test_an_order_that_makes_no_sense_is_a_problem(body: bytes, headers: dict[str, str]) -> None:
    answer = Room().ask("/api/v1/imports", {**headers, **BEARER}, "POST", body)
    assert (answer.status, answer.content_type) == (400, "application/problem+json")


# -- shares -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "cost"),
    [
        ("/api/v1/addresses?q=a", 5), ("/api/v1/stream", 10), (f"/api/v1/completeness?url={HOME}", 20),
        (f"/cdx/search/cdx?url={HOME}*", 2), (f"/web/diff/2025/2026/{HOME}", 10), (f"/web/*/{HOME}*", 2),
    ],
)  # fmt: skip
def test_a_reader_has_a_share_of_what_is_costly_and_another_one_has_his_own(
    target: str, cost: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = Room(response(HOME, "20260101", b"a"), client="192.0.2.1")
    monkeypatch.setattr(room.rooms._limits, "_now", lambda: 7.0)  # shares fill while a slow machine asks
    statuses = [room.ask(target).status for _ in range(int(RATE.burst / cost) + 3)]
    assert 429 not in statuses[: int(RATE.burst / cost)]
    assert statuses[-1] == 429
    refused = room.ask(target)
    assert int(refused.headers["Retry-After"]) >= 1
    assert room.ask(f"/web/20260101000000/{HOME}").status == 200, "pages are free"
    assert room.ask("/healthz").status == 200
    room.client = "192.0.2.2"
    assert room.ask(target).status != 429


def test_a_household_has_one_share_and_this_machine_none() -> None:
    assert client_of("2001:db8:1:2:3:4:5:6") == client_of("2001:db8:1:2::1") != client_of("2001:db8:1:3::1")
    assert client_of("::ffff:192.0.2.1") == client_of("192.0.2.1")
    assert client_of("127.0.0.1") == client_of("::1") == client_of("") == client_of("nonsense") == ""


def test_an_allowance_fills_with_time_and_never_over_its_burst() -> None:
    shares, rate = Buckets(10), Rate(per_second=2.0, burst=10.0)
    assert shares.ration("a", rate, 10, 0.0) == 0
    assert shares.ration("a", rate, 4, 0.0) == pytest.approx(2.0)
    assert shares.ration("a", rate, 4, 2.0) == 0
    assert shares.ration("a", rate, 10, 1_000.0) == 0
    assert shares.ration("a", rate, 1, 1_000.0) > 0
    assert shares.ration("b", rate, 99, 1_000.0) == 0, "what costs more than a burst takes a full one"


@settings(deadline=None)  # a busy machine takes what it takes
@given(st.lists(st.tuples(st.integers(0, 50), st.floats(0, 20), st.floats(0, 5)), max_size=200))
def test_no_one_gets_more_than_burst_and_rate_and_the_table_is_bounded(
    asked_for: list[tuple[int, float, float]],
) -> None:
    rate = Rate(per_second=1.0, burst=10.0)
    shares, now, taken = Buckets(50), 0.0, dict.fromkeys(range(51), 0.0)
    for who, cost, passed in asked_for:
        now += passed
        if shares.ration(str(who), rate, cost, now) == 0:
            taken[who] += min(cost, rate.burst)
        assert len(shares._known) <= 50
    if len({who for who, _, _ in asked_for}) <= 50:  # nobody was forgotten
        assert max(taken.values()) <= rate.burst + now * rate.per_second + 1e-6
