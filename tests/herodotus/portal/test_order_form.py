"""Does the form on the status page take orders from the operator, and from nobody who makes his browser post?"""

from dataclasses import replace
from pathlib import Path
from urllib.parse import urlencode

import anyio
import anyio.to_thread
import pytest

from herodotus.copies.departure import NobodyToHandTo
from herodotus.core.orders import Drain, Order, OrderReport, Pause, Resume, Say, Stay
from herodotus.core.status import CrawlStatus, LeavingStatus
from herodotus.operate.http_questions import ask
from herodotus.portal.order_form import order_form
from tests.herodotus.operate.cli.processes import new_home, running
from tests.herodotus.portal.browser import browser
from tests.herodotus.portal.library import HOST
from tests.herodotus.portal.rooms import TOKEN, Room
from tests.herodotus.portal.statuses import STATUS

FORM = {"content-type": "application/x-www-form-urlencoded"}
OURS = {**FORM, "origin": f"http://{HOST}", "sec-fetch-site": "same-origin"}


class Peer:
    def __init__(self) -> None:
        self.ordered: list[Order] = []

    async def perform(self, order: Order, say: Say) -> OrderReport:
        del say
        self.ordered.append(order)
        if isinstance(order, Drain):
            raise NobodyToHandTo
        return OrderReport(facts={})


def body(order: str = "pause", secret: str = TOKEN) -> bytes:
    return urlencode({"secret": secret, "order": order}).encode()


@pytest.mark.parametrize(
    ("name", "order"),
    [("pause", Pause()), ("pause-hour", Pause(for_s=3_600.0)), ("resume", Resume()), ("stay", Stay())],
)  # fmt: skip
def test_an_order_with_the_secret_is_carried_out_and_the_status_shown(name: str, order: Order) -> None:
    peer = Peer()
    answer = Room(perform=peer.perform).ask("/status/orders", OURS, "POST", body(name, f" {TOKEN} "))
    assert (answer.status, answer.headers["Location"]) == (303, "/status")
    assert peer.ordered == [order]


def test_what_cannot_be_done_is_said() -> None:
    peer = Peer()
    answer = Room(perform=peer.perform).ask("/status/orders", OURS, "POST", body("drain"))
    assert (answer.status, b"nobody to hand over to" in answer.body) == (409, True)
    assert peer.ordered == [Drain(wait_s=0.0)]


@pytest.mark.parametrize(
    ("changed", "sent", "status"),
    [
        ({"origin": "http://evil.example"}, body(), 403),
        ({"origin": "http://127.0.0.1:9"}, body(), 403),  # another service of this machine
        ({"origin": "null"}, body(), 403),  # an archived page
        ({"sec-fetch-site": "cross-site"}, body(), 403),
        ({"sec-fetch-site": "same-site"}, body(), 403),
        ({"host": "evil.example"}, body(), 421),
        ({"host": "192.0.2.7", "origin": "http://192.0.2.7"}, body(), 403),
        ({"x-forwarded-for": "192.0.2.9"}, body(), 403),
        ({}, body(secret=""), 403),
        ({}, body(secret="x" * 43), 403),
        ({}, b"", 400),
        ({}, b"\xff" * 100, 400),
        ({}, body("remove"), 400),
        ({}, b"&".join([b"secret=a"] * 100), 400),
        ({"content-type": "text/plain"}, body(), 400),
    ],
)
def test_nobody_else_gives_orders(changed: dict[str, str], sent: bytes, status: int) -> None:
    room = Room()  # whose `perform` would fail the test
    assert room.ask("/status/orders", {**OURS, **changed}, "POST", sent).status == status


def test_who_is_elsewhere_gives_no_orders_with_the_secret_either() -> None:
    room = Room(client="192.0.2.9")
    bearer = {"authorization": f"Bearer {TOKEN}"}
    assert b"/status/orders" not in room.ask("/status", bearer).body
    assert room.ask("/status/orders", {**OURS, **bearer}, "POST", body()).status == 403


def test_reading_the_page_of_orders_orders_nothing() -> None:
    assert Room().ask(f"/status/orders?{body().decode()}").status == 404


def test_the_form_offers_what_makes_sense_now_and_never_holds_the_secret() -> None:
    crawling = replace(STATUS, crawl=CrawlStatus(state="crawling"))
    paused = replace(STATUS, crawl=CrawlStatus(state="paused"))
    leaving = replace(STATUS, leaving=LeavingStatus(state="handing over", peers=3, parts=4, parts_over=1))
    assert [_offered(one) for one in map(order_form, (crawling, paused, leaving))] == [
        ["pause-hour", "pause", "drain"], ["resume", "drain"], ["stay"],
    ]  # fmt: skip
    page = Room().ask("/status")
    assert b'action="/status/orders"' in page.body
    assert TOKEN.encode() not in page.body
    assert page.headers["Referrer-Policy"] == "same-origin"  # else browsers tell no origin with the form


def _offered(form: str) -> list[str]:
    return [part.partition('"')[0] for part in form.split('name="order" value="')[1:]]


@pytest.mark.e2e
@pytest.mark.needs("chromium")
@pytest.mark.anyio
@pytest.mark.timeout(180)
async def test_a_browser_without_scripts_pauses_a_peer(tmp_path: Path) -> None:
    with running(new_home(tmp_path / "home")) as peer:
        secret = (peer.home / "state" / "operator.token").read_text().strip()
        async with browser(tmp_path) as window:
            await window.call("Emulation.setScriptExecutionDisabled", value=True)
            await window.visit(f"{peer.http}/status")
            await window.until("document.querySelector('#secret') !== null")
            await window.run("document.querySelector('#secret').focus()")
            await window.call("Input.insertText", text=secret)
            await window.run("document.querySelector('button[value=pause]').scrollIntoView()")
            await window.press("button[value=pause]")
            await window.until("document.querySelector('button[value=resume]') !== null")
        facts = await anyio.to_thread.run_sync(ask, peer.http, "/api/v1/status")
        assert facts["crawl"]["state"] == "paused"
