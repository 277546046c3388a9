import pytest

from crawler.core.urls import canonical, has_web_port, is_public, is_web_port


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1"),
        *("192.0.2.1", "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255", "192.0.0.192"),
        *(
            "::1",
            "::",
            "fe80::1",
            "fe80::1%eth0",
            "fc00::1",
            "fd00:ec2::254",
            "ff02::1",
            "fec0::1",
            "2001:db8::1",
        ),
        *("::ffff:127.0.0.1", "::ffff:a9fe:a9fe", "::127.0.0.1", "64:ff9b::10.0.0.1", "64:ff9b:1::7f00:1"),
        *("2002:7f00:1::", "2002:c0a8:101::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2"),
        "64:ff9b:1:a00:0:100:808:808",  # 10.0.0.1 by the longest of this prefix's forms
        *("::ffff:0:127.0.0.1", "3fff::1", "5f00::1"),
        *("localhost", "", "2130706433"),
    ],
)
def test_addresses_off_the_public_internet_are_refused(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize(
    "address", ["1.1.1.1", "93.184.216.34", "2606:4700:4700::1111", "::ffff:1.1.1.1", "64:ff9b::1.1.1.1"]
)
def test_public_addresses_pass(address: str) -> None:
    assert is_public(address)


def test_of_the_ports_of_the_system_only_the_two_of_the_web_are_asked() -> None:
    assert [port for port in range(1024) if is_web_port(port)] == [80, 443]


@pytest.mark.parametrize("port", [1024, 3000, 5484, 8000, 8080, 8443, 8888, 32_768, 65_535])
def test_ports_that_web_servers_are_given_are_asked(port: int) -> None:
    assert is_web_port(port)


@pytest.mark.parametrize(
    "port",
    [
        *(1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6669, 6679, 6697, 10080),
        *(2222, 2525, 3306, 5432, 6379, 9100, 11211),
    ],
)  # fmt: skip
def test_ports_of_services_that_take_lines_for_orders_are_not_asked(port: int) -> None:
    assert not is_web_port(port)


@pytest.mark.parametrize(
    ("text", "is_asked"),
    [
        ("http://example.org:80/", True),
        ("http://example.org:443/", True),
        ("https://example.org:443/a:22/", True),
        ("https://example.org/?u=x:25", True),
        ("http://[2606:4700::22]/", True),
        ("http://[2606:4700::1111]:8080/", True),
        ("http://example.org:22/", False),
        ("http://[2606:4700::1111]:25/", False),
        ("http://u:p@example.org:006379/", False),
    ],
)
def test_the_port_is_that_of_the_authority(text: str, is_asked: bool) -> None:
    assert has_web_port(canonical(text)) is is_asked
