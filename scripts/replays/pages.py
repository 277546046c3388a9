"""What do the three sites of the acid page hold? One page with a self-check for each mechanism, and what it needs.

By URL: type, body, and where a redirect leads. The same bytes are served live and stored as captures.
"""

import base64
from dataclasses import dataclass
from pathlib import Path
from typing import Final

A: Final = "http://a.acid.example"
B: Final = "http://b.acid.example"
C: Final = "http://c.acid.example:8080"
ENTRY: Final = f"{A}/dir/page.html?x=1"
IMPOSSIBLE: Final = frozenset({"location as text"})
"""By any way that leaves the page in a browser as it is: `location` itself cannot be given another value."""
IMPOSSIBLE_IN_BOX: Final = IMPOSSIBLE | {
    "BroadcastChannel to a frame", "a blank frame fetches", "a frame of srcdoc", "a frame of the same site",
    "a message to another origin does not arrive", "indexedDB", "localStorage of a frame of the same site",
}  # fmt: skip
"""Each frame there has an origin that nobody shares, and no database."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Thing:
    kind: str
    body: bytes
    status: int = 200
    location: str = ""


_PAGE = f"""<!doctype html><html><head><meta charset=utf-8><title>acid</title>
<script type=importmap>{{"imports": {{"mapped": "./m.js", "mapped-b": "{B}/m.js"}}}}</script>
<link rel=stylesheet href="{B}/style.css">
<style>@import "{B}/imported.css"; #static {{ background: url({B}/i.svg?static) }}</style>
</head><body>
<a id=relative href="other.html">r</a> <a id=port href="{C}/x">p</a>
<div id=holder><a id=absolute href="{B}/linked.html">a</a></div>
<form action="{B}/form"></form>
<p id=linked>linked</p><p id=imported>imported</p><p id=made>made</p><p id=static>static</p>
<img id=picture src="{B}/i.svg" width=8 height=8><img id=set srcset="{B}/set.svg 1x">
<img id=lazy data-src="{B}/i.svg?lazy">
<svg width=20 height=20><use id=use href="/sprite.svg#part"></use></svg>
<video><track id=track default src="/track.vtt" kind=captions></video>
<script>document.write("<script src='{B}/written.js'></" + "script>");</script>
<script type=module>import {{ name }} from "{B}/m.js"; window.moduleSays = name;</script>
<script type=module src="{B}/entry.js" crossorigin></script>
<script type=module>import {{ name }} from "mapped"; window.mapped = name;</script>
<script type=module>import {{ name }} from "mapped-b"; window.mappedB = name;</script>
<script id=acid src="acid.js"></script>
</body></html>"""
_FRAME = """<!doctype html><title>frame of %s</title><script>
addEventListener("message", function (event) {
  if (event.data === "question") event.source.postMessage("answer", event.origin);
});</script><p>frame"""
_GOING = f"""<!doctype html><title>going</title>
<a id=link href="/arrived.html">l</a><a id=link-absolute href="{B}/arrived.html">l</a>
<a id=link-noreferrer rel="noreferrer" href="{B}/arrived.html">l</a>
<a id=link-top-in-frame target=_self href="{B}/arrived.html">l</a>
<form action="/arrived.html"><input name=q value=1></form><script>
var how = location.search.slice(1);
setTimeout(function () {{
  if (how === "location-root") location = "/arrived.html";
  else if (how === "location-absolute") location.href = "{B}/arrived.html";
  else if (how === "assign") location.assign("{B}/arrived.html");
  else if (how === "replace") location.replace("/arrived.html");
  else if (how === "refresh") document.head.insertAdjacentHTML("beforeend",
    "<meta http-equiv=refresh content='0;url=/arrived.html'>");
  else if (how === "form") document.forms[0].submit();
  else document.getElementById(how).click();
}}, 50);</script>"""
_WORKER = f"""onmessage = function (event) {{
  if (event.data === "a") postMessage("worker a");
  if (event.data === "import") {{ importScripts("{B}/forworker.js"); postMessage(String(self.ofB)); }}
  if (event.data === "fetch") fetch("{B}/data.txt").then(a => a.text()).then(postMessage, e => postMessage(String(e)));
}};"""
_SVG = b"<svg xmlns='http://www.w3.org/2000/svg' width='8' height='8'><rect id='part' width='8' height='8'/></svg>"
_PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg=="
)


def _html(text: str) -> Thing:
    return Thing(kind="text/html; charset=utf-8", body=text.encode())


def _script(text: str) -> Thing:
    return Thing(kind="text/javascript", body=text.encode())


def _style(text: str) -> Thing:
    return Thing(kind="text/css", body=text.encode())


def _words(text: str) -> Thing:
    return Thing(kind="text/plain", body=text.encode())


def acid_site() -> dict[str, Thing]:
    svg = Thing(kind="image/svg+xml", body=_SVG)
    marks = ["static", "lazy", "set", "one", "two", "node", "rule", "property", "set-property"]
    marks += [f"markup{number}" for number in range(1, 9)]
    return {
        ENTRY: _html(_PAGE),
        f"{A}/dir/acid.js": _script(Path(__file__).with_name("acid.js").read_text("utf-8")),
        f"{A}/dir/data.txt": _words("a data"),
        f"{B}/data.txt": _words("b data"),
        f"{C}/data.txt": _words("c data"),
        f"{A}/redirect": Thing(kind="text/html", body=b"", status=302, location=f"{B}/data.txt"),
        f"{A}/dir/m.js": _script("export const name = 'a module'; export const url = import.meta.url;"),
        f"{B}/m.js": _script("export const name = 'b module'; export const url = import.meta.url;"),
        f"{B}/entry.js": _script("import { name } from './m.js'; window.moduleOfB = name === 'b module' ? 1 : 0;"),
        f"{B}/script.js": _script("window.scriptOfB = 1;"),
        f"{B}/written.js": _script("window.written = 1;"),
        f"{B}/forworker.js": _script("self.ofB = 1;"),
        f"{B}/srcdoc.js": _script("parent.srcdocSaid = document.compatMode;"),
        f"{B}/jsonp?callback=answered": _script("answered(7)"),
        f"{A}/dir/worker.js": _script(_WORKER),
        f"{A}/dir/mworker.js": _script("import { name } from './m.js'; postMessage(name);"),
        f"{A}/dir/shared.js": _script(
            "onconnect = e => { e.ports[0].onmessage = m => e.ports[0].postMessage('shared ' + m.data); };"
        ),
        f"{B}/style.css": _style("#linked { color: rgb(1, 2, 3) }"),
        f"{B}/imported.css": _style("#imported { color: rgb(4, 5, 6) }"),
        f"{B}/made.css": _style("#made { color: rgb(7, 8, 9) }"),
        f"{B}/i.svg": svg,
        f"{B}/set.svg": svg,
        **{f"{B}/i.svg?{mark}": svg for mark in marks},
        f"{A}/sprite.svg": svg,
        f"{B}/p.png": Thing(kind="image/png", body=_PNG),
        f"{A}/track.vtt": Thing(kind="text/vtt", body=b"WEBVTT\n\n00:00.000 --> 00:01.000\nx\n"),
        f"{A}/frame.html": _html(_FRAME % "a"),
        f"{B}/frame.html": _html(_FRAME % "b"),
        f"{A}/channel.html": _html("<script>new BroadcastChannel('acid').postMessage('channel')</script>"),
        f"{A}/going.html": _html(_GOING),
        **{f"{A}/going.html?{how}": _html(_GOING) for how in (
            "location-root", "location-absolute", "assign", "replace", "refresh", "link", "link-absolute",
            "link-noreferrer", "form", "link-top-in-frame")},
        f"{A}/arrived.html": _html("<script>parent.postMessage('arrived', '*')</script>"),
        f"{A}/arrived.html?q=1": _html("<script>parent.postMessage('arrived', '*')</script>"),
        f"{B}/arrived.html": _html("<script>parent.postMessage('arrived', '*')</script>"),
    }  # fmt: skip
