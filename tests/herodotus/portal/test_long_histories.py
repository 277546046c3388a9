"""Is a long history in rows the one that was given, and does it stay small?"""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herodotus.core.captures import CaptureId
from herodotus.core.disputes import disputed
from herodotus.portal.histories import contents_of
from herodotus.portal.long_histories import LongHistory
from herodotus.store import Version

URL = "http://example.org/"
U32 = st.integers(0, 2**32 - 1)
U64 = st.integers(0, 2**64 - 1)
VERSIONS = st.builds(
    Version,
    id=st.builds(
        CaptureId,
        key=st.binary(min_size=20, max_size=20),
        time_s=U32,
        digest=st.binary(min_size=32, max_size=32),
    ),
    url=st.sampled_from([URL, "https://example.org/"]),
    status=st.integers(0, 999),
    mime=st.text(max_size=5),
    size=U64,
    is_revisit=st.booleans(),
    visits=st.integers(0, 2**33),
    last_seen_s=st.integers(0, 2**33),
    sha1=st.one_of(
        st.just(""),
        st.text(max_size=40),
        st.text(alphabet="ABCDEFGHIJ234567", min_size=32, max_size=32).map("sha1:{}".format),
        st.text(min_size=31, max_size=33).map("sha1:{}".format),
    ),
    stored_bytes=U64,
    voucher=st.sampled_from(["", "aa", "bb"]),
    door=st.text(max_size=3),
    steward=st.text(max_size=3),
)


@given(st.lists(VERSIONS, max_size=8))
def test_rows_give_back_what_was_put_into_them(versions: list[Version]) -> None:
    packed = LongHistory(versions)
    assert list(packed) == versions
    assert [packed[place] for place in range(len(packed))] == versions
    assert packed[1:] == versions[1:]
    assert packed[::-2] == versions[::-2]
    assert list(reversed(packed)) == versions[::-1]


def test_a_place_beyond_the_end_is_an_error() -> None:
    packed = LongHistory([version(1)])
    assert packed[-1] == version(1)
    for place in (1, -2):
        with pytest.raises(IndexError):
            packed[place]


def version(number: int, voucher: str = "aa") -> Version:
    return Version(
        id=CaptureId(b"k" * 20, 1_600_000_000 + 60 * number, number.to_bytes(32, "big")),
        url=URL,
        status=200,
        mime="text/html",
        size=10_000 + number,
        is_revisit=False,
        visits=0,
        last_seen_s=1_600_000_000 + 60 * number,
        sha1=f"sha1:{number:032}",
        stored_bytes=100_000 + number,
        voucher=voucher,
    )


def test_ten_thousand_versions_take_a_megabyte_and_so_does_what_is_asked_of_them() -> None:
    tracemalloc.start()
    try:
        packed = LongHistory(version(number) for number in range(10_000))
        held, _ = tracemalloc.get_traced_memory()
        assert held < 1_200_000
        tracemalloc.reset_peak()
        assert disputed(packed) == frozenset()
        contents, known = contents_of(packed, 0, 10, each_max=1_000, most=5_000)
        assert (len(contents), known) == (10, 10_000)
        # A dictionary of the contents, which are all different here; their versions would be 5,600 kB.
        assert tracemalloc.get_traced_memory()[1] - held < 2_500_000
    finally:
        tracemalloc.stop()


def test_of_contents_no_more_versions_are_given_than_asked_for_and_all_are_counted() -> None:
    digests = [b"a", b"b", b"a", b"c", b"a", b"b"]
    versions = [
        Version(
            id=CaptureId(b"k" * 20, number, digest * 32),
            url=URL,
            status=200,
            mime="",
            size=1,
            is_revisit=False,
            visits=0,
            last_seen_s=number + 100,
            sha1="",
            stored_bytes=1,
        )
        for number, digest in enumerate(digests)
    ]

    def told(
        skipped: int, limit: int, each_max: int, most: int
    ) -> list[tuple[bytes, int, int, int, list[int]]]:
        found, known = contents_of(versions, skipped, limit, each_max=each_max, most=most)
        assert known == 3
        return [
            (one.digest[:1], one.first_s, one.last_s, one.count, [each.id.time_s for each in one.versions])
            for one in found
        ]

    assert told(0, 9, 9, 9) == [
        (b"a", 0, 104, 3, [0, 2, 4]),
        (b"b", 1, 105, 2, [1, 5]),
        (b"c", 3, 103, 1, [3]),
    ]
    assert told(0, 9, 2, 3) == [(b"a", 0, 104, 3, [0, 2]), (b"b", 1, 105, 2, [1])]
    assert told(1, 1, 9, 9) == [(b"b", 1, 105, 2, [1, 5])]
    assert told(3, 1, 9, 9) == []
