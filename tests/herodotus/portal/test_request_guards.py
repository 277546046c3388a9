"""Is a browser that was made to ask us for another site's sake refused?"""

import pytest

from herodotus.portal.answer import Request
from herodotus.portal.handlers import origin_of, refusal

KNOWN = {"archive.example.org": "https://archive.example.org"}


def asked(target: str, **headers: str) -> Request:
    return Request(method="GET", target=target, headers=headers, client="192.0.2.1")


@pytest.mark.parametrize(
    "host", ["attacker.example", "attacker.example:5484", "127.0.0.1.attacker.example", "", "a b"]
)
def test_a_name_that_is_not_ours_is_no_origin(host: str) -> None:
    """A page of attacker.example whose name suddenly leads to our address (DNS rebinding)."""
    assert origin_of(host, KNOWN) is None
    answer = refusal(asked("/api/v1/status", host=host), is_known_host=False)
    assert answer is not None
    assert answer.status == 421


def test_addresses_and_the_name_that_the_operator_gave_are_ours() -> None:
    assert origin_of("archive.example.org", KNOWN) == "https://archive.example.org"
    for host in ("127.0.0.1:5484", "localhost:5484", "192.0.2.7"):
        assert origin_of(host, KNOWN) == f"http://{host}"


def test_an_archived_page_reads_the_archive_and_nothing_else() -> None:
    """Its origin is `null`, as it runs in a sandbox."""
    assert refusal(asked("/web/2026/http://example.org/", origin="null"), is_known_host=True) is None
    for target in ("/api/v1/status", "/status", "/", "/save/http://example.org/"):
        answer = refusal(asked(target, origin="null"), is_known_host=True)
        assert answer is not None
        assert answer.status == 403


def test_an_archived_page_installs_no_service_worker() -> None:
    """It would stand between readers and the whole portal."""
    registering = {"service-worker": "script"}
    for target in ("/web/2026/http://example.org/sw.js", "/web/sw.js", "/"):
        answer = refusal(asked(target, **registering), is_known_host=True)
        assert answer is not None
        assert answer.status == 403
