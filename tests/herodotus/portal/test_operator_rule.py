"""Who may see and who may order: the rule alone, request by request."""

import pytest

from herodotus.portal.answer import Request
from herodotus.portal.operator_rule import OperatorRule, is_from_here

SECRET = "a-secret-of-the-home-that-nobody-guesses"
BROWSER = {"user-agent": "Mozilla/5.0", "sec-fetch-site": "none"}


def asked(client: str = "127.0.0.1", **headers: str) -> Request:
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    return Request(target="/status", headers={"host": "127.0.0.1:5484", **fields}, client=client)


def with_secret(secret: str, client: str = "127.0.0.1") -> Request:
    return asked(client, authorization=f"Bearer {secret}")


@pytest.mark.parametrize("given", ["", " ", "anything"])
def test_before_the_secret_is_known_nobody_has_it(given: str) -> None:
    """A peer serves before it has read its home."""
    rule = OperatorRule()
    assert rule.may_order(with_secret(given)) is not None
    assert rule.may_order_with(asked(), given) is not None
    rule.knows(SECRET)
    assert rule.may_order(with_secret(given)) is not None
    assert rule.may_order(with_secret(SECRET)) is None


def test_orders_need_the_secret_and_this_machine() -> None:
    rule = OperatorRule(SECRET)
    assert rule.may_order(with_secret(SECRET)) is None
    assert rule.may_order_with(asked(), f" {SECRET}\n") is None
    for request in (with_secret(SECRET, "192.0.2.9"), asked(), with_secret(SECRET[:-1])):
        assert rule.may_order(request) is not None
    assert rule.may_order_with(asked("192.0.2.9"), SECRET) is not None


def test_from_this_machine_all_is_seen_unless_the_peer_has_a_public_name() -> None:
    """Behind a proxy everybody comes from this machine."""
    assert OperatorRule(SECRET).may_see(asked()) is None
    public = OperatorRule(SECRET, has_public_name=True)
    assert public.may_see(asked()) is not None
    assert public.may_see(with_secret(SECRET, "192.0.2.9")) is None
    assert OperatorRule(SECRET).may_see(asked("192.0.2.9")) is not None


@pytest.mark.parametrize(
    "headers",
    [
        {"x-forwarded-for": "192.0.2.9"},
        {"via": "1.1 proxy"},
        {"host": "rebound.example:5484"},
        {"host": "127.0.0.1.rebound.example"},
        {"user-agent": "Mozilla/5.0"},  # a browser says whose page made it ask, to its own machine at least
        {**BROWSER, "origin": "https://attacker.example"},
        {**BROWSER, "referer": "https://attacker.example/page"},
        {"origin": "null"},
        {"user-agent": "Herodotus/0.1 (+https://example.org)"},
    ],
)
def test_what_comes_through_or_for_somebody_else_is_not_from_here(headers: dict[str, str]) -> None:
    request = Request(target="/status", headers={"host": "localhost", **headers}, client="127.0.0.1")
    assert not is_from_here(request)


@pytest.mark.parametrize(
    ("client", "headers"),
    [
        ("127.0.0.1", {}),
        ("::1", {"host": "[::1]:5484"}),
        ("::ffff:127.0.0.1", {}),
        ("127.0.0.1", BROWSER),
        ("127.0.0.1", {**BROWSER, "origin": "http://localhost:5484", "referer": "http://127.0.0.1:5484/"}),
    ],
)
def test_the_operators_own_browser_and_programs_are_from_here(client: str, headers: dict[str, str]) -> None:
    assert is_from_here(Request(headers={"host": "localhost:5484", **headers}, client=client))


def test_http_1_0_is_some_proxys() -> None:
    assert not is_from_here(Request(headers={"host": "localhost"}, client="127.0.0.1", is_http_1_0=True))
