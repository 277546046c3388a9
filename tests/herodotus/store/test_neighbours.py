"""What lies around a moment, and around an address?"""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herodotus.core.bundles import Visit
from herodotus.core.index_rows import ADDRESS, address_key, after, url_of_address
from herodotus.store.catalogue import ArchiveCatalogue
from herodotus.store.faces import Around
from herodotus.store.reader import addresses
from tests.herodotus.store.making import DAY_S, NOW_S, note_visits, open_on, page, store
from tests.herodotus.store.memory_store import MemoryIndex

URL = "http://example.org/"


def test_captures_are_found_on_both_sides_of_a_moment(tmp_path: Path) -> None:
    archive = open_on(tmp_path)
    store(archive, *(page(URL, NOW_S + n * DAY_S, b"day %d" % n) for n in range(4)))
    catalogue = ArchiveCatalogue(archive)
    first, last = NOW_S, NOW_S + 3 * DAY_S
    assert catalogue.around(URL, NOW_S + DAY_S + 5) == Around(
        first_s=first, last_s=last, before_s=NOW_S + DAY_S, after_s=NOW_S + 2 * DAY_S
    )
    assert catalogue.around(URL, 0) == Around(first_s=first, last_s=last, before_s=None, after_s=first)
    assert catalogue.around(URL, 2**32 - 1) == Around(first_s=first, last_s=last, before_s=last, after_s=None)
    exact = catalogue.around(URL, NOW_S + DAY_S)
    assert exact is not None
    assert exact.before_s == NOW_S + DAY_S
    assert catalogue.around("http://example.org/other", NOW_S) is None
    assert catalogue.before_s(URL, NOW_S + DAY_S) == NOW_S
    assert catalogue.before_s(URL, NOW_S + DAY_S + 1) == NOW_S + DAY_S
    assert catalogue.before_s(URL, NOW_S) is None
    archive.close()


def test_the_last_visit_is_that_of_the_version(tmp_path: Path) -> None:
    archive = open_on(tmp_path)
    store(archive, page(URL, NOW_S, b"one"), page(URL, NOW_S + DAY_S, b"two"))
    note_visits(archive, Visit(url=URL, time_s=NOW_S + 3 * DAY_S, status=304))
    catalogue = ArchiveCatalogue(archive)
    assert catalogue.last_visit_s(URL, NOW_S) is None
    assert catalogue.last_visit_s(URL, NOW_S + DAY_S) == NOW_S + 3 * DAY_S
    archive.close()


def test_addresses_of_a_site_are_neighbours_and_come_back_after_a_rebuild(tmp_path: Path) -> None:
    urls = [
        "http://example.org/", "https://example.org/", "http://example.org/a/b?c=1", "http://www.example.org/",
        "http://example.org:8080/x", "http://examples.org/", "http://[::1]:81/q", "http://192.0.2.7/", "urn:x:y",
    ]  # fmt: skip
    archive = open_on(tmp_path)
    store(archive, *(page(url, NOW_S, url.encode()) for url in urls))
    start = address_key("http://example.org/")[:-1]
    assert list(addresses(archive, start, after(start))) == [
        "http://example.org/", "https://example.org/", "http://example.org/a/b?c=1",
    ]  # fmt: skip
    assert sorted(addresses(archive, ADDRESS, after(ADDRESS))) == sorted(urls)
    archive.close()
    again = open_on(tmp_path, MemoryIndex())
    assert sorted(addresses(again, ADDRESS, after(ADDRESS))) == sorted(urls)
    again.close()


@pytest.mark.parametrize(
    "odd", ["", "~", "http:/x", "http://", "http://a", "http://a,b/", "http://u@h/", "http://h/\0s"]
)
def test_an_odd_address_comes_back_as_it_was(odd: str) -> None:
    assert url_of_address(address_key(odd)) == odd


@given(st.text() | st.from_regex(r"https?://[a-z.:\[\]0-9]{1,20}/.{0,20}", fullmatch=True))
def test_every_address_comes_back_as_it_was(url: str) -> None:
    url = url.encode("utf-8", "replace").decode()
    assert url_of_address(address_key(url)) == url
