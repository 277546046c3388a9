"""How do the portal's own pages read? Server-made HTML: no script, nothing from other sites."""

from html import escape

from herodotus.core.status import PeerStatus
from herodotus.portal.answer import STYLE


def page(title: str, body: str) -> str:
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<title>{escape(title)}</title>\n<link rel="icon" href="data:,">\n<style>{STYLE}</style>\n</head>\n'
        f"<body>\n<main>\n{body}\n</main>\n"
        "<footer>Herodotus is a web archive kept by volunteers. No single one of them can switch it off.</footer>\n"
        "</body>\n</html>\n"
    )


def _facts(rows: list[tuple[str, str]]) -> str:
    return (
        "<dl>\n" + "\n".join(f"<dt>{escape(name)}</dt><dd>{value}</dd>" for name, value in rows) + "\n</dl>"
    )


def start_page(status: PeerStatus) -> str:
    who = escape(status.nickname) or "A peer"
    return page(
        "Herodotus: a web archive of many peers",
        "\n".join(
            [
                "<h1>Herodotus</h1>",
                f'<p class="lead">{who} of the web archive that nobody can switch off.</p>',
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
                "<pre>herodotus init --contact https://example.org/about-my-peer\nherodotus run</pre>",
            ]
        ),
    )


def not_found_page(path: str) -> str:
    shown = path if len(path) <= 200 else f"{path[:200]}…"
    return page(
        "Not here",
        f"<h1>Not here</h1>\n<p>This peer has no page at <code>{escape(shown)}</code>.</p>\n"
        '<p><a href="/">To the start page</a></p>',
    )
