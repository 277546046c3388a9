"""Routers on loopback: one speaks NAT-PMP and PCP by UDP, one is a UPnP device by HTTP and SOAP, one a firewall of IPv6
that is found by a search and asked by SOAP.
"""

import ipaddress
import re
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import anyio


@dataclass(kw_only=True)
class DatagramRouter:
    """Answers what comes to its socket while `run` runs; `mappings` is what it holds."""

    host: str = "127.0.0.1"
    external_ip: str = "8.8.4.4"
    speaks_pcp: bool = True
    result_code: int = 0
    lifetime_s: int = 3600
    dropped_first: int = 0
    mappings: dict[tuple[str, int], int] = field(default_factory=dict)
    """Outside ports, by transport and inside port."""
    refused: frozenset[str] = frozenset()
    """Transports that it does not map."""
    taken: frozenset[tuple[str, int]] = frozenset()
    """Outside ports of others: it gives the next one."""
    epoch_s: int = 77
    requests: int = 0
    client: ipaddress.IPv6Address | None = None
    """Who asked last, as its request says; an IPv4 address as it is mapped."""
    listening: socket.socket = field(init=False)

    def __post_init__(self) -> None:
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        self.listening = socket.socket(family, socket.SOCK_DGRAM)
        self.listening.setblocking(False)
        self.listening.bind((self.host, 0))

    @property
    def port(self) -> int:
        port: int = self.listening.getsockname()[1]
        return port

    async def run(self) -> None:
        while True:
            await anyio.wait_readable(self.listening)
            data, sender = self.listening.recvfrom(2048)
            self.requests += 1
            if self.requests > self.dropped_first:
                self.listening.sendto(b"\x07noise", sender)
                self.listening.sendto(self.answer(data), sender)

    def answer(self, data: bytes) -> bytes:
        outside = ipaddress.ip_address(self.external_ip)
        packed = outside.packed
        if data[0] == 2 and not self.speaks_pcp:
            return struct.pack("!BBHI", 0, 128, 1, self.epoch_s)
        if data[:2] == b"\2\0":
            return struct.pack("!BBBBII12x", 2, 128, 0, 0, 0, self.epoch_s)
        if data[0] == 2:
            lifetime = struct.unpack_from("!I", data, 4)[0]
            internal, external = struct.unpack_from("!HH", data, 40)
            transport = {6: "TCP", 17: "UDP"}[data[36]]
            external, granted, code = self.hold(transport, internal, external, lifetime)
            head = struct.pack("!BBBBII12x", 2, 129, 0, code, granted, self.epoch_s)
            self.client = ipaddress.IPv6Address(data[8:24])
            mapped = packed if outside.version == 6 else b"\0" * 10 + b"\xff\xff" + packed
            return head + data[24:40] + struct.pack("!HH", internal, external) + mapped
        if data[1] == 0:
            return struct.pack("!BBHI", 0, 128, self.result_code, self.epoch_s) + packed
        internal, external, lifetime = struct.unpack_from("!HHI", data, 4)
        transport = {1: "UDP", 2: "TCP"}[data[1]]
        external, granted, code = self.hold(transport, internal, external, lifetime)
        return struct.pack("!BBHIHHI", 0, 128 + data[1], code, self.epoch_s, internal, external, granted)

    def hold(self, transport: str, internal: int, external: int, lifetime: int) -> tuple[int, int, int]:
        """Outside port, seconds, result."""
        if self.result_code or transport in self.refused:
            return external, 0, self.result_code or 2
        if lifetime == 0:
            self.mappings.pop((transport, internal), None)
            return 0, 0, 0
        while (transport, external) in self.taken:
            external += 1
        self.mappings[transport, internal] = external
        return external, min(lifetime, self.lifetime_s), 0


_DESCRIPTION = """<?xml version="1.0"?>
<root xmlns="urn:schemas-upnp-org:device-1-0"><specVersion><major>1</major><minor>0</minor></specVersion>
<URLBase>http://127.0.0.1:{port}/</URLBase>
<device><deviceType>urn:schemas-upnp-org:device:InternetGatewayDevice:1</deviceType><deviceList><device>
<deviceType>urn:schemas-upnp-org:device:WANDevice:1</deviceType><deviceList><device>
<deviceType>urn:schemas-upnp-org:device:WANConnectionDevice:1</deviceType><serviceList><service>
<serviceType>urn:schemas-upnp-org:service:WANIPConnection:1</serviceType>
<serviceId>urn:upnp-org:serviceId:WANIPConn1</serviceId><controlURL>/control</controlURL>
<eventSubURL>/events</eventSubURL><SCPDURL>/scpd.xml</SCPDURL></service></serviceList></device></deviceList>
</device></deviceList></device></root>"""

_SOAP = (
    '<?xml version="1.0"?><s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"><s:Body>'
    '<u:{action}Response xmlns:u="urn:schemas-upnp-org:service:WANIPConnection:1">{body}</u:{action}Response>'
    "</s:Body></s:Envelope>"
)


_FAULT = "<s:Fault><errorCode>{}</errorCode><errorDescription>{}</errorDescription></s:Fault>"


@dataclass(kw_only=True)
class UpnpRouter:
    external_ip: str = "8.8.4.4"
    is_refusing: bool = False
    is_for_ever: bool = False
    """It takes no mapping that ends."""
    taken: frozenset[tuple[str, str]] = frozenset()
    """Mappings of another machine."""
    is_busy: bool = False
    """It answers no question."""
    mappings: dict[tuple[str, str], dict[str, str]] = field(default_factory=dict)
    """By transport and outside port."""
    url: str = ""

    def soap(self, action: str, body: str) -> tuple[int, str]:
        fields = dict(re.findall(r"<(New\w+)>([^<]*)</", body))
        mapping = fields.get("NewProtocol", ""), fields.get("NewExternalPort", "")
        if self.is_busy:
            return 503, ""
        if action == "GetStatusInfo":
            answer = "<NewConnectionStatus>Connected</NewConnectionStatus><NewUptime>9</NewUptime>"
        elif action == "GetExternalIPAddress":
            answer = f"<NewExternalIPAddress>{self.external_ip}</NewExternalIPAddress>"
        elif action == "AddPortMapping" and mapping in self.taken:
            return 500, _FAULT.format(718, "ConflictInMappingEntry")
        elif action == "AddPortMapping" and self.is_for_ever and fields["NewLeaseDuration"] != "0":
            return 500, _FAULT.format(725, "OnlyPermanentLeasesSupported")
        elif action == "GetSpecificPortMappingEntry" and mapping in self.mappings:
            names = ("NewInternalClient", "NewInternalPort", "NewEnabled", "NewLeaseDuration")
            held = self.mappings[mapping]
            answer = "".join(f"<{name}>{held[name]}</{name}>" for name in names)
            answer += "<NewPortMappingDescription>x</NewPortMappingDescription>"
        elif action == "AddPortMapping" and not self.is_refusing:
            self.mappings[mapping] = fields
            answer = ""
        elif action == "DeletePortMapping" and mapping in self.mappings:
            del self.mappings[mapping]
            answer = ""
        else:
            return 500, _FAULT.format(501, "no")
        return 200, _SOAP.format(action=action, body=answer)


@contextmanager
def upnp_router(router: UpnpRouter) -> Iterator[UpnpRouter]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.reply(200, _DESCRIPTION.format(port=server.server_port))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            action = self.headers["SOAPAction"].strip('"').split("#")[1]
            self.reply(*router.soap(action, body))

        def reply(self, status: int, text: str) -> None:
            data = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", "text/xml")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        router.url = f"http://127.0.0.1:{server.server_port}/root.xml"
        try:
            yield router
        finally:
            server.shutdown()
            thread.join()


FIREWALL = "urn:schemas-upnp-org:service:WANIPv6FirewallControl:1"
_FIREWALL_DESCRIPTION = f"""<?xml version="1.0"?>
<root xmlns="urn:schemas-upnp-org:device-1-0"><device><serviceList>
<service><serviceType>urn:schemas-upnp-org:service:WANIPConnection:2</serviceType>
<controlURL>/other</controlURL></service>
<service><serviceType>{FIREWALL}</serviceType><serviceId>urn:upnp-org:serviceId:WANIPv6Firewall1</serviceId>
<SCPDURL>/fc.xml</SCPDURL><controlURL>/firewall</controlURL></service></serviceList></device></root>"""


class _HttpV6(ThreadingHTTPServer):
    address_family = socket.AF_INET6


@dataclass(kw_only=True)
class FirewallRouter:
    """`pinholes` are by number: transport, inside address and port, lease."""

    description: str = _FIREWALL_DESCRIPTION
    named_host: str = "::1"
    """What its answer to the search says of its place."""
    refuses: str = ""
    refusal_code: int = 606
    unanswered: int = 0
    """Searches that are lost."""
    pinholes: dict[str, tuple[str, str, str, str]] = field(default_factory=dict)
    searched_at: tuple[str, int] = ("", 0)
    hosts_named: list[str] = field(default_factory=list)

    def soap(self, action: str, body: str) -> tuple[int, str]:
        fields = dict(re.findall(r"<(\w+)>([^<]*)</", body))
        if self.refuses:
            return 500, _FAULT.format(self.refusal_code, self.refuses)
        if action == "AddPinhole":
            number = {"17": "1", "6": "2"}[fields["Protocol"]]
            self.pinholes[number] = (
                *(fields["Protocol"], fields["InternalClient"]),
                *(fields["InternalPort"], fields["LeaseTime"]),
            )
            return 200, f"<u:AddPinholeResponse><UniqueID>{number}</UniqueID></u:AddPinholeResponse>"
        if action == "GetPinholePackets":
            if fields["UniqueID"] not in self.pinholes:
                return 500, _FAULT.format(704, "NoSuchEntry")
            return (
                200,
                "<u:GetPinholePacketsResponse><PinholePackets>0</PinholePackets></u:GetPinholePacketsResponse>",
            )
        assert action == "DeletePinhole", action
        del self.pinholes[fields["UniqueID"]]
        return 200, "<u:DeletePinholeResponse></u:DeletePinholeResponse>"


@contextmanager
def firewall_router(router: FirewallRouter) -> Iterator[FirewallRouter]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            router.hosts_named.append(self.headers["Host"])
            self.reply(200 if self.path == "/root.xml" else 404, router.description)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            service, action = self.headers["SOAPAction"].strip('"').split("#")
            assert (self.path, service) == ("/firewall", FIREWALL)
            self.reply(*router.soap(action, body))

        def reply(self, status: int, text: str) -> None:
            data = text.encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            return

    def answer_searches() -> None:
        while True:
            data, sender = searches.recvfrom(2048)
            if data == b"end":
                return
            if router.unanswered:
                router.unanswered -= 1
                continue
            searches.sendto(b"NOTIFY * HTTP/1.1\r\nLocation: http://[::1]:1/none.xml\r\n\r\n", sender)
            place = f"http://[{router.named_host}]:{server.server_port}/root.xml"
            searches.sendto(
                f"HTTP/1.1 200 OK\r\nST: {FIREWALL}\r\nLOCATION: {place}\r\n\r\n".encode(), sender
            )

    with (
        _HttpV6(("::1", 0), Handler) as server,
        socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as searches,
    ):
        searches.bind(("::1", 0))
        router.searched_at = searches.getsockname()[:2]
        threads = [
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}),
            threading.Thread(target=answer_searches),
        ]
        for thread in threads:
            thread.start()
        try:
            yield router
        finally:
            server.shutdown()
            searches.sendto(b"end", router.searched_at)
            for thread in threads:
                thread.join()
