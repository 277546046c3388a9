"""What stands for a capture? What its record says of who fetched it, by whose leave, and by which door it came in, and
which other contents of that day are here.

What the ring adds (who holds it, and who says so) comes from the copies.
"""

from typing import Any

from herodotus.core.captures import CaptureId, position_of
from herodotus.core.doors import DOOR, passage_of
from herodotus.core.reconciliation import DAY_S
from herodotus.core.signatures import (
    HELPER,
    WINDOW,
    SignedWindow,
    helper_of_field,
    signer_of,
    window_of_field,
)
from herodotus.core.warc import format_date, parse_date
from herodotus.store.store import DiskStore
from herodotus.store.stored_records import StoredCapture


async def evidence(store: DiskStore, not_after_s: int, url: str) -> dict[str, Any] | None:
    """None: there is no such capture."""
    capture = await store.newest(url, not_after_s)
    if capture is None:
        return None
    window = window_of_field(capture.record.get(WINDOW))
    signer = signer_of(capture.as_deposit())
    return {
        "url": capture.url,
        "date": format_date(capture.time_s),
        "digest": f"sha256:{capture.id.digest.hex()}",
        "door": str(passage_of(capture.record.get(DOOR))),
        "fetched_by": capture.voucher,
        "is_signature_sound": signer is not None,
        "helper": helper_of_field(capture.record.get(HELPER)),
        "window": None if window is None else _shown(window),
        "differs": await _differing(store, capture),
    }


def id_of_facts(facts: dict[str, Any]) -> CaptureId:
    """Of what `evidence` gave."""
    digest = bytes.fromhex(facts["digest"].removeprefix("sha256:"))
    return CaptureId(key=position_of(facts["url"]), time_s=parse_date(facts["date"]), digest=digest)


def _shown(window: SignedWindow) -> dict[str, Any]:
    return {
        "permitted_by": window.steward.hex(),
        "number": window.number,
        "granted": format_date(window.granted_s),
        "starts_ms": window.starts_ms,
        "lasts_ms": window.lasts_ms,
        "count": window.count,
        "addresses": window.addresses,
    }


async def _differing(store: DiskStore, capture: StoredCapture) -> list[dict[str, Any]]:
    """Other contents of the day, and by whose word."""
    day_s = capture.time_s // DAY_S * DAY_S
    others = await store.history(capture.url, day_s, day_s + DAY_S - 1)
    return [
        {
            "date": format_date(one.id.time_s),
            "digest": f"sha256:{one.id.digest.hex()}",
            "fetched_by": one.voucher,
        }
        for one in others
        if one.id.digest != capture.id.digest
    ]
