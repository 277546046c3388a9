"""Do peers say different things of one page on one day? Both contents are kept, and readers are told.

Two contents that one peer fetched on a day are a page that changed. Only if different peers vouch for different
contents, one of them may have altered it, or the site showed it something else; the archive cannot say which.
"""

from collections import Counter
from collections.abc import Collection
from typing import Protocol

from herodotus.core.captures import CaptureId
from herodotus.core.reconciliation import DAY_S


class VouchedContent(Protocol):
    @property
    def id(self) -> CaptureId: ...

    @property
    def voucher(self) -> str:
        """The peer that signed it; "" for an unsigned capture."""
        ...


def disputed(captures: Collection[VouchedContent]) -> frozenset[CaptureId]:
    """Of one URL's captures those that differ from another peer's of the same day. Only those of days with several
    peers are held beside the others: there may be a hundred thousand."""
    first: dict[_PageDay, str] = {}
    several = {
        one_day for one in captures if first.setdefault(one_day := _day_of(one), one.voucher) != one.voucher
    }
    days: dict[_PageDay, list[tuple[CaptureId, str]]] = {one_day: [] for one_day in several}
    if days:
        for one in captures:
            if (of_day := days.get(_day_of(one))) is not None:
                of_day.append((one.id, one.voucher))
    found = set[CaptureId]()
    for said in days.values():
        pairs = {(id_.digest, voucher) for id_, voucher in said}
        of_digest = Counter(digest for digest, _ in pairs)
        of_voucher = Counter(voucher for _, voucher in pairs)
        # Pairs that share its digest or its voucher: those that share neither differ. A day may have very many.
        found |= {id_ for id_, voucher in said if len(pairs) >= of_digest[id_.digest] + of_voucher[voucher]}
    return frozenset(found)


_PageDay = tuple[bytes, int]


def _day_of(one: VouchedContent) -> _PageDay:
    return one.id.key, one.id.time_s // DAY_S
