"""Does the service manager hear what sd_notify(3) promises it?"""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from herodotus.operate.systemd import ServiceManager


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[tuple[str, socket.socket]]:
    address = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(address)
        channel.settimeout(5)
        yield address, channel


def test_assignments_arrive_in_one_datagram(manager: tuple[str, socket.socket]) -> None:
    address, channel = manager
    ServiceManager.from_environment({"NOTIFY_SOCKET": address}).notify("READY=1", "STATUS=serving")
    assert channel.recv(1000) == b"READY=1\nSTATUS=serving"


def test_an_abstract_socket_is_reached_by_its_at_sign() -> None:
    name = f"herodotus-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(f"\0{name}")
        channel.settimeout(5)
        ServiceManager.from_environment({"NOTIFY_SOCKET": f"@{name}"}).notify("STOPPING=1")
        assert channel.recv(1000) == b"STOPPING=1"


def test_a_manager_that_is_gone_or_never_was_stops_nothing(tmp_path: Path) -> None:
    assert ServiceManager.from_environment({}).address is None
    ServiceManager.from_environment({}).notify("READY=1")
    ServiceManager.from_environment({"NOTIFY_SOCKET": str(tmp_path / "none")}).notify("READY=1")


@pytest.mark.parametrize(
    ("environment", "watchdog_s"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "60000000"}, 60.0),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": str(os.getpid())}, 60.0),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({"WATCHDOG_USEC": "²"}, None),
    ],
)
def test_the_watchdog_is_ours_only_when_it_names_us(
    environment: dict[str, str], watchdog_s: float | None
) -> None:
    assert ServiceManager.from_environment(environment).watchdog_s == watchdog_s
