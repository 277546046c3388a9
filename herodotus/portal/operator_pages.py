"""What does the operator see? The status page, and the same figures for Prometheus. Nobody else sees either."""

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from herodotus.core.status import PeerStatus
from herodotus.portal.answer import PRIVATE, Answer, html
from herodotus.portal.archive_pages import Asked
from herodotus.portal.metrics import PortalFigures, metrics
from herodotus.portal.operator_rule import OperatorRule, is_from_here
from herodotus.portal.rendering import FORM_HEADERS
from herodotus.portal.status_page import status_page

_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True)
class OperatingPages:
    """`log` gives its last lines."""

    paths = re.compile("/(?:status|metrics)")
    status: Callable[[], Awaitable[PeerStatus]]
    figures: Callable[[], PortalFigures]
    log: Callable[[], Awaitable[Sequence[str]]]
    operator: OperatorRule

    async def answer(self, asked: Asked) -> Answer | None:
        request = asked.request
        if request.path not in ("/status", "/metrics") or request.method not in ("GET", "HEAD"):
            return None
        refused = self.operator.may_see(request)
        if refused is not None:
            return refused
        status, figures = await self.status(), self.figures()
        if request.path == "/metrics":
            body = metrics(status, figures)
            return Answer(content_type=_METRICS_TYPE, body=body, headers=dict(PRIVATE))
        page = status_page(status, figures, log=await self.log(), has_orders=is_from_here(request))
        return html(page, headers={**FORM_HEADERS, **PRIVATE})
