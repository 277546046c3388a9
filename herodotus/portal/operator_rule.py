"""Is it the operator who asks? By a secret in the home, which only its owner can read, or from this machine.

Orders need both: the connection comes from this machine, and the secret is in the request. What is only to be seen
(the status page, metrics) needs one of them. A proxy makes everybody come from this machine, so loopback alone counts
only where the peer has no public name and nothing in the request tells of a proxy; and it counts under a name of
loopback only, which no web site can take (DNS rebinding). Some proxies tell nothing of themselves: they are known where
they speak HTTP/1.0, or hand over what a browser never says to its own machine. For the rest the operator has
`http.public_url`.
"""

import hmac
import re
import secrets
import stat
from base64 import urlsafe_b64encode
from collections.abc import Callable
from http import HTTPStatus
from urllib.parse import urlsplit

from herodotus.home.durable import set_aside, storage_failure, write_durably
from herodotus.home.folder import Home
from herodotus.portal.answer import Answer, Request, parsed_address, problem
from herodotus.portal.other_holders import RELAYED

TOKEN_BYTES = 32
_TOKEN = re.compile(r"[\w-]{32,}", re.ASCII)
_PROXIED = (
    "forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-forwarded-port", "x-forwarded-server",
    "x-original-host", "x-real-ip", "x-client-ip", "true-client-ip", "cf-connecting-ip", "via", RELAYED,
)  # fmt: skip
_SCHEME = "bearer "
_BROWSER = "Mozilla/"
_ROBOT = "Herodotus/"
"""How crawls of a network with private addresses call themselves, which may come by here."""


def operator_token(home: Home, random_bytes: Callable[[int], bytes] = secrets.token_bytes) -> str:
    """The home's secret, made if it is missing. To change it, delete the file: a running peer looks twice a minute."""
    try:
        if home.token.is_dir():
            set_aside(home.token)
        if stat.S_IMODE(home.token.stat().st_mode) & 0o077 == 0:
            token = home.token.read_text(encoding="ascii").strip()
            if _TOKEN.fullmatch(token):
                return token
    except (FileNotFoundError, UnicodeDecodeError):
        pass  # made again, like one that others could read
    except OSError as error:
        raise storage_failure(error, home.token, "read") from error
    token = urlsafe_b64encode(random_bytes(TOKEN_BYTES)).decode().rstrip("=")
    write_durably(home.token, token.encode() + b"\n", mode=0o600)
    return token


class OperatorRule:
    """`token` empty: nobody has one."""

    def __init__(self, token: str = "", *, has_public_name: bool = False) -> None:
        self._token = token
        self._has_public_name = has_public_name

    def knows(self, token: str) -> None:
        """From now on this is the secret."""
        self._token = token

    def is_secret(self, given: str) -> bool:
        """Whether it is the operator's."""
        return bool(self._token) and _is_same(given, self._token)

    def may_order(self, request: Request) -> Answer | None:
        """None: yes."""
        if not is_from_here(request):
            return problem(HTTPStatus.FORBIDDEN, "this peer takes orders from its own machine only")
        return None if self._has_token(request) else self._asked_for_token()

    def may_order_with(self, request: Request, secret: str) -> str | None:
        """With a secret that was typed into a form; None: yes, else why not."""
        if not is_from_here(request):
            return "This peer takes orders from its own machine only."
        if not self._token or not _is_same(secret.strip(), self._token):
            return "This is not the secret in the peer's home."
        return None

    def may_see(self, request: Request) -> Answer | None:
        """None: yes."""
        if self._has_token(request) or (is_from_here(request) and not self._has_public_name):
            return None
        return self._asked_for_token()

    def _has_token(self, request: Request) -> bool:
        given = request.header("authorization")
        if not self._token or not given.lower().startswith(_SCHEME):
            return False
        return _is_same(given[len(_SCHEME) :].strip(), self._token)

    def _asked_for_token(self) -> Answer:
        return problem(
            HTTPStatus.UNAUTHORIZED,
            "only the operator may see this: from the peer's machine, or with the secret in its home's state folder",
            {"WWW-Authenticate": 'Bearer realm="operator"'},
        )


def _is_same(given: str, secret: str) -> bool:
    """In a time that tells nothing."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), secret.encode())


def is_from_here(request: Request) -> bool:
    client = parsed_address(request.client)
    if client is None or not client.is_loopback or any(request.header(name) for name in _PROXIED):
        return False
    if request.header("user-agent").startswith(_ROBOT):  # whose captures everybody may read
        return False
    if request.is_http_1_0 or not _is_said_here(request):
        return False
    host = request.header("host")
    return _is_loopback(host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0])


def _is_said_here(request: Request) -> bool:
    """A browser that asks its own machine says whose page made it ask; and that page is of the machine, too."""
    if _BROWSER in request.header("user-agent") and not request.header("sec-fetch-site"):
        return False
    pages = (request.header("referer"), request.header("origin"))
    return all(_is_loopback(_host_of(page)) for page in pages if page)


def _host_of(address: str) -> str:
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""


def _is_loopback(name: str) -> bool:
    address = parsed_address(name)
    return name.lower().rstrip(".") == "localhost" or (address is not None and address.is_loopback)
