"""Does the comparison of real sites with their archived pages notice what it is there for?"""

import urllib.request
from collections import Counter
from pathlib import Path
from urllib.error import HTTPError

import pytest

from scripts.realsites.command import Page, Result, Seen, compared, original, summed, table
from scripts.realsites.live import Host, live_web
from scripts.realsites.packages import MissingError, copied
from scripts.realsites.sites import SHORT, Site, listed
from scripts.realsites.watching import Load


def load(*words: str, **statuses: int) -> Load:
    return Load(words=Counter(words), statuses=statuses)


def page(live: Seen, *, captured: int = 9, **ways: Seen) -> Page:
    return Page(
        path="", needed=10, captured=captured, wget=5, missing=["http://a.example/x"], live=live, ways=ways
    )


GOOD = Seen(pixels=0.01, words=True)


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        (Seen(pixels=0.011, words=True), "1.1% of pixels"),
        (compared(load("one", "two"), load("one"), 0.0, [], []), "words: two"),
        (compared(load("one"), load("one", "one"), 0.0, [], []), "words: one"),
        (compared(load(), load(), 0.0, ["http://a.example/x"], []), "1 failed, such as http://a.example/x"),
        (
            compared(load(), load(), 0.0, [], ["GET http://a.example/"]),
            "1 leaks, such as GET http://a.example/",
        ),
        (Seen(pixels=0.0, words=True, problem="shown by no name"), "shown by no name"),
    ],
)
def test_a_page_that_differs_in_one_thing_is_not_right(seen: Seen, why: str) -> None:
    assert not seen.is_right
    assert seen.why == why


def test_a_page_with_the_same_words_and_a_hundredth_of_the_pixels_apart_is_right() -> None:
    assert GOOD.is_right
    assert compared(load("a", "b"), load("b", "a"), 0.0, [], []).is_right


def test_addresses_of_each_archive_lead_back_to_the_original() -> None:
    url = "http://cdn-x.example:8080/a/b.js?c=1"
    assert original("http://20260101000000-h8080-cdn--x-example.localhost:5484/a/b.js?c=1") == url
    assert original(f"http://127.0.0.2:5484/web/20260101000000js_/{url}") == url
    assert original(f"http://127.0.0.1:9000/swagger/20260101000000mp_/{url}") == url
    assert original("http://127.0.0.2:5484/web/_/guard.js") is None
    assert original("http://20260101000000-x.localhost:5484/a") is None


def test_sums_count_documents_and_applications_apart_and_leave_out_what_is_not_steady() -> None:
    bad = Seen(pixels=0.5, words=True)
    results = [
        Result(site="a", is_application=False, pages=[page(GOOD, names=GOOD, box=bad)]),
        Result(
            site="b",
            is_application=False,
            pages=[page(GOOD, names=bad, box=bad), page(bad, names=bad, box=bad)],
        ),
        Result(site="c", is_application=True, pages=[page(GOOD, captured=10, names=GOOD)]),
        Result(site="d", is_application=True, problem="npm is not installed"),
    ]
    sums = summed(results)
    assert sums["documents"] == {
        "captured": "27 of 30 (90.0%)", "wget": "15 of 30 (50.0%)", "names": "1 of 2 (50.0%)", "box": "0 of 2 (0.0%)",
        "names, of pages wholly captured": "none", "unsteady": "1", "leaks": "0",
    }  # fmt: skip
    assert sums["applications"]["captured"] == "10 of 10 (100.0%)"
    assert "npm is not installed" in table(results[3])
    assert "http://a.example/x" in table(results[0])
    assert "50.0% of pixels" in table(results[0])


def test_the_live_web_is_the_folder_and_notes_who_asked(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "index.html").write_text("<script src=//CDN/x.js>")
    (tmp_path.parent / "outside.txt").write_text("secret")
    with live_web({"a.example": Host(folder=tmp_path, cdn="cdn.example")}) as web:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": f"http://{web.proxy}"}))
        url = web.address("a.example", "sub")
        with opener.open(url) as answer:
            assert answer.url == f"{url}/"
            assert answer.headers["Content-Type"] == "text/html"
            body = answer.read()
        assert body == f"<script src=//cdn.example:{web.port}/x.js>".encode()
        assert web.body(f"{url}/") == body
        for path in ("none.js", "../outside.txt", "%2e%2e/outside.txt"):
            with pytest.raises(HTTPError, match="404"):
                opener.open(web.address("a.example", path))
        assert web.asked[:2] == [f"GET {url}", f"GET {url}/"]


def test_links_of_a_package_lead_to_what_another_package_has_and_not_out(tmp_path: Path) -> None:
    root, site = tmp_path / "root", tmp_path / "root/usr/share/doc/x"
    for file in (root / "usr/share/javascript/jquery/jquery.js", site / "index.html", tmp_path / "secret"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(file.name)
    (site / "jquery.js").symlink_to("/usr/share/javascript/jquery/jquery.js")
    (site / "lib").symlink_to("../../javascript")
    (site / "out").symlink_to("../../../../../secret")
    (site / "gone").symlink_to("nowhere")
    copied(root, site, tmp_path / "made")
    made = sorted(
        str(one.relative_to(tmp_path / "made")) for one in (tmp_path / "made").rglob("*") if one.is_file()
    )
    assert made == ["index.html", "jquery.js", "lib/jquery/jquery.js"]


def test_a_site_without_one_of_its_pages_is_told_missing(tmp_path: Path) -> None:
    site = Site(name="x", is_application=False, pages=["index.html"], overlays=["petstore"])
    with pytest.raises(MissingError, match=r"x has no index\.html"):
        site.folder(tmp_path)


def test_the_list_has_at_least_25_sites_of_both_kinds_and_the_short_form_is_of_them() -> None:
    sites = {one.name: one for one in listed()}
    assert len(sites) == len(listed()) >= 25
    assert {sites[name].is_application for name in SHORT} == {True, False}
    assert sum(one.is_application for one in sites.values()) >= 10
