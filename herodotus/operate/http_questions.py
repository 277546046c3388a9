"""How is another peer's HTTP port asked for JSON, from a command that has no loop?"""

import http.client
import json
import urllib.error
import urllib.request
from typing import Any

from herodotus.core.errors import Misuse, WorldFailure

_ANSWER_S = 5.0  # a peer on this machine answers in milliseconds
_ANSWER_BYTES_MAX = 10_000_000


class NoAnswer(WorldFailure):
    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"no answer from {address}: {reason}; check the address, and the peer's log")


class NotAnAddress(Misuse):
    def __init__(self, given: str) -> None:
        super().__init__(f"--peer takes a peer's http:// address, not {given!r}")


def no_answer(address: str, error: OSError | http.client.HTTPException | ValueError) -> NoAnswer:
    if not isinstance(error, OSError):
        return NoAnswer(address, f"that is not HTTP ({type(error).__name__})")
    reason = getattr(error, "reason", error)
    return NoAnswer(address, str(getattr(reason, "strerror", None) or reason).lower())


def ask(base: str, path: str, token: str = "") -> Any:
    """A peer's JSON, without the environment's proxies. `token` is its operator's secret."""
    address = base.rstrip("/") + path
    if not address.startswith(("http://", "https://")):
        raise NotAnAddress(base)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    if token:
        opener.addheaders.append(("Authorization", f"Bearer {token}"))
    try:
        with opener.open(address, timeout=_ANSWER_S) as answer:
            return json.loads(answer.read(_ANSWER_BYTES_MAX))
    except (OSError, http.client.HTTPException) as error:
        raise no_answer(address, error) from error
    except (ValueError, RecursionError) as error:
        raise NoAnswer(address, "the answer is not JSON") from error
