"""What does a home router do to datagrams?

`cone`: one outer port per inner one, open to everybody once it has sent (full cone). `symmetric`: an outer
port for each destination, open to that destination only. Both forget by `rebind`, as when the router
restarts.
"""

from typing import Literal

Address = tuple[str, int]
NatKind = Literal["none", "cone", "symmetric"]

FIRST_PORT = 20_000
MAPPINGS_MAX = 4_096


class Nat:
    def __init__(self, kind: NatKind, *, public_ip: str) -> None:
        self.kind = kind
        self.public_ip = public_ip
        self._ports: dict[tuple[Address, Address | None], int] = {}
        self._open_to: dict[int, Address | None] = {}
        self._next_port = FIRST_PORT

    def leave(self, inner: Address, target: Address) -> Address:
        """The address that the receiver will see."""
        key = (inner, target if self.kind == "symmetric" else None)
        port = self._ports.get(key)
        if port is None:
            port = self._next_port
            self._next_port = FIRST_PORT + (port + 1 - FIRST_PORT) % 40_000
            if len(self._ports) >= MAPPINGS_MAX:
                oldest = next(iter(self._ports))
                self._open_to.pop(self._ports.pop(oldest), None)
            self._ports[key] = port
            self._open_to[port] = key[1]
        return self.public_ip, port

    def lets_in(self, target: Address, sender: Address) -> bool:
        if target[1] not in self._open_to:
            return False
        only = self._open_to[target[1]]
        return only is None or only == sender

    def rebind(self) -> None:
        self._ports.clear()
        self._open_to.clear()
