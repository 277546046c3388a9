"""Does any address get more than a clear answer, and does any answer depend on what a client calls us?"""

from urllib.parse import quote

import pytest

from herodotus.portal.answer import Request
from tests.herodotus.portal.library import HOME, HOST, ORIGIN, SITE, Library, response

DOORS = (
    "/web/2026/{}", "/web/2026id_/{}", "/web/20260101000000im_/{}", "/web/*/{}", "/web/*/{}*", "/web/{}",
    "/web/timemap/link/{}",
    "/web/timemap/json/{}", "/web/timemap/cdxj/{}", "/cdx/search/cdx?url={}", "/cdx/search/cdx?matchType=prefix&url={}",
    "/wayback/available?url={}", "/search?url={}", "/save/{}", "/{}",
)  # fmt: skip
ADDRESSES = {
    "javascript": "javascript:alert(1)//https://example.org/",
    "javascript, spaced": "java%0ascript:alert(1)",
    "data": "data:text/html,<script>alert(1)</script>",
    "file": "file:///etc/passwd",
    "ftp": "ftp://example.org/",
    "view-source": "view-source:https://example.org/",
    "about": "about:blank",
    "nested scheme": "https://https://example.org/",
    "ourselves": f"{ORIGIN}/web/2026/{HOME}",
    "nothing": "",
    "slashes": "////",
    "scheme alone": "https://",
    "no host": "https:///path",
    "NUL": "https://example.org/\0x",
    "NUL, escaped": "https://example.org/%00x",
    "NUL in the host": "https://exam\0ple.org/",
    "line ends": "https://example.org/\r\nSet-Cookie: a=1\r\n\r\n<script>",
    "line ends, escaped": "https://example.org/%0d%0aSet-Cookie:%20a=1%0d%0a%0d%0a<script>alert(1)</script>",
    "line ends, in UTF-8": "https://example.org/嘊嘍Set-Cookie:a=1",
    "100 kB": "https://example.org/" + "a" * 100_000,
    "23 kB": "https://example.org/" + "%C3%A4" * 3_800,
    "100 kB of dots": "https://example.org/" + "../" * 33_000,
    "many labels": "https://" + "a." * 5_000 + "org/",
    "a label too long": "https://" + "a" * 300 + ".org/",
    "dots": "https://example.org/../../../etc/passwd",
    "dots, escaped": "https://example.org/%2e%2e/%2e%2e/etc/passwd",
    "dots, twice escaped": "https://example.org/%252e%252e%252fetc",
    "dots before": "../../api/v1/status",
    "backslashes": "https:\\\\example.org\\..\\x",
    "overlong": "https://example.org/%c0%ae%c0%ae/%c1%9c",
    "not UTF-8": "https://example.org/%ff%fe",
    "half a surrogate": "https://example.org/\ud800",
    "raw bytes": "https://example.org/\udcff\udcfe",
    "%u": "https://example.org/%u0041%uD800",
    "bad escapes": "https://example.org/%zz%",
    "turned around": "https://example.org/\u202egpj.exe",
    "user and password": "https://user:pass@example.org/",
    "port": "https://example.org:99999/",
    "IPv6": "http://[::1]:80/",
    "broken IPv6": "http://[::1/",
    "numbers as host": "http://0x7f000001/",
    "markup": 'https://example.org/"><script>alert(1)</script>',
    "markup in the host": "https://<script>alert(1)</script>/",
    "quotes": "https://example.org/'\"`",
    "header": "https://example.org/>;rel=original",
    "stars": "*" * 50,
    "everything": "https://*/*",
    "IDN": "https://xn--/",
    "spaces": "   https://example.org/   ",
}


@pytest.fixture(scope="module")
def library() -> Library:
    return Library(response(HOME, "20260101", b"<p>page"), response(f"{SITE}/a b", "20260101", b"x"))


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", ADDRESSES)
def test_a_hostile_address_gets_a_clear_answer(library: Library, name: str, door: str) -> None:
    address = ADDRESSES[name]
    written = quote(address, safe="", errors="surrogatepass") if "?" in door else address
    answer = library.get(door.format(written))
    assert answer.status < 500
    sent = [*answer.headers.items(), *answer.repeated]
    for field, value in sent:
        assert value.isprintable(), (field, value[:200])
        assert "Set-Cookie" not in field
    if 300 <= answer.status < 400:
        location = answer.headers["Location"]
        assert location.startswith(("/web/", f"{ORIGIN}/web/")) or location == "/", location[:200]
        assert location.isascii()
    if answer.content_type.startswith("text/html"):
        assert b"<script>alert" not in answer.body
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"] or (
            answer.headers["Content-Security-Policy"].startswith("sandbox")
        )
    if (
        name in ("javascript", "data", "file", "ftp", "view-source", "about", "100 kB")
        and "/web/2026/" in door
    ):
        assert answer.status in (400, 414)


@pytest.mark.parametrize("name", ["line ends", "NUL", "turned around", "markup"])
def test_what_a_page_says_of_an_address_cannot_mislead(library: Library, name: str) -> None:
    body = library.get(f"/web/*/{ADDRESSES[name]}").body.decode()
    assert not {"\0", "\u202e"} & set(body)
    assert "<script>alert" not in body


CLAIMS = {
    "x-forwarded-host": "evil.example", "x-host": "evil.example", "forwarded": "host=evil.example;proto=https",
    "x-forwarded-proto": "https", "x-forwarded-port": "1", "x-original-url": "/status", "x-rewrite-url": "/status",
    "x-forwarded-prefix": "/evil", "x-forwarded-server": "evil.example", "x-http-method-override": "POST",
    "via": "1.1 evil.example", "x-real-ip": "127.0.0.1", "x-forwarded-for": "127.0.0.1",
}  # fmt: skip
ANSWERS = ("/", f"/web/*/{HOME}", f"/web/2026/{HOME}", f"/web/20260101000000/{HOME}", f"/web/{HOME}",
           f"/web/timemap/link/{HOME}", f"/cdx/search/cdx?url={HOME}", f"/wayback/available?url={HOME}")  # fmt: skip


@pytest.mark.parametrize("target", ANSWERS)
def test_no_answer_depends_on_what_a_proxy_or_a_poisoner_claims(library: Library, target: str) -> None:
    plain = library.get(target)
    for name, value in CLAIMS.items():
        claimed = library.get(target, {name: value})
        assert (claimed.status, claimed.body, claimed.headers) == (plain.status, plain.body, plain.headers), (
            name
        )


@pytest.mark.parametrize("target", ANSWERS)
@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1:5484@evil.example", "127.0.0.1.evil.example", "127.0.0.1, evil.example",
     "evil.example#127.0.0.1",
     "127.0.0.1:5484/evil", "localhost.evil.example", "127.0.0.1:5484\tevil", "\"><script>", "127.0.0.1:99999999"],
)  # fmt: skip
def test_a_host_that_is_not_ours_gets_nothing_that_a_cache_would_keep(
    library: Library, target: str, host: str
) -> None:
    refused = library.get(target, {"host": host})
    assert refused.status == 421
    assert refused.headers.get("Cache-Control") == "no-store"
    assert "evil" not in refused.body.decode() + str(refused.headers)
    assert not refused.is_of_archive_alone


def test_answers_to_two_of_our_names_differ_only_by_the_name(library: Library) -> None:
    """Whoever caches them does so by address, of which the name is a part; none names another than it was asked by."""
    for target in ANSWERS:
        one, other = library.get(target), library.get(target, {"host": "localhost:5484"})
        assert HOST not in str(other.headers) + other.body.decode("latin-1").replace(f"http://{HOST}/</", "")
        assert str(one.headers).replace(HOST, "localhost:5484").count("localhost") == str(
            other.headers
        ).count("localhost")


def test_a_target_that_is_a_whole_address_is_no_door_to_elsewhere(library: Library) -> None:
    for target in (
        "http://evil.example/web/2026/",
        "//evil.example/web/",
        "https://127.0.0.1/../web/",
        "*",
        "evil.example:443",
    ):
        answer = library.get(target)
        assert answer.status in (400, 404)
        assert "Location" not in answer.headers


def test_requests_hold_what_was_sent() -> None:
    assert Request(target="/web/2026/https://a.example/?x=1").path == "/web/2026/https://a.example/"
