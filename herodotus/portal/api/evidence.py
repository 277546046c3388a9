"""What is asked about whose word a capture is? As `herodotus why` tells it, for anybody."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from herodotus.core.orders import OrderReport, Why
from herodotus.portal.api.captures import RecordsQuestion
from herodotus.portal.api.endpoints import ApiEndpoint, NotHereError, moment_of
from herodotus.portal.archive_pages import Asked
from herodotus.portal.archive_questions import Shelf
from herodotus.portal.memento import memento_path
from herodotus.portal.targets import spellings
from herodotus.store import Catalogue

AskWhy = Callable[[Why], Awaitable[OrderReport]]


class SignedWindowFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The leave that the host's steward signed."""

    permitted_by: str
    """Its key."""
    number: int
    granted: str
    starts_ms: int
    lasts_ms: int
    count: int
    addresses: tuple[str, ...]


class DifferingCapture(msgspec.Struct, frozen=True, kw_only=True):
    """Another content of the same day."""

    date: str
    digest: str
    fetched_by: str


class HolderWord(msgspec.Struct, frozen=True, kw_only=True):
    """What a holder says now. `has_it` is null where it does not answer."""

    peer: str
    """Its key."""
    is_this_peer: bool
    place: str
    has_it: bool | None
    is_absent: bool
    proofs: str | None
    """`proven`, `unproven`, `doubted` or `failed`, as this peer sees it; null for itself."""
    proven_s_ago: int | None


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """What stands for a capture. It shows who fetched it and who says so, and not what the site sent."""

    url: str
    date: str
    memento: str
    digest: str
    door: str
    fetched_by: str
    """The key of the peer that signed it; empty where nobody did."""
    is_signature_sound: bool
    helper: str
    """The key of the peer that asked the site on behalf of the signer, by the signer's word; empty: the signer did."""
    window: SignedWindowFacts | None
    differs: tuple[DifferingCapture, ...]
    holders: tuple[HolderWord, ...]


@dataclass(frozen=True, slots=True)
class EvidenceAnswers:
    shelf: Shelf
    ask: AskWhy

    @ApiEndpoint(
        "/api/v1/why",
        "Who fetched a capture, by whose leave, who holds it, and who differs. The holders are asked.",
        cost=10.0,
        may_be_missing=True,
    )
    async def why(self, question: RecordsQuestion, asked: Asked) -> Evidence:
        chosen = await self.shelf.choose(spellings(question.url), moment_of(question.date))
        facts: dict[str, Any] | None = None
        if chosen is not None:  # nothing is told of what was removed here
            facts = (await self.ask(Why(url=chosen.url, not_after_s=chosen.time_s))).facts
        if chosen is None or facts is None:
            raise NotHereError(
                f"{question.url[:500]} is not in this peer's archive; ask a peer that holds it"
            )

        def shown(catalogue: Catalogue) -> list[dict[str, Any]]:
            return [
                one for one in facts["differs"] if catalogue.shows_record(chosen.url, _hex(one["digest"]))
            ]

        differs = await self.shelf.ask(shown)
        told = {**facts, "differs": differs, "memento": memento_path(chosen.url, chosen.time_s)}
        return msgspec.convert({**told, "holders": told.get("holders") or ()}, Evidence)


def _hex(digest: str) -> str:
    return digest.removeprefix("sha256:")
