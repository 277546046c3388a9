"""How do two versions of a page differ? Their texts side by side or one in the other, as a page without script.

`/web/diff/DATE1/DATE2/URL` is the Wayback Machine's shape; `/web/diff/inline/DATE1/DATE2/URL` shows one column. What
a page says is shown as text and nothing else. Lines that are the same are left out but for some around a change.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from itertools import zip_longest
from typing import NamedTuple

from markupsafe import escape

from herodotus.core.difference import Change, EqualRun, difference, lines_of, word_difference
from herodotus.core.errors import ArchiveError, told_to_readers
from herodotus.core.readable import READ_BYTES_MAX, readable_text
from herodotus.core.replay import media_type
from herodotus.portal.answer import Answer, html, moved
from herodotus.portal.archive_pages import Asked, failure
from herodotus.portal.archive_questions import Shelf
from herodotus.portal.client_limits import ClientLimits
from herodotus.portal.memento import Places, diff_path, is_same_path
from herodotus.portal.other_holders import Elsewhere
from herodotus.portal.rendering import UNSHOWN, not_archived_page, render
from herodotus.portal.replay import payload_of
from herodotus.portal.targets import BadQuestionError, Moment, TargetKind, parse_web_target, spellings
from herodotus.store import Catalogue, StoredCapture

CONTEXT_LINES = 3
ROWS_MAX = 2_000
SHOWN_CHARS_MAX = 600_000
MARKUP_CHARS = 20
"""About the elements around a piece of a line."""
_COST = 10.0
_PATH = re.compile(r"/web/diff/(inline/)?(\d{4,14})/(\d{4,14})/(.+)", re.DOTALL | re.ASCII)


class DiffTarget(NamedTuple):
    old: Moment
    new: Moment
    url: str
    is_inline: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TextComparison:
    """Two captures of one address; `runs` is None where there is no text to compare."""

    url: str
    old: StoredCapture
    new: StoredCapture
    runs: tuple[EqualRun, ...] | None
    is_cut: bool


@dataclass(frozen=True)
class DiffPages:
    paths = re.compile("/web/diff/")
    shelf: Shelf
    limits: ClientLimits
    elsewhere: Elsewhere | None

    async def answer(self, asked: Asked) -> Answer | None:
        request = asked.request
        if request.method not in ("GET", "HEAD"):
            return None
        refused = self.limits.refusal(request, _COST)
        if refused is not None:
            return refused
        try:
            target = parse_diff_target(request.target)
            return await self._compared(asked, target)
        except BadQuestionError as error:
            return failure(request, HTTPStatus.BAD_REQUEST, str(error))
        except ArchiveError as error:
            status, sentence = HTTPStatus.SERVICE_UNAVAILABLE, told_to_readers(error)
            return failure(request, status, sentence, headers={"Retry-After": "5"})

    async def _compared(self, asked: Asked, target: DiffTarget) -> Answer:
        urls = spellings(target.url)
        old, new = await self.shelf.choose(urls, target.old), await self.shelf.choose(urls, target.new)
        if old is None or new is None:
            found = await self._lent(asked, target, urls[0]) if self.elsewhere is not None else None
            return found or html(not_archived_page(urls[0], (), (), None), HTTPStatus.NOT_FOUND)
        shown = diff_path(old.url, old.time_s, new.time_s, is_inline=target.is_inline)
        if not is_same_path(asked.request.target, shown):
            return moved(shown)
        body = await self.shelf.ask_for_much(
            lambda catalogue: _page(catalogue, old.url, old.time_s, new.time_s, is_inline=target.is_inline)
        )
        if body is None:
            sentence = "this peer's copy of one of these days is damaged; look for another day"
            return failure(asked.request, HTTPStatus.BAD_GATEWAY, sentence, old.url)
        return html(body, headers={"Cache-Control": "max-age=3600"})

    async def _lent(self, asked: Asked, target: DiffTarget, url: str) -> Answer | None:
        assert self.elsewhere is not None
        moments = (target.old, target.new)
        lent = await self.elsewhere.lent(asked.request, url, text=target.url, moments=moments)
        if lent is None or isinstance(lent, Answer):
            return lent
        pages = replace(self, shelf=lent.shelf, elsewhere=None)
        return lent.marked(await pages._compared(asked, target))


def parse_diff_target(target: str) -> DiffTarget:
    match = _PATH.fullmatch(target)
    if match is None:
        raise BadQuestionError("ask for a difference as /web/diff/DATE1/DATE2/URL")
    old, new = (parse_web_target(f"/web/{digits}/{match[4]}") for digits in (match[2], match[3]))
    if old.kind is not TargetKind.REPLAY or old.moment is None or new.moment is None:
        raise BadQuestionError("ask for a difference as /web/diff/DATE1/DATE2/URL")
    return DiffTarget(old.moment, new.moment, old.url, is_inline=match[1] is not None)


def _page(catalogue: Catalogue, url: str, old_s: int, new_s: int, *, is_inline: bool) -> str | None:
    """In one go, as two captures of many megabytes should not wait for another turn; None where one is damaged."""
    old, new = catalogue.newest(url, old_s), catalogue.newest(url, new_s)
    if old is None or new is None or (old.time_s, new.time_s) != (old_s, new_s):
        return None
    return diff_page(compare(url, old, new), is_inline=is_inline)


def compare(url: str, old: StoredCapture, new: StoredCapture) -> TextComparison:
    texts = [_text(capture) for capture in (old, new)]
    if texts[0] is None or texts[1] is None:
        return TextComparison(url=url, old=old, new=new, runs=None, is_cut=False)
    (before, old_cut), (after, new_cut) = lines_of(texts[0]), lines_of(texts[1])
    runs = tuple(difference(before, after))
    return TextComparison(url=url, old=old, new=new, runs=runs, is_cut=old_cut or new_cut)


def _text(capture: StoredCapture) -> str | None:
    payload = payload_of(capture, bytes_max=READ_BYTES_MAX)
    if payload.encoding:
        return None
    media = media_type(payload.values("content-type"))
    return readable_text(payload.body, media.sent() if media.is_known else "")


# -- the page ---------------------------------------------------------------------------------------------


Side = tuple[tuple[str, str], ...]
"""A line in pieces: the element that marks one ("del", "ins", or "" for none), and its text."""


class _Row(NamedTuple):
    kind: str
    """A class of the style."""
    sides: tuple[Side | None, ...]
    """The old and the new one, None where there is nothing."""

    @property
    def distinct(self) -> list[Side]:
        return list(dict.fromkeys(side for side in self.sides if side is not None))

    def chars(self, *, is_inline: bool) -> int:
        """About what it takes as HTML."""
        sides = self.distinct if is_inline else [side for side in self.sides if side is not None]
        return sum(len(escape(text)) + MARKUP_CHARS for side in sides for _, text in side)


def diff_page(compared: TextComparison, *, is_inline: bool) -> str:
    old_s, new_s, url = compared.old.time_s, compared.new.time_s, compared.url
    rows, is_short = _shown_rows(compared.runs or (), is_inline=is_inline)
    return render(
        "diff.html",
        url=url,
        places=Places(origin="", url=url),
        other=diff_path(url, old_s, new_s, is_inline=not is_inline),
        old_s=old_s,
        new_s=new_s,
        summary=_summary(compared),
        is_inline=is_inline,
        rows=rows,
        is_short=is_short,
    )


def _has_changes(runs: Sequence[EqualRun]) -> bool:
    return any(run.change is not Change.KEPT for run in runs)


def _summary(compared: TextComparison) -> str:
    if compared.old.id.digest == compared.new.id.digest:
        return "Both versions are identical, byte for byte."
    if compared.runs is None:
        sizes = f"{len(compared.old.body):,} and {len(compared.new.body):,} bytes"
        return f"They differ ({sizes}). At least one of them is not text, so the differences cannot be shown."
    if not _has_changes(compared.runs):
        return "Their text is the same. Only markup or invisible content differs."
    counts = {
        change: sum(len(run.lines) for run in compared.runs if run.change is change) for change in Change
    }
    cut = " The texts are very long, so only their beginnings are compared." if compared.is_cut else ""
    return f"{_lines(counts[Change.REMOVED])} went, {_lines(counts[Change.ADDED])} came.{cut}"


def _lines(count: int) -> str:
    return "1 line" if count == 1 else f"{count:,} lines"


def _shown_rows(runs: Sequence[EqualRun], *, is_inline: bool) -> tuple[list[_Row], bool]:
    """And whether there are more."""
    rows: list[_Row] = []
    if not _has_changes(runs):
        return rows, False
    chars = 0
    for row in _rows(runs):
        chars += row.chars(is_inline=is_inline)
        if len(rows) == ROWS_MAX or chars > SHOWN_CHARS_MAX:
            return rows, True
        rows.append(row)
    return rows, False


def _rows(runs: Sequence[EqualRun]) -> Iterator[_Row]:
    for number, run in enumerate(runs):
        before = runs[number - 1] if number else None
        following = runs[number + 1] if number + 1 < len(runs) else None
        if run.change is Change.KEPT:
            yield from _kept(run.lines, is_first=before is None, is_last=following is None)
        elif run.change is Change.REMOVED:
            added = following.lines if following is not None and following.change is Change.ADDED else ()
            yield from _changed(run.lines, added)
        elif before is None or before.change is not Change.REMOVED:
            yield from _changed((), run.lines)


def _kept(lines: Sequence[str], *, is_first: bool, is_last: bool) -> Iterator[_Row]:
    """The lines nearest to the changes before and behind."""
    head = 0 if is_first else CONTEXT_LINES
    tail = 0 if is_last else CONTEXT_LINES
    left_out = len(lines) - head - tail
    if left_out <= 1:
        head, tail, left_out = len(lines), 0, 0
    yield from (_same(line) for line in lines[:head])
    if left_out:
        yield _Row("gap", (_marked("", f"… {left_out:,} lines are the same …"),))
    yield from (_same(line) for line in lines[len(lines) - tail :])


def _same(line: str) -> _Row:
    return _Row("same", (_marked("", line), _marked("", line)))


def _changed(removed: Sequence[str], added: Sequence[str]) -> Iterator[_Row]:
    for old, new in zip_longest(removed, added):
        if old is None:
            yield _Row("changed", (None, _marked("ins", new)))
        elif new is None:
            yield _Row("changed", (_marked("del", old), None))
        else:
            yield _Row("changed", _words(old, new))


def _words(old: str, new: str) -> tuple[Side, Side]:
    """Marked where they differ; two lines that have little in common are marked as a whole."""
    runs = word_difference(old, new)
    kept = sum(len(word) for run in runs if run.change is Change.KEPT for word in run.lines)
    if 4 * kept < min(len(old), len(new)):
        return _marked("del", old), _marked("ins", new)
    went, came = [
        tuple((_MARKS[run.change], _plain(" ".join(run.lines))) for run in runs if run.change is not other)
        for other in (Change.ADDED, Change.REMOVED)
    ]
    return went, came


_MARKS = {Change.KEPT: "", Change.REMOVED: "del", Change.ADDED: "ins"}


def _marked(mark: str, line: str) -> Side:
    return ((mark, _plain(line)),)


def _plain(text: str) -> str:
    return UNSHOWN.sub("\N{REPLACEMENT CHARACTER}", text)
