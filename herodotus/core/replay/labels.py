"""Which name does an archived page have for itself, and which page does a name mean?

Where a reader's door has names below its own (`*.localhost`, or an operator's wildcard name), each archived origin has
one for each date: `20260509063412-s-my--site-example-org.localhost:5484`. Path and query are the original's, so scripts
find the address that they expect, and the browser keeps sites apart as it did live. A label says all by itself; any
peer reads it, and there is no table:

    DATE-S-HOST     DATE: 14 digits. S: `h` (http) or `s` (https), and the port if it is not the scheme's own.
                    HOST: each `-` doubled, each `.` a `-`.

Pairs are read from the left. What does not come back as the same label when it is written again is none, so no two
labels mean one origin and no label means two.
"""

import re
from dataclasses import dataclass, field
from functools import lru_cache

from crawler.core.errors import MalformedUrlError
from crawler.core.urls import canonical

CLIENT_PATH = "/_hd/client.js"
"""At each label; the one thing of ours there. An archived thing of that path is not to be had by this way."""
BOX_CLIENT_PATH = "_/client.js"
"""Behind the archive's prefix, for pages in the sandbox."""
LABEL_BYTES_MAX = 63
"""Of one part of a host's name (RFC 1035, 2.3.4): some 46 are left for the archived host."""
_LABEL = re.compile(r"([0-9]{14})-([hs])([0-9]{0,5})-([a-z0-9_-]+)")
_ORIGIN = re.compile(r"(https?)://([a-z0-9_.-]+)(?::([0-9]{1,5}))?")
_SCHEMES = {"h": "http", "s": "https"}
_PORTS = {"http": 80, "https": 443}
_PIECES = re.compile(r"--|-|[^-]+")
_UNESCAPED = {"--": "-", "-": "."}


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    date: str
    """14 digits: the day that the reader is on. What is shown is the capture nearest to it."""
    origin: str
    """Scheme, host and port, as the URL standard writes them."""

    def __str__(self) -> str:
        """Only of origins that `label_of` takes."""
        match = _ORIGIN.fullmatch(self.origin)
        assert match is not None, "made by label_of or read_label"
        host = match[2].replace("-", "--").replace(".", "-")
        return f"{self.date}-{match[1][4:] or 'h'}{match[3] or ''}-{host}"


def label_of(date: str, origin: str) -> Label | None:
    """None where a host is too long, is a literal of IPv6, or cannot be told from another one."""
    match = _ORIGIN.fullmatch(origin)
    if match is None:
        return None
    label = Label(date=date, origin=origin)
    text = str(label)
    return label if len(text) <= LABEL_BYTES_MAX and read_label(text) == label else None


def read_label(text: str) -> Label | None:
    """In lower case, as hosts are compared."""
    match = _LABEL.fullmatch(text)
    if match is None or len(text) > LABEL_BYTES_MAX:
        return None
    scheme = _SCHEMES[match[2]]
    host = "".join(_UNESCAPED.get(one, one) for one in _PIECES.findall(match[4]))
    port = match[3]
    if port and (port[0] == "0" or not 0 < int(port) < 65_536 or int(port) == _PORTS[scheme]):
        return None
    if not all(host.split(".")):
        return None
    label = Label(date=match[1], origin=f"{scheme}://{host}{':' + port if port else ''}")
    return label if str(label) == text else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """Where labels are put before a name: `scheme://LABEL.suffix`. `portals` are the origins of our own pages that
    show them in a frame, the one for links first."""

    scheme: str
    suffix: str
    portals: tuple[str, ...]

    @property
    def source(self) -> str:
        """All of them, for a policy."""
        return f"{self.scheme}://*.{self.suffix}"

    @property
    def portal(self) -> str:
        return self.portals[0]

    def origin(self, label: Label) -> str:
        return f"{self.scheme}://{label}.{self.suffix}"

    def label_in(self, origin: str) -> Label | None:
        """Of an Origin or the start of a Referer; None: it is no label's."""
        start, end = f"{self.scheme}://", f".{self.suffix}"
        origin = "/".join(origin.lower().split("/", 3)[:3])
        if not (origin.startswith(start) and origin.endswith(end)):
            return None
        return read_label(origin[len(start) : -len(end)])


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedSite:
    """The label that an archived page is shown at, and how addresses of other sites become such, too."""

    names: Names
    label: Label
    _known: dict[bytes, bytes | None] = field(default_factory=dict, repr=False, compare=False)

    @property
    def origin(self) -> str:
        return self.names.origin(self.label)

    def led(self, start: bytes) -> bytes | None:
        """What stands for `scheme://authority` of an archived address. None: that site has no label."""
        if start not in self._known:
            if len(self._known) >= SITES_KEPT_MAX:
                self._known.clear()
            self._known[start] = self._led(start)
        return self._known[start]

    def _led(self, start: bytes) -> bytes | None:
        origin = archived_origin(start.decode("utf-8", "replace"))
        label = None if origin is None else label_of(self.label.date, origin)
        return None if label is None else self.names.origin(label).encode()


SITES_KEPT_MAX = 1_000
"""Of one page, which names a handful."""


@lru_cache(maxsize=1_024)
def archived_origin(start: str) -> str | None:
    """Of the scheme and authority of an address, as browsers would read them."""
    try:
        return canonical(f"{start}/").removesuffix("/")
    except MalformedUrlError:
        return None
