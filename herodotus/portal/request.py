"""What was asked? A request as a value, whatever carried it: the target raw, because archived addresses stand in it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import parse_qsl, quote, urlencode

PARAMETERS_MAX = 64
BODY_BYTES_MAX = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """`headers` by lower-case name; `target` is path and query as they came over the wire."""

    method: str = "GET"
    target: str = "/"
    headers: Mapping[str, str] = field(default_factory=dict)
    client: str = ""
    """Where it came from, as far as a connection tells."""
    body: bytes = b""
    """Of an order; readers send none that is looked at."""
    is_http_1_0: bool = False
    """As no browser has spoken for long, and some proxies do."""

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def query(self) -> str:
        return self.target.partition("?")[2]

    def header(self, name: str) -> str:
        return self.headers.get(name, "")

    def parameters(self) -> list[tuple[str, str]]:
        """Decoded, in order; ValueError where there are more than anybody needs."""
        return parse_qsl(
            self.query, keep_blank_values=True, errors="replace", max_num_fields=PARAMETERS_MAX, separator="&"
        )

    def parameter(self, name: str) -> str:
        return dict(reversed(self.parameters())).get(name, "")


def query_of(pairs: Iterable[tuple[str, str]]) -> str:
    """What `parameters` reads back."""
    return urlencode(list(pairs), quote_via=quote, errors="replace")


def wants_json(request: Request) -> bool:
    """A browser takes both, and gets the page."""
    accept = request.header("accept")
    return "json" in accept and "text/html" not in accept


def parsed_address(address: str) -> IPv4Address | IPv6Address | None:
    """An IPv4 address also where a socket of IPv6 shows it."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return None
    return parsed.ipv4_mapped or parsed if isinstance(parsed, IPv6Address) else parsed
