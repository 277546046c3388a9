"""How do the portal's own pages read? Server-made HTML: no script, nothing from other sites."""

from collections.abc import Sequence
from html import escape

from herodotus.core.charter import PUBLIC_CHARTER
from herodotus.core.status import PeerStatus
from herodotus.portal.answer import STYLE
from herodotus.portal.memento import Places


def page(title: str, body: str, *, is_start: bool = False) -> str:
    home = "" if is_start else '<header><a href="/">Herodotus</a></header>\n'
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<title>{escape(title)}</title>\n<link rel="icon" href="data:,">\n<style>{STYLE}</style>\n</head>\n'
        f"<body>\n{home}<main>\n{body}\n</main>\n"
        "<footer>Herodotus is a web archive kept by volunteers. No single one of them can switch it off.</footer>\n"
        "</body>\n</html>\n"
    )


def shown_url(url: str, length: int) -> str:
    """For people: the middle of a long one is left out, and nothing in it turns the writing around."""
    plain = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in url[:20_000])
    half = length // 2
    return plain if len(plain) <= length else f"{plain[:half]}…{plain[-half:]}"


def search_form(url: str = "") -> str:
    return (
        '<form action="/search" role="search"><label for="url">Address of a page</label>'
        '<span class="ask"><input id="url" name="url" type="text" inputmode="url" autocapitalize="none" '
        f'autocomplete="url" spellcheck="false" required maxlength="4096" placeholder="example.org/page" '
        f'value="{escape(url[:4096])}"><button>Show its history</button></span></form>'
    )


FORM_HEADERS = {"Referrer-Policy": "same-origin"}
"""Of pages with a form that changes something: under a policy of no referrer browsers do not say whose it is."""


def save_form(url: str) -> str:
    return (
        f'<form action="/save/" method="post"><input type="hidden" name="url" value="{escape(url)}">'
        f'<p>Have <span class="address">{escape(shown_url(url, 300))}</span> fetched and archived now:</p>'
        "<button>Archive this page</button></form>"
    )


def _facts(rows: list[tuple[str, str]]) -> str:
    return (
        "<dl>\n" + "\n".join(f"<dt>{escape(name)}</dt><dd>{value}</dd>" for name, value in rows) + "\n</dl>"
    )


def start_page(status: PeerStatus) -> str:
    who = escape(status.nickname) or "A peer"
    trouble = ""
    if status.store.problem:  # which names folders: that is for the operator
        words = (
            "stores nothing new just now" if status.store.state == "open" else "cannot read its archive now"
        )
        trouble = f'<p class="trouble">This peer {words}.</p>'
    return page(
        "Herodotus: a web archive of many peers",
        "\n".join(
            [
                "<h1>Herodotus</h1>",
                f'<p class="lead">{who} of the web archive that nobody can switch off.</p>',
                search_form(),
                trouble,
                "<h2>What this peer holds</h2>",
                _facts(
                    [
                        ("Captures", f"{status.store.captures:,}"),
                        ("Known addresses", f"{status.crawl.known:,}"),
                        ("Members of its ring", f"{status.ring.members:,}"),
                    ]
                ),
                "<h2>Who it is</h2>",
                _facts(
                    [
                        ("Peer", f'<span class="id">{escape(status.peer_id)}</span>'),
                        (
                            "Network",
                            f'{escape(status.network)} <span class="id">{escape(status.network_id)}</span>',
                        ),
                        ("Running since", f"<time>{escape(status.started)}</time>"),
                        ("Release", escape(status.version)),
                    ]
                ),
                "<h2>Run a peer yourself</h2>",
                "<p>A computer that stays on, some free disk, and Python 3.11 or newer are enough.</p>",
                _joining(status),
            ]
        ),
        is_start=True,
    )


def _joining(status: PeerStatus) -> str:
    charter, words = "", ""
    if status.network != PUBLIC_CHARTER.name:
        charter = " --network network.toml"
        words = (
            f"\n<p>The rules of the network {escape(status.network)} are in the file <code>network.toml</code> of "
            "everybody who takes part: ask the operator for it.</p>"
        )
    return (
        f"<pre>herodotus init --contact https://example.org/about-my-peer{charter}\n"
        f"herodotus run --join {escape(status.ring.address)}</pre>{words}"
    )


def not_found_page(path: str) -> str:
    return page(
        "Not here",
        f"<h1>Not here</h1>\n<p>This peer has no page at <code>{escape(shown_url(path, 200))}</code>.</p>\n"
        '<p><a href="/">To the start page</a></p>',
    )


def trouble_page(title: str, sentence: str, url: str = "") -> str:
    return page(
        title, f"<h1>{escape(title)}</h1>\n<p>{escape(shown_url(sentence, 600))}</p>\n{search_form(url)}"
    )


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
    parts = [
        "<h1>Not archived</h1>",
        f'<p>This peer has no copy of <span class="address">{escape(shown_url(url, 300))}</span>.</p>',
    ]
    if variants:
        parts += ["<h2>Perhaps you mean</h2>", url_list(variants)]
    if neighbours:
        parts += ["<h2>From the same place</h2>", url_list(neighbours)]
        if listing:
            parts.append(f'<p><a href="{escape(listing)}">All that there is of this site</a></p>')
    if takes_saves:
        parts += ["<h2>Archive it</h2>", save_form(url)]
    return page("Not archived", "\n".join([*parts, "<h2>Look for another page</h2>", search_form(url)]))


def listing_page(prefix: str, urls: Sequence[str], following: str | None) -> str:
    body = url_list(urls) if urls else "<p>This peer has no page whose address begins so.</p>"
    more = f'<p><a href="{escape(following)}">Further</a></p>' if following else ""
    return page(
        f"Pages below {shown_url(prefix, 80)}",
        f'{search_form(prefix)}\n<h1>Pages below <span class="address">{escape(shown_url(prefix, 300))}</span></h1>'
        f"\n{body}\n{more}",
    )


def url_list(urls: Sequence[str]) -> str:
    rows = [
        f'<li><a href="{escape(Places(origin="", url=url).history)}">{escape(shown_url(url, 200))}</a></li>'
        for url in urls
    ]
    return f'<ul class="addresses">{"".join(rows)}</ul>'
