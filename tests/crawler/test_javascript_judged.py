"""Does the tokenizer see what a JavaScript parser sees? acorn, in a browser, on real libraries."""

import json
import re
import sys
from pathlib import Path

import pytest

from crawler.core.javascript import SCRIPT_CHARS_MAX, TokenKind, text_of, tokens
from tests.herodotus.portal.browser import browser

NPM = Path(sys.prefix) / "judges" / "npm"
ACORN = NPM / "acorn" / "package" / "dist" / "acorn.js"
LIBRARIES = [
    ACORN,
    NPM / "axe-core" / "package" / "axe.js",
    NPM / "axe-core" / "package" / "axe.min.js",
    NPM / "replaywebpage" / "package" / "ui.js",
    NPM / "replaywebpage" / "package" / "sw.js",
]
ASK = """(function (source) {
  for (const sourceType of ["module", "script"]) {
    const found = [];
    const onToken = function ({type: {label}, value}) {
      if (label === "regexp") found.push("/" + value.pattern + "/" + value.flags);
      else if (label === "string" || label === "template") found.push(value);
    };
    try { acorn.parse(source, {ecmaVersion: "latest", sourceType, onToken}); return found; } catch {}
  }
})"""
TEXTS = (TokenKind.STRING, TokenKind.TEMPLATE, TokenKind.PIECE, TokenKind.REGEXP)
pytestmark = [pytest.mark.e2e, pytest.mark.anyio]


def as_acorn_says(text: str) -> str:
    """Lines end in one way in templates; halves of characters are nothing that could be compared."""
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


@pytest.mark.needs("chromium", ACORN, *LIBRARIES)
async def test_strings_templates_and_regular_expressions_of_real_libraries_are_those_of_acorn(
    tmp_path: Path,
) -> None:
    async with browser(tmp_path) as judge:
        await judge.run(f"{ACORN.read_text()}; 0")
        for library in LIBRARIES:
            source = library.read_text()
            theirs = await judge.run(f"{ASK}({json.dumps(source)})")
            ours = [text_of(source, token) for token in tokens(source) if token.kind in TEXTS]
            assert len(source) <= SCRIPT_CHARS_MAX, "no more of a script is read"
            assert len(ours) > 700, library
            assert ours == [as_acorn_says(text) for text in theirs], library
