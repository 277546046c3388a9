"""How long does a browser take to draw an archived page? Beside pywb, on the same WARC, in turns.

    scripts/bench drawing [--times N] [--json FILE]

One page of 29 kB with a style, a script and twelve pictures, in headless Chromium without its cache, each time as a
reader who typed its address: the window with the banner, the frame in it, and all that the page embeds. Measured is
what the browser says itself: from the start of the navigation to the end of the window's load event. Both servers run
all the time; the order changes from round to round, so that what else the machine does meets both.
"""

import argparse
import json
import random
import statistics
import struct
import tempfile
import zlib
from io import BytesIO
from pathlib import Path

import anyio

from herodotus.core.warc import parse_digits
from herodotus.store.warc_export import export_warc
from scripts.benches.portal import SITE, html, our_peer, pywb
from tests.herodotus.deposits import make_deposit
from tests.herodotus.portal.browser import Browser, browser
from tests.herodotus.store.memory_store import MemoryStore

DAY = "20260103060000"
PICTURES = 12
_DRAWN = "performance.getEntriesByType('navigation')[0].loadEventEnd > 0"
_TOOK_MS = "performance.getEntriesByType('navigation')[0].loadEventEnd"
# What is in a frame of another process is looked into by itself.
_PAGES = "[document, ...Array.from(frames, one => { try { return one.document; } catch (error) { return null; } })]"
_SEEN = f"{_PAGES}.some(page => page && [...page.images].filter(i => i.naturalWidth === 64).length === {PICTURES})"


def picture(number: int) -> bytes:
    """A PNG of 64 x 64 points that do not pack well."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = random.Random(number).randbytes(64 * 64 * 3)
    lines = b"".join(b"\0" + rows[at : at + 192] for at in range(0, len(rows), 192))
    head = struct.pack(">IIBBBBB", 64, 64, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(lines))
        + chunk(b"IEND", b"")
    )


def parts() -> dict[str, tuple[str, bytes]]:
    images = "".join(
        f'<img src="/drawn/{number}.png" width=64 height=64 alt="">' for number in range(PICTURES)
    )
    page = html(28, DAY).replace(b"<body>", f"<body><script src=/drawn.js></script>{images}".encode(), 1)
    page = page.replace(b'<img src="/img/', b'<a href="/img/')  # only what is in the archive is embedded
    style = "".join(f".c{n} {{ color: #{n:06x}; margin: {n}px }}\n" for n in range(110)).encode()
    script = b"document.documentElement.dataset.drawn = String(document.images.length);"
    found = {
        "/drawn": ("text/html; charset=utf-8", page),
        "/css": ("text/css", style),
        "/drawn.js": ("text/javascript", script),
    }
    return found | {f"/drawn/{number}.png": ("image/png", picture(number)) for number in range(PICTURES)}


def write_warc(target: Path) -> None:
    time_s = parse_digits(DAY)
    store = MemoryStore(now=lambda: float(time_s))

    async def fill() -> None:
        for path, (kind, body) in parts().items():
            head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            await store.store(make_deposit(url=SITE + path, time_s=time_s, head=head, body=body))

    anyio.run(fill)
    out = BytesIO()
    export_warc(store.archive, out)
    target.write_bytes(out.getvalue())


async def drawn_ms(window: Browser, address: str) -> float:
    await window.visit("about:blank")
    await window.until("location.href === 'about:blank'", anywhere=False)
    await window.visit(address)
    await window.until(f"location.href !== 'about:blank' && {_DRAWN}", anywhere=False)
    await window.until(_SEEN)  # in the frame: nothing is measured that is not there
    return float(await window.run(_TOOK_MS))


async def measured(addresses: dict[str, str], times: int, folder: Path) -> dict[str, list[float]]:
    took: dict[str, list[float]] = {name: [] for name in addresses}
    async with browser(folder) as window:
        await window.call("Network.setCacheDisabled", cacheDisabled=True)
        for name, address in addresses.items():
            await drawn_ms(window, address)  # the first time is not counted: servers and browser wake up
            print(f"{name}: {address}")
        for round_ in range(times):
            for name in sorted(addresses, reverse=round_ % 2 == 1):
                took[name].append(await drawn_ms(window, addresses[name]))
    return took


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--times", type=int, default=20, help="how often each is drawn")
    parser.add_argument("--json", type=Path, help="write the figures there, too")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        warc = folder / "page.warc.gz"
        write_warc(warc)
        with our_peer(folder, warc) as ours, pywb(folder, warc) as theirs:
            addresses = {
                ours.name: f"{ours.base}/web/{DAY}/{SITE}/drawn",
                theirs.name: f"{theirs.base}/bench/{DAY}/{SITE}/drawn",
            }
            took = anyio.run(measured, addresses, given.times, folder)
    figures = {name: _figures(values) for name, values in took.items()}
    for name, one in figures.items():
        print(
            f"{name:<10} median {one['median_ms']:.0f} ms, best {one['best_ms']:.0f}, worst {one['worst_ms']:.0f}"
        )
    if given.json:
        given.json.write_text(json.dumps({"times": given.times, **figures}, indent=1) + "\n")


def _figures(values: list[float]) -> dict[str, float]:
    return {"median_ms": statistics.median(values), "best_ms": min(values), "worst_ms": max(values)}


if __name__ == "__main__":
    main()
