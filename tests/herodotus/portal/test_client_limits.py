"""How much may one reader ask for? By addresses and seconds counted by hand."""

import pytest

from dht.core.limits import Rate
from herodotus.portal.answer import Request
from herodotus.portal.client_limits import ClientLimits

RATE = Rate(per_second=2.0, burst=10.0)


class Asked:
    def __init__(self) -> None:
        self.now = 100.0
        self.limits = ClientLimits(lambda: self.now, RATE)

    def __call__(self, client: str, cost: float = 5.0) -> int | None:
        """None: answered; else in how many seconds to come back."""
        refused = self.limits.refusal(Request(client=client), cost)
        if refused is None:
            return None
        assert refused.status == 429
        return int(refused.headers["Retry-After"])


def test_who_asks_too_much_is_told_when_to_come_back_and_others_are_answered() -> None:
    asked = Asked()
    assert [asked("192.0.2.1") for _ in range(3)] == [None, None, 3]
    assert asked("192.0.2.2") is None
    asked.now += 2.5
    assert [asked("192.0.2.1"), asked("192.0.2.1")] == [None, 3]
    assert asked.limits.refused == 2


@pytest.mark.parametrize(
    ("one", "other", "is_shared"),
    [
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", True),
        ("2001:db8:1:2::1", "2001:db8:1:3::1", False),
        ("192.0.2.1", "::ffff:192.0.2.1", True),
        ("192.0.2.1", "192.0.2.2", False),
    ],
)
def test_a_household_has_one_share_however_many_addresses_it_has(
    one: str, other: str, is_shared: bool
) -> None:
    asked = Asked()
    assert asked(one, 10.0) is None
    assert (asked(other) is not None) is is_shared


@pytest.mark.parametrize("client", ["127.0.0.1", "::1", ""])
def test_this_machine_is_not_rationed(client: str) -> None:
    asked = Asked()
    assert [asked(client, 10.0) for _ in range(5)] == [None] * 5


def test_what_costs_nothing_is_free() -> None:
    asked = Asked()
    assert [asked("192.0.2.1", 0.0) for _ in range(50)] == [None] * 50
