"""How does the service manager learn that we are ready, alive, or stopping? The protocol of sd_notify(3)."""

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServiceManager:
    """Without `NOTIFY_SOCKET` every call does nothing."""

    address: str | None
    watchdog_s: float | None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> "ServiceManager":
        environment = os.environ if environment is None else environment
        micros = environment.get("WATCHDOG_USEC", "")
        is_ours = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        watchdog_s = int(micros) / 1e6 if micros.isdecimal() and int(micros) > 0 and is_ours else None
        return cls(environment.get("NOTIFY_SOCKET") or None, watchdog_s)

    def notify(self, *assignments: str) -> None:
        if self.address is None:
            return
        # A leading @ stands for the NUL of an abstract socket.
        address = f"\0{self.address[1:]}" if self.address.startswith("@") else self.address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
                channel.settimeout(1.0)
                channel.connect(address)
                channel.send("\n".join(assignments).encode())
        except OSError:
            # If the manager does not listen, the peer still serves; the manager acts on its own timeout.
            return
