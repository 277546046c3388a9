"""How long does pywb's rewriter take for this body? A program for the judges' Python, which alone has pywb."""

import json
import sys
import time
from pathlib import Path

from pywb.rewrite.html_rewriter import HTMLRewriter
from pywb.rewrite.regex_rewriters import CSSRewriter
from pywb.rewrite.url_rewriter import UrlRewriter


def main() -> None:
    file, mime, url, date, bytes_per_round = sys.argv[1:]
    text = Path(file).read_text(encoding="utf-8")

    def rewrite() -> str:
        addresses = UrlRewriter(f"{date}/{url}", "/web/")
        if mime == "text/css":
            return str(CSSRewriter(addresses).rewrite(text))
        rewriter = HTMLRewriter(addresses)
        return f"{rewriter.rewrite(text)}{rewriter.final_read()}"

    rewritten = rewrite()  # compiles its expressions
    repeats = max(1, int(bytes_per_round) // len(text) // 4)
    start = time.process_time()
    for _ in range(repeats):
        rewrite()
    seconds = (time.process_time() - start) / repeats
    json.dump({"seconds": seconds, "bytes": len(rewritten.encode())}, sys.stdout)


if __name__ == "__main__":
    main()
