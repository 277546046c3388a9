import gzip
import random
import tracemalloc
import zlib

import brotli
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from crawler.core.capture import DECODED_BYTES_MAX, MediaType, decoded

TEXT = b"<a href=x>" * 1000


def raw_deflate(body: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=-15)
    return compressor.compress(body) + compressor.flush()


CODERS = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstandard.ZstdCompressor().compress,
}


@pytest.mark.parametrize("coding", CODERS)
def test_each_coding_is_undone(coding: str) -> None:
    assert decoded(CODERS[coding](TEXT), coding.upper()) == (TEXT, True)


def test_raw_deflate_identity_and_two_codings_are_undone() -> None:
    assert decoded(raw_deflate(TEXT), "deflate") == (TEXT, True)
    assert decoded(TEXT, "identity") == (TEXT, True)
    assert decoded(brotli.compress(gzip.compress(TEXT)), "gzip, br") == (TEXT, True)


@pytest.mark.parametrize("coding", CODERS)
def test_a_bomb_is_cut_at_the_limit_and_never_unfolds(coding: str) -> None:
    bomb = CODERS[coding](bytes(4 * DECODED_BYTES_MAX))
    tracemalloc.start()
    content, is_whole = decoded(bomb, coding)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (len(content), is_whole) == (DECODED_BYTES_MAX, True)
    assert peak < 2.5 * DECODED_BYTES_MAX


@pytest.mark.parametrize("coding", CODERS)
def test_the_good_part_of_a_cut_body_is_kept(coding: str) -> None:
    whole = CODERS[coding](bytes(range(256)) * 4000)
    assert (bytes(range(256)) * 4000).startswith(decoded(whole[: len(whole) // 2], coding).content)
    for cut in (len(whole) // 2, len(whole) - 1):
        assert not decoded(whole[:cut], coding).is_whole


def test_unknown_and_towering_codings_give_nothing() -> None:
    assert decoded(TEXT, "lzma") == (b"", False)
    assert decoded(TEXT, "gzip, gzip, gzip") == (b"", False)


@given(st.binary(max_size=200), st.sampled_from(["gzip", "deflate", "br", "zstd", "", ","]))
def test_any_bytes_are_survived(body: bytes, coding: str) -> None:
    assert isinstance(decoded(body, coding).content, bytes)


@pytest.mark.parametrize(
    ("header", "mime", "charset"),
    [
        ('Text/HTML; Charset="UTF-8"', "text/html", "UTF-8"),
        ("text/html;x=y;charset=big5", "text/html", "big5"),
        ("text/html", "text/html", None),
        (None, "", None),
        ("nonsense", "", None),
        ("a/b/c", "", None),
    ],
)
def test_media_types_are_read_from_the_header(header: str | None, mime: str, charset: str | None) -> None:
    assert MediaType.of(header) == MediaType(mime, charset)


def test_more_codings_than_an_honest_server_uses_are_not_undone() -> None:
    thrice = gzip.compress(gzip.compress(gzip.compress(TEXT)))
    assert decoded(thrice, "gzip, gzip, gzip") == (b"", False)


def test_of_a_brotli_bomb_no_more_is_unpacked_than_may_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    unpacked: list[int] = []
    decompressor = brotli.Decompressor

    class Counting:
        def __init__(self) -> None:
            self._inner = decompressor()

        def process(self, data: bytes, **limits: int) -> bytes:
            piece: bytes = self._inner.process(data, **limits)
            unpacked.append(len(piece))
            return piece

        def is_finished(self) -> bool:
            return bool(self._inner.is_finished())

    bomb = brotli.compress(bytes(20_000_000), quality=3)
    monkeypatch.setattr(brotli, "Decompressor", Counting)
    assert decoded(bomb, "br", 500_000) == (bytes(500_000), True)
    assert sum(unpacked) < 2_000_000


@pytest.mark.parametrize("coding", CODERS)
def test_a_body_of_many_slices_is_decoded_and_its_end_is_seen(coding: str) -> None:
    data = random.Random(1).randbytes(5 * 2**16)
    packed = CODERS[coding](data)
    assert decoded(packed, coding) == (data, True)
    assert decoded(packed, coding, 2**16 + 1) == (data[: 2**16 + 1], True)
    content, is_whole = decoded(packed[:-1], coding)
    assert not is_whole
    assert data.startswith(content)
    for behind in (b"junk", bytes(2**17)):
        assert decoded(packed + behind, coding).is_whole == (coding == "gzip")


def test_what_stands_behind_a_stream_that_ends_with_a_slice_is_seen() -> None:
    # Stored, so that the stream is exactly one slice long: head 2, five for the block, sum 4.
    packed = zlib.compress(bytes(2**16 - 11), 0)
    filler = b"x" * 100
    assert decoded(packed, "deflate").is_whole
    assert not decoded(packed + filler, "deflate").is_whole


@pytest.mark.parametrize(
    ("coding", "packed"),
    [
        ("deflate", zlib.compress(random.Random(1).randbytes(2**23), 0)),
        ("br", brotli.compress(random.Random(1).randbytes(2**23), quality=0)),
    ],
    ids=["deflate", "br"],
)
def test_what_is_not_decoded_of_a_large_body_is_not_copied(coding: str, packed: bytes) -> None:
    tracemalloc.start()
    decoded(packed, coding, 2**18)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**21
