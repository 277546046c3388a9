"""Can a test reach beyond this machine? It must not, by any kind of socket."""

import socket

import pytest
from pytest_socket import SocketConnectBlockedError


def test_a_connection_beyond_loopback_is_refused() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as channel:
        channel.settimeout(1)
        # it warns before it raises, and warnings are errors here
        with pytest.raises((SocketConnectBlockedError, UserWarning), match="A test tried to use socket"):
            channel.connect(("192.0.2.1", 80))


@pytest.mark.parametrize("address", ["192.0.2.1", "8.8.8.8", "10.0.0.1", "255.255.255.255"])
def test_a_datagram_beyond_loopback_is_refused(address: str) -> None:
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as channel,
        pytest.raises(PermissionError, match="tests stay on this machine"),
    ):
        channel.sendto(b"x", (address, 9))


def test_an_ipv6_datagram_beyond_loopback_is_refused() -> None:
    with (
        socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as channel,
        pytest.raises(PermissionError, match="tests stay on this machine"),
    ):
        channel.sendto(b"x", ("2001:db8::1", 9))


def test_no_name_is_looked_up() -> None:
    with pytest.raises(PermissionError, match="tests stay on this machine"):
        socket.getaddrinfo("example.org", 80)


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.53"])
def test_loopback_is_free(address: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind((address, 0))
        receiver.settimeout(5)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"x", receiver.getsockname())
            assert receiver.recv(10) == b"x"
