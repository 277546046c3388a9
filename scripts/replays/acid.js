// Each check is one mechanism that an archived page may need, and says by itself whether it works.
"use strict";
var A = "http://a.acid.example", B = "http://b.acid.example", C = "http://c.acid.example:8080";
var acid = { passed: [], failed: {}, isDone: false };
var checks = [];
function check(name, work) { checks.push([name, work]); }
function same(found, wanted) { if (found !== wanted) throw new Error("found " + String(found).slice(0, 120) + ", not " + wanted); }
function later(ms) { return new Promise(function (done) { setTimeout(done, ms); }); }
function heard(target, name, ms) {
  return new Promise(function (done, failed) {
    target.addEventListener(name, done, { once: true });
    if (name !== "error") target.addEventListener("error", function () { failed(new Error("error event")); }, { once: true });
    setTimeout(function () { failed(new Error("no " + name)); }, ms || 4000);
  });
}
function made(tag, fields) {
  var element = document.createElement(tag);
  Object.keys(fields || {}).forEach(function (name) { element[name] = fields[name]; });
  return element;
}
function placed(element) { document.body.appendChild(element); return element; }
function loaded(element) { var end = heard(element, "load"); placed(element); return end; }
function words(answer) { return answer.text(); }
function until(test) {
  return new Promise(function (done, failed) {
    var tries = 0;
    (function look() {
      var found;
      try { found = test(); } catch (error) { found = null; }
      if (found) done(found); else if (++tries > 80) failed(new Error("never")); else setTimeout(look, 50);
    })();
  });
}
function wasLoaded(part) {
  return until(function () {
    return performance.getEntriesByType("resource").some(function (one) {
      return one.name.indexOf(part) >= 0 && one.encodedBodySize > 0;
    });
  });
}
function told(worker, said) {
  return new Promise(function (done, failed) {
    var port = worker.port || worker;
    port.onmessage = function (event) { done(event.data); };
    worker.onerror = function (event) { failed(new Error("worker " + (event.message || ""))); };
    setTimeout(function () { failed(new Error("no word of the worker")); }, 5000);
    if (said !== undefined) port.postMessage(said);
  });
}
function framed(address, ms) { var frame = made("iframe", { src: address }); return loaded(frame).then(function () { return frame; }); }

// -- where it is
check("location.pathname", function () { same(location.pathname, "/dir/page.html"); });
check("location.search", function () { same(location.search, "?x=1"); });
check("the host name of a location", function () { same(location.hostname, "a.acid.example"); });
check("the address of a location", function () { same(location.href, A + "/dir/page.html?x=1"); });
check("the origin of a location", function () { same(window.location.origin + "|" + document.location.protocol + location.port, A + "|http:"); });
check("a link to this page is where we are", function () { same(made("a", { href: "#part" }).href.replace(/#.*/, "") === location.href.replace(/#.*/, ""), true); });
check("location as text", function () { same("" + location, A + "/dir/page.html?x=1"); });
check("top is self", function () { same(top === self, true); });
check("parent === self", function () { same(parent === self, true); });
check("top.location", function () { same(top.location.href === location.href, true); });
check("frameElement", function () { same(window.frameElement, null); });
check("document.URL", function () { same(document.URL, A + "/dir/page.html?x=1"); });
check("document.documentURI", function () { same(document.documentURI, A + "/dir/page.html?x=1"); });
check("baseURI", function () { same(document.body.baseURI, A + "/dir/page.html?x=1"); });
check("document.referrer", function () { same(document.referrer, ""); });
check("document.domain", function () { same(document.domain, "a.acid.example"); });
check("self.origin", function () { same(self.origin, A); });
check("new URL(relative, document.baseURI)", function () { same(new URL("../z", document.baseURI).href, A + "/z"); });

// -- what elements say
check("href of a relative link", function () { same(document.getElementById("relative").href, A + "/dir/other.html"); });
check("href of an absolute link", function () { same(document.getElementById("absolute").href, B + "/linked.html"); });
check("hostname of a link", function () { same(document.getElementById("absolute").hostname, "b.acid.example"); });
check("port of a link", function () { same(document.getElementById("port").port, "8080"); });
check("a link as text", function () { same(String(document.getElementById("absolute")), B + "/linked.html"); });
check("getAttribute of an absolute link", function () { same(document.getElementById("absolute").getAttribute("href"), B + "/linked.html"); });
check("action of a form", function () { same(document.forms[0].action, B + "/form"); });
check("src of a picture", function () { same(document.getElementById("picture").src, B + "/i.svg"); });
check("currentSrc of a srcset", function () { return until(function () { return document.getElementById("set").currentSrc === B + "/set.svg"; }); });
check("innerHTML gives addresses as written", function () { same(document.getElementById("holder").innerHTML.indexOf(B + "/linked.html") > 0, true); });
check("src of a script", function () { same(document.getElementById("acid").src, A + "/dir/acid.js"); });

// -- requests
check("fetch, relative", function () { return fetch("data.txt").then(words).then(function (t) { same(t, "a data"); }); });
check("fetch, root-relative", function () { return fetch("/dir/data.txt").then(words).then(function (t) { same(t, "a data"); }); });
check("fetch, absolute", function () { return fetch(B + "/data.txt").then(words).then(function (t) { same(t, "b data"); }); });
check("fetch, without scheme", function () { return fetch("//b.acid.example/data.txt").then(words).then(function (t) { same(t, "b data"); }); });
check("fetch, another port", function () { return fetch(C + "/data.txt").then(words).then(function (t) { same(t, "c data"); }); });
check("fetch of a URL object", function () { return fetch(new URL("/data.txt", B)).then(words).then(function (t) { same(t, "b data"); }); });
check("fetch of a Request", function () {
  var asked = new Request(B + "/data.txt", { referrerPolicy: "no-referrer" });
  same(asked.url, B + "/data.txt");
  return fetch(asked).then(words).then(function (t) { same(t, "b data"); });
});
check("url of an answer", function () { return fetch("data.txt").then(function (one) { same(one.url, A + "/dir/data.txt"); }); });
check("a redirect is followed", function () {
  return fetch("/redirect").then(function (one) { same(one.url, B + "/data.txt"); return one.text(); }).then(function (t) { same(t, "b data"); });
});
check("fetch with credentials", function () { return fetch(B + "/data.txt", { credentials: "include" }).then(words).then(function (t) { same(t, "b data"); }); });
check("fetch of markup as it was", function () {
  return fetch("/frame.html").then(words).then(function (t) { same(t.indexOf("_hd/client") + t.indexOf("_/client"), -2); });
});
check("what is missing has a status", function () { return fetch("/missing").then(function (one) { same(one.status, 404); }); });
check("what is missing elsewhere has a status", function () { return fetch(B + "/missing").then(function (one) { same(one.status, 404); }); });
check("XMLHttpRequest, relative", function () { return asked("data.txt").then(function (x) { same(x.responseText, "a data"); }); });
check("XMLHttpRequest, absolute", function () { return asked(B + "/data.txt").then(function (x) { same(x.responseText, "b data"); }); });
check("responseURL", function () { return asked("data.txt").then(function (x) { same(x.responseURL, A + "/dir/data.txt"); }); });
function asked(address) {
  var one = new XMLHttpRequest();
  one.open("GET", address);
  var end = heard(one, "load");
  one.send();
  return end.then(function () { return one; });
}
check("sendBeacon", function () { same(navigator.sendBeacon("/beacon", "x"), true); });
check("url of an EventSource", function () { var one = new EventSource(B + "/events"); var url = one.url; one.close(); same(url, B + "/events"); });

// -- scripts and modules
check("a script from elsewhere", function () { return loaded(made("script", { src: B + "/script.js" })).then(function () { same(window.scriptOfB, 1); }); });
check("JSONP", function () {
  return new Promise(function (done) { window.answered = done; placed(made("script", { src: B + "/jsonp?callback=answered" })); }).then(function (v) { same(v, 7); });
});
check("a missing script has its error", function () { var one = made("script", { src: B + "/missing.js" }), end = heard(one, "error"); placed(one); return end; });
check("document.write of a script", function () { return until(function () { return window.written === 1; }); });
check("a module with an absolute import", function () { return until(function () { return window.moduleSays === "b module"; }); });
check("a module from elsewhere", function () { return until(function () { return window.moduleOfB === 1; }); });
check("import(), relative", function () { return import("./m.js").then(function (m) { same(m.name, "a module"); }); });
check("import(), root-relative", function () { return import("/dir/m.js").then(function (m) { same(m.name, "a module"); }); });
check("import(), absolute", function () { return import("http://b.acid.example/m.js").then(function (m) { same(m.name, "b module"); }); });
check("an import map, relative", function () { return until(function () { return window.mapped === "a module"; }); });
check("an import map, absolute", function () { return until(function () { return window.mappedB === "b module"; }); });
check("path of import.meta.url", function () { return import("./m.js").then(function (m) { same(new URL(m.url).pathname, "/dir/m.js"); }); });

// -- workers
check("a worker", function () { return told(new Worker("worker.js"), "a").then(function (t) { same(t, "worker a"); }); });
check("importScripts, absolute", function () { return told(new Worker("worker.js"), "import").then(function (t) { same(t, "1"); }); });
check("fetch in a worker, absolute", function () { return told(new Worker("worker.js"), "fetch").then(function (t) { same(t, "b data"); }); });
check("a module as worker", function () { return told(new Worker("mworker.js", { type: "module" })).then(function (t) { same(t, "a module"); }); });
check("a worker from a blob", function () {
  var code = URL.createObjectURL(new Blob(["postMessage('blob')"], { type: "text/javascript" }));
  return told(new Worker(code)).then(function (t) { same(t, "blob"); });
});
check("fetch in a worker from a blob", function () {
  var code = URL.createObjectURL(new Blob(["fetch('" + B + "/data.txt').then(a => a.text()).then(postMessage, e => postMessage(String(e)))"]));
  var worker = new Worker(code);
  URL.revokeObjectURL(code);
  return told(worker).then(function (t) { same(t, "b data"); });
});
check("a shared worker", function () { return told(new SharedWorker("shared.js"), "x").then(function (t) { same(t, "shared x"); }); });

// -- markup and styles that scripts make
check("a picture from elsewhere", function () { return loaded(made("img", { src: B + "/i.svg" })); });
check("a missing picture has its error", function () { var one = made("img", { src: B + "/missing.png" }), end = heard(one, "error"); placed(one); return end; });
check("new Image", function () { var one = new Image(); one.src = B + "/i.svg"; return heard(one, "load"); });
check("new Audio", function () { same(new Audio(B + "/a.mp3").src, B + "/a.mp3"); });
check("a lazy picture", function () { var one = document.getElementById("lazy"); one.src = one.dataset.src; return heard(one, "load"); });
check("setAttribute", function () { var one = made("img"); one.setAttribute("src", B + "/i.svg?set"); return loaded(one); });
check("srcset of a script", function () { return loaded(made("img", { srcset: B + "/i.svg?one 1x, " + B + "/i.svg?two 2x" })); });
check("innerHTML", function () { return inMarkup(function (place, html) { place.innerHTML = html; }); });
check("insertAdjacentHTML", function () { return inMarkup(function (place, html) { place.insertAdjacentHTML("beforeend", html); }); });
check("DOMParser", function () {
  return inMarkup(function (place, html) { place.append(new DOMParser().parseFromString(html, "text/html").body.firstChild); });
});
check("createContextualFragment", function () {
  return inMarkup(function (place, html) { place.append(document.createRange().createContextualFragment(html)); });
});
check("a template", function () {
  return inMarkup(function (place, html) { var one = made("template"); one.innerHTML = html; place.append(one.content.cloneNode(true)); });
});
var number = 0;
function inMarkup(put) {
  var place = placed(made("div"));
  put(place, "<img src='" + B + "/i.svg?markup" + ++number + "'>");
  return until(function () { var one = place.querySelector("img"); return one.complete && one.naturalWidth > 0; });
}
check("a style sheet from elsewhere", function () { return until(function () { return getComputedStyle(document.getElementById("linked")).color === "rgb(1, 2, 3)"; }); });
check("@import in a style", function () { return until(function () { return getComputedStyle(document.getElementById("imported")).color === "rgb(4, 5, 6)"; }); });
check("a style that a script made", function () {
  placed(made("style", { textContent: "@import url(" + B + "/made.css);" }));
  return until(function () { return getComputedStyle(document.getElementById("made")).color === "rgb(7, 8, 9)"; });
});
check("a style of text nodes", function () {
  var style = made("style");
  style.appendChild(document.createTextNode("#holder { background: url('" + B + "/i.svg?node') }"));
  placed(style);
  return wasLoaded("i.svg?node");
});
check("insertRule", function () {
  var style = placed(made("style"));
  style.sheet.insertRule("#picture { background: url(" + B + "/i.svg?rule) }");
  return wasLoaded("i.svg?rule");
});
check("style.backgroundImage", function () { document.getElementById("linked").style.backgroundImage = "url(" + B + "/i.svg?property)"; return wasLoaded("i.svg?property"); });
check("style.setProperty", function () { document.getElementById("made").style.setProperty("background", "url(" + B + "/i.svg?set-property)"); return wasLoaded("i.svg?set-property"); });
check("SVG <use> of a file", function () {
  return until(function () { var box = document.getElementById("use").getBBox(); return box.width === 8 && box.height === 8; });
});
check("<track>", function () { var track = document.getElementById("track"); track.track.mode = "showing"; return until(function () { return track.readyState === 2; }); });
check("a canvas reads a picture from elsewhere", function () {
  var one = made("img", { crossOrigin: "anonymous", src: B + "/p.png" });
  return loaded(one).then(function () {
    var canvas = made("canvas"), pen = canvas.getContext("2d");
    pen.drawImage(one, 0, 0);
    same(pen.getImageData(0, 0, 1, 1).data.length, 4);
  });
});

// -- frames and messages
check("a frame of the same site", function () { return framed("/frame.html").then(function (f) { same(f.contentDocument.title, "frame of a"); }); });
check("a blank frame fetches", function () {
  return placed(made("iframe")).contentWindow.fetch(B + "/data.txt").then(words).then(function (t) { same(t, "b data"); });
});
check("a frame of srcdoc", function () {
  placed(made("iframe", { srcdoc: "<!doctype html><script src='" + B + "/srcdoc.js'></" + "script>" }));
  return until(function () { return window.srcdocSaid === "CSS1Compat"; });
});
check("src of a frame by script", function () { var f = placed(made("iframe")); f.src = B + "/frame.html"; same(f.src, B + "/frame.html"); return talk(f); });
check("a message to a target origin", function () { return framed(B + "/frame.html").then(talk); });
function talk(frame) {
  return new Promise(function (done, failed) {
    setTimeout(function () { failed(new Error("no answer")); }, 4000);
    window.addEventListener("message", function listen(event) {
      if (event.source !== frame.contentWindow || event.data !== "answer") return;
      window.removeEventListener("message", listen);
      done(event);
    });
    (function again() { if (frame.isConnected) { frame.contentWindow.postMessage("question", "http://b.acid.example"); setTimeout(again, 200); } })();
  }).then(function (event) { frame.remove(); return event; });
}
check("event.origin", function () { return framed(B + "/frame.html").then(talk).then(function (event) { same(event.origin, B); }); });
check("a message to another origin does not arrive", function () {
  return framed(B + "/frame.html").then(function (frame) {
    frame.contentWindow.postMessage("question", "http://c.acid.example");
    return new Promise(function (done, failed) { window.addEventListener("message", function (e) { if (e.source === frame.contentWindow) failed(new Error("arrived")); }); setTimeout(done, 700); });
  });
});
check("a message of a channel", function () {
  var channel = new MessageChannel();
  var end = new Promise(function (done) { channel.port2.onmessage = function (event) { done(event.data); }; });
  channel.port1.postMessage("x", []);
  return end.then(function (t) { same(t, "x"); });
});
check("a buffer is handed to a worker", function () {
  var worker = new Worker("worker.js"), buffer = new ArrayBuffer(8);
  worker.postMessage(buffer, [buffer]);
  same(buffer.byteLength, 0);
});
check("BroadcastChannel to a frame", function () {
  var channel = new BroadcastChannel("acid"), end = new Promise(function (done) { channel.onmessage = function (event) { done(event.data); }; });
  placed(made("iframe", { src: "/channel.html" }));
  return end.then(function (t) { same(t, "channel"); });
});
check("a missing frame is loaded", function () { return framed(B + "/missing.html"); });

// -- storage
check("localStorage", function () { localStorage.setItem("a", "1"); same(localStorage.getItem("a"), "1"); });
check("localStorage of a frame of the same site", function () {
  localStorage.setItem("shared", "x");
  return framed("/frame.html").then(function (f) { same(f.contentWindow.localStorage.getItem("shared"), "x"); });
});
check("sessionStorage", function () { sessionStorage.setItem("a", "1"); same(sessionStorage.getItem("a"), "1"); });
check("indexedDB", function () {
  return new Promise(function (done, failed) { var one = indexedDB.open("a"); one.onsuccess = done; one.onerror = function () { failed(one.error); }; });
});
check("document.cookie", function () {
  document.cookie = "one=1; path=/";
  document.cookie = "two=2; max-age=60";
  document.cookie = "one=; path=/; max-age=0";
  same(/(^|; )two=2/.test(document.cookie) && !/one=/.test(document.cookie), true);
});

// -- going somewhere
check("pushState, absolute", function () { history.pushState(1, "", A + "/pushed?y"); same(location.pathname + location.search, "/pushed?y"); history.replaceState(null, "", "/dir/page.html?x=1"); same(document.URL, A + "/dir/page.html?x=1"); });
check("hashchange", function () { var end = heard(window, "hashchange"); location.hash = "#there"; return end.then(function () { same(location.hash, "#there"); history.replaceState(null, "", "/dir/page.html?x=1"); }); });
check("hashchange by location.replace", function () { var end = heard(window, "hashchange"); location.replace(location.href.split("#")[0] + "#replaced"); return end.then(function () { same(location.hash, "#replaced"); history.replaceState(null, "", "/dir/page.html?x=1"); }); });
function going(how) {
  return framed("/going.html?" + how).then(function (frame) {
    return new Promise(function (done, failed) {
      window.addEventListener("message", function (event) { if (event.source === frame.contentWindow && event.data === "arrived") done(); });
      setTimeout(function () { failed(new Error("went nowhere")); }, 5000);
    });
  });
}
["location-root", "location-absolute", "assign", "replace", "refresh", "link", "link-absolute", "link-noreferrer", "form", "link-top-in-frame"].forEach(function (how) {
  check("a frame goes: " + how, function () { return going(how); });
});

window.addEventListener("load", function () {
  function one(pair) {
    return Promise.race([Promise.resolve().then(pair[1]), later(9000).then(function () { throw new Error("took too long"); })]).then(
      function () { acid.passed.push(pair[0]); },
      function (error) { acid.failed[pair[0]] = String(error && error.message || error).slice(0, 200); });
  }
  // What moves the page itself runs alone and last.
  var alone = checks.filter(function (pair) { return /pushState|hashchange/.test(pair[0]); });
  var rest = checks.filter(function (pair) { return alone.indexOf(pair) < 0; });
  Promise.all(rest.map(one)).then(function () {
    return alone.reduce(function (before, pair) { return before.then(function () { return one(pair); }); }, Promise.resolve());
  }).then(function () { acid.isDone = true; document.title = "done " + acid.passed.length + " of " + checks.length; });
});
