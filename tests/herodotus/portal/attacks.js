// What archived pages try: one attack a section. `gained(what)`, `nothing()`, `tried(work)`, `raw()` and `portal` are the page's.

//# no attack
nothing();

//# frame busting, top.location
tried(() => { top.location = 'https://live.example/'; }).then(nothing);

//# frame busting, by a raw window
tried(() => { raw().eval("top.location = 'https://live.example/'"); }).then(nothing);

//# frame busting, parent.location
tried(() => { parent.location.replace('https://live.example/'); }).then(nothing);

//# frame busting, a link
document.body.innerHTML = "<a target=_top href='https://live.example/'>x</a>";document.links[0].click(); nothing();

//# frame busting, a form
document.body.innerHTML = "<form target=_top action='https://live.example/'></form>";document.forms[0].submit(); nothing();

//# service worker
tried(() => Object.getPrototypeOf(Navigator.prototype) && Object.getOwnPropertyDescriptor(raw().Navigator.prototype, 'serviceWorker').get.call(navigator).register('/web/20260101000000js_/SITE/sw.js').then(r => r.scope)).then(nothing);

//# local storage
tried(() => { var w = raw(); w.localStorage.a = 1; return w.localStorage.a; }).then(nothing);

//# session storage
tried(() => { var w = raw(); w.sessionStorage.a = 1; return w.sessionStorage.a; }).then(nothing);

//# databases
tried(() => new Promise((ok, no) => { var r = raw().indexedDB.open('a'); r.onsuccess = () => ok('db');r.onerror = no; })).then(nothing);

//# caches
tried(() => raw().caches.open('a').then(() => 'cache')).then(nothing);

//# cookies
tried(() => { var d = raw().document; d.cookie = 'a=b'; return d.cookie; }).then(nothing);

//# window.opener
tried(() => { var w = raw().open(portal + '/'); return w && 'window'; }).then(nothing);

//# fetch to the API
tried(() => raw().fetch(portal + '/api/v1/status').then(r => r.text())).then(nothing);

//# fetch to the status
tried(() => raw().fetch(portal + '/status').then(r => r.text())).then(nothing);

//# fetch without CORS
tried(() => raw().fetch(portal + '/api/v1/status', {mode: 'no-cors'}).then(() => 'sent')).then(nothing);

//# the API through a redirect
tried(() => raw().fetch('/web/20260101000000/SITE/to-api').then(r => r.text()).then(t => /peer_id/.test(t) && t)).then(nothing);

//# the API as a script
var s = document.createElement('script'); Object.getOwnPropertyDescriptor(raw().HTMLScriptElement.prototype, 'src').set.call(s, portal + '/api/v1/status');s.onload = () => gained('script'); s.onerror = nothing; document.body.appendChild(s); setTimeout(nothing, 2000);

//# a form posted to the portal
document.body.innerHTML = "<iframe name=in></iframe><form method=post target=in action='" + portal + "/save/https://a.example/'><input name=a></form>";HTMLFormElement.prototype.submit.call(document.forms[0]); setTimeout(nothing, 500);

//# a beacon
tried(() => { raw().Navigator.prototype.sendBeacon.call(navigator, portal + '/save/x', 'a'); }).then(() => setTimeout(nothing, 500));

//# a socket
tried(() => new Promise((ok, no) => { var s = new WebSocket(portal.replace('http', 'ws') + '/');s.onopen = () => ok('open'); s.onerror = no; })).then(nothing);

//# the portal in a frame
var f = document.body.appendChild(document.createElement('iframe'));f.onload = () => tried(() => f.contentDocument && f.contentDocument.title).then(nothing);Object.getOwnPropertyDescriptor(raw().HTMLIFrameElement.prototype, 'src').set.call(f, portal + '/');setTimeout(nothing, 2000);

//# the banner, by its document
tried(() => { parent.document.querySelector('nav').remove(); return 'removed'; }).then(nothing);

//# the banner, by messages
['javascript:alert(1)', 'https://live.example/', portal + '/api/v1/status', portal + '/',portal + '/web/../api/v1/status', portal + '/web/%2e%2e/status', '//live.example/web/', {}, null, 7].forEach(a => ['go', 'open', 'shown'].forEach(hd => top.postMessage({hd, url: a, address: a, title: 'x', begins: true}, '*'))); setTimeout(nothing, 500);

//# the banner, by a false one
document.body.innerHTML = '<div style="position:fixed;inset:0;top:-5000px;z-index:2147483647;height:9999px;background:red">1 April 1999</div>'; nothing();

//# the banner, by the whole screen
tried(() => document.documentElement.requestFullscreen().then(() => 'screen')).then(nothing);

//# itself in itself
for (var i = 0; i < 3; i++) { var f = document.createElement('iframe');f.src = location.pathname + '#' + Math.random(); document.body.appendChild(f); } nothing();

//# the live web, in every way
document.body.innerHTML = "<img src=//live.example/a><video src=//live.example/b></video><object data=//live.example/c></object><embed src=//live.example/d><link rel=stylesheet href=//live.example/e><link rel=prefetch href=//live.example/f><svg><image href=//live.example/g /></svg><p style='background:url(//live.example/h)'>x</p><input type=image src=//live.example/i>"; setTimeout(nothing, 500);
