"""What does it cost to lead a page into the archive? Our rewriters beside pywb's, on the same bytes in one run.

    scripts/bench replay_rewriting [--rounds N] [--json]

Pages of 2, 29 and 276 kB and style sheets, made by rule: about as many tags and addresses as pages of news have.
Both rewrite the whole body in memory, making the rewriter included; pywb's is run by the judges' Python as a
program of its own (it is GPL and never imported by ours), with the time of decoding and encoding left out. What
counts is CPU time, the least of the rounds, which alternate. Without pywb the column is empty.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from herodotus.core.replay import BannerFacts, Flag, ReplayContext, banner_html, rewriter_for

JUDGES_PYTHON = Path(__file__).parents[2] / ".venv" / "judges" / "bin" / "python"
CHILD = Path(__file__).parent / "pywb_rewriting.py"
URL = "http://news.example/section/2026/index.html"
DATE = "20260102030405"
BYTES_PER_ROUND = 1_500_000


def html_page(size: int) -> bytes:
    head = (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>News of the day</title>'
        '<link rel="stylesheet" href="/s/main.css"><script src="/s/app.js"></script></head><body class="home">'
    )
    parts, made = [head], len(head)
    number = 0
    while made < size - 14:
        part = (
            f'<div class="story" id="s{number}"><h2 class="title"><a class="link" href="/2026/{number}/a-story.html">'
            f"Headline of story {number}</a></h2>\n"
            f'<img class="thumb" src="/img/{number}.jpg" alt="What it shows" width="120" height="80">\n'
            '<p class="lead">What happened is told here in a few sentences, with <em>emphasis</em> where it is due '
            "and without any markup where it is not, as most of what people write is plain text. "
            f'More is <a href="https://other.example/story?id={number}&amp;ref=home" rel="nofollow">elsewhere</a>, '
            "and some of it is even true, though nobody can be sure of that before the archive is asked.</p>\n"
            f'<ul class="meta"><li>By somebody</li><li><a href="#comments{number}">Comments</a></li></ul></div>\n'
        )
        parts.append(part)
        made += len(part)
        number += 1
    return "".join((*parts, "</body></html>")).encode()


def style_sheet(size: int) -> bytes:
    rules = ["@import url('base.css');\n"]
    made, number = len(rules[0]), 0
    while made < size:
        rule = (
            f".story-{number} > .title {{ margin: 0 {number}px; color: #1d1b16; font: 1rem/1.5 Georgia, serif }}\n"
            f'.thumb-{number} {{ background: url("/img/{number}.png") no-repeat 0 0; width: {number}px }}\n'
            f".meta-{number}::before {{ content: '\\201C'; transition: opacity .2s ease-in }}\n"
        )
        rules.append(rule)
        made += len(rule)
        number += 1
    return "".join(rules).encode()


def least_s(rewrite: Callable[[], object], size: int) -> float:
    repeats = max(1, BYTES_PER_ROUND // size)
    start = time.process_time()
    for _ in range(repeats):
        rewrite()
    return (time.process_time() - start) / repeats


def ours(body: bytes, mime: str) -> bytes:
    context = ReplayContext(
        page_url=URL, timestamp=DATE, flag=Flag.PAGE, portal_origin="http://127.0.0.1:5484", banner=_BANNER
    )
    rewriter = rewriter_for(mime, Flag.PAGE, context)
    assert rewriter is not None
    return rewriter.feed(body) + rewriter.close()


_BANNER = banner_html(
    ReplayContext(page_url=URL, timestamp=DATE), BannerFacts(previous="20260101000000", next="20260103000000")
)


def theirs(file: Path, mime: str) -> tuple[float, int] | None:
    if not JUDGES_PYTHON.exists():
        return None
    command = [str(JUDGES_PYTHON), str(CHILD), str(file), mime, URL, DATE, str(BYTES_PER_ROUND)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        print(done.stderr.strip().splitlines()[-1:], file=sys.stderr)
        return None
    answer = json.loads(done.stdout)
    return float(answer["seconds"]), int(answer["bytes"])


def row(name: str, body: bytes, mime: str, rounds: int, folder: Path) -> dict[str, object]:
    file = folder / "body"
    file.write_bytes(body)
    own, other, other_bytes = [], [], None
    for _ in range(rounds):
        own.append(least_s(lambda: ours(body, mime), len(body)))
        measured = theirs(file, mime)
        if measured is not None:
            other.append(measured[0])
            other_bytes = measured[1]
    mine = min(own)
    found: dict[str, object] = {
        "what": name, "bytes": len(body), "rewritten": len(ours(body, mime)), "us": round(mine * 1e6, 1),
        "MB/s": round(len(body) / mine / 1e6, 1), "pywb bytes": other_bytes, "pywb us": None, "ratio": None,
    }  # fmt: skip
    if other:
        found |= {"pywb us": round(min(other) * 1e6, 1), "ratio": round(min(other) / mine, 1)}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    bodies = [(f"html {size} kB", html_page(size * 1000), "text/html") for size in (2, 29, 276)]
    bodies += [(f"css {size} kB", style_sheet(size * 1000), "text/css") for size in (6, 60)]
    with tempfile.TemporaryDirectory() as folder:
        rows = [row(name, body, mime, options.rounds, Path(folder)) for name, body, mime in bodies]
    if options.json:
        print(json.dumps(rows, indent=1))
        return
    print("| " + " | ".join(rows[0]) + " |\n|" + "---|" * len(rows[0]))
    for one in rows:
        print("| " + " | ".join("" if value is None else str(value) for value in one.values()) + " |")


if __name__ == "__main__":
    main()
