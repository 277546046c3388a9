"""How does the operator have files taken into the archive over HTTP? Orders that wait in a line, one under way.

A file is registered by its path on the peer's machine and imported when its turn comes: its captures are copied into
the archive, as `herodotus import` does it. The order is answered at once; how it goes is read from its number. The
list lives as long as the peer runs: an import that a stop interrupted continues when the same file is registered again.
"""

import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any

import anyio
import msgspec
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from msgspec import Meta

from herodotus.core.errors import HerodotusError
from herodotus.core.orders import ArchiveOrder, Import, OrderReport, Say
from herodotus.portal.api.endpoints import Access, ApiEndpoint, ApiQuestion, ApiReply, NotHereError
from herodotus.portal.archive_pages import Asked
from herodotus.portal.archive_questions import TooBusyError
from herodotus.portal.cdx import BadQuestionError

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


class ImportList(msgspec.Struct, frozen=True, kw_only=True):
    imports: tuple[ImportFacts, ...]


@dataclass(slots=True, kw_only=True)
class _Job:
    number: int
    files: tuple[str, ...]
    state: ImportState = ImportState.WAITING
    progress: str = ""
    problem: str = ""
    report: Any = field(default=None)

    def facts(self) -> ImportFacts:
        return ImportFacts(
            number=self.number,
            files=self.files,
            state=self.state,
            progress=self.progress,
            problem=self.problem,
            report=self.report,
        )


class ImportDesk:
    """Orders are carried out inside `opened`; those that wait when it is left are forgotten."""

    def __init__(self, perform: Perform) -> None:
        self._perform = perform
        self._jobs: OrderedDict[int, _Job] = OrderedDict()
        self._given = 0
        self._orders: MemoryObjectSendStream[_Job] | None = None

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        orders, taken = anyio.create_memory_object_stream[_Job](WAITING_MAX)
        with orders, taken:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._work, taken)
                self._orders = orders
                try:
                    yield
                finally:
                    self._orders = None
                    tasks.cancel_scope.cancel()

    async def _work(self, orders: MemoryObjectReceiveStream[_Job]) -> None:
        async for job in orders:
            job.state = ImportState.RUNNING
            try:
                report = await self._perform(Import(files=job.files), partial(_note, job))
                job.report, job.state = report.facts, ImportState.DONE
            except (HerodotusError, OSError) as error:
                job.problem, job.state = str(error), ImportState.FAILED
            except Exception as error:  # a failing order must not end the peer
                logger.exception("import failed")
                job.problem, job.state = f"a mistake of ours: {type(error).__name__}", ImportState.FAILED

    def endpoints(self) -> list[ApiEndpoint]:
        return [
            ApiEndpoint(
                method="POST",
                path="/api/v1/imports",
                summary="Register files to import, one after the other.",
                question=OrderQuestion,
                body=ImportOrder,
                shape=ImportFacts,
                work=self._register,
                status=HTTPStatus.ACCEPTED,
                access=Access.OPERATOR,
            ),
            ApiEndpoint(
                path="/api/v1/imports",
                summary="The imports registered since the peer started.",
                shape=ImportList,
                work=self._list_all,
                access=Access.OPERATOR,
            ),
            ApiEndpoint(
                path="/api/v1/imports/{number}",
                summary="The progress of an import.",
                question=NumberQuestion,
                shape=ImportFacts,
                work=self._one,
                access=Access.OPERATOR,
                may_be_missing=True,
            ),
        ]

    async def _register(self, question: OrderQuestion, asked: Asked) -> ApiReply:
        for file in question.order.files:
            if "\0" in file or not Path(file).is_absolute():
                raise BadQuestionError(f"{file[:200]!r} is not an absolute path")
        job = _Job(number=self._given + 1, files=question.order.files)
        if self._orders is None:
            raise TooBusyError
        try:
            self._orders.send_nowait(job)
        except anyio.WouldBlock as error:
            raise TooBusyError from error
        self._given += 1
        self._jobs[job.number] = job
        for number in [
            one.number for one in self._jobs.values() if one.state in (ImportState.DONE, ImportState.FAILED)
        ]:
            if len(self._jobs) > REMEMBERED_MAX:
                del self._jobs[number]
        return ApiReply(value=job.facts())

    async def _list_all(self, question: ApiQuestion, asked: Asked) -> ApiReply:
        return ApiReply(value=ImportList(imports=tuple(job.facts() for job in self._jobs.values())))

    async def _one(self, question: NumberQuestion, asked: Asked) -> ApiReply:
        job = self._jobs.get(question.number)
        if job is None:
            raise NotHereError(f"there is no import {question.number}")
        return ApiReply(value=job.facts())


def _note(job: _Job, words: str) -> None:
    job.progress = words
