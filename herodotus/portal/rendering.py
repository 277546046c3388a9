"""How does a view become a page? By a template of the folder `templates`, in which every value is escaped.

A view computes, a template shows. A name that a template uses and a view does not give is an error. Pages are made by
the server: no script, nothing from other sites.

How do the portal's own pages read? The small ones, for readers.
"""

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

import turbohtml
from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from jinja2.compiler import CodeGenerator, Frame
from jinja2.nodes import Expr
from markupsafe import Markup, escape

from herodotus.core.charter import PUBLIC_CHARTER
from herodotus.core.quantities import readable_bytes, readable_duration
from herodotus.core.status import PeerStatus
from herodotus.core.warc import format_date
from herodotus.portal.answer import STYLE
from herodotus.portal.memento import history_path

TEXT_CHARS = 2_000
"""More than any snippet has."""


def render(template: str, **values: Any) -> str:
    return _template(template).render(values)


def render_part(template: str, **values: Any) -> Markup:
    """Of a page, to be given to another template."""
    return Markup(render(template, **values))  # noqa: S704  # a template of ours made it, and escaped what it was given


class _EscapedAsText(CodeGenerator):
    """Jinja makes an object of each escaped value, though it then joins them as text. That takes ten times as long as
    to escape the value, and a history has thousands of values."""

    def _output_child_pre(self, node: Expr, frame: Frame, finalize: CodeGenerator._FinalizeInfo) -> None:
        assert frame.eval_ctx.autoescape
        assert not frame.eval_ctx.volatile, "no template switches the escaping off"
        self.write("environment.escaped(")


class _PageEnvironment(Environment):
    code_generator_class = _EscapedAsText

    @staticmethod
    def escaped(value: Any) -> str:
        if type(value) is str:
            return turbohtml.escape(value)
        return str(value.__html__()) if hasattr(value, "__html__") else turbohtml.escape(str(value))


@cache
def _template(name: str) -> Template:
    return _environment().get_template(name)


@cache
def _environment() -> Environment:
    made = _PageEnvironment(
        loader=PackageLoader("herodotus.portal"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.globals.clear()  # functions of Jinja's own, which no template needs; each page would look through them
    # A hash of the very text stands in the policy of each page.
    made.globals["style"] = Markup(STYLE)  # noqa: S704  # ours
    made.filters.update(
        shown=shown_url,
        plain=shown_text,
        history_path=history_path,
        commas=lambda number: f"{number:,}",
        times=lambda count: "once" if count == 1 else f"{count:,} times",
        bytes=readable_bytes,
        counts=lambda counts: ", ".join(f"{n:,} × {name}" for name, n in sorted(counts.items())) or "none",
        duration=readable_duration,
        spoken=spoken,
        day=lambda time_s: format_date(time_s)[:10],
        stamp=format_date,
    )
    return made


def spoken(sentence: str) -> Markup:
    """What stands between two backticks is typed: it looks so."""
    parts = sentence.split("`")
    typed = (
        Markup("<code>{}</code>").format(part) if n % 2 else escape(part) for n, part in enumerate(parts)
    )
    return Markup("").join(typed) if len(parts) % 2 else escape(sentence)


def shown_url(url: str, length: int) -> str:
    """For people: the middle of a long one is left out, and nothing in it turns the writing around."""
    plain = url[:20_000]
    if not plain.isprintable():
        plain = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in plain)
    half = length // 2
    return plain if len(plain) <= length else f"{plain[:half]}…{plain[-half:]}"


# Marks that turn the direction of writing, and what is no character to show: a page could hide words by them.
UNSHOWN = re.compile("[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def shown_text(text: str, length: int = TEXT_CHARS) -> str:
    """A stranger's words, cut at the end."""
    plain = UNSHOWN.sub("\N{REPLACEMENT CHARACTER}", text)
    return plain if len(plain) <= length else f"{plain[: length - 1]}…"


FORM_HEADERS = {"Referrer-Policy": "same-origin"}
"""Of pages with a form that changes something: under a policy of no referrer browsers do not say whose it is."""


def start_page(status: PeerStatus) -> str:
    return render("start.html", status=status, is_public=status.network == PUBLIC_CHARTER.name)


def not_found_page(path: str) -> str:
    return render("not_found.html", path=path)


def trouble_page(title: str, sentence: str, url: str = "") -> str:
    return render("trouble.html", title=title, sentence=sentence, url=url)


def not_archived_page(
    url: str,
    variants: Sequence[str],
    neighbours: Sequence[str],
    listing: str | None,
    *,
    takes_saves: bool = False,
) -> str:
    """What there is nearby: other spellings of the address, pages of the same place, and where the network allows
    it the way to have it archived; its form needs `FORM_HEADERS`."""
    return render(
        "not_archived.html",
        url=url,
        variants=variants,
        neighbours=neighbours,
        listing=listing,
        takes_saves=takes_saves,
    )


def listing_page(prefix: str, urls: Sequence[str], following: str | None) -> str:
    return render("listing.html", prefix=prefix, urls=urls, following=following)
