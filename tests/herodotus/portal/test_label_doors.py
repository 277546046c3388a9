"""What is had at the name of an archived page, by whom, and what of the portal never is?"""

import pytest

from herodotus.core.errors import SettingError
from herodotus.portal.answer import Answer
from herodotus.portal.archive_pages import ArchivePages
from herodotus.portal.handlers import Handlers, wildcard_names
from tests.herodotus.portal.library import HOME, SITE, Library, response

DATE = "20260105000000"
AT = f"{DATE}-s-example-org.localhost:5484"
OTHER = f"http://{DATE}-s-other-example.localhost:5484"
PAGE = b"<html><head></head><a href='https://b.example/x'>x</a></html>"


@pytest.fixture
def library() -> Library:
    return Library(
        response(HOME, "20260101", PAGE, "text/html", 200, "Set-Cookie: a=1", "X-Frame-Options: DENY"),
        response(HOME, "20260201", b"later"),
        response(f"{SITE}/a?q=1&r", "20260101", b"body{}", "text/css"),
        response(f"{SITE}/_hd/client.js", "20260101", b"its own", "text/javascript"),
        response(f"{SITE}/api/v1/status", "20260101", b"its interface", "application/json"),
        response(f"{SITE}/old", "20260101", b"", "text/html", 301, "Location: https://b.example/new"),
    )


def at(library: Library, target: str, method: str = "GET", **headers: str) -> Answer:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return library.get(target, {"host": AT, **given}, method)


FRAME = {"sec_fetch_dest": "iframe", "sec_fetch_site": "cross-site", "referer": "http://localhost:5484/"}


def test_a_page_is_shown_at_its_own_address_without_a_redirect_to_another_date(library: Library) -> None:
    shown = at(library, "/", **FRAME)
    assert shown.status == 200
    assert shown.headers["Memento-Datetime"] == "Thu, 01 Jan 2026 00:00:00 GMT"
    client = f"http://{AT}/_hd/client.js"
    there = f"http://{DATE}-s-b-example.localhost:5484/x"
    assert shown.body.decode() == (
        f"<html><head><script src=\"{client}\"></script></head><a href='{there}'>x</a></html>"
    )
    assert shown.headers["Cache-Control"] == "private, max-age=3600"
    assert {"Set-Cookie", "X-Frame-Options", "Link", "Content-Location"} & set(shown.headers) == set()


def test_what_a_label_shows_is_kept_and_what_it_refuses_or_misses_is_not(library: Library) -> None:
    assert at(library, "/", **FRAME).is_of_archive_alone
    assert not at(library, "/missing", **FRAME).is_of_archive_alone
    assert not at(library, "/_hd/client.js", **FRAME).is_of_archive_alone
    foreign = {**FRAME, "referer": "https://live.example/"}
    assert not at(library, "/", **foreign).is_of_archive_alone


def test_every_answer_says_the_wall(library: Library) -> None:
    for target in ("/", "/a?q=1&r", "/missing"):
        headers = at(library, target, **FRAME).headers
        labels = "http://*.localhost:5484"
        assert headers["Content-Security-Policy"] == (
            f"default-src {labels} 'self' data: blob: 'unsafe-inline' 'unsafe-eval'; base-uri {labels} 'self'; "
            f"object-src 'none'; form-action {labels}; "
            f"frame-ancestors http://localhost:5484 http://127.0.0.1:5484 {labels}"
        )
        assert headers["Connection-Allowlist"] == f'(response-origin "{labels}/*"); redirects=allow'
        assert headers["Origin-Agent-Cluster"] == "?1"
        assert "local-network-access=()" in headers["Permissions-Policy"]


def test_path_and_query_are_the_originals_own(library: Library) -> None:
    assert at(library, "/a?q=1&r", sec_fetch_dest="style").body == b"body{}"
    assert at(library, "/api/v1/status").body == b"its interface"
    assert at(library, "/old").headers["Location"] == f"http://{DATE}-s-b-example.localhost:5484/new"
    assert at(library, "/_hd/client.js").body != b"its own"


@pytest.mark.parametrize(
    "target",
    ["/status", "/metrics", "/healthz", "/search?url=a", "/save/https://a.example/", "/cdx/search/cdx?url=a",
     "/wayback/available?url=a", f"/web/*/{HOME}", f"/web/{HOME}", f"/web/timemap/link/{HOME}", "/api/v1/peers",
     f"/web/{DATE}id_/{HOME}", "/web/_/client.js", "//status", "/./status", "/%2e/status", "/x/../status"],
)  # fmt: skip
def test_no_path_of_a_label_leads_to_the_portal(library: Library, target: str) -> None:
    for method in ("GET", "HEAD", "POST", "PUT", "DELETE"):
        assert at(library, target, method).status == 404
    assert at(library, target).body == at(library, "/nothing").body.replace(
        b"/nothing", target.replace("&", "&amp;").encode()
    )


@pytest.mark.parametrize("target", ["http://localhost:5484/api/v1/status", "localhost:5484", "*", "x"])
def test_no_whole_address_of_a_request_leads_there(library: Library, target: str) -> None:
    assert at(library, target).status == 400


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"sec_fetch_site": "cross-site"}, 403),
        ({"sec_fetch_site": "cross-site", "origin": "https://live.example"}, 403),
        ({"sec_fetch_site": "cross-site", "referer": "https://live.example/x"}, 403),
        ({"sec_fetch_site": "cross-site", "origin": "null"}, 403),
        ({"sec_fetch_site": "same-site", "origin": "http://evil.localhost:5484"}, 403),
        ({"sec_fetch_site": "cross-site", "origin": "http://localhost:5484.evil.example"}, 403),
        ({"sec_fetch_site": "cross-site", "origin": "https://live.example", "referer": OTHER}, 403),
        ({"sec_fetch_site": "cross-site", "origin": "http://localhost:9999"}, 403),
        ({"sec_fetch_site": "cross-site", "origin": OTHER.replace("5484", "5485")}, 403),
        ({"origin": "https://live.example"}, 403),
        ({"sec_fetch_site": "cross-site", "origin": OTHER}, 200),
        ({"sec_fetch_site": "cross-site", "referer": f"{OTHER}/x?y"}, 200),
        ({"sec_fetch_site": "cross-site", "origin": "null", "referer": f"{OTHER}/x?y"}, 200),
        ({"sec_fetch_site": "cross-site", "referer": "http://127.0.0.1:5484/"}, 200),
        ({"sec_fetch_site": "same-origin"}, 200),
        ({}, 200),
    ],
)
def test_a_live_page_learns_nothing_of_what_is_held(
    library: Library, headers: dict[str, str], status: int
) -> None:
    for target, dest in (("/", "iframe"), ("/", "empty"), ("/a?q=1&r", "style")):
        assert at(library, target, **headers, sec_fetch_dest=dest).status == status
    if status == 403:
        held, missing = at(library, "/", **headers), at(library, "/missing", **headers)
        assert (held.body, held.headers) == (missing.body, missing.headers)


def test_a_window_is_led_to_our_page_around_it(library: Library) -> None:
    window = {"sec_fetch_dest": "document", "sec_fetch_site": "none"}
    assert at(library, "/a?q=1", **window).headers["Location"] == (
        f"http://localhost:5484/web/{DATE}/{SITE}/a?q=1"
    )
    assert at(library, "/", **{**window, "sec_fetch_site": "cross-site"}).status == 403


def test_labels_may_read_each_other_and_nobody_else_may(library: Library) -> None:
    def allowed(**headers: str) -> tuple[str | None, str | None]:
        got = at(library, "/", **headers).headers
        return got.get("Access-Control-Allow-Origin"), got.get("Access-Control-Allow-Credentials")

    assert allowed(origin=OTHER) == (OTHER, "true")
    assert allowed(origin="null", referer=f"{OTHER}/") == ("null", "true")
    assert allowed(origin="null", referer="http://localhost:5484/") == (None, None)
    assert allowed() == (None, None)
    asked = {
        "origin": OTHER,
        "access_control_request_method": "PUT",
        "access_control_request_headers": "x-a, b",
    }
    leave = at(library, "/any", "OPTIONS", **asked)
    assert leave.status == 204
    assert leave.headers["Access-Control-Allow-Headers"] == "x-a, b"
    odd = at(library, "/any", "OPTIONS", **{**asked, "access_control_request_headers": "a\r\nb"})
    assert "Access-Control-Allow-Headers" not in odd.headers


def test_what_is_missing_is_missing_as_live(library: Library) -> None:
    script = at(library, "/m", sec_fetch_dest="script", sec_fetch_site="cross-site", origin=OTHER)
    assert (script.status, script.body, script.headers["Access-Control-Allow-Origin"]) == (404, b"", OTHER)
    page = at(library, "/<m>", **FRAME)
    assert (page.status, page.content_type) == (404, "text/html; charset=utf-8")
    assert page.body.endswith(b"<p>Not archived: https://example.org/&lt;m&gt;</p>")
    assert at(library, "/m", "POST", **FRAME).status == 404


@pytest.mark.parametrize(
    "label", ["www", "x", f"{DATE}-s443-example-org", f"{DATE}-s-a---b", f"99{DATE[2:]}-h-a"]
)
def test_another_word_below_localhost_means_nothing(library: Library, label: str) -> None:
    assert library.get("/", {"host": f"{label}.localhost:5484"}).status == 404


@pytest.mark.parametrize(
    "host",
    [f"{DATE}-s-example-org.localhost.evil.example", f"{DATE}-s-example-org.evil.example", "localhost.x"],
)
def test_a_label_below_another_name_is_not_ours(library: Library, host: str) -> None:
    assert library.get("/", {"host": host}).status == 421


def test_no_service_worker_is_registered_at_a_label(library: Library) -> None:
    assert at(library, "/a?q=1&r", service_worker="script").status == 403


@pytest.mark.parametrize(
    "target", ["/api/v1/status", "/status", f"/web/{DATE}/{HOME}", "/save/https://a.example/"]
)
def test_a_label_reads_nothing_of_the_portal(library: Library, target: str) -> None:
    assert library.get(target, {"origin": OTHER}).status == 403


@pytest.mark.parametrize(
    ("host", "source"),
    [
        ("localhost:5484", "http://20260101000000-s-example-org.localhost:5484/"),
        ("127.0.0.1:5484", "http://20260101000000-s-example-org.localhost:5484/"),
        ("LOCALHOST", "http://20260101000000-s-example-org.localhost/"),
        ("192.0.2.7:5484", f"/web/20260101000000mp_/{HOME}"),
        ("[::1]:5484", f"/web/20260101000000mp_/{HOME}"),
        ("127.0.0.2:5484", f"/web/20260101000000mp_/{HOME}"),
    ],
)
def test_the_readers_door_decides_the_way(library: Library, host: str, source: str) -> None:
    window = {"host": host, "sec-fetch-dest": "document"}
    page = library.get(f"/web/20260101000000/{HOME}", window).body.decode()
    assert f' src="{source}"' in page
    assert ("allow-same-origin" in page.partition("<script>")[0]) is not source.startswith("/web/")


def test_a_host_that_fits_into_no_label_is_shown_in_the_sandbox() -> None:
    far = f"https://{'a' * 50}.example/"
    library = Library(response(far, "20260101", PAGE))
    page = library.get(f"/web/20260101000000/{far}", {"sec-fetch-dest": "document"}).body.decode()
    assert f' src="/web/20260101000000mp_/{far}"' in page


def test_an_operators_names_are_the_readers_of_the_public_address(library: Library) -> None:
    public = "https://archive.example.net:8443"
    library.handlers = Handlers(
        library.status, ArchivePages(library.shelf), public_url=public, replay_name="*.replay.example"
    )
    window = {"host": "archive.example.net:8443", "sec-fetch-dest": "document"}
    page = library.get(f"/web/20260101000000/{HOME}", window)
    host = "20260101000000-s-example-org.replay.example:8443"
    assert f' src="https://{host}/"' in page.body.decode()
    assert "frame-src https://*.replay.example:8443 " in page.headers["Content-Security-Policy"]
    inside = library.get("/", {"host": host, "sec-fetch-dest": "iframe", "sec-fetch-site": "cross-site",
                               "referer": f"{public}/"})  # fmt: skip
    assert inside.status == 200
    assert f"frame-ancestors {public} " in inside.headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    ("public", "name", "problem"),
    [
        ("", "*.replay.example", "needs http.public_url"),
        ("https://a.replay.example", "*.replay.example", "must not cover"),
        ("https://replay.example", "*.replay.example", "must not cover"),
    ],
)
def test_names_that_would_share_an_origin_with_the_portal_are_refused(
    public: str, name: str, problem: str
) -> None:
    with pytest.raises(SettingError, match=problem):
        wildcard_names(name, public)
