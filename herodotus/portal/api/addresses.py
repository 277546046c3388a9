"""In which addresses of this peer do some words stand? A walk along the list of addresses, some of them at a time."""

import hashlib
from dataclasses import dataclass
from itertools import islice
from typing import Annotated

import msgspec
from msgspec import Meta

from herodotus.core.index_rows import ADDRESS, after, url_of_address
from herodotus.portal.api.endpoints import ApiEndpoint, ApiQuestion, GoneError, Token
from herodotus.portal.archive_pages import Asked
from herodotus.portal.archive_questions import Shelf
from herodotus.portal.targets import BadQuestionError
from herodotus.portal.tokens import ForeignTokenError, key_of_token, token_of_key
from herodotus.store import Catalogue

SEARCHED_MAX = 100_000
"""Addresses that one search looks at; some tenths of a second."""
KEY_BYTES_TOLD = 1_200
"""Of an address, which may have 16 kB, in a token: 1,633 characters with its mark."""
_MARK_BYTES = 16
_BEHIND = b"\0"
"""Appended to a key, the least key that is greater."""


class AddressesQuestion(ApiQuestion, frozen=True, kw_only=True):
    q: Annotated[str, Meta(min_length=1, max_length=200, description="words that all occur in the address")]
    limit: Annotated[int, Meta(ge=1, le=1000, description="addresses in one answer")] = 100
    after: Token | None = None


class FoundAddresses(msgspec.Struct, frozen=True, kw_only=True):
    """`next` is there, too, where a part of the list was looked at and nothing found."""

    urls: tuple[str, ...]
    next: str | None


@dataclass(frozen=True, slots=True)
class AddressAnswers:
    shelf: Shelf

    @ApiEndpoint(
        "/api/v1/addresses", "Addresses of this peer that contain all words.", cost=5.0, may_be_gone=True
    )
    async def search(self, question: AddressesQuestion, asked: Asked) -> FoundAddresses:
        words = [word.lower() for word in question.q.split()]
        if not words:
            raise BadQuestionError("q: it has no word")
        place = None if question.after is None else AddressCursor.decode(question.after)
        urls, last = await self.shelf.ask(
            lambda catalogue: _searched(catalogue, words, place, question.limit)
        )
        following = None if last is None else AddressCursor.behind(last).encode()
        return FoundAddresses(urls=tuple(urls), next=following)


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressCursor:
    """Behind a key of the list. Of a long one there is its beginning, and a mark by which it is known."""

    begins: bytes
    mark: bytes = b""

    @classmethod
    def behind(cls, key: bytes) -> "AddressCursor":
        if len(key) <= KEY_BYTES_TOLD:
            return cls(begins=key)
        return cls(begins=key[:KEY_BYTES_TOLD], mark=_mark_of(key))

    def encode(self) -> str:
        text = token_of_key(self.begins)
        return f"{text}.{self.mark.hex()}" if self.mark else text

    @classmethod
    def decode(cls, token: str) -> "AddressCursor":
        text, _, mark = token.partition(".")
        try:
            place = cls(begins=key_of_token(text, ADDRESS), mark=bytes.fromhex(mark))
        except ValueError as error:
            raise ForeignTokenError from error
        if len(place.mark) not in (0, _MARK_BYTES):
            raise ForeignTokenError
        return place


def _mark_of(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()[:_MARK_BYTES]


# -- in a thread ------------------------------------------------------------------------------------------


def _searched(
    catalogue: Catalogue, words: list[str], place: AddressCursor | None, limit: int
) -> tuple[list[str], bytes | None]:
    """What was found, and the last key that was looked at, if there are more."""
    found: list[str] = []
    last = start = _start(catalogue, place)
    for last in islice(catalogue.address_keys(start, after(ADDRESS)), SEARCHED_MAX):
        url = url_of_address(last)
        text = url.lower()
        if all(word in text for word in words) and catalogue.around(url, 0) is not None:
            found.append(url)
            if len(found) == limit:
                return found, last
    has_more = next(catalogue.address_keys(last + _BEHIND, after(ADDRESS)), None) is not None
    return found, last if has_more else None


def _start(catalogue: Catalogue, place: AddressCursor | None) -> bytes:
    if place is None:
        return ADDRESS
    if not place.mark:
        return place.begins + _BEHIND
    begun_alike = catalogue.address_keys(place.begins, after(place.begins))
    for key in islice(begun_alike, SEARCHED_MAX):
        if _mark_of(key) == place.mark:
            return key + _BEHIND
    raise GoneError("the last address of the previous part is gone: start again")
