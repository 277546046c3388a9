"""Are battery and metered lines noticed? By a real D-Bus daemon; the test plays UPower and NetworkManager on it."""

import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import anyio
import anyio.to_thread
import pytest
from dbus_fast import Message, Variant
from dbus_fast.aio import MessageBus
from dbus_fast.constants import MessageType

from herodotus.core.budgets import Rest
from herodotus.core.settings.sections import BudgetSettings
from herodotus.core.supplies import Supplies, rests_of
from herodotus.operate.http_questions import ask
from herodotus.peers import supplies
from herodotus.peers.supplies import watch_supplies
from tests.herodotus.operate.cli.processes import new_home, running

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60), pytest.mark.needs("dbus-daemon")]

CONFIG = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>system</type><listen>unix:path={socket}</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/>
</policy></busconfig>"""
WITHIN_S = 5.0


class Service:
    """Plays UPower or NetworkManager: tells a property, and when it changes."""

    def __init__(self, fact: supplies.Fact, value: Variant) -> None:
        self.fact, self.value = fact, value

    @asynccontextmanager
    async def offered(self, bus: str) -> AsyncIterator[None]:
        self.connection = await MessageBus(bus_address=bus).connect()
        self.connection.add_message_handler(self._answer)
        await self.connection.request_name(self.fact.service)
        try:
            yield
        finally:
            self.connection.disconnect()
            await self.connection.wait_for_disconnect()

    def _answer(self, message: Message) -> Message | None:
        if message.message_type is not MessageType.METHOD_CALL or message.body != [
            self.fact.service,
            self.fact.name,
        ]:
            return None
        return Message.new_method_return(message, "v", [self.value])

    async def change(self, value: Variant) -> None:
        self.value = value
        changed = [self.fact.service, {self.fact.name: value}, []]
        await self.connection.send(
            Message.new_signal(
                self.fact.path, "org.freedesktop.DBus.Properties", "PropertiesChanged", "sa{sv}as", changed
            )
        )


def power(*, on_battery: bool) -> Service:
    return Service(supplies.BATTERY, Variant("b", on_battery))


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[str]:
    """The address of a daemon of our own."""
    config, at = tmp_path / "bus.conf", tmp_path / "bus"
    config.write_text(CONFIG.format(socket=at))
    command = ["dbus-daemon", f"--config-file={config}", "--nofork", "--nopidfile", "--print-address"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as daemon:
        assert daemon.stdout is not None
        yield daemon.stdout.readline().strip()
        daemon.terminate()


class Told:
    """What was told last."""

    def __init__(self) -> None:
        self.now: Supplies | None = None
        self.times = 0
        self._news = anyio.Event()

    def __call__(self, found: Supplies) -> None:
        self.now, self.times = found, self.times + 1
        self._news.set()
        self._news = anyio.Event()

    async def until(self, wanted: Supplies) -> None:
        with anyio.fail_after(WITHIN_S):
            while self.now != wanted:
                await self._news.wait()


@asynccontextmanager
async def watched(bus: str) -> AsyncIterator[Told]:
    told = Told()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch_supplies, told, bus)
        yield told
        tasks.cancel_scope.cancel()


async def test_battery_and_metered_lines_are_noticed_when_they_change(bus: str) -> None:
    battery, line = power(on_battery=False), Service(supplies.METERED, Variant("u", 4))
    async with battery.offered(bus), line.offered(bus), watched(bus) as told:
        await told.until(Supplies())
        await battery.change(Variant("b", True))
        await told.until(Supplies(is_on_battery=True))
        await line.change(Variant("u", 3))
        await told.until(Supplies(is_on_battery=True, is_metered=True))
        await battery.change(Variant("b", False))
        await told.until(Supplies(is_metered=True))
        await line.change(Variant("u", 2))
        await told.until(Supplies())


async def test_a_service_that_begins_and_ends_later_counts_while_it_is_there(bus: str) -> None:
    async with watched(bus) as told:
        await told.until(Supplies())
        async with power(on_battery=True).offered(bus):
            await told.until(Supplies(is_on_battery=True))
        await told.until(Supplies())


async def test_what_has_another_type_is_as_if_nobody_had_said_it(bus: str) -> None:
    odd = Variant("as", ["true", "1"])
    battery, line = Service(supplies.BATTERY, odd), Service(supplies.METERED, odd)
    async with battery.offered(bus), line.offered(bus), watched(bus) as told:
        await told.until(Supplies())


async def test_without_a_bus_nobody_is_told_anything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DBUS_SYSTEM_BUS_ADDRESS", raising=False)
    monkeypatch.setattr(supplies, "SYSTEM_BUS", tmp_path / "none")
    monkeypatch.setattr(supplies, "AGAIN_S", 0.01)
    told = Told()
    with anyio.move_on_after(0.1):
        await watch_supplies(told)
    with anyio.move_on_after(0.1):
        await watch_supplies(told, f"unix:path={tmp_path}/none")
    assert told.times == 0


async def test_a_bus_that_ends_is_looked_for_again_and_nothing_is_known_meanwhile(
    bus: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supplies, "AGAIN_S", 0.01)
    at = tmp_path / "door"
    async with (
        power(on_battery=True).offered(bus),
        _through(tmp_path / "bus", at) as door,
        watched(f"unix:path={at}") as told,
    ):
        await told.until(Supplies(is_on_battery=True))
        door.cut()
        await told.until(Supplies())
        await told.until(Supplies(is_on_battery=True))


class _Door:
    """Stands between a bus and those that come by it."""

    def __init__(self) -> None:
        self._scopes: list[anyio.CancelScope] = []

    def cut(self) -> None:
        for scope in self._scopes:
            scope.cancel()
        self._scopes.clear()

    async def pass_on(self, to: Path, came: anyio.abc.SocketStream) -> None:
        async with came, await anyio.connect_unix(to) as bus, anyio.create_task_group() as tasks:
            self._scopes.append(tasks.cancel_scope)

            async def copy(one: anyio.abc.SocketStream, other: anyio.abc.SocketStream) -> None:
                async for data in one:
                    await other.send(data)
                tasks.cancel_scope.cancel()

            tasks.start_soon(copy, came, bus)
            tasks.start_soon(copy, bus, came)


@asynccontextmanager
async def _through(bus: Path, at: Path) -> AsyncIterator[_Door]:
    door = _Door()
    async with await anyio.create_unix_listener(at) as listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, lambda came: door.pass_on(bus, came))
        yield door
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("is_paused", [False, True])
def test_what_rests_is_the_operator_s_choice(is_paused: bool) -> None:
    both = Supplies(is_on_battery=True, is_metered=True)
    paused = {Rest.PAUSED} if is_paused else set[Rest]()
    assert rests_of(both, BudgetSettings(), is_paused=is_paused) == paused | {Rest.BATTERY, Rest.METERED}
    careless = BudgetSettings(rest_on_battery=False, rest_on_metered_line=False)
    assert rests_of(both, careless, is_paused=is_paused) == paused
    assert rests_of(Supplies(), BudgetSettings(), is_paused=is_paused) == paused


@pytest.mark.e2e
async def test_a_running_peer_rests_while_its_machine_is_on_battery(bus: str, tmp_path: Path) -> None:
    environment = {"DBUS_SYSTEM_BUS_ADDRESS": bus, "HERODOTUS_BUDGET_REST_ON_BATTERY": "true"}
    home = new_home(tmp_path / "home")
    battery = power(on_battery=True)

    async def rests_as(words: list[str]) -> dict[str, Any]:
        with anyio.fail_after(30):
            while True:
                facts = await anyio.to_thread.run_sync(ask, peer.http, "/api/v1/status")
                if facts["budget"]["closed_by"] == words:
                    return cast("dict[str, Any]", facts)

    async with battery.offered(bus):
        with running(home, environment=environment) as peer:
            resting = await rests_as(["battery"])
            assert resting["said"]["doing"].startswith("Resting: this machine runs on its battery.")
            began = anyio.current_time()
            await battery.change(Variant("b", False))
            assert "Resting" not in (await rests_as([]))["said"]["doing"]
            assert anyio.current_time() - began < WITHIN_S
