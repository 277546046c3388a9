"""Is this a host's address, or its name?"""

import ipaddress
import re
from typing import Final

NAME: Final = 0
_HOST_NAME: Final = re.compile(
    r"(?=.{1,253}\Z)([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9])?\.)*[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
)


def host_kind(host: str) -> int:
    """4, 6, or 0 for a name."""
    try:
        return ipaddress.ip_address(host).version
    except ValueError:
        return NAME


def is_host_name(text: str) -> bool:
    return _HOST_NAME.fullmatch(text.lower()) is not None
