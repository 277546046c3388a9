"""Does the operator, and nobody else, see and decide about notices in a browser?"""

from typing import Any

import pytest

from herodotus.core.errors import Misuse
from herodotus.core.orders import NoticeOrder, Order, OrderReport, Say
from tests.herodotus.portal.library import HOST
from tests.herodotus.portal.rooms import TOKEN, Room

NOTICE: dict[str, Any] = {
    "id": "3f9a01c2" + "0" * 24,
    "state": "open",
    "kind": "host",
    "name": "<b>bold</b>.example",
    "reason": "legal",
    "text": "<script>alert(1)</script>",
    "contact": "a@b.example",
    "issuer": "abcd-" * 12 + "abcd",
    "is_own": False,
    "issued": "2026-11-19T00:00:00Z",
    "captures_there": 600,
    "erased_in_days": None,
}
FORM = {"content-type": "application/x-www-form-urlencoded", "origin": f"http://{HOST}"}


class Desk:
    def __init__(self) -> None:
        self.ordered: list[Order] = []

    async def perform(self, order: Order, say: Say) -> OrderReport:
        del say
        self.ordered.append(order)
        if isinstance(order, NoticeOrder) and order.id == "ffff":
            raise Misuse("no notice begins with ffff")
        followed = NOTICE | {"state": "hidden", "erased_in_days": 30.0, "id": "aa" * 16}
        return OrderReport(facts=[followed, NOTICE])


def test_the_operator_sees_notices_those_first_that_wait_and_others_words_are_words() -> None:
    desk = Desk()
    page = Room(perform=desk.perform).ask("/notices")
    assert page.status == 200
    text = page.body.decode()
    assert text.index("3f9a01c2") < text.index("aaaaaaaa")
    assert "erased in 30.0 days" in text
    assert "<script>alert" not in text
    assert "<b>bold" not in text
    assert desk.ordered == [NoticeOrder(verb="list")]


def test_others_do_not_see_them() -> None:
    desk = Desk()
    assert Room(perform=desk.perform, client="192.0.2.7").ask("/notices").status == 401
    assert desk.ordered == []


@pytest.mark.parametrize("verb", ["follow", "dismiss", "undo"])
def test_a_decision_needs_the_secret(verb: str) -> None:
    desk = Desk()
    room = Room(perform=desk.perform)
    wrong = room.ask("/status/orders", FORM, "POST", f"order={verb}&notice=3f9a&secret=wrong".encode())
    assert (wrong.status, desk.ordered) == (403, [])
    right = room.ask("/status/orders", FORM, "POST", f"order={verb}&notice=3f9a&secret={TOKEN}".encode())
    assert (right.status, right.headers["Location"]) == (303, "/notices")
    assert desk.ordered == [NoticeOrder(verb=verb, id="3f9a")]  # type: ignore[arg-type]  # one of its words
    refused = room.ask("/status/orders", FORM, "POST", f"order={verb}&notice=ffff&secret={TOKEN}".encode())
    assert refused.status == 409
    assert b"no notice begins" in refused.body
