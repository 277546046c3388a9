"""Do the portal's templates escape whatever they are given, and refuse to guess?"""

import re
from pathlib import Path

import pytest
from jinja2 import UndefinedError

import herodotus.portal
from herodotus.portal.rendering import render, render_part, spoken

FOLDER = Path(herodotus.portal.__file__).parent / "templates"


def test_a_name_that_nobody_gave_is_an_error_and_no_empty_place() -> None:
    with pytest.raises(UndefinedError, match="sentence"):
        render("trouble.html", title="Not now", url="")


def test_what_is_given_is_shown_as_text() -> None:
    page = render("trouble.html", title="<b>&'", sentence="<script>", url='"><img>')
    assert "<title>&lt;b&gt;&amp;&#x27;</title>" in page
    assert "<script>" not in page
    assert 'value="&quot;&gt;&lt;img&gt;"' in page


def test_what_is_typed_looks_so_and_brings_no_markup() -> None:
    assert spoken("say `a <b>` & go") == "say <code>a &lt;b&gt;</code> &amp; go"
    assert spoken("<i> ` alone") == "&lt;i&gt; ` alone"


def test_a_part_is_markup_for_the_template_around_it_alone() -> None:
    part = render_part("order_form.html", path="/x?a&b", orders=[("<", ">")])
    assert 'action="/x?a&amp;b"' in part
    assert render("order_refused.html", sentence=part).count('<form method="post"') == 1


@pytest.mark.parametrize("template", sorted(file.name for file in FOLDER.iterdir()))
def test_no_template_says_that_a_value_is_safe_or_runs_a_script(template: str) -> None:
    text = (FOLDER / template).read_text()
    assert not re.search(r"\|\s*safe|autoescape|<script| on[a-z]+=|javascript:", text)
    assert not re.search(r"(src|href|action)=[\"']?(https?:)?//", text)


def test_every_attribute_with_a_value_is_in_quotes() -> None:
    """Escaping protects a value within quotes only."""
    assert [f for f in FOLDER.iterdir() if re.search(r"=\{\{", f.read_text())] == []
