"""The sortable form of a URL is the one that other people's indexes have (compared with pywb's in `test_judges`)."""

import pytest

from herodotus.core.cdxj import format_line, surt
from herodotus.core.index_rows import FilePlace

SESSION = "0123456789abcdefghijklmnopqrstuv"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://example.org", "org,example)/"),
        ("https://www2.Example.org:443/A/B/?x=1", "org,example)/a/b?x=1"),
        ("http://user:secret@example.org:8080/x#part", "org,example:8080)/x"),
        ("http://example.org/a//b/../c/./d/", "org,example)/a/c/d"),
        ("http://example.org/../..", "org,example)/"),
        ("http://example.org/?b=2&a=1&a=0&c", "org,example)/?a=0&a=1&b=2&c"),
        ("http://example.org/a/?", "org,example)/a"),
        ("http://example.org/%7Euser/%41%2541", "org,example)/~user/aa"),
        ("http://example.org/caf%C3%A9?q=a%20b&c=d", "org,example)/caf%c3%a9?c=d&q=a%20b"),
        ("http://example.org/café", "org,example)/caf%c3%a9"),
        ("http://bücher.example./", "example,xn--bcher-kva)/"),
        (f"http://example.org/?y=2&jsessionid={SESSION}&x=1", "org,example)/?x=1&y=2"),
        ("http://example.org/(4hqa0555fwsecu455xqckv45)/x.aspx", "org,example)/x.aspx"),
        ("http://192.0.2.1/x", "1,2,0,192)/x"),
        ("http://[::1]:8080/x", "::1:8080)/x"),
        ("http://www.com/", "com)/"),
        ("ftp://ftp.example.org/x", "org,example,ftp)/x"),
        ("dns:example.org", "dns:example.org"),
        ("urn:uuid:1234", "urn:uuid:1234"),
    ],
)
def test_the_sortable_form_is_the_one_that_others_look_for(url: str, expected: str) -> None:
    assert surt(url) == expected


@pytest.mark.parametrize(
    "url",
    [
        "",
        "http://",
        "http://[",
        "http://example.org:99999999/",
        "http://\udcff/\udcff?\udcff",
        "http://" + "%25" * 5_000,
    ],
)
def test_no_url_is_too_strange_for_a_line(url: str) -> None:
    line = format_line(
        url=url, time_s=0, mime="", status=0, digest="-", place=FilePlace(1, 2, 3), file_name="x.warc.gz"
    )
    assert len(line.split(" ", 2)) == 3
    line.encode()
