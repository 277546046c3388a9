"""Does each page of a crawled web replay on each day as the web's oracle says it was?

Five days of the synthetic web are crawled into a real archive over real sockets. Then every address is asked for on
every day, as a reader asks: by the day. What the server really answered is known from its log, what its bytes were
from the oracle; nothing of the crawler or the archive is asked for the truth.
"""

import hashlib
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from herodotus.core.warc import format_digits
from herodotus.crawl.single_run import crawl_into
from herodotus.machine import Machine
from herodotus.portal.answer import Answer, Request
from herodotus.portal.archive_pages import ArchivePages
from herodotus.portal.archive_questions import Shelf
from herodotus.portal.handlers import Handlers
from herodotus.store import archive_at, open_store
from herodotus.store.catalogue import ArchiveCatalogue
from tests.crawler.synthetic import FIRST_DAY, SyntheticWeb, synthetic_web
from tests.herodotus.crawl.test_gear import order
from tests.herodotus.portal.library import HOST
from tests.herodotus.portal.statuses import STATUS

DAYS = 5
DAY_S = 86_400
SEED = 11
HUGE_BYTES = 300_000

# By address and day: the status that the crawler was answered last.
Seen = dict[str, dict[int, int]]


def noon(day: int) -> float:
    return (FIRST_DAY + day) * DAY_S + 43_200.0


def digits_of(day: int) -> str:
    return format_digits((FIRST_DAY + day) * DAY_S)[:8]


async def crawled(web: SyntheticWeb, home: Path) -> Seen:
    seen: Seen = defaultdict(dict)
    for day in range(DAYS):
        web.server.day = day
        await crawl_into(home, order(web), Machine(), wall_clock=lambda day=day: noon(day), console=None)  # type: ignore[misc]
        for line in web.requests():
            assert line["day"] == day
            seen[str(line["url"])][day] = int(str(line["status"]))
    return seen


class Reader:
    def __init__(self, handlers: Handlers) -> None:
        self._handlers = handlers

    async def get(self, target: str) -> Answer:
        return await self._handlers.answer(Request(target=target, headers={"host": HOST}))

    async def shown(self, url: str, day: int) -> tuple[str, Answer]:
        """The digits of the memento that a day leads to, and its raw answer."""
        moved = await self.get(f"/web/{digits_of(day)}id_/{url}")
        assert moved.status == 302, (url, day, moved.status, moved.body[:200])
        location = moved.headers["Location"]
        return location.removeprefix("/web/")[:14], await self.get(location)


def original(answer: Answer, name: str) -> str:
    return dict(answer.repeated).get(f"X-Archive-Orig-{name}", "")


def asks_for_no_archive(web: SyntheticWeb, url: str, day: int) -> bool:
    answer = web.oracle.get(url, day)
    return b'content="noarchive"' in answer.body or "noarchive" in (answer.header("X-Robots-Tag") or "")


@pytest.mark.anyio
async def test_every_page_of_every_day_replays_as_the_oracle_says(tmp_path: Path) -> None:
    counts: Counter[str] = Counter()
    async with synthetic_web(SEED, hosts=6, pages_max=30, huge_bytes=HUGE_BYTES) as web:
        seen = await crawled(web, tmp_path)
        async with open_store(archive_at(tmp_path, lambda: noon(DAYS)), Machine()) as store:

            async def status() -> object:
                return STATUS

            catalogue = ArchiveCatalogue(store.archive)
            shelf = Shelf(lambda: catalogue, Machine())
            reader = Reader(Handlers(status, ArchivePages(shelf)))  # type: ignore[arg-type]  # a fixed status
            for url in sorted(seen):
                await compare(web, reader, url, seen[url], counts)
    assert counts["page"] > 300, counts
    assert counts["unchanged"] > 100, counts
    assert counts["changed"] > 20, counts
    assert counts["redirect"] > 0, counts
    assert counts["gone"] > 0, counts
    assert counts["before"] > 0, counts


async def compare(
    web: SyntheticWeb, reader: Reader, url: str, answered: dict[int, int], counts: Counter[str]
) -> None:
    whole = {day: status for day, status in answered.items() if status != 304}
    kept = {day for day in whole if not asks_for_no_archive(web, url, day)}
    if not kept:
        counts["nothing kept"] += 1
        return
    place = web.oracle.place(url)
    for day in range(DAYS):
        earlier = [one for one in kept if one <= day]
        stamp, answer = await reader.shown(url, day)
        if not earlier:
            counts["before"] += 1
            assert stamp[:8] == digits_of(min(kept)), (url, day)  # the nearest newer, under its own date
            continue
        last = max(earlier)
        # Not always that day's: the same answer again is a visit, and what follows holds of it all the same.
        assert stamp[:8] <= digits_of(last), (url, day, stamp, answered)
        status = whole[last]
        assert original(answer, "Status") == str(status), (url, day)
        if status == 200:
            counts["page"] += 1
            digest = hashlib.sha256(answer.body).hexdigest()
            assert digest == web.oracle.digest(url, last), (url, day, last, SEED)
            if answered.get(day) == 304:
                counts["unchanged"] += 1
                if (
                    place is not None and place.host.validators != "stuck"
                ):  # which says so of what has changed
                    assert digest == web.oracle.digest(url, day), (url, day, last, SEED)
            elif last == day and len(earlier) > 1:
                counts["changed"] += digest != web.oracle.digest(url, day - 1)
        elif 300 <= status < 400:
            counts["redirect"] += 1
            assert original(answer, "Location") == (web.oracle.get(url, last).header("Location") or ""), url
        else:
            counts["gone"] += 1
            assert answer.body == web.oracle.get(url, last).body, (url, day)


@pytest.mark.anyio
async def test_what_was_never_there_is_told_plainly(tmp_path: Path) -> None:
    async with synthetic_web(SEED, hosts=1, pages_max=3) as web:
        await crawl_into(tmp_path, order(web), Machine(), wall_clock=lambda: noon(0), console=None)
        async with open_store(archive_at(tmp_path, lambda: noon(1)), Machine()) as store:

            async def status() -> object:
                return STATUS

            catalogue = ArchiveCatalogue(store.archive)
            shelf = Shelf(lambda: catalogue, Machine())
            reader = Reader(Handlers(status, ArchivePages(shelf)))  # type: ignore[arg-type]
            answer = await reader.get(f"/web/{digits_of(0)}/{web.seeds[0]}never-there")
            assert answer.status == 404
            assert b"Not archived" in answer.body
            assert web.seeds[0].encode() in answer.body  # what there is nearby
