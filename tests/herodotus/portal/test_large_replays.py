"""What is large and goes out as it is stored is read while it is sent, and is the same in all else."""

import gzip
import random

import anyio
import pytest

from herodotus.core.settings.fields import HostPort
from herodotus.core.settings.sections import HttpSettings
from herodotus.portal import server
from herodotus.portal.replay import DECODED_BYTES_MAX, REWRITTEN_BYTES_MAX
from herodotus.portal.server import Portal
from tests.herodotus.portal.library import SITE, Library, no_cache, response
from tests.herodotus.portal.test_server import connect, exchange, received, request


@pytest.fixture
def anyio_backend() -> str:
    """The portal needs it."""
    return "asyncio"


DATE = "20260101060000"
NOISE = random.Random(1).randbytes(1 << 16)


# Made when they are asked for: every run of tests loads this module.
@pytest.fixture(scope="module")
def film() -> bytes:
    return b"".join(NOISE + b"%d" % number for number in range(150))


@pytest.fixture(scope="module")
def packed() -> bytes:
    return gzip.compress(NOISE * 150, 0)


@pytest.fixture(scope="module")
def bomb() -> bytes:
    return gzip.compress(bytes(DECODED_BYTES_MAX + 1), 9)


@pytest.fixture(scope="module")
def page() -> bytes:
    return b"<!doctype html><a href=/x>" + bytes(REWRITTEN_BYTES_MAX)


@pytest.fixture(scope="module")
def library(film: bytes, packed: bytes, bomb: bytes, page: bytes) -> Library:
    return Library(
        response(f"{SITE}/film", DATE, film, "video/mp4"),
        response(f"{SITE}/packed", DATE, packed, "application/pdf", 200, "Content-Encoding: gzip"),
        response(f"{SITE}/bomb", DATE, bomb, "application/pdf", 200, "Content-Encoding: gzip"),
        response(f"{SITE}/page", DATE, page),
    )


def raw(name: str) -> str:
    return f"/web/{DATE}id_/{SITE}/{name}"


def test_a_large_body_comes_whole_and_in_parts(library: Library, film: bytes) -> None:
    whole = library.get(raw("film"))
    assert whole.passing is not None
    assert (whole.status, whole.body == film, whole.headers["Accept-Ranges"]) == (200, True, "bytes")
    part = library.get(raw("film"), {"range": "bytes=9000000-9000009"})
    size = len(film)
    assert (part.status, part.body) == (206, film[9_000_000:9_000_010])
    assert part.headers["Content-Range"] == f"bytes 9000000-9000009/{size}"
    end = library.get(raw("film"), {"range": "bytes=-3", "if-range": whole.headers["ETag"]})
    assert (end.status, end.body) == (206, film[-3:])
    beyond = library.get(raw("film"), {"range": f"bytes={size}-"})
    assert (beyond.status, beyond.body, beyond.headers["Content-Range"]) == (416, b"", f"bytes */{size}")
    known = library.get(raw("film"), {"if-none-match": whole.headers["ETag"]})
    assert (known.status, known.body, known.passing) == (304, b"", None)


def test_a_coding_that_the_reader_takes_stays_and_another_is_undone(
    library: Library, packed: bytes, bomb: bytes
) -> None:
    kept = library.get(raw("packed"), {"accept-encoding": "gzip"})
    assert (kept.headers["Content-Encoding"], kept.body == packed) == ("gzip", True)
    plain = library.get(raw("packed"))
    assert ("Content-Encoding" in plain.headers, plain.body == gzip.decompress(packed)) == (False, True)
    kept = library.get(raw("bomb"))
    assert (kept.headers["Content-Encoding"], kept.body == bomb) == ("gzip", True)


def test_a_page_too_large_to_be_rewritten_is_shown_as_it_is_and_fenced_in(
    library: Library, page: bytes
) -> None:
    for flag in ("if_", ""):
        shown = library.get(f"/web/{DATE}{flag}/{SITE}/page")
        assert shown.passing is not None
        assert shown.body == page
        assert "sandbox" in shown.headers["Content-Security-Policy"]


@pytest.mark.anyio
async def test_large_bodies_take_no_room_of_the_portal(
    library: Library, film: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_OUTGOING_BYTES_MAX", 1)
    settings = HttpSettings(listen=HostPort(host="127.0.0.1", port=0), connections_max=8, idle_s=30)
    made = Portal(settings, library.handlers, no_cache())
    with anyio.fail_after(60):
        async with made.serving(stop_s=0.5), await connect(made) as slow:
            await slow.send(request(raw("film")))
            await slow.receive(1)
            quick = await exchange(made, request(raw("film")))
            assert (quick.status, quick.body == film) == (200, True)
            head = await exchange(made, request(raw("film"), "HEAD"))
            assert (head.status, head.headers["Content-Length"], head.body) == (200, str(len(film)), b"")


@pytest.mark.anyio
async def test_a_reader_who_takes_a_large_body_too_slowly_is_left(
    library: Library, film: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "SLOWEST_BYTES_PER_S", 1e9)
    settings = HttpSettings(listen=HostPort(host="127.0.0.1", port=0), connections_max=8, idle_s=1)
    made = Portal(settings, library.handlers, no_cache())
    with anyio.fail_after(60):
        async with made.serving(stop_s=0.5), await connect(made) as slow:
            await slow.send(request(raw("film")))
            while made.left == 0:  # it takes nothing meanwhile
                await anyio.lowlevel.checkpoint()
            assert len(await received(slow)) < len(film)
