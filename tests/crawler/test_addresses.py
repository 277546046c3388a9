import pytest

from crawler.core.urls import is_public


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
