"""How much of the peer may one reader use? What is costly to answer is rationed by where it is asked from.

Pages and captures cost next to nothing and are free. A reader on this machine is its operator, or a proxy of the
operator's that hides the readers and has limits of its own: neither is rationed.
"""

from collections.abc import Callable
from http import HTTPStatus
from ipaddress import IPv6Address
from math import ceil

from crawler.core.urls import is_public
from dht.core.limits import Buckets, Rate
from herodotus.portal.answer import PUBLIC, Answer, Request, parsed_address, problem

CLIENTS_MAX = 20_000
"""Some 5 MB."""
RATE = Rate(per_second=20.0, burst=200.0)
"""A search takes 5: a person never notices, a program that asks 4 times a second without end does."""
_IPV6_PREFIX_BITS = 64  # what one household has


class ClientLimits:
    def __init__(self, now: Callable[[], float], rate: Rate = RATE) -> None:
        self._now = now
        self._buckets, self._rate = Buckets(CLIENTS_MAX), rate
        self.refused = 0

    def refusal(self, request: Request, cost: float) -> Answer | None:
        who = client_of(request.client)
        if not cost or who == "":
            return None
        wait_s = self._buckets.ration(who, self._rate, cost, self._now())
        if not wait_s:
            return None
        self.refused += 1
        sentence = f"more than one reader's ration: try again in {ceil(wait_s)} s"
        return problem(HTTPStatus.TOO_MANY_REQUESTS, sentence, {**PUBLIC, "Retry-After": str(ceil(wait_s))})


def is_this_machine(address: str) -> bool:
    parsed = parsed_address(address)
    return parsed is not None and parsed.is_loopback


def is_outside(address: str, *, is_one_house: bool) -> bool:
    """Does this reader take the line that we share with peers? `is_one_house`: all peers are at private addresses."""
    return (is_one_house or is_public(address)) and not is_this_machine(address)


def client_of(address: str) -> str:
    """The owner of a ration: "" for this machine and if nothing is known."""
    parsed = parsed_address(address)
    if parsed is None or parsed.is_loopback:
        return ""
    if isinstance(parsed, IPv6Address):
        return f"{int(parsed) >> (128 - _IPV6_PREFIX_BITS):x}"
    return str(parsed)
