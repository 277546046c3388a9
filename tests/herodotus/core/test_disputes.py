"""When do captures of one page and day contradict each other?"""

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from herodotus.core.captures import CaptureId
from herodotus.core.disputes import disputed
from herodotus.portal.histories import history_page
from herodotus.store.performer import history_as_json
from herodotus.store.reader import Version

DAY_S = 86_400


class Said(NamedTuple):
    id: CaptureId
    voucher: str


def said(time_s: int, content: bytes, voucher: str, key: bytes = b"k" * 20) -> Said:
    return Said(CaptureId(key=key, time_s=time_s, digest=content * 32), voucher)


def test_other_contents_of_one_day_by_other_peers_are_disputed() -> None:
    one, other = said(10, b"1", "aa"), said(20, b"2", "bb")
    assert disputed([one, other]) == {one.id, other.id}
    assert disputed([one, said(20, b"1", "bb")]) == frozenset()  # the same content
    assert disputed([one, said(20, b"2", "aa")]) == frozenset()  # a page that changed
    assert disputed([one, said(DAY_S + 10, b"2", "bb")]) == frozenset()  # another day
    assert disputed([one, said(20, b"2", "bb", key=b"o" * 20)]) == frozenset()  # another page


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.sampled_from(["", "aa", "bb", "cc"]))))
def test_they_are_those_that_differ_from_another_in_both(facts: list[tuple[int, int, str]]) -> None:
    day = [said(10 * day, bytes([content]), voucher) for day, content, voucher in facts]
    expected = {
        one.id
        for one in day
        if any(one.id.digest != other.id.digest and one.voucher != other.voucher for other in day)
    }
    assert disputed(day) == expected


def version(time_s: int, content: bytes, voucher: str) -> Version:
    return Version(
        id=said(time_s, content, voucher).id,
        url="http://example.org/",
        status=200,
        mime="text/html",
        size=10,
        is_revisit=False,
        visits=0,
        last_seen_s=time_s,
        sha1="",
        stored_bytes=10,
        voucher=voucher,
    )


def test_histories_say_which_versions_are_disputed() -> None:
    versions = [version(10, b"1", "aa"), version(20, b"2", "bb"), version(3 * DAY_S, b"3", "bb")]
    assert [one["disputed"] for one in history_as_json(versions)] == [True, True, False]
    assert history_page("http://example.org/", versions).count(">disputed<") == 2
