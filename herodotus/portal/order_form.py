"""How does the operator give orders from the status page? One form, without a script, for people who know the secret.

The secret is typed with each order (a browser may keep it), and no cookie stands for it: cookies know no ports, so
every other service of this machine would be sent one. So another site's page, which a browser could be made to post
from, has nothing to post; and what says that it comes from another site is refused before the secret is looked at.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import parse_qsl

from markupsafe import Markup

from herodotus.core.errors import HerodotusError
from herodotus.core.orders import Drain, NoticeOrder, Order, OrderReport, Pause, Resume, Say, Stay
from herodotus.core.status import PeerStatus
from herodotus.portal.answer import BODY_BYTES_MAX, Answer, Request, html, moved
from herodotus.portal.archive_pages import Asked
from herodotus.portal.operator_rule import OperatorRule
from herodotus.portal.rendering import render, render_part

PATH = "/status/orders"
_FORM = "application/x-www-form-urlencoded"
_FIELDS_MAX = 8
_ORDERS: Mapping[str, Order] = {
    "pause": Pause(),
    "pause-hour": Pause(for_s=3_600.0),
    "resume": Resume(),
    "drain": Drain(wait_s=0.0),
    "stay": Stay(),
}
_UNKEPT = {"Cache-Control": "no-store"}
_PAUSED, _STAYING = "paused", "staying"


@dataclass(frozen=True)
class OrderPages:
    paths = re.compile(PATH)
    perform: Callable[[Order, Say], Awaitable[OrderReport]]
    operator: OperatorRule

    async def answer(self, asked: Asked) -> Answer | None:
        request = asked.request
        if request.path != PATH or request.method != "POST":
            return None
        if not is_from_own_page(request, asked.origin):
            return _refused(
                HTTPStatus.FORBIDDEN, "This order came from another site's page; nothing was done."
            )
        fields = _fields_of(request)
        order = _order_in(fields)
        if order is None:
            return _refused(HTTPStatus.BAD_REQUEST, "There is no such order.")
        refusal = self.operator.may_order_with(request, fields.get("secret", ""))
        if refusal is not None:
            return _refused(HTTPStatus.FORBIDDEN, refusal)
        try:
            await self.perform(order, lambda _: None)
        except HerodotusError as error:
            return _refused(HTTPStatus.CONFLICT, f"It could not be done: {error}.")
        shown = "/notices" if isinstance(order, NoticeOrder) else "/status"
        return moved(shown, HTTPStatus.SEE_OTHER, _UNKEPT)


def _order_in(fields: Mapping[str, str]) -> Order | None:
    match fields.get("order", ""):
        case ("follow" | "dismiss" | "undo") as verb:
            return NoticeOrder(verb=verb, id=fields.get("notice", ""))
        case name:
            return _ORDERS.get(name)


def is_from_own_page(request: Request, origin: str) -> bool:
    """As far as the browser says; a command says nothing."""
    site = request.header("sec-fetch-site")
    return request.header("origin") in ("", origin) and site in ("", "same-origin")


def _fields_of(request: Request) -> dict[str, str]:
    is_form = request.header("content-type").partition(";")[0].strip().lower() == _FORM
    if not is_form or len(request.body) > BODY_BYTES_MAX:
        return {}
    try:
        text = request.body.decode("ascii")
        found = parse_qsl(text, errors="strict", max_num_fields=_FIELDS_MAX, keep_blank_values=True)
    except ValueError:
        return {}
    return dict(reversed(found))


def _refused(status: HTTPStatus, sentence: str) -> Answer:
    return html(render("order_refused.html", sentence=sentence), status, _UNKEPT)


def order_form(status: PeerStatus) -> Markup:
    """The orders that make sense now; a person who is not at the peer's machine sees none."""
    is_paused, is_leaving = status.crawl.state == _PAUSED, status.leaving.state != _STAYING
    pauses = [("pause-hour", "Pause for an hour"), ("pause", "Pause until I resume")]
    crawl = [("resume", "Crawl again")] if is_paused else pauses
    drain = ("drain", "Hand over everything and leave")
    orders = [("stay", "Stay after all")] if is_leaving else [*crawl, drain]
    return render_part("order_form.html", path=PATH, orders=orders)
