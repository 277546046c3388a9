"""What every test may use: the loops, and programs that a machine may lack."""

import gc
import ipaddress
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import anyio.lowlevel
import anyio.to_thread
import pytest

LONGEST = (
    "test_ring_lab.py",
    "test_demo.py",
    "test_ring_copies.py",
    "test_life.py",
    "test_ring_crawl.py",
    "test_crawl_of_a_running_peer.py",
    "test_gear.py",
    "test_crawl_and_archive.py",
    "test_schemathesis.py",
    "test_fidelity.py",
    "test_lab.py",
    "test_mutants.py",
    "test_ring_mends_files.py",
    "test_commands.py",
    "test_setup.py",
    "test_attack_pages.py",
    "test_package.py",
)
"""Files of end-to-end tests that take longest: begun first, so that at the end none is left to a worker alone."""
_LINK_MULTICAST = ipaddress.ip_network("224.0.0.0/24")


def _stay_on_this_machine(event: str, arguments: tuple[object, ...]) -> None:
    """pytest-socket guards connecting alone; this guards datagrams and the look-up of names, too."""
    if event not in ("socket.connect", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo"):
        return
    target = arguments[0] if event == "socket.getaddrinfo" else arguments[1]
    host = target[0] if isinstance(target, tuple) else target
    if isinstance(host, bytes):
        host = os.fsdecode(host)
    is_lookup = event == "socket.getaddrinfo"  # of an address there is nothing to ask anybody
    is_inet = is_lookup or isinstance(target, tuple)
    if is_inet and isinstance(host, str) and not (_is_near(host) or (is_lookup and _is_address(host))):
        raise PermissionError(f"tests stay on this machine: {event} to {host!r}")


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def _is_near(host: str) -> bool:
    if not _is_address(host):
        return host in ("localhost", "")
    address = ipaddress.ip_address(host.partition("%")[0])
    # Multicast on the link is what LAN discovery speaks; its tests bind it to the loopback interface.
    return address.is_loopback or address.is_unspecified or address in _LINK_MULTICAST


def pytest_configure() -> None:
    # A shell lets what it starts in the background ignore Ctrl-C, and all that this starts in turn; our tests press it.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.addaudithook(_stay_on_this_machine)  # for good: the interpreter has no way to remove it


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    ranks = {name: rank for rank, name in enumerate(LONGEST)}
    items.sort(key=lambda item: ranks.get(item.path.name, len(ranks)))


def pytest_collection_finish() -> None:
    """What thousands of tests are made of stays until the end: looking through it for garbage took half the time of
    whoever collects often, such as each run of a scenario."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A test that needs a program or a judges' file is skipped with a reason where it is missing; in CI it fails."""
    for marker in item.iter_markers("needs"):
        for needed in marker.args:
            is_there = needed.exists() if isinstance(needed, Path) else shutil.which(needed) is not None
            if not is_there:
                reason = f"{needed} is not installed: scripts/setup dev, as root on Debian, installs it"
                if os.environ.get("CI") == "true":
                    pytest.fail(reason)
                pytest.skip(reason)


@pytest.fixture
def in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """What goes to threads is done at once: a virtual clock knows nothing of threads, and jumps while they work."""

    async def done_here(work: Callable[..., object], *args: object, **_: object) -> object:
        await anyio.lowlevel.checkpoint()
        return work(*args)

    monkeypatch.setattr(anyio.to_thread, "run_sync", done_here)


@pytest.fixture
def anyio_backend() -> str:
    """Production's loop; a test of virtual time overrides this with trio and its MockClock."""
    return "asyncio"
