"""What is an endpoint? A path, the question that its parameters are, the shape of its answer, and who answers.

Parameters are the fields of a `ApiQuestion`: their types and bounds check what came, and describe it in the OpenAPI
document. The endpoint itself refuses what the types leave open (a date that no calendar has).
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from http import HTTPStatus
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from herodotus.portal.answer import Answer
from herodotus.portal.archive_pages import Asked
from herodotus.portal.cdx import BadQuestionError
from herodotus.portal.targets import NEWEST, Moment, parse_moment

Url = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=8_000,
        description="an address of the web",
        examples=["https://example.org/"],
    ),
]
Date = Annotated[
    str,
    Meta(
        pattern="^[0-9]{4,14}$",
        description="YYYY, YYYYMM, … or YYYYMMDDhhmmss in UTC; a part of a date means its end",
        examples=["20260131"],
    ),
]
Token = Annotated[
    str, Meta(min_length=1, max_length=2_048, description="where to continue: `next` of the previous answer")
]


class ApiQuestion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Fields are parameters, of the path or the query."""


class Nothing(ApiQuestion, frozen=True, kw_only=True):
    """No parameters."""


class Access(Enum):
    PUBLIC = "public"
    OPERATOR = "operator"
    """From this machine and with the operator's token only."""


class AbsentError(Exception):
    """This peer has nothing of the URL: perhaps another one has."""

    def __init__(self, url: str) -> None:
        self.url = url
        super().__init__(url)


class NotHereError(Exception):
    """A sentence: there is no such thing, here or elsewhere."""


class GoneError(Exception):
    """A sentence: it is gone, and the client has to start again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiReply:
    """`value` in the endpoint's shape; `next` is the token of what follows."""

    value: Any
    next: str | None = None
    is_private: bool = False
    """For the operator's eyes: no page of another site may read it, and nothing on the way may keep it."""


Work = Callable[[Any, Asked], Awaitable[ApiReply | Answer]]
"""The first argument is an instance of the endpoint's question type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiEndpoint:
    path: str
    """With the names of parameters in braces."""
    summary: str
    work: Work
    question: type[ApiQuestion] = Nothing
    shape: Any = None
    """The type of `ApiReply.value`; None where the answer is no JSON."""
    operators_shape: Any = None
    """What the operator gets instead, where strangers are told less."""
    media: tuple[str, ...] = ("application/json",)
    method: str = "GET"
    body: type[msgspec.Struct] | None = None
    status: HTTPStatus = HTTPStatus.OK
    cost: float = 1.0
    """Of a reader's share."""
    access: Access = Access.PUBLIC
    may_be_elsewhere: bool = False
    """Answered by a redirect to the peer that holds the address."""
    may_be_missing: bool = False
    may_be_gone: bool = False


def moment_of(text: str | None, name: str = "date") -> Moment:
    """None is now."""
    if text is None:
        return NEWEST
    moment = parse_moment(text)
    if moment is None:
        raise BadQuestionError(f"{name}={text!r} is not a date that the archive could have")
    return moment


def places_in(path: str) -> Sequence[str]:
    """The names of a path's parameters."""
    return [part[1:-1] for part in path.split("/") if part.startswith("{")]
