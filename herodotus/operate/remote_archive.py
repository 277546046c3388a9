"""How does a command read another peer's archive? As any reader does, over that peer's HTTP port."""

import http.client
import json
import re
import urllib.error
import urllib.request
from email.message import Message
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import msgspec

from herodotus.core.errors import Misuse
from herodotus.core.orders import ArchiveOrder, Get, History, OrderReport, Say, Search
from herodotus.core.search.grammar import parse
from herodotus.core.warc import format_date, format_digits
from herodotus.home.clock import unix_seconds
from herodotus.operate.http_questions import NoAnswer, NotAnAddress, no_answer
from herodotus.portal.answer import query_of
from herodotus.portal.api.search import FoundPages
from herodotus.portal.targets import parse_http_date

_ANSWER_S = 60.0  # a large capture over a slow line
_ANSWER_BYTES_MAX = 256 * 1024 * 1024
_ORIGINAL = "X-Archive-Orig-"
_STATUS = re.compile(r"[1-9]\d\d", re.ASCII)
_KEPT = "%/:?#[]@!$&'()*+,;=~-._"


def read_from(base: str, order: ArchiveOrder, say: Say) -> OrderReport:
    """Performs what a reader may ask; see `herodotus.core.orders.Performer`."""
    del say
    base = _checked_base(base)
    if isinstance(order, History):
        found = _fetch(f"{base}/web/*/{_quoted(order.url)}", {"Accept": "application/json"})
        return OrderReport(facts=None if found is None else _decoded(base, found[1]))
    if isinstance(order, Get):
        return _get(base, order)
    raise Misuse("another peer answers only questions about its history and captures")


def search_at(base: str, order: Search) -> dict[str, Any]:
    """As the peer itself reports; QuestionError where the question would not be understood."""
    parse(order.text, int(unix_seconds()))
    base = _checked_base(base)
    given = {
        "q": order.text,
        "limit": str(order.limit),
        "after": order.after or "",
        "here": "1" if order.here else "",
    }
    pairs = [(name, value) for name, value in given.items() if value]
    found = _fetch(f"{base}/api/v1/search?{query_of(pairs)}", {})
    if found is None:
        raise NoAnswer(base, "it does not know searches")
    try:
        told = msgspec.json.decode(found[1], type=FoundPages)
    except msgspec.DecodeError as error:
        raise NoAnswer(base, "the answer is no list of pages") from error
    facts: dict[str, Any] = msgspec.to_builtins(told)
    return facts


def _checked_base(base: str) -> str:
    base = base.rstrip("/")
    if not base.startswith(("http://", "https://")):
        raise NotAnAddress(base)
    return base


def _get(base: str, order: Get) -> OrderReport:
    date = format_digits(order.not_after_s)
    found = _fetch(f"{base}/web/{date}id_/{_quoted(order.url)}", {})
    if found is None:
        return OrderReport(facts=None)
    headers, body = found
    time_s = parse_http_date(headers.get("Memento-Datetime") or "")
    if time_s is None:
        raise NoAnswer(base, "the answer is not an archived page")
    if time_s > order.not_after_s:  # the portal offers a newer one if there is no older one
        return OrderReport(facts=None)
    facts = {"url": order.url, "date": format_date(time_s)}
    return OrderReport(facts=facts, content=_head(headers) + body if order.is_raw else body)


def _quoted(url: str) -> str:
    """Bytes that are no UTF-8 come from the command line as lone surrogates; they are asked for as those bytes."""
    return quote(url, safe=_KEPT, errors="surrogateescape")


def _head(headers: Message) -> bytes:
    """The archived head, as far as the portal shows it and the body still answers to it."""
    gone = {"status", "transfer-encoding", "content-length"}
    if "Content-Encoding" not in headers:
        gone.add("content-encoding")
    status = headers.get(f"{_ORIGINAL}Status") or "200"
    status = status if _STATUS.fullmatch(status) else "200"
    phrase = http.client.responses.get(int(status), "")
    lines = [f"HTTP/1.1 {status} {phrase}"]
    lines += [
        f"{name[len(_ORIGINAL) :]}: {value}"
        for name, value in headers.items()
        if name.startswith(_ORIGINAL) and name[len(_ORIGINAL) :].lower() not in gone
    ]
    return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace")


class _UpToMementos(urllib.request.HTTPRedirectHandler):
    """An archived redirect is what was asked for."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: Any,
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        if "Memento-Datetime" in headers:
            return None
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _fetch(address: str, headers: dict[str, str]) -> tuple[Message, bytes] | None:
    """None if there is no such capture. An archived error is an answer, because it carries its date."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _UpToMementos())
    request = urllib.request.Request(address, headers=headers)  # noqa: S310  # http or https: read_from saw to it
    try:
        with opener.open(request, timeout=_ANSWER_S) as answer:
            return answer.headers, answer.read(_ANSWER_BYTES_MAX)
    except urllib.error.HTTPError as error:
        with error:
            if "Memento-Datetime" in error.headers:
                return error.headers, error.read(_ANSWER_BYTES_MAX)
            if error.code == HTTPStatus.NOT_FOUND:
                return None
            raise NoAnswer(address, f"it answered {error.code}") from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise no_answer(address, error) from error


def _decoded(base: str, body: bytes) -> list[dict[str, Any]]:
    try:
        versions = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise NoAnswer(base, "the answer is not JSON") from error
    needed = {"date", "status", "mime"}
    if not isinstance(versions, list) or not all(
        isinstance(one, dict) and needed <= set(one) for one in versions
    ):
        raise NoAnswer(base, "the answer is not a history")
    return versions
