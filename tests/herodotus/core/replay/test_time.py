"""Does every page take time linear in its length, however it is made?

Four times as long should be about four times as slow; quadratic work shows as sixteen times. The limit between the
two is generous and processor time is counted, yet it is a measurement: so it belongs to the sweeps.
"""

import time

import pytest

from tests.herodotus.core.replay.judging import rewritten, rewritten_css

pytestmark = pytest.mark.sweep
PIECES = 8_000


def cost_s(body: bytes, *, is_css: bool) -> float:
    least = float("inf")
    for _ in range(3):
        start = time.process_time()
        rewritten_css(body) if is_css else rewritten(body)
        least = min(least, time.process_time() - start)
    return least


@pytest.mark.parametrize(
    "piece",
    [
        b"<", b"<a ", b"<a b='", b"<a b=\"> ", b"</a b='", b"<!--", b"<!-- -", b"<![CDATA[", b"<? ", b"<! ",
        b"<script>",
        b"<script><!--", b"<title>", b"<svg><![CDATA[", b"<style>", b"<style>url(", b"<iframe srcdoc='&lt;a ",
        b"<img srcset='a, ",
        b"<p style='url(", b"<base href='", b"<meta http-equiv=refresh content='  ", b"<a href='/../",
        b"&#x2f;", b"<a href=&#x2f;",
        b"<a href=\"/..", b"<a/", b"<a =", b"<a b= ", b"<img src=\"a\" alt=",
    ],
)  # fmt: skip
def test_a_hostile_page_costs_no_more_than_its_length(piece: bytes) -> None:
    short, long = cost_s(piece * PIECES, is_css=False), cost_s(piece * (4 * PIECES), is_css=False)
    assert long < 10 * short + 0.02


@pytest.mark.parametrize(
    "piece",
    [
        b"url(", b"url('", b"'", b"\"", b"/*", b"/", b"@import", b"@import ", b"@namespace ", b"image-set(",
        b"image-set('a'", b"\\",
        b"\\75", b"u", b"ur\\6c(", b"url(a) ", b"image-set(url(", b"@", b"url(\\",
    ],
)  # fmt: skip
def test_a_hostile_style_costs_no_more_than_its_length(piece: bytes) -> None:
    short, long = cost_s(piece * PIECES, is_css=True), cost_s(piece * (4 * PIECES), is_css=True)
    assert long < 10 * short + 0.02
