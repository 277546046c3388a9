"""Do peers say different things of one page on one day? Both contents are kept, and readers are told.

Two contents that one peer fetched on a day are a page that changed. Only if different peers vouch for different
contents, one of them may have altered it, or the site showed it something else; the archive cannot say which.
"""

from collections import Counter
from collections.abc import Iterable
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


def disputed(captures: Iterable[VouchedContent]) -> frozenset[CaptureId]:
    """Of one URL's captures those that differ from another peer's of the same day."""
    days: dict[tuple[bytes, int], list[VouchedContent]] = {}
    for one in captures:
        days.setdefault((one.id.key, one.id.time_s // DAY_S), []).append(one)
    found = set[CaptureId]()
    for of_day in days.values():
        if len(of_day) == 1:
            continue  # as most days, and counting takes longer than all the rest
        pairs = {(one.id.digest, one.voucher) for one in of_day}
        of_digest = Counter(digest for digest, _ in pairs)
        of_voucher = Counter(voucher for _, voucher in pairs)
        # Pairs that share its digest or its voucher: those that share neither differ. A day may have very many.
        found |= {
            one.id for one in of_day if len(pairs) >= of_digest[one.id.digest] + of_voucher[one.voucher]
        }
    return frozenset(found)
