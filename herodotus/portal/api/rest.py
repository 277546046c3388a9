"""Which endpoint is asked, is the question well formed, and how does the answer travel? The dispatcher of `/api/v1`."""

import json
import re
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property, partial
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import unquote

import msgspec

from herodotus.core.errors import (
    ArchiveError,
    CursorExpiredError,
    MalformedRecordError,
    QuestionError,
    told_to_readers,
)
from herodotus.core.ports import Lane, Workers
from herodotus.portal.answer import (
    BODY_BYTES_MAX,
    PRIVATE,
    PUBLIC,
    Answer,
    Request,
    json_bytes,
    problem,
    query_of,
)
from herodotus.portal.api.endpoints import (
    AbsentError,
    ApiEndpoint,
    GoneError,
    NotHereError,
    Work,
    endpoints_of,
    moment_of,
)
from herodotus.portal.api.openapi import describe
from herodotus.portal.archive_pages import Asked
from herodotus.portal.archive_questions import TooBusyError
from herodotus.portal.client_limits import ClientLimits
from herodotus.portal.operator_rule import OperatorRule
from herodotus.portal.other_holders import Elsewhere
from herodotus.portal.targets import BadQuestionError

DESCRIPTION_PATH = "/api/v1/openapi.json"
WRITING = Lane("long answers", 2)
_WHERE = re.compile(r"^(.*?)(?: - at `\$\.?(.*)`)?$", re.DOTALL)


class RestApi:
    paths = re.compile("/api/v1/|/web/parts/")

    def __init__(
        self,
        parts: Iterable[object],
        limits: ClientLimits,
        operator: OperatorRule,
        workers: Workers,
        *,
        elsewhere: Elsewhere,
        peer: str,
    ) -> None:
        """`parts` have methods marked as endpoints."""
        self._endpoints = [
            (_pattern(endpoint.path), endpoint, work, part)
            for part in parts
            for endpoint, work in endpoints_of(part)
        ]
        self._limits = limits
        self._operator = operator
        self._elsewhere = elsewhere
        self._peer = peer
        self._workers = workers

    @cached_property
    def _description(self) -> bytes:
        """Made when somebody first asks: most peers are never asked, and it would keep each waiting at its start."""
        endpoints = [endpoint for _, endpoint, _, _ in self._endpoints]
        return json.dumps(describe(endpoints), ensure_ascii=False, indent=1).encode()

    async def answer(self, asked: Asked) -> Answer | None:
        asked = replace(asked, request=_as_question(asked.request))
        if asked.request.path == DESCRIPTION_PATH and asked.request.method in ("GET", "HEAD"):
            return Answer(content_type="application/json", body=self._description, headers=dict(_READ))
        allowed: set[str] = set()
        for pattern, endpoint, work, part in self._endpoints:
            match = pattern.fullmatch(asked.request.path)
            if match is None:
                continue
            method = "GET" if asked.request.method == "HEAD" else asked.request.method
            if method == endpoint.method:
                return await self._answered(endpoint, work, part, asked, match.groupdict())
            allowed.add(endpoint.method)
        return _other_methods(asked.request, allowed) if allowed - {"GET"} else None

    async def _answered(
        self, endpoint: ApiEndpoint, work: Work, part: object, asked: Asked, places: dict[str, str]
    ) -> Answer:
        if endpoint.is_for_operator:
            refused = self._operator.may_order(asked.request)
        else:
            refused = self._limits.refusal(asked.request, endpoint.cost)
        if refused is not None:
            return refused
        answer = await self._tried(endpoint, work, part, asked, places)
        if not endpoint.is_for_operator and "Cross-Origin-Resource-Policy" not in answer.headers:
            answer.headers.update(PUBLIC | answer.headers)
        answer.headers.setdefault("X-Herodotus-Peer", self._peer)
        return answer

    async def _tried(
        self, endpoint: ApiEndpoint, work: Work, part: object, asked: Asked, places: dict[str, str]
    ) -> Answer:
        """`part` is None where its shelf was lent already."""
        try:
            value = await work(_question(endpoint, asked.request, places), asked)
        except msgspec.ValidationError as error:
            return problem(HTTPStatus.BAD_REQUEST, _sentence(str(error)))
        except (BadQuestionError, QuestionError, MalformedRecordError) as error:
            return problem(HTTPStatus.BAD_REQUEST, str(error))
        except AbsentError as error:
            found = await self._lent(endpoint, part, asked, places, error.url) if part is not None else None
            return found or problem(HTTPStatus.NOT_FOUND, str(error))
        except NotHereError as error:
            return problem(HTTPStatus.NOT_FOUND, str(error))
        except (GoneError, CursorExpiredError) as error:
            return problem(HTTPStatus.GONE, str(error))
        except ArchiveError as error:
            headers = {"Retry-After": "5" if isinstance(error, TooBusyError) else "30"}
            return problem(HTTPStatus.SERVICE_UNAVAILABLE, told_to_readers(error), headers)
        if isinstance(value, Answer):
            return value
        # A long answer takes longer to write than others should wait.
        write = partial(_written, endpoint, asked.request, value)
        return await self._workers.work(write, WRITING)

    async def _lent(
        self, endpoint: ApiEndpoint, part: object, asked: Asked, places: dict[str, str], url: str
    ) -> Answer | None:
        """The same question, answered from what the responsible peers have."""
        question: Any = _question(endpoint, asked.request, places)
        moments = (moment_of(question.date),) if hasattr(question, "date") else ()
        lent = await self._elsewhere.lent(asked.request, url, text=question.url, moments=moments)
        if lent is None or isinstance(lent, Answer):
            return lent
        lending = replace(
            cast("Any", part), shelf=lent.shelf
        )  # each part whose answers may be elsewhere has one
        work = next(work for one, work in endpoints_of(lending) if one is endpoint)
        return lent.marked(await self._tried(endpoint, work, None, asked, places))


_READ = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache", **PUBLIC}


_PARTS = re.compile(r"/web/parts/(\d{4,14})/(.+)", re.DOTALL | re.ASCII)


def _as_question(request: Request) -> Request:
    """The page around an archived one asks below `/web/`, as for all that it shows."""
    parts = _PARTS.fullmatch(request.target)
    if parts is None:
        return request
    return replace(request, target=f"/api/v1/parts?{query_of([('url', parts[2]), ('date', parts[1])])}")


def _pattern(path: str) -> re.Pattern[str]:
    parts = [
        f"(?P<{part[1:-1]}>[^/]+)" if part.startswith("{") else re.escape(part) for part in path.split("/")
    ]
    return re.compile("/".join(parts))


def _other_methods(request: Request, allowed: set[str]) -> Answer | None:
    """Where nothing but an order is taken, what can only be read says so in another place."""
    if request.method == "OPTIONS":
        return None
    allow = ", ".join(sorted({*allowed, *(["HEAD"] if "GET" in allowed else [])}))
    sentence = f"{request.method[:20]} is not allowed here"
    return problem(HTTPStatus.METHOD_NOT_ALLOWED, sentence, {"Allow": allow})


def _question(endpoint: ApiEndpoint, request: Request, places: dict[str, str]) -> msgspec.Struct:
    given: dict[str, Any] = {}
    for name, value in request.parameters():
        if name in given or name in places:
            raise BadQuestionError(f"{name[:40]!r} is given twice")
        given[name] = value
    given |= {name: unquote(value, errors="replace") for name, value in places.items()}
    if endpoint.body is not None:
        given["order"] = _order(endpoint.body, request)
    return msgspec.convert(given, endpoint.question, strict=False)


def _order(kind: type[msgspec.Struct], request: Request) -> msgspec.Struct:
    if len(request.body) > BODY_BYTES_MAX:
        raise BadQuestionError(f"an order has at most {BODY_BYTES_MAX:,} bytes")
    if request.header("content-type").partition(";")[0].strip().lower() != "application/json":
        raise BadQuestionError("an order is JSON: say so with Content-Type: application/json")
    try:
        return msgspec.json.decode(request.body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadQuestionError(f"the order is malformed: {_sentence(str(error))}") from error


def _sentence(problem_: str) -> str:
    match = _WHERE.fullmatch(problem_)
    assert match is not None
    words = match[1][:1].lower() + match[1][1:]
    return f"{match[2]}: {words}"[:500] if match[2] else words[:500]


def _written(endpoint: ApiEndpoint, request: Request, value: object) -> Answer:
    is_private = endpoint.is_for_operator or isinstance(value, endpoint.shapes[1:])
    headers = dict(PRIVATE if is_private else _READ)
    if (token := getattr(value, "next", None)) is not None:
        headers["Link"] = f'<{following(request, token)}>; rel="next"'
    return Answer(
        status=endpoint.status,
        content_type="application/json",
        body=json_bytes(msgspec.to_builtins(value)),
        headers=headers,
    )


def following(request: Request, token: str) -> str:
    """The same question from there on."""
    pairs = [(name, value) for name, value in request.parameters() if name != "after"]
    return f"{request.path}?{query_of([*pairs, ('after', token)])}"
