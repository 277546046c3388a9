"""How does the operator have files taken into the archive over HTTP? Orders that wait in a line, one under way.

A file is registered by its path on the peer's machine and imported when its turn comes: its captures are copied into
the archive, as `herodotus import` does it. The order is answered at once; how it goes is read from its number. The
list lives as long as the peer runs: an import that a stop interrupted continues when the same file is registered again.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from enum import Enum
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any

import anyio
import msgspec
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from msgspec import Meta
from msgspec.structs import replace

from herodotus.core.errors import HerodotusError
from herodotus.core.orders import ArchiveOrder, Import, OrderReport, Say
from herodotus.portal.api.endpoints import ApiEndpoint, ApiQuestion, NotHereError
from herodotus.portal.archive_pages import Asked
from herodotus.portal.archive_questions import TooBusyError
from herodotus.portal.targets import BadQuestionError

logger = logging.getLogger(__name__)

WAITING_MAX = 16
REMEMBERED_MAX = 100
FILES_MAX = 1_000

Perform = Callable[[ArchiveOrder, Say], Awaitable[OrderReport]]


class ImportState(Enum):
    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


class ImportOrder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """WARC, ARC and WACZ files, packed or not, by absolute paths on the peer's machine."""

    files: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=4096)], ...],
        Meta(min_length=1, max_length=FILES_MAX),
    ]


class OrderQuestion(ApiQuestion, frozen=True, kw_only=True):
    order: ImportOrder


class NumberQuestion(ApiQuestion, frozen=True, kw_only=True):
    number: Annotated[int, Meta(ge=1, le=2**53, description="of the import")]


class ImportFacts(msgspec.Struct, frozen=True, kw_only=True):
    """`problem` says why it failed; `report` counts what was taken in, as `herodotus import --json` does."""

    number: int
    files: tuple[str, ...]
    state: ImportState
    progress: str
    problem: str
    report: dict[str, Any] | list[Any] | None

    @property
    def is_over(self) -> bool:
        return self.state in (ImportState.DONE, ImportState.FAILED)


class ImportList(msgspec.Struct, frozen=True, kw_only=True):
    imports: tuple[ImportFacts, ...]


class ImportDesk:
    """Orders are carried out inside `opened`; those that wait when it is left are forgotten."""

    def __init__(self, perform: Perform) -> None:
        self._perform = perform
        self._known: dict[int, ImportFacts] = {}
        """By number, and so in the order of their registration."""
        self._given = 0
        self._orders: MemoryObjectSendStream[int] | None = None

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        orders, taken = anyio.create_memory_object_stream[int](WAITING_MAX)
        with orders, taken:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._work, taken)
                self._orders = orders
                try:
                    yield
                finally:
                    self._orders = None
                    tasks.cancel_scope.cancel()

    async def _work(self, orders: MemoryObjectReceiveStream[int]) -> None:
        async for number in orders:
            self._note(number, state=ImportState.RUNNING)
            order = Import(files=self._known[number].files)
            try:
                report = await self._perform(order, partial(self._say, number))
                self._note(number, report=report.facts, state=ImportState.DONE)
            except (HerodotusError, OSError) as error:
                self._note(number, problem=str(error), state=ImportState.FAILED)
            except Exception as error:  # a failing order must not end the peer
                logger.exception("import failed")
                problem = f"a mistake of ours: {type(error).__name__}"
                self._note(number, problem=problem, state=ImportState.FAILED)

    def _say(self, number: int, words: str) -> None:
        self._note(number, progress=words)

    def _note(self, number: int, **changed: Any) -> None:
        self._known[number] = replace(self._known[number], **changed)

    @ApiEndpoint(
        "/api/v1/imports",
        "Register files to import, one after the other.",
        method="POST",
        status=HTTPStatus.ACCEPTED,
        is_for_operator=True,
    )
    async def _register(self, question: OrderQuestion, asked: Asked) -> ImportFacts:
        for file in question.order.files:
            if "\0" in file or not Path(file).is_absolute():
                raise BadQuestionError(f"{file[:200]!r} is not an absolute path")
        number = self._given + 1
        if self._orders is None:
            raise TooBusyError
        try:
            self._orders.send_nowait(number)
        except anyio.WouldBlock as error:
            raise TooBusyError from error
        self._given = number
        self._known[number] = facts = ImportFacts(
            number=number,
            files=question.order.files,
            state=ImportState.WAITING,
            progress="",
            problem="",
            report=None,
        )
        for one in [one for one in self._known.values() if one.is_over]:
            if len(self._known) > REMEMBERED_MAX:
                del self._known[one.number]
        return facts

    @ApiEndpoint("/api/v1/imports", "The imports registered since the peer started.", is_for_operator=True)
    async def _list_all(self, question: ApiQuestion, asked: Asked) -> ImportList:
        return ImportList(imports=tuple(self._known.values()))

    @ApiEndpoint(
        "/api/v1/imports/{number}", "The progress of an import.", is_for_operator=True, may_be_missing=True
    )
    async def _one(self, question: NumberQuestion, asked: Asked) -> ImportFacts:
        found = self._known.get(question.number)
        if found is None:
            raise NotHereError(f"there is no import {question.number}")
        return found
