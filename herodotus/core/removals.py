"""What must not be archived or shown here? Rules that operators made: hosts, pages, prefixes of addresses, contents.

A rule hides all that it covers, whenever it came in: readers are shown nothing of it, and other holders still find it
in comparisons and proofs. Once its bytes were erased, what it covers is not wanted here any more. A page means both
schemes and every spelling that the crawler takes for the same address; a host includes its subdomains. Site owners
who only ask not to be visited stand in `crawl.opt_out`.

Grace is counted on a clock that only time lived through moves: `credit_s`.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Self

from crawler.core.errors import MalformedUrlError
from crawler.core.politeness import OptOutList
from crawler.core.scope import NOBODY_OPTED_OUT
from crawler.core.urls import canonical, host_of
from herodotus.core.errors import Misuse

HOST, URL, PREFIX, DIGEST = "host", "url", "prefix", "digest"
KINDS = (HOST, URL, PREFIX, DIGEST)
SUBJECT_CHARS_MAX = 2_000
DAY_S = 86_400.0
CREDIT_MAX_S = DAY_S
"""Of time that nobody watched: a clock that leapt to 2100 while the peer was off ends no grace."""
NOTED_CREDIT_MAX_S = 3_600.0
_DIGEST = re.compile("(?:sha256:)?([0-9a-fA-F]{64})")
_VARIANT_BYTES = 3


class MalformedSubjectError(Misuse):
    """Another peer's words, or the operator's, that name nothing to remove."""


@dataclass(frozen=True, slots=True, order=True)
class Subject:
    """Canonical: equal subjects cover the same."""

    kind: str
    name: str

    def __str__(self) -> str:
        return self.name if self.kind in (URL, DIGEST) else f"{self.kind} {self.name}"


def subject_of(kind: str, text: str) -> Subject:
    """Raises MalformedSubjectError for what is none."""
    try:
        name = _name_of(kind, text)
    except (MalformedUrlError, ValueError) as error:
        raise MalformedSubjectError(str(error)) from error
    if len(name) > SUBJECT_CHARS_MAX:
        raise MalformedSubjectError(f"a {kind} of more than {SUBJECT_CHARS_MAX:,} characters")
    return Subject(kind, name)


def _name_of(kind: str, text: str) -> str:
    match kind:
        case "host":
            found = sorted(OptOutList.of([text]).hosts) if "/" not in text else []
            if len(found) != 1 or not found[0]:
                raise MalformedSubjectError(f"{text[:200]!r} is no host, such as example.org")
            return found[0]
        case "url":
            return canonical(text if "://" in text else f"https://{text}")
        case "prefix":
            if "?" in text or "#" in text:
                raise MalformedSubjectError("a prefix is the start of an address, without ? and #")
            return canonical(text if "://" in text else f"https://{text}")
        case "digest":
            match = _DIGEST.fullmatch(text)
            if match is None:
                raise MalformedSubjectError(f"{text[:200]!r} is no SHA-256 in hexadecimal digits")
            return f"sha256:{match[1].lower()}"
        case _:
            raise MalformedSubjectError(f"{kind[:20]!r} is not one of {', '.join(KINDS)}")


def digest_of(subject: Subject) -> bytes:
    assert subject.kind == DIGEST
    return bytes.fromhex(subject.name.removeprefix("sha256:"))


def without_scheme(url: str) -> str:
    return url.partition("://")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Removals:
    hosts: OptOutList = NOBODY_OPTED_OUT
    pages: frozenset[str] = frozenset()
    """Canonical, without their schemes; as the prefixes, which are sorted by their hosts with ports."""
    prefixes: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    digests: frozenset[bytes] = frozenset()
    variants: frozenset[bytes] = frozenset()
    """The starts of the digests, as index keys have them."""
    erased: "Removals | None" = None
    """Those of them whose bytes went, or are going: what they cover is not wanted any more."""

    @classmethod
    def of(cls, *, hosts: Iterable[str] = (), urls: Iterable[str] = ()) -> Self:
        """Raises MalformedUrlError for a text that is neither."""
        pages = frozenset(without_scheme(canonical(u if "://" in u else f"https://{u}")) for u in urls)
        return cls(hosts=OptOutList.of(hosts), pages=pages)

    @classmethod
    def of_subjects(cls, subjects: Iterable[Subject], erased: Iterable[Subject] = ()) -> "Removals":
        """`erased` are among the subjects."""
        gone = [*erased]
        names: dict[str, list[str]] = {kind: [] for kind in KINDS}
        for subject in subjects:
            names[subject.kind].append(subject.name)
        prefixes: dict[str, list[str]] = {}
        for name in names[PREFIX]:
            rest = without_scheme(name)
            prefixes.setdefault(rest.partition("/")[0], []).append(rest)
        digests = frozenset(digest_of(Subject(DIGEST, name)) for name in names[DIGEST])
        return cls(
            hosts=OptOutList(frozenset(names[HOST])) if names[HOST] else NOBODY_OPTED_OUT,
            pages=frozenset(map(without_scheme, names[URL])),
            prefixes=MappingProxyType({site: tuple(sorted(found)) for site, found in prefixes.items()}),
            digests=digests,
            variants=frozenset(digest[:_VARIANT_BYTES] for digest in digests),
            erased=cls.of_subjects(gone) if gone else None,
        )

    @property
    def is_by_address(self) -> bool:
        """Whether any of them looks at addresses."""
        return bool(self.pages or self.hosts.hosts or self.prefixes)

    def covers(self, url: str) -> bool:
        if not self.is_by_address:
            return False
        try:
            plain = canonical(url)
        except MalformedUrlError:
            return False  # urn:, dns: and other schemes in foreign archives
        if self.hosts.covers(host_of(plain)):
            return True
        rest = without_scheme(plain)
        return rest in self.pages or rest.startswith(self.prefixes.get(rest.partition("/")[0], ()))

    def covers_capture(self, url: str, digest: bytes) -> bool:
        return digest in self.digests or self.covers(url)

    def declines(self, url: str, digest: bytes) -> bool:
        """Whether it is not taken from other holders either, because the rest of it was erased."""
        return self.erased is not None and self.erased.covers_capture(url, digest)


NOTHING_REMOVED = Removals()


def credit_s(seen_s: float, now_s: float, most_s: float = CREDIT_MAX_S) -> float:
    """How much of the time between two looks at the wall clock counts as lived through. A clock that leaps ahead and
    comes back has moved nothing but this."""
    return min(max(0.0, now_s - seen_s), most_s) if seen_s else 0.0
