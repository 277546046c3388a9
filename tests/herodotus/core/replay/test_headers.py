"""Does an archived head do nothing but describe the page?"""

import pytest

from herodotus.core.replay import Flag, ReplayContext, replay_headers
from herodotus.core.replay.headers import FIELDS_MAX, Headers


def replayed(status: int, fields: Headers, flag: Flag = Flag.PAGE) -> tuple[int, Headers]:
    context = ReplayContext(page_url="http://a.example/x/y", timestamp="20260102030405", flag=flag)
    return replay_headers(status, fields, context)


def acting(headers: Headers) -> Headers:
    return [pair for pair in headers if not pair[0].startswith("X-Archive-Orig-")]


def test_only_what_describes_the_page_acts_and_all_is_told() -> None:
    fields = [
        ("Content-Type", "text/html"), ("Set-Cookie", "a=b"), ("Strict-Transport-Security", "max-age=1"),
        ("Content-Security-Policy", "default-src *"), ("Clear-Site-Data", '"*"'), ("Service-Worker-Allowed", "/"),
        ("Transfer-Encoding", "chunked"), ("Connection", "close"), ("Alt-Svc", "h3"), ("X-Frame-Options", "DENY"),
        ("Access-Control-Allow-Origin", "https://x"), ("Anything-Invented-Later", "1"),
    ]  # fmt: skip
    status, headers = replayed(200, fields)
    assert status == 200
    assert acting(headers) == [("Content-Type", "text/html")]
    told = dict(headers)
    assert told["X-Archive-Orig-Set-Cookie"] == "a=b"
    assert told["X-Archive-Orig-Status"] == "200"
    assert len(headers) == len(fields) + 2


def test_a_redirect_leads_to_the_same_date_and_flag() -> None:
    status, headers = replayed(301, [("Location", "../z?a=b")], Flag.IMAGE)
    assert status == 301
    assert acting(headers) == [("Location", "/web/20260102030405im_/http://a.example/z?a=b")]


def test_a_redirect_to_itself_does_not_go_round_in_circles() -> None:
    status, headers = replayed(302, [("Location", "y#top"), ("Set-Cookie", "a=b")])
    assert (status, acting(headers)) == (200, [])
    assert ("X-Archive-Orig-Location", "y#top") in headers


def test_a_location_cannot_smuggle_a_line() -> None:
    _, headers = replayed(302, [("Location", "/z\r\nSet-Cookie: a=b\0 ü")])
    [(_, location)] = acting(headers)
    assert location == "/web/20260102030405/http://a.example/z%20%20Set-Cookie:%20a=b%20%20%C3%BC"
    assert not any("\n" in value or "\r" in value for _, value in headers)


@pytest.mark.parametrize(
    ("status", "sent"),
    [(304, 200), (204, 200), (206, 200), (407, 200), (404, 404), (503, 503), (301, 200), (99, 200)],
)
def test_a_status_that_would_show_nothing_is_told_only(status: int, sent: int) -> None:
    assert replayed(status, [])[0] == sent


@pytest.mark.parametrize("flag", [Flag.RAW, Flag.RAW_MOVED])
def test_a_redirect_as_it_came_leads_into_the_archive(flag: Flag) -> None:
    status, fields = replayed(302, [("Location", "http://b.example/")], flag)
    assert (status, acting(fields)) == (302, [("Location", f"/web/20260102030405{flag}/http://b.example/")])
    assert ("X-Archive-Orig-Location", "http://b.example/") in fields


@pytest.mark.parametrize(
    ("value", "refresh"),
    [
        ("5; url=/z", "5;url=/web/20260102030405/http://a.example/z"),
        ("0;URL='z'", "1;url=/web/20260102030405/http://a.example/x/z"),
        ("0", "1"),
        ("7;url='z' and more", "7;url=/web/20260102030405/http://a.example/x/z"),
        ("3.5, http://b.example/", "3;url=/web/20260102030405/http://b.example/"),
        ("0 ;url=/z", "1;url=/web/20260102030405/http://a.example/z"),
        ("0 .5;url=/z", "1;url=/web/20260102030405/http://a.example/x/.5;url=/z"),
        ("\t0 http://b.example/", "1;url=/web/20260102030405/http://b.example/"),
        (".;url = http://b.example/", "1;url=/web/20260102030405/http://b.example/"),
        ('.5 , "http://b.example/', "1;url=/web/20260102030405/http://b.example/"),
        ("1.2.3;uRl\t=\t'http://b.example/'x", "1;url=/web/20260102030405/http://b.example/"),
        ("0;url", "1;url=/web/20260102030405/http://a.example/x/url"),
        ("0;u=/z", "1;url=/web/20260102030405/http://a.example/x/u=/z"),
        ("0;url=''", "1"),
        ("0;#top", "1;url=#top"),
        ("0;/web/20260102030405/http://c.example/", "1;url=/web/20260102030405/http://c.example/"),
    ],
)
def test_a_refresh_stays_in_the_archive_and_leaves_time(value: str, refresh: str) -> None:
    assert acting(replayed(200, [("Refresh", value)])[1]) == [("Refresh", refresh)]


@pytest.mark.parametrize(
    "value",
    ["", ";url=http://b.example/", "-1;url=http://b.example/", "1e3;url=http://b.example/", "x", "0x0;url=/z",
     "+0;url=http://b.example/", "0;url=javascript:alert(1)", "0;url=data:text/html,x", "0;url=ftp://b.example/"],
)  # fmt: skip
def test_what_is_no_refresh_of_the_standard_and_what_leaves_the_web_is_none(value: str) -> None:
    """Some browsers take a number that the standard does not know."""
    assert acting(replayed(200, [("Refresh", value)])[1]) == []


@pytest.mark.parametrize("name", ["Content-type", "content-type", "CONTENT-TYPE", "cOnTeNt-TyPe"])
def test_the_type_counts_however_its_name_is_written(name: str) -> None:
    _, headers = replayed(200, [(name, "Text/HTML;charset=utf-8"), (name.swapcase(), "image/png, */*")])
    assert acting(headers) == [("Content-Type", "image/png")]
    assert (f"X-Archive-Orig-{name}", "Text/HTML;charset=utf-8") in headers


def test_a_field_of_two_spellings_is_sent_once() -> None:
    fields = [("content-language", "de"), ("Content-LANGUAGE", "fr"), ("Content-disposition", "inline")]
    assert acting(replayed(200, fields)[1]) == [
        ("Content-Language", "fr"), ("Content-Disposition", "inline"),
    ]  # fmt: skip


def test_links_keep_what_the_page_loads_and_no_relation_of_the_archive() -> None:
    value = '</s.css>; rel=preload; as=style; integrity="sha256-x", <http://t/>; rel=timegate, <f>;rel=preload;as=font'
    assert acting(replayed(200, [("Link", value)])[1]) == [
        ("Link", "</web/20260102030405cs_/http://a.example/s.css>; rel=preload; as=style"),
        ("Link", "</web/20260102030405oe_/http://a.example/x/f>;rel=preload;as=font"),
    ]


def test_a_head_is_bounded() -> None:
    _, headers = replayed(200, [(f"X-{number}", "a" * 100) for number in range(1_000)])
    assert len(headers) <= FIELDS_MAX + 1
    assert replayed(200, [("X", "a" * 10_000)])[1] == [("X-Archive-Orig-Status", "200")]
