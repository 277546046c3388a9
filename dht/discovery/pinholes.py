"""How is a UPnP router's firewall asked to let in what comes by IPv6? By IGD 2, whose `AddPinhole` takes an address.

    M-SEARCH  to [ff02::c]:1900 on our link     who has WANIPv6FirewallControl:1?   an answer names port and path
    GET       its description                   where are questions to be sent?
    POST      AddPinhole, DeletePinhole         a number for the pinhole; the same one when it is asked for again
    POST      GetPinholePackets                 is it still there?

A router opens pinholes only to the address that asks, so all of it leaves by that one. Whoever is on the link can
answer the search: we speak only with the machine that did, whatever address its answer names, and take no more than so
many bytes. miniupnpc knows no pinholes.
"""

import re
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from html import escape, unescape
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from ipaddress import IPv6Address
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import anyio.to_thread

from dht.discovery.gateway_codec import GatewayRefused, Mapped, Transport

SERVICE = "urn:schemas-upnp-org:service:WANIPv6FirewallControl:1"
GROUP, PORT = "ff02::c", 1900
SEARCHES, SEARCH_S = 2, 1.5
"""MX 1: a router answers within a second; one search may be lost."""
ANSWER_S = 5.0
PINHOLE_S = 15.0
"""If the router stalls, the call stays behind in its thread and the peer continues."""
DATAGRAM_BYTES_MAX = 2_048
BYTES_MAX = 1 << 16
"""miniupnpd's description has 4 kB."""
INTERFACES = Path("/proc/net/if_inet6")

_SEARCH = (
    f'M-SEARCH * HTTP/1.1\r\nHOST: [{GROUP}]:{PORT}\r\nMAN: "ssdp:discover"\r\nMX: 1\r\nST: {SERVICE}\r\n\r\n'
).encode()
_LOCATION = re.compile(rb"^location:[ \t]*(\S+)", re.IGNORECASE | re.MULTILINE)
_CONTROL = re.compile(re.escape(SERVICE) + r"\s*</serviceType>.{0,2000}?<controlURL>\s*([^<\s]+)", re.DOTALL)
_NUMBER = re.compile(r"<UniqueID>([0-9]{1,5})</UniqueID>")
_CODE = re.compile(r"<errorCode>([0-9]{3})</errorCode>")
_GONE = (606, 704)
"""No pinhole has this number, or one of another machine has it by now (WANIPv6FirewallControl:1, 2.5)."""
_WHY = re.compile(r"<errorDescription>([^<]{1,100})")
_ENVELOPE = (
    '<?xml version="1.0"?><s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"'
    ' s:encodingStyle="http://schemas.xmlsoap.org/soap/encoding/"><s:Body>'
    '<u:{action} xmlns:u="{service}">{fields}</u:{action}></s:Body></s:Envelope>'
)


class _NoPinhole(Exception):
    """The router refused, or did not make sense; the message says why, and the code too where it named one."""

    def __init__(self, why: str, code: int = -1) -> None:
        super().__init__(why)
        self.code = code


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """At the router that answered."""

    host: str
    port: int
    named: str
    """Host and port in its own words, for the head of requests."""
    path: str


@dataclass(slots=True)
class PinholeGateway:
    """For one address of ours. `searched_at` is where routers are searched for: the link's group, but in tests."""

    inside: str
    searched_at: tuple[str, int] = (GROUP, PORT)
    _numbers: dict[Transport, str] = field(default_factory=dict)
    _limiter: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(1))

    async def map(
        self, internal_port: int, external_port: int, lifetime_s: int, transport: Transport = Transport.UDP
    ) -> Mapped | GatewayRefused:
        del external_port  # a firewall gives no other one
        return await self._asking(lambda place: self._add(place, internal_port, lifetime_s, transport))

    async def unmap(self, external_port: int, transport: Transport = Transport.UDP) -> None:
        number = self._numbers.pop(transport, None)
        if number is not None:
            await self._asking(lambda place: self._delete(place, number, external_port))

    async def epoch_s(self) -> int | None:
        """UPnP has no such clock."""
        return None

    async def holds(self, external_port: int, transport: Transport) -> bool | None:
        number = self._numbers.get(transport)
        if number is None:
            return None
        answer = await self._asking(lambda place: self._look(place, number, external_port))
        if isinstance(answer, Mapped):
            return True
        return False if answer.code in _GONE else None

    async def _asking(self, work: Callable[[_Place], Mapped]) -> Mapped | GatewayRefused:
        try:
            with anyio.fail_after(PINHOLE_S):
                place = await self._searched()
                return await anyio.to_thread.run_sync(
                    work, place, abandon_on_cancel=True, limiter=self._limiter
                )
        except _NoPinhole as error:
            return GatewayRefused(code=error.code, reason=str(error))
        except (OSError, HTTPException, ValueError) as error:  # a TimeoutError is an OSError
            words = str(error) or "no answer"
            return GatewayRefused(code=-1, reason=f"the router's firewall cannot be asked: {words}")

    async def _searched(self) -> _Place:
        """The first that answers."""
        host, port = self.searched_at
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as sock:
            sock.setblocking(False)
            sock.bind((self.inside, 0))
            for _ in range(SEARCHES):
                sock.sendto(_SEARCH, (host, port, 0, interface_of(self.inside)))
                with anyio.move_on_after(SEARCH_S):
                    while True:
                        await anyio.wait_readable(sock)
                        data, sender = sock.recvfrom(DATAGRAM_BYTES_MAX)
                        location = _LOCATION.search(data)
                        if data.startswith(b"HTTP/1.1 200") and location is not None:
                            at = urlsplit(location[1].decode("ascii", "replace"))
                            return _Place(
                                host=_scoped(sender), port=at.port or 80, named=at.netloc, path=at.path or "/"
                            )
        raise _NoPinhole("no router has a firewall that can be asked")

    # --- in a thread

    def _add(self, place: _Place, port: int, lifetime_s: int, transport: Transport) -> Mapped:
        answer = self._asked(
            self._firewall(place),
            "AddPinhole",
            RemoteHost="",
            RemotePort="0",
            InternalClient=self.inside,
            InternalPort=str(port),
            Protocol=str(transport.value),
            LeaseTime=str(lifetime_s),
        )
        self._numbers[transport] = _number_in(answer)
        return Mapped(external_port=port, lifetime_s=lifetime_s, external_ip=self.inside)

    def _delete(self, place: _Place, number: str, port: int) -> Mapped:
        self._asked(self._firewall(place), "DeletePinhole", UniqueID=number)
        return Mapped(external_port=port, lifetime_s=0)

    def _look(self, place: _Place, number: str, port: int) -> Mapped:
        self._asked(self._firewall(place), "GetPinholePackets", UniqueID=number)
        return Mapped(external_port=port, lifetime_s=0)

    def _firewall(self, description: _Place) -> _Place:
        """Where its questions are sent, by its description."""
        control = _CONTROL.search(self._exchanged(description, "GET", "", {})[1])
        if control is None:
            raise _NoPinhole("the router's description has no firewall")
        path = urlsplit(unescape(control[1])).path
        return replace(description, path=path if path.startswith("/") else f"/{path}")

    def _asked(self, firewall: _Place, action: str, **fields: str) -> str:
        """Its answer. Raises OSError, HTTPException, or _NoPinhole where it refuses."""
        inner = "".join(f"<{name}>{escape(value)}</{name}>" for name, value in fields.items())
        body = _ENVELOPE.format(action=action, service=SERVICE, fields=inner)
        heads = {"SOAPAction": f'"{SERVICE}#{action}"', "Content-Type": 'text/xml; charset="utf-8"'}
        status, text = self._exchanged(firewall, "POST", body, heads)
        if status != HTTPStatus.OK:
            words, code = _WHY.search(text), _CODE.search(text)
            why = f"the router refuses: {words[1] if words else f'answer {status}'}"
            raise _NoPinhole(why, int(code[1]) if code else -1)
        return text

    def _exchanged(self, place: _Place, method: str, body: str, heads: Mapping[str, str]) -> tuple[int, str]:
        """Status and text."""
        connection = HTTPConnection(place.host, place.port, timeout=ANSWER_S, source_address=(self.inside, 0))
        try:
            all_heads = {**heads, "Host": place.named, "Connection": "close"}
            connection.request(method, place.path, body.encode() or None, all_heads)
            answer = connection.getresponse()
            return answer.status, answer.read(BYTES_MAX).decode("utf-8", "replace")
        finally:
            connection.close()


def _number_in(answer: str) -> str:
    found = _NUMBER.search(answer)
    if found is None:
        raise _NoPinhole("the router's answer has no number")
    return found[1]


def _scoped(sender: tuple[str, int, int, int]) -> str:
    """An address of the link is good on one interface alone."""
    host, _, _, scope = sender
    bare = host.partition("%")[0]
    return f"{bare}%{scope}" if IPv6Address(bare).is_link_local else bare


def interface_of(host: str) -> int:
    """The number of the interface that has this address; 0, the system's choice, where the system does not tell it."""
    wanted = IPv6Address(host).packed.hex()
    try:
        rows = [line.split() for line in INTERFACES.read_text(encoding="ascii").splitlines()]
    except OSError:
        return 0
    return next((int(row[1], 16) for row in rows if len(row) == 6 and row[0] == wanted), 0)
