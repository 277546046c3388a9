"""Do the headers say what keeps archived pages in?"""

from dataclasses import replace

import pytest

from herodotus.core.replay import (
    Flag,
    ReplayContext,
    is_worker_registration,
    isolation_headers,
    may_change,
    wants_frame,
)

CONTEXT = ReplayContext(
    page_url="http://a.example/", timestamp="20260102030405", portal_origin="http://127.0.0.1:5484"
)


def policy(context: ReplayContext) -> dict[str, list[str]]:
    parts = isolation_headers(context)["Content-Security-Policy"].split(";")
    return {words[0]: words[1:] for words in map(str.split, parts)}


def test_a_page_may_run_scripts_and_reach_the_archive_only() -> None:
    said = policy(CONTEXT)
    assert said["sandbox"] == ["allow-scripts", "allow-forms", "allow-modals", "allow-pointer-lock"]
    archive = "http://127.0.0.1:5484/web/"
    assert said["default-src"] == [archive, "data:", "blob:", "'unsafe-inline'", "'unsafe-eval'"]
    assert {said[name][0] for name in said if name != "sandbox"} == {archive}


@pytest.mark.parametrize("flag", [Flag.RAW, Flag.RAW_MOVED])
def test_pages_as_they_were_stored_run_no_scripts(flag: Flag) -> None:
    assert policy(replace(CONTEXT, flag=flag))["sandbox"] == ["allow-forms"]
    too_large = isolation_headers(CONTEXT, is_rewritten=False)["Content-Security-Policy"]
    assert too_large.startswith("sandbox allow-forms; ")


def test_parts_of_a_page_may_be_of_other_peers() -> None:
    said = policy(replace(CONTEXT, peer_origins=("http://peer.example:5484",)))
    both = ["http://127.0.0.1:5484/web/", "http://peer.example:5484/web/"]
    assert said["default-src"][:2] == said["connect-src"][:2] == said["form-action"] == both
    with pytest.raises(ValueError, match="not an origin"):
        replace(CONTEXT, peer_origins=("http://peer.example; sandbox",))


def test_without_a_known_origin_the_policy_says_self() -> None:
    assert policy(replace(CONTEXT, portal_origin=None))["default-src"][0] == "'self'"
    archive = "http://replay.example:80/web/"
    assert policy(replace(CONTEXT, archive_prefix=archive))["default-src"][0] == archive


@pytest.mark.parametrize(
    ("headers", "is_allowed"),
    [
        ({}, True), ({"Origin": "http://127.0.0.1:5484"}, True), ({"origin": "null"}, False),
        ({"Origin": "http://evil.example"}, False), ({"Sec-Fetch-Site": "cross-site"}, False),
        ({"Sec-Fetch-Site": "same-origin"}, True),
    ],
)  # fmt: skip
def test_only_the_portals_own_pages_may_change_something(headers: dict[str, str], is_allowed: bool) -> None:
    assert may_change(headers, "http://127.0.0.1:5484") is is_allowed


def test_a_service_worker_is_known_by_its_header() -> None:
    assert is_worker_registration({"service-worker": "script"})
    assert not is_worker_registration({"Accept": "*/*"})


@pytest.mark.parametrize(
    ("headers", "is_wanted"),
    [
        ({"Sec-Fetch-Dest": "document", "Upgrade-Insecure-Requests": "1"}, True),
        ({"Sec-Fetch-Dest": "iframe", "Upgrade-Insecure-Requests": "1"}, False),
        ({"upgrade-insecure-requests": "1"}, True), ({"User-Agent": "curl"}, False),
    ],
)  # fmt: skip
def test_browsers_get_the_frame_and_programs_the_page(headers: dict[str, str], is_wanted: bool) -> None:
    assert wants_frame(headers) is is_wanted
