import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.core.similarity import DISTANCE_MAX, ORIGINS_MAX, SKETCHES_PER_ORIGIN, SeenSketches, sketch_of
from crawler.core.urls import Origin
from simnet.web.hosts import Hosts, WebHost, WebSettings, trap_links, trap_page

A = Origin("http://a.example")


def distance(first: bytes, second: bytes) -> int:
    return (sketch_of(first) ^ sketch_of(second)).bit_count()


def text(seed: int, words: int = 300) -> list[bytes]:
    chance = random.Random(seed)
    return [bytes(chance.choices(b"abcdefghijklmnopqrst", k=6)) for _ in range(words)]


def test_pages_that_differ_in_numbers_and_addresses_alone_are_equal() -> None:
    page = b"<p>Events of %d</p><a href='/calendar/%d'>next month</a>"
    assert distance(page % (1, 2), page % (2, 3)) == 0


def test_a_word_more_is_near_and_another_text_is_far() -> None:
    words = text(1)
    assert distance(b" ".join(words), b" ".join([*words, b"more"])) <= DISTANCE_MAX
    distances = [distance(b" ".join(text(seed)), b" ".join(text(seed + 1))) for seed in range(0, 100, 2)]
    assert min(distances) > DISTANCE_MAX


def trapped(trap: str) -> tuple[WebHost, list[str]]:
    hosts = Hosts(WebSettings(seed=1, hosts=2_000, port=8080))
    host = next(hosts.host(number) for number in range(2_000) if hosts.host(number).trap == trap)
    return host, [f"{host.origin}/{trap}/"]


@pytest.mark.parametrize("trap", ["calendar", "session", "directories"])
def test_the_pages_of_each_trap_are_alike(trap: str) -> None:
    host, queue = trapped(trap)
    seen = SeenSketches()
    alike = []
    for _ in range(20):
        path, _, query = queue.pop(0).removeprefix(host.origin).partition("?")
        queue += trap_links(host, path, query)
        alike.append(seen.has_alike(A, sketch_of((trap_page(host, path, query) or "").encode())))
    assert sum(alike) >= 18


def test_origins_are_apart_and_what_is_remembered_is_bounded() -> None:
    seen = SeenSketches()
    assert not seen.has_alike(A, 0)
    assert seen.has_alike(A, 0b11)
    assert not seen.has_alike(A, 0b111)
    assert not seen.has_alike(Origin("http://b.example"), 0)
    chance = random.Random(1)
    for _ in range(2 * SKETCHES_PER_ORIGIN):
        seen.has_alike(A, chance.getrandbits(32))
    assert not seen.has_alike(A, 0)  # the oldest is forgotten
    for number in range(ORIGINS_MAX):
        seen.has_alike(Origin(f"http://{number}.example"), 0)
    assert not seen.has_alike(A, 0)


@given(st.binary(max_size=300))
def test_any_bytes_have_a_sketch(body: bytes) -> None:
    assert 0 <= sketch_of(body) < 2**32
