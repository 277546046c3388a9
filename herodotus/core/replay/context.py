"""Where is a replayed page, and when? What every rewriting needs to know of one answer.

An address in the archive is `<prefix><date><flag>/<URL>`, as the Wayback Machine has it; the flag says as what
the browser asks for it. Replayed addresses keep the date of the page they are on.
"""

import re
from dataclasses import dataclass
from enum import StrEnum


class Flag(StrEnum):
    """What comes after the date: as what the URL is asked for."""

    PAGE = ""
    RAW = "id_"
    """The archived bytes and headers' meaning, untouched."""
    RAW_MOVED = "ir_"
    """The archived bytes; only Location leads into the archive."""
    FRAME = "if_"
    IMAGE = "im_"
    SCRIPT = "js_"
    STYLE = "cs_"
    EMBEDDED = "oe_"
    MAIN = "mp_"
    """The main page within the portal's frame (`banner.frame_html`); pywb's word."""

    @property
    def is_raw(self) -> bool:
        return self in (Flag.RAW, Flag.RAW_MOVED)


_TIMESTAMP = re.compile(r"[0-9]{14}")
_ORIGIN = re.compile(r"https?://(?:[A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")
_PREFIX = re.compile(r"(?:https?://[A-Za-z0-9.:\[\]-]+)?/(?:[A-Za-z0-9._~-]+/)*")
_BARE_AUTHORITY = re.compile(r"([a-z][a-z0-9+.-]*)://([^/?#]*)([^#]*)", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayContext:
    """Valid from creation: what is wrong with it is a ValueError here, and never a header that breaks."""

    page_url: str
    """The URL of the capture shown, canonical. Relative addresses are resolved against it."""
    timestamp: str
    """The 14 digits of the capture that is shown, which its links carry on."""
    flag: Flag = Flag.PAGE
    archive_prefix: str = "/web/"
    """Path, or origin and path, before the date; ends with a slash."""
    portal_origin: str | None = None
    """`scheme://host[:port]` at which the reader sees this portal, from `checked_origin`: a content security
    policy can name paths of an origin only. Without it the policies say 'self'."""
    peer_origins: tuple[str, ...] = ()
    """Portals of other peers that requests for parts of this page may be redirected to: holders of its host."""
    banner: bytes = b""
    """From `banner_html`, put at the start of the page's body; empty: none. Frames never get one."""
    is_guarded: bool = True
    """Whether pages get our script, which keeps what scripts ask for in the archive (`guard.py`)."""
    has_own_origin: bool = False
    """Whether the operator gave replayed pages a host name or port of their own. They then share storage with
    each other, as all are of one origin, and may have our service worker; never set on the portal's origin."""
    declared_charset: str | None = None
    """Of the archived Content-Type; a byte order mark wins over it."""

    def __post_init__(self) -> None:
        if not _TIMESTAMP.fullmatch(self.timestamp):
            raise ValueError(f"not 14 digits: {self.timestamp!r}"[:80])
        if not _PREFIX.fullmatch(self.archive_prefix):
            raise ValueError(f"not a prefix of the archive: {self.archive_prefix!r}"[:80])
        for origin in (*([] if self.portal_origin is None else [self.portal_origin]), *self.peer_origins):
            if not _ORIGIN.fullmatch(origin):
                raise ValueError(f"not an origin: {origin!r}"[:80])
        if not _BARE_AUTHORITY.fullmatch(self.page_url.partition("#")[0]):
            raise ValueError(f"not an absolute URL: {self.page_url!r}"[:80])

    @property
    def is_in_frame(self) -> bool:
        return self.flag in (Flag.FRAME, Flag.MAIN)

    @property
    def link_flag(self) -> Flag:
        """What a link to another page carries: who reads in a frame stays in it."""
        return self.flag if self.is_in_frame else Flag.PAGE


def checked_origin(scheme: str, host: str) -> str | None:
    """From a Host header, which anybody can forge: None unless it is a name or address with a port."""
    origin = f"{scheme}://{host}"
    return origin if _ORIGIN.fullmatch(origin) else None
