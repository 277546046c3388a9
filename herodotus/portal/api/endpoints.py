"""What is an endpoint? A path, the question that its parameters are, the shape of its answer, and who answers.

It marks the method that answers, whose signature says the rest: parameters are the fields of the `ApiQuestion` that it
takes, and the shape is the type that it returns. Their types and bounds check what came, and describe it in the
OpenAPI document. The method itself refuses what the types leave open (a date that no calendar has).
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from http import HTTPStatus
from typing import Annotated, Any, TypeVar, get_args, get_type_hints

import msgspec
from msgspec import Meta

from herodotus.portal.answer import Answer
from herodotus.portal.archive_pages import Asked
from herodotus.portal.targets import NEWEST, BadQuestionError, Moment, parse_moment

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
    """Fields are parameters, of the path or the query; this one has none."""


class AbsentError(Exception):
    """This peer has nothing of the URL: perhaps another one has."""

    def __init__(self, url: str) -> None:
        self.url = url
        super().__init__(f"{url[:500]} is not in this peer's archive")


class NotHereError(Exception):
    """A sentence: there is no such thing, here or elsewhere."""


class GoneError(Exception):
    """A sentence: it is gone, and the client has to start again."""


Work = Callable[[Any, Asked], Awaitable[Any]]
"""A question, and who asked it; gives a value whose `next`, if it has one, is the token of what follows, or a whole
`Answer`, which is no part of the shape."""
Method = TypeVar("Method", bound=Callable[..., Awaitable[Any]])


@dataclass(eq=False)
class ApiEndpoint:
    path: str
    """With the names of parameters in braces."""
    summary: str
    _: KW_ONLY
    media: tuple[str, ...] = ("application/json",)
    method: str = "GET"
    status: HTTPStatus = HTTPStatus.OK
    cost: float = 1.0
    """Of a reader's share."""
    is_for_operator: bool = False
    """From this machine and with the operator's token only."""
    may_be_elsewhere: bool = False
    """Answered from what other holders of the address have."""
    may_be_missing: bool = False
    may_be_gone: bool = False

    def __call__(self, method: Method) -> Method:
        self._method = method
        method.__dict__["endpoint"] = self
        return method

    @cached_property
    def question(self) -> type[ApiQuestion]:
        kind: type[ApiQuestion] = get_type_hints(self._method)["question"]
        return kind

    @cached_property
    def body(self) -> type[msgspec.Struct] | None:
        """Of an order: the type of the field that is read from the request's body."""
        return get_type_hints(self.question).get("order")

    @cached_property
    def shapes(self) -> tuple[type, ...]:
        """None where the answer is no JSON. A second one is what the operator gets instead, where strangers are told
        less: no page of another site may read it, and nothing on the way may keep it."""
        given = get_type_hints(self._method)["return"]
        return tuple(one for one in get_args(given) or (given,) if one is not Answer)


def endpoints_of(part: object) -> Iterator[tuple[ApiEndpoint, Work]]:
    """The marked methods of a part, in their order."""
    for name, method in vars(type(part)).items():
        endpoint = getattr(method, "endpoint", None)
        if endpoint is not None:
            yield endpoint, getattr(part, name)


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
