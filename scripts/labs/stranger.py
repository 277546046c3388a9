"""Can somebody who never talked to a peer reach it? A knock by UDP and one by TCP, from sockets of any namespace.

By UDP a HELLO must bring a RETRY, which every peer sends to anybody. By TCP a TLS handshake must prove the peer's key:
a router that answers itself, or another peer, does not count.
"""

import os
import socket
import ssl
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from dht.core.frames import DATAGRAM_BYTES_MAX, DatagramHello, Retry, parse_greeting
from herodotus.peers.net.certificate import caller_context, key_of
from scripts.labs.internet import inside

TRIES, TRY_S, STREAM_S = 3, 1.0, 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    by_udp: bool
    by_tcp: bool


def knock(namespace: str, host: str, udp_port: int, tcp_port: int, network: bytes, key: bytes) -> Reached:
    """By both at once, since both may have to wait for their time to run out. Port 0 is not knocked at."""
    with ThreadPoolExecutor(2) as tasks:
        udp = tasks.submit(_by_udp, namespace, host, udp_port, network)
        tcp = tasks.submit(_by_tcp, namespace, host, tcp_port, key)
        return Reached(by_udp=udp.result(), by_tcp=tcp.result())


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _by_udp(namespace: str, host: str, port: int, network: bytes) -> bool:
    if not port:
        return False
    with inside(namespace):
        sock = socket.socket(_family(host), socket.SOCK_DGRAM)
    hello = DatagramHello(network, os.urandom(8), os.urandom(32), os.urandom(32))
    with sock:
        sock.settimeout(TRY_S)
        for _ in range(TRIES):
            try:
                sock.sendto(hello.pack(), (host, port))
                data, source = sock.recvfrom(DATAGRAM_BYTES_MAX)
            except OSError:  # nothing came, or an ICMP answer to the one before
                continue
            if source[:2] == (host, port) and isinstance(parse_greeting(data, network), Retry):
                return True
    return False


def _by_tcp(namespace: str, host: str, port: int, key: bytes) -> bool:
    if not port:
        return False
    with inside(namespace):
        sock = socket.socket(_family(host), socket.SOCK_STREAM)
    with sock:
        sock.settimeout(STREAM_S)
        try:
            sock.connect((host, port))
            with caller_context().wrap_socket(sock) as line:
                certificate = line.getpeercert(binary_form=True)
        except (OSError, ssl.SSLError):
            return False
    return certificate is not None and key_of(certificate) == key
