"""One capture at a time on its way between holdings, which take lists."""

from herodotus.core.captures import Deposit
from herodotus.core.signatures import signer_of
from herodotus.store import MEMBER_BYTES_MAX, Checked, Holdings, OnDisk, Taken


async def unpack(holdings: Holdings, data: bytes | OnDisk) -> Deposit:
    """As it arrives; MalformedRecordError if it is broken."""
    (found,) = await holdings.check_all([data[:]], MEMBER_BYTES_MAX)
    if not isinstance(found, Checked):
        raise found
    return found.deposit


async def take(holdings: Holdings, deposit: Deposit) -> Taken:
    (found,) = await holdings.take_all([Checked(deposit, signer_of(deposit))])
    if not isinstance(found, Taken):
        raise found
    return found
