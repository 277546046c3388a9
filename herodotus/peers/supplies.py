"""Is this machine on battery, is its line paid by the byte? Asks UPower and NetworkManager, by the system's D-Bus.

Both tell of changes by themselves, so nothing is polled. Where there is no bus, or neither of the two, nobody is told
anything. They are read as strangers are: what has another type than it should is as if it had not been said.
"""

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio

from herodotus.core.supplies import Supplies

if TYPE_CHECKING:
    from dbus_fast import Message
    from dbus_fast.aio import MessageBus

logger = logging.getLogger(__name__)

AGAIN_S = 60.0
"""Until a bus that was not there, or ended, is looked for again."""
ANSWER_S = 5.0
SYSTEM_BUS = Path("/run/dbus/system_bus_socket")
_PROPERTIES: Final = "org.freedesktop.DBus.Properties"
_BUS: Final = "org.freedesktop.DBus"


@dataclass(frozen=True, slots=True)
class Fact:
    service: str
    path: str
    name: str

    @property
    def rule(self) -> str:
        return (
            f"type='signal',sender='{self.service}',interface='{_PROPERTIES}',member='PropertiesChanged',"
            f"path='{self.path}'"
        )

    @property
    def owner_rule(self) -> str:
        return f"type='signal',sender='{_BUS}',member='NameOwnerChanged',arg0='{self.service}'"


BATTERY = Fact("org.freedesktop.UPower", "/org/freedesktop/UPower", "OnBattery")
METERED = Fact("org.freedesktop.NetworkManager", "/org/freedesktop/NetworkManager", "Metered")
_METERED_WORDS = (1, 3)
"""NMMetered: yes, and "guess yes", as on a telephone that shares its line."""


async def watch_supplies(tell: Callable[[Supplies], None], address: str | None = None) -> None:
    """`address` is the bus's, or else the system's."""
    while not (address or _has_bus()):  # noqa: ASYNC110  # a bus that begins tells nobody
        await anyio.sleep(AGAIN_S)

    try:  # where it is of use only, as it takes 3 MB
        from dbus_fast.aio import MessageBus
        from dbus_fast.constants import BusType
        from dbus_fast.errors import DBusError
    except ImportError:
        logger.info("battery and metered lines are not looked at: dbus-fast is installed on Linux alone")
        return

    while True:
        try:
            with anyio.fail_after(ANSWER_S):
                bus = await MessageBus(bus_address=address, bus_type=BusType.SYSTEM).connect()
        except (OSError, EOFError, TimeoutError, ValueError, DBusError) as error:
            logger.debug("no system bus error=%s", error)
        else:
            try:
                await _Watch(bus, tell).run()
            finally:
                bus.disconnect()
            tell(Supplies())
        await anyio.sleep(AGAIN_S)


def _has_bus() -> bool:
    return "DBUS_SYSTEM_BUS_ADDRESS" in os.environ or SYSTEM_BUS.exists()


class _Watch:
    def __init__(self, bus: "MessageBus", tell: Callable[[Supplies], None]) -> None:
        self._bus, self._tell = bus, tell
        self._news = anyio.Event()

    async def run(self) -> None:
        """Until the bus ends."""
        self._bus.add_message_handler(self._hear)
        for fact in (BATTERY, METERED):
            for rule in (fact.rule, fact.owner_rule):
                await self._asked(_BUS, "/org/freedesktop/DBus", _BUS, "AddMatch", "s", [rule])
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._keep_reading)
            try:
                await self._bus.wait_for_disconnect()
            except (OSError, EOFError, ValueError) as error:  # ValueError: what comes is no D-Bus
                logger.info("the system bus ended error=%r", error)
            tasks.cancel_scope.cancel()

    def _hear(self, message: "Message") -> None:
        if message.member in ("PropertiesChanged", "NameOwnerChanged"):
            self._news.set()

    async def _keep_reading(self) -> None:
        while True:
            self._news = anyio.Event()
            battery, metered = await self._read(BATTERY), await self._read(METERED)
            self._tell(Supplies(is_on_battery=battery is True, is_metered=metered in _METERED_WORDS))
            await self._news.wait()

    async def _read(self, fact: Fact) -> object:
        """None where nobody says."""
        body = [fact.service, fact.name]
        found = await self._asked(fact.service, fact.path, _PROPERTIES, "Get", "ss", body)
        return getattr(found[0], "value", None) if found else None

    async def _asked(
        self, service: str, path: str, interface: str, member: str, signature: str, body: list[str]
    ) -> list[object]:
        """What came back; nothing where that is an error, or nothing in time."""
        from dbus_fast import Message
        from dbus_fast.constants import MessageFlag, MessageType

        question = Message(
            destination=service,
            path=path,
            interface=interface,
            member=member,
            signature=signature,
            body=body,
            flags=MessageFlag.NO_AUTOSTART,  # what does not run is not needed for our sake
        )
        with anyio.move_on_after(ANSWER_S):
            answer = await self._bus.call(question)
            if answer.message_type is MessageType.METHOD_RETURN:
                return list(answer.body)
        return []
