"""How does the operator see, in a browser, what other peers removed, and decide about it? One page, without a script.

It is for the operator like the status page; each decision asks for the secret, as every order does.
"""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from herodotus.core.errors import HerodotusError
from herodotus.core.orders import NoticeOrder, Order, OrderReport, Say
from herodotus.portal.answer import PRIVATE, Answer, html
from herodotus.portal.archive_pages import Asked
from herodotus.portal.operator_rule import OperatorRule, is_from_here
from herodotus.portal.order_form import PATH as ORDERS_PATH
from herodotus.portal.rendering import FORM_HEADERS, render

PATH = "/notices"
SHOWN_MAX = 200


@dataclass(frozen=True)
class NoticePages:
    paths = re.compile(PATH)
    perform: Callable[[Order, Say], Awaitable[OrderReport]]
    operator: OperatorRule

    async def answer(self, asked: Asked) -> Answer | None:
        request = asked.request
        if request.path != PATH or request.method not in ("GET", "HEAD"):
            return None
        refused = self.operator.may_see(request)
        if refused is not None:
            return refused
        try:
            found = (await self.perform(NoticeOrder(verb="list"), lambda _: None)).facts
            problem = ""
        except HerodotusError as error:
            found, problem = [], str(error)
        # Those that wait for a decision come first.
        shown = sorted(found, key=lambda one: one["state"] != "open")[:SHOWN_MAX]
        page = render(
            "notices.html",
            notices=shown,
            left_out=len(found) - len(shown),
            problem=problem,
            orders_path=ORDERS_PATH if is_from_here(request) else "",
        )
        return html(page, headers={**FORM_HEADERS, **PRIVATE})
