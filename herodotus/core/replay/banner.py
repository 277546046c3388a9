"""What does a reader see above an archived page? Its address, its date, and links to other days.

Two forms. *Within the page*: plain links at its start; the page may change or remove them and gains nothing by
it. *Around the page*: a page of ours with the banner, and the archived page in a frame, where no archived
script reaches the banner and, whatever it does, the frame shows nothing but the archive. Neither needs
anything from elsewhere; text is ASCII, so that it can stand in a page of any charset.
"""

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from herodotus.core.replay.context import Flag, ReplayContext

HOLDERS_SHOWN_MAX = 8
URL_SHOWN_CHARACTERS = 120
NEWER_MARK = "herodotus-newer"
"""At the end of an address that somebody is led to who asked for a day before all captures: the frame then says so."""
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip

# Every rule is said again in the elements' own style, which the page's rules do not override.
_BAR = (
    "all:initial;display:block;position:relative;z-index:2147483647;box-sizing:border-box;width:100%;"
    "padding:6px 12px;background:#fbf8f1;color:#1d1b16;border-bottom:2px solid #7a3b12;"
    "font:14px/1.5 Georgia,serif;text-align:left"
)
_INLINE = "all:unset;display:inline;color:#7a3b12;text-decoration:underline;cursor:pointer;margin-right:.8em"
_TEXT = "all:unset;display:inline;margin-right:.8em"

_FRAME_STYLE = """
:root { color-scheme: light dark; --ink: #1d1b16; --paper: #fbf8f1; --line: #7a3b12; --accent: #7a3b12 }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e9e3d5; --paper: #191713; --line: #e0a06c; --accent: #e0a06c }
}
html, body { height: 100%; margin: 0 }
body { display: flex; flex-direction: column }
body { background: var(--paper); color: var(--ink); font: 1rem/1.5 Georgia, serif }
header { padding: .4rem .8rem; border-bottom: 2px solid var(--line) }
h1, nav { display: inline; font-size: 1rem; font-weight: normal; margin: 0 }
h1, nav > * { margin-right: .8em; overflow-wrap: anywhere } a { color: var(--accent) }
header > p { display: none; margin: 0 .8em 0 0; font-style: italic } header > p:target { display: inline }
#herodotus-parts ul { max-height: 40vh; overflow: auto; margin: .2rem 0; overflow-wrap: anywhere }
#herodotus-parts .far { font-weight: bold }
#herodotus-simplified { margin: 0; padding: .2rem .8rem; font-style: italic }
main { flex: 1; display: flex }
iframe { flex: 1; border: 0; background: white }
"""
_FRAME_SCRIPT = (
    r"""
(function () {
  "use strict";
  var frame = document.querySelector("iframe"), facts = document.documentElement.dataset, place = location.hash;
  var isNamed = "named" in facts, hasReported = false, shown = "", told = "", opened = -1000, timer = 0;
  var home = new URL(facts.url).origin, begun = 0, ended = 0, again = 0, dated = "";
  var visits = performance.getEntriesByType("navigation");
  if (place.length < 2 || place === "#NEWER") place = "";
  if (place) frame.src = frame.src + place;
  // A page in the box has taken the original's path, by which a browser that comes back would ask for it in vain.
  else if (!isNamed && visits[0] && visits[0].type !== "navigate") frame.src = frame.src;

  function archived(url) {
    if (typeof url !== "string" || url.length > 4096 || !/^https?:\/\//i.test(url)) return "";
    try { return new URL(url).href; } catch (error) { return ""; }
  }
  function outer(url) { return facts.archive + facts.date + "/" + url; }
  // Which site is in the frame the browser says, and no page can be another's.
  function siteOf(origin) {
    var label = /^https?:\/\/\d{14}-([hs])(\d*)-([a-z0-9_-]+)\./.exec(origin);
    if (!label) return "";
    var host = label[3].replace(/--|-/g, function (one) { return one === "-" ? "." : "-"; });
    return (label[1] === "h" ? "http://" : "https://") + host + (label[2] ? ":" + label[2] : "");
  }

  function day(text) {
    var form = { day: "numeric", month: "long", year: "numeric", timeZone: "UTC" };
    return new Date(text).toLocaleDateString("en-GB", form);
  }
  // Of which days a page's parts are, our server says as well: the page might lie.
  function date(page) {
    var place = document.getElementById("herodotus-parts"), list = place.querySelector("ul");
    dated = page;
    place.hidden = true;
    fetch(facts.archive + "parts/" + facts.date + "/" + page).then(function (answer) {
      return answer.ok ? answer.json() : null;
    }).then(function (found) {
      if (!found || dated !== page) return;
      var first = day(found.first), last = day(found.last), words = [];
      if (first !== last) words.push("parts from " + first + " to " + last);
      if (found.far) words.push(found.far + " more than " + found.drift_days + " days away");
      if (found.missing) words.push(found.missing + (found.missing > 1 ? " parts" : " part") + " not archived");
      if (!words.length) return;
      place.querySelector("summary").textContent = words.join(", ");
      found.parts.sort(function (one, other) { return Math.abs(other.offset_s) - Math.abs(one.offset_s); });
      list.replaceChildren.apply(list, found.parts.map(function (part) {
        var item = document.createElement("li"), link = document.createElement("a");
        if (part.memento) link.href = facts.archive + part.memento.slice(5);
        link.textContent = part.url;
        if (part.is_far) item.className = "far";
        item.append((part.date ? day(part.date) : "not archived") + " ", link);
        return item;
      }));
      place.hidden = false;
    }).catch(function () {});
  }

  // What a page says of itself is its address and title; what the banner says of that address, our server does.
  function follow() {
    timer = 0;
    var page = shown.split("#")[0];
    history.replaceState(null, "", outer(shown));
    if (page === told) return;
    told = page;
    date(page);
    fetch(outer(page), { headers: { "X-Herodotus-Banner": "1" } }).then(function (answer) {
      return answer.ok ? answer.text() : "";
    }).then(function (text) {
      if (told !== page) return;
      var made = new DOMParser().parseFromString(text, "text/html"), ours = document.querySelector("header");
      var heading = made.querySelector("header h1"), ways = made.querySelector("header nav");
      if (heading && ways) {
        ours.querySelector("h1").replaceWith(heading);
        ours.querySelector("nav").replaceWith(ways);
      } else {
        ours.querySelector("h1").lastChild.textContent = " " + page;
      }
    }).catch(function () {});
  }
  function box() {
    hasReported = true;
    isNamed = false;
    frame.setAttribute("sandbox", "allow-scripts allow-forms allow-modals");
    frame.src = facts.box + location.hash;
    document.getElementById("herodotus-simplified").hidden = false;
    boxed();
  }
  function isPressed() { return !navigator.userActivation || navigator.userActivation.isActive; }
  function lead(url) {  // in the place of the browser's own page, to which nobody shall go back
    frame.contentWindow.location.replace(new URL(facts.archive + facts.date + "mp_/" + url, location.href).href);
  }
  // In the box a page that goes to a path of its site asks for it here, and our policy stops it: it is led there.
  function boxed() {
    frame.addEventListener("load", function () {
      var before = ended;
      ended = begun;
      if (begun === before && "reports" in facts) setTimeout(function () {
        if (begun === before && again++ < AGAIN_MAX) lead(shown || facts.url + place);
      }, BLOCKED_MS);
    });
    document.addEventListener("securitypolicyviolation", function (event) {
      var to = event.blockedURI, here = location.origin;
      if (event.effectiveDirective !== "frame-src" || again++ >= AGAIN_MAX) return;
      if (to.indexOf(here + "/") === 0) lead(home + to.slice(here.length));
      else if (/^https?:[/][/][^/]+[/]./.test(to)) lead(to);
    });
  }
  addEventListener("message", function (event) {
    var said = event.data;
    if (!said || typeof said !== "object") return;
    if (event.source !== frame.contentWindow) return;
    var url = archived(said.url);
    if (!url) return;
    if (said.hd === "shown" && said.begins === true) {
      begun++;
      again = 0;
      // A browser that was just about to show the page without the place on it may go nowhere: it is told again.
      if (place && url.indexOf("#") < 0) frame.src = frame.src;
      place = "";
    }
    if (said.hd === "shown" && new URL(url).origin === (isNamed ? siteOf(event.origin) : home)) {
      hasReported = true;
      if (typeof said.title === "string" && said.title) document.title = said.title.slice(0, 200);
      if (url === shown) return;
      shown = url;
      if (told === "") told = facts.url;
      if (!timer) timer = setTimeout(follow, 300);
    } else if (said.hd === "open" && performance.now() - opened >= 1000) {
      if (!isPressed()) return;
      opened = performance.now();
      window.open(outer(url), "_blank", "noopener");
    } else if (said.hd === "go" && !isNamed && isPressed()) {
      location.href = outer(url);
    }
  });
  frame.addEventListener("load", function () { if (!dated) date(facts.url); });
  if (!isNamed) boxed();
  // A name that leads nowhere loads the browser's own page, which reports nothing.
  if (isNamed && "reports" in facts) {
    var late = function () { if (!hasReported) box(); };
    frame.addEventListener("load", function () { setTimeout(late, LOADED_MS); }, { once: true });
    setTimeout(late, SILENT_MS);
  }
})();
""".replace("NEWER", NEWER_MARK)
    .replace("LOADED_MS", "1500")
    .replace("SILENT_MS", "12000")
    .replace("BLOCKED_MS", "1000")
    .replace("AGAIN_MAX", "3")
)


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


FRAME_STYLE_SOURCE = _digest(_FRAME_STYLE)
FRAME_SCRIPT_SOURCE = _digest(_FRAME_SCRIPT)


@dataclass(frozen=True, slots=True, kw_only=True)
class HolderNote:
    name: str
    """Short form of the peer's id."""
    url: str
    """The peer's portal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BannerFacts:
    """What the handler knows of the capture and its neighbours. Dates are 14 digits."""

    first: str | None = None
    previous: str | None = None
    next: str | None = None
    last: str | None = None
    unchanged_until: str | None = None
    """The last visit that found this very version."""
    holders: Sequence[HolderNote] = ()
    door: str = ""
    """What is to be said of how it came here."""


def banner_html(context: ReplayContext, facts: BannerFacts) -> bytes:
    """For `ReplayContext.banner`."""
    items = "".join(
        f'<a style="{_INLINE}" href="{target}" target="_top">{label}</a>'
        if target
        else f'<span style="{_TEXT}">{label}</span>'
        for label, target in _items(context, facts)
    )
    bar = (
        f'<div id="herodotus-banner" role="navigation" aria-label="Web archive" style="{_BAR}">{items}</div>'
    )
    return bar.encode("ascii", "xmlcharrefreplace")


def frame_html(context: ReplayContext, facts: BannerFacts, *, reports: bool = True) -> bytes:
    """Sent with `frame_headers`. The context is that of the page asked for, with the flag of a page. `reports`: what is
    in the frame has our script, so that silence says that its name leads nowhere."""
    items = "".join(
        f'<a href="{target}">{label}</a> ' if target else f"<span>{label}</span> "
        for label, target in _items(context, facts)[1:]
    )
    url = context.page_url
    box = source = f"{context.archive_prefix}{context.timestamp}{Flag.MAIN}/{url}"
    allowed, told = "allow-scripts allow-forms allow-modals", ""
    if context.site is not None:
        source = context.site.origin + url.removeprefix(context.site.label.origin)
        allowed += " allow-same-origin allow-pointer-lock"
        told = f' data-named data-box="{escape(box)}"'
    title = escape(f"{_shown(url)} ({readable_date(context.timestamp)})")
    page = (
        f'<!DOCTYPE html><html lang="en" data-archive="{escape(context.archive_prefix)}" '
        f'data-date="{context.timestamp}" data-url="{escape(url)}"'
        f'{told}{" data-reports" * reports}><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><title>{title}</title>'
        f"<style>{_FRAME_STYLE}</style></head>"
        f"<body><header><h1>{_items(context, facts)[0][0]}</h1>"
        f'<p id="{NEWER_MARK}">Nothing older is archived: this is the nearest newer version.</p>'
        f'<nav aria-label="Web archive">{items}</nav>'
        '<details id="herodotus-parts" hidden><summary></summary><ul></ul></details></header>'
        '<p id="herodotus-simplified" hidden>Simplified view: this browser does not find names under localhost.</p>'
        # Labels give nothing to pages that do not say where they are from.
        f'<main><iframe title="{title}" src="{escape(source)}" sandbox="{allowed}" referrerpolicy="origin"></iframe>'
        "</main>"
        f"<script>{_FRAME_SCRIPT}</script></body></html>"
    )
    return page.encode("ascii", "xmlcharrefreplace")


def _items(context: ReplayContext, facts: BannerFacts) -> list[tuple[str, str]]:
    """Label and target, ready for HTML; no target: a word."""
    items = [(f"<b>{readable_date(context.timestamp)}</b> {escape(_shown(context.page_url))}", "")]
    if facts.unchanged_until is not None:
        items.append((f"unchanged until {readable_date(facts.unchanged_until)}", ""))
    if facts.door:
        items.append((escape(facts.door), ""))
    ways = (("first", facts.first), ("previous", facts.previous), ("next", facts.next), ("last", facts.last))
    items += [(label, _address(context, date)) for label, date in ways if date is not None]
    items.append(("history", escape(f"{context.archive_prefix}*/{context.page_url}")))
    if facts.holders:
        shown = facts.holders[:HOLDERS_SHOWN_MAX]
        more = len(facts.holders) - len(shown)
        items.append((f"kept by {len(facts.holders)}:", ""))
        items += [(escape(holder.name), _of_the_web(holder.url)) for holder in shown]
        items += [(f"and {more} more", "")] if more else []
    return items


def _of_the_web(url: str) -> str:
    """A peer says itself where its portal is: it must not say `javascript:`."""
    return escape(url) if url.startswith(("http://", "https://")) else ""


def _address(context: ReplayContext, date: str) -> str:
    return escape(f"{context.archive_prefix}{date}/{context.page_url}")


def _shown(url: str) -> str:
    return url if len(url) <= URL_SHOWN_CHARACTERS else url[: URL_SHOWN_CHARACTERS - 1] + "\u2026"


def readable_date(digits: str) -> str:
    """Of 4 to 14 digits; what is no date is shown as it was written."""
    parts = [digits[:4], *(digits[at : at + 2] for at in range(4, 14, 2))]
    if not digits.isascii() or not digits.isdigit() or (len(digits) >= 6 and not 1 <= int(parts[1]) <= 12):
        return escape(digits[:20])
    day = parts[0]
    if len(digits) >= 6:
        day = f"{_MONTHS[int(parts[1]) - 1]} {day}"
    if len(digits) >= 8:
        day = f"{int(parts[2])} {day}"
    return f"{day}, {parts[3]}:{parts[4]}:{parts[5]}" if len(digits) == 14 else day
