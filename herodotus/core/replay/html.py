"""Which addresses does a page load or lead to? Its attributes, led into the archive."""

import re

from herodotus.core.replay.addresses import Addresses
from herodotus.core.replay.context import Flag, ReplayContext

_REFERENCE = re.compile(
    rb"<(\w+)\b([^<>]*?\s(?:href|src|action|poster|background|data)\s*=\s*)(['\"]?)([^'\"\s>]+)",
    re.IGNORECASE,
)
_FLAGS = {b"img": Flag.IMAGE, b"script": Flag.SCRIPT, b"link": Flag.STYLE, b"iframe": Flag.FRAME}


class HtmlRewriter:
    def __init__(self, context: ReplayContext) -> None:
        self._context = context
        self._addresses = Addresses(context)
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        self._held += data
        return b""

    def close(self) -> bytes:
        def replaced(match: re.Match[bytes]) -> bytes:
            flag = _FLAGS.get(match[1].lower(), self._context.link_flag)
            address = self._addresses.rewrite(match[4], flag)
            return b"<%s%s%s%s" % (match[1], match[2], match[3], address)

        return self._context.banner + _REFERENCE.sub(replaced, self._held)
