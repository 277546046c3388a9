"""Which addresses does a style sheet load? `url(...)` and `@import`, led into the archive."""

import re

from herodotus.core.replay.addresses import Addresses
from herodotus.core.replay.context import Flag

_REFERENCE = re.compile(
    rb"(url\(\s*)(['\"]?)([^'\"()\s]+)(\2\s*\))|(@import\s+)(['\"])([^'\"]+)(\6)", re.IGNORECASE
)


class CssRewriter:
    def __init__(self, addresses: Addresses) -> None:
        self._addresses = addresses
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        self._held += data
        return b""

    def close(self) -> bytes:
        return rewrite_css(self._held, self._addresses)


def rewrite_css(css: bytes, addresses: Addresses) -> bytes:
    def replaced(match: re.Match[bytes]) -> bytes:
        if match[1]:
            return match[1] + match[2] + addresses.rewrite(match[3], Flag.IMAGE) + match[4]
        return match[5] + match[6] + addresses.rewrite(match[7], Flag.STYLE) + match[8]

    return _REFERENCE.sub(replaced, css)
