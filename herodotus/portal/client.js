// Herodotus: lets an archived page believe where it is, at its label or in the box. Apache-2.0.
// It helps pages and keeps nothing in: that is for the answer's headers (docs/understand/replay.md).
// Lines from `//[names` or `//[box` to `//]` are served that way only.
(function () {
  "use strict";
  var inWorker = typeof document === "undefined", here = self.location, NativeURL = self.URL;
  var script = inWorker ? null : document.currentScript, tabs = /[\t\n\r]+/g;
  function escaped(text) { return text.replace(/[^\w:]/g, "\\$&"); }

  // -- addresses: to where they are archived, and back -----------------------------------------------------
//[names
  var from = inWorker ? here.href.replace(/^blob:/, "") : script ? script.src : "";
  var label = /^(https?:)\/\/(\d{14})-[hs]\d*-[a-z0-9_-]+\.([^\/]+)\//.exec(from);
  if (!label) return;
  var scheme = label[1], date = label[2], suffix = label[3], ownOrigin = new NativeURL(from).origin, client = ownOrigin + "/_hd/client.js";
  var anyLabel = new RegExp(scheme + "//(\\d{14})-([hs])(\\d*)-([a-z0-9_-]+)\\." + escaped(suffix) + "(?![\\w.-])", "g");
  var absolute = /^[\x00-\x20]*(?:https?:|[\/\\]{2})/i, inStyles = /(url\(\s*["']?|@import\s+["'])((?:https?:)?\/\/[^"')\s]+)/gi;
  function labelOf(origin) {
    var parts = /^http(s?):\/\/([a-z0-9_.-]+)(?::(\d+))?$/.exec(origin);
    if (!parts) return null;
    var name = date + "-" + (parts[1] || "h") + (parts[3] || "") + "-" + parts[2].replace(/-/g, "--").replace(/\./g, "-");
    return name.length > 63 ? null : scheme + "//" + name + "." + suffix;
  }
  function original(text) {
    if (typeof text !== "string" || text.indexOf(suffix) < 0) return text;
    return text.replace(anyLabel, function (whole, day, kind, port, host) {
      return (kind === "h" ? "http://" : "https://") +
        host.replace(/--|-/g, function (one) { return one === "-" ? "." : "-"; }) + (port ? ":" + port : "");
    });
  }
  function isLabel(text) { anyLabel.lastIndex = 0; var found = anyLabel.exec(text); return !!found && found.index === 0; }
  function base() { return original(inWorker ? from : baseOf.get.call(document)); }
  function led(reference) {
    var text = String(reference);
    if (!absolute.test(text.replace(tabs, ""))) return text;
    try {
      var url = new NativeURL(text, base()), to = isLabel(url.href) ? null : labelOf(url.origin);
      return to ? to + url.pathname + url.search + url.hash : text;
    } catch (error) { return text; }
  }
  function ledAs(value) { return led(value); }
  function placeOf() { return original(inWorker ? from : here.href); }
  var site = original(ownOrigin);
//]
//[box
  var facts = inWorker ? self.__hdat : [(script ? script.src : "").replace(/_\/client\.js$/, ""), here.protocol === "about:" ? document.baseURI : here.href];
  var prefix = facts[0], memento = /^(\d{14})([a-z]{2}_)?\/(https?:\/\/[^\/?#]*)([^]*)/.exec(facts[1].indexOf(prefix) ? "" : facts[1].slice(prefix.length));
  if (!memento) return;
  var date = memento[1], ownFlag = memento[2] || "", site = memento[3], path = memento[4].replace(/^(?!\/)/, "/");
  var portal = new NativeURL(prefix).origin, client = prefix + "_/client.js";
  var place = "(?:" + escaped(portal) + ")?" + escaped(prefix.slice(portal.length));
  var archived = new RegExp(place + "\\d{14}(?:[a-z]{2}_)?/(?=https?:/)", "g"), already = new RegExp("^" + place + "(?:\\d{1,14}(?:[a-z]{2}_)?/https?:/|_/)");
  var rooted = /^(?:https?:|[\/\\])/i, inStyles = /(url\(\s*["']?|@import\s+["'])((?:https?:\/)?\/[^"')\s]*)/gi;
  function original(text) {
    if (typeof text !== "string") return text;
    return text.indexOf(portal) === 0 && /^(?:[\/?#]|$)/.test(text.slice(portal.length)) && !already.test(text) ? site + text.slice(portal.length) : text.replace(archived, "");
  }
  function placeOf() { return inWorker ? site + path : original(here.href); }
  function base() { return inWorker ? site + path : original(baseOf.get.call(document)); }
  function led(reference, flag, from) {
    var text = String(reference), plain = text.replace(/^[\x00-\x20]+/, "").replace(tabs, "");
    if (already.test(plain)) return text;
    try {
      var url = new NativeURL(original(plain), from || base());
      return /^https?:$/.test(url.protocol) ? prefix + date + (flag === undefined ? "oe_" : flag) + "/" + url.href : text;
    } catch (error) { return text; }
  }
  var flags = { SCRIPT: "js_", IFRAME: "if_", FRAME: "if_", LINK: "cs_", IMG: "im_", IMAGE: "im_", INPUT: "im_", A: ownFlag, AREA: ownFlag, FORM: ownFlag, BASE: ownFlag, BUTTON: ownFlag };
  // What is relative is found by the base; but scripts and frames are asked for as such.
  function ledAs(value, tag, name, element) {
    var plain = String(value).replace(/^[\x00-\x20]+/, "").replace(tabs, "");
    if (/^(?:#|$)/.test(plain) || !rooted.test(plain) && !/^(?:SCRIPT|I?FRAME)$/.test(tag)) return value;
    var isCode = tag === "LINK" && element && (/modulepreload/i.test(element.rel) || element.as === "script");
    return led(value, isCode ? "js_" : name === "poster" ? "im_" : name === "formaction" ? ownFlag : flags[tag]);
  }
//]
  if (script) script.remove();
  var baseOf = Object.getOwnPropertyDescriptor(inWorker ? {} : Node.prototype, "baseURI");
  function ledSet(text) {
    return String(text).replace(/(^|,\s+|,(?=https?:|\/\/))(\s*)(\S+)/g, function (whole, comma, gap, address) {
      return comma + gap + led(address);
    });
  }
  function ledStyle(text) {
    text = String(text);
    if (text.indexOf("/") < 0) return text;
    return text.replace(inStyles, function (whole, start, address) { return start + led(address); });
  }
  var tags = /<([a-z][^\s\/>]*)((?:[^>"']|"[^"]*"|'[^']*')*)(>|$)/gi;
  var named = /(\s)(src|href|xlink:href|action|formaction|poster|data|srcset|style)(\s*=\s*)("[^"]*"|'[^']*'|[^\s"'>]+)/gi;
  function ledMarkup(html) {
    html = String(html);
    if (html.indexOf("/") < 0) return html;
    html = html.replace(tags, function (whole, tag, inner, end) {
      if (/^meta$/i.test(tag) && /http-equiv\s*=\s*["']?refresh/i.test(inner)) inner = inner.replace(/(url\s*=\s*["']?)([^\s"'>]+)/i, function (one, start, to) { return start + ledAs(to, "A", "href"); });
      return inner.indexOf("=") < 0 ? whole : "<" + tag + inner.replace(named, function (one, start, name, equals, value) {
        var quote = /^["']/.test(value) ? value[0] : "", text = quote ? value.slice(1, -1) : value, made = change(tag, name, text);
        return made === text ? one : start + name + equals + quote + made + quote;
      }) + end;
    });
    return html.replace(/(<style[^>]*>)([^<]*)/gi, function (whole, tag, rules) { return tag + ledStyle(rules); });
  }
  function ledInner(html) {  // a document of its own, with our script first
    return ledMarkup(html).replace(/^(\s*<!doctype[^>]*>)?/i, "$1<script src=\"" + client + "\"></" + "script>");
  }

  // -- what is taken in another's place --------------------------------------------------------------------
  function attempt(change) { try { change(); } catch (error) { /* a browser without it: the page does without */ } }
  function method(owner, name, make) {
    attempt(function () {
      var native = owner[name];
      if (typeof native !== "function") return;
      var made = make(native), place = Object.getOwnPropertyDescriptor(owner, name) || { configurable: true, enumerable: true, writable: true };
      attempt(function () {
        Object.defineProperty(made, "name", { value: name });
        Object.defineProperty(made, "toString", { value: function () { return "function " + name + "() { [native code] }"; } });
      });
      Object.defineProperty(owner, name, { configurable: place.configurable, enumerable: place.enumerable, writable: true, value: made });
    });
  }
  function property(owner, name, get, set) {
    attempt(function () {
      var native = Object.getOwnPropertyDescriptor(owner, name);
      if (!native || !native.get) return;
      Object.defineProperty(owner, name, {
        configurable: true, enumerable: native.enumerable,
        get: get ? function () { return get.call(this, native.get.call(this)); } : native.get,
        set: native.set && (set ? function (value) { native.set.call(this, set.call(this, value)); } : native.set)
      });
    });
  }
  function constructor(owner, name, change) {
    attempt(function () {
      owner[name] = new Proxy(owner[name], {
        construct: function (target, given, made) { return Reflect.construct(target, change(given), made); }
      });
    });
  }
  function first(change) {
    return function (native) {
      return function () { var given = Array.prototype.slice.call(arguments); if (given.length) given[0] = change(given[0]); return native.apply(this, given); };
    };
  }
  function plain(value) { return original(value); }

  // -- requests, in windows and in workers -----------------------------------------------------------------
  function requests(scope) {
    var Asked = scope.Request;
    function options(given) {
      if (!given) return given;
      given = given.referrerPolicy ? Object.assign({}, given, { referrerPolicy: "unsafe-url" }) : given;
//[box
      // Here all is of another origin, and no answer is for cookies.
      if (given.credentials === "include" || given.mode === "same-origin") given = Object.assign({}, given, { credentials: "omit", mode: "cors" });
//]
      return given;
    }
    constructor(scope, "Request", function (given) {
      return [given[0] instanceof Asked ? given[0] : led(given[0]), options(given[1])];
    });
    method(scope, "fetch", function (native) {
      return function (input, given) {
        if (arguments.length === 0) return native.call(scope);
        return native.call(scope, input instanceof Asked ? input : led(input), options(given));
      };
    });
    property(Asked.prototype, "url", plain);
    property(scope.Response.prototype, "url", plain);
    attempt(function () {
      method(scope.XMLHttpRequest.prototype, "open", function (native) {
        return function () { var given = Array.prototype.slice.call(arguments); given[1] = led(given[1]); return native.apply(this, given); };
      });
      property(scope.XMLHttpRequest.prototype, "responseURL", plain);
//[box
      property(scope.XMLHttpRequest.prototype, "withCredentials", null, function () { return false; });
//]
    });
    attempt(function () {
      constructor(scope, "EventSource", function (given) { return [led(given[0])].concat(given.slice(1)); });
      property(scope.EventSource.prototype, "url", plain);
    });
    property(scope.MessageEvent.prototype, "origin", plain);
    ["Worker", "SharedWorker"].forEach(function (kind) {
      var Native = scope.Worker;
      if (!scope[kind]) return;
//[names
      constructor(scope, kind, function (given) {
        var address = led(given[0]);
        if (/^blob:/.test(address)) attempt(function () {
          var isModule = given[1] && given[1].type === "module";
          address = blobOf([isModule ? "import \"" + client + "\";" : "importScripts(\"" + client + "\");", read(address)]);
        });
        return [address].concat(given.slice(1));
      });
//]
//[box
      // Without an origin only a blob makes a worker, which fetches the rest. One of a shared kind is shared with nobody.
      attempt(function () {
        scope[kind] = new Proxy(scope[kind], {
          construct: function (target, given) {
            var address = led(given[0], "js_"), isShared = kind === "SharedWorker";
            var isModule = !!given[1] && given[1].type === "module", isFile = /^http/.test(address);
            var code = isFile ? address : "data:text/javascript," + encodeURIComponent(isModule ? read(address) : "");
            var facts = [prefix, isFile ? address : prefix + date + "js_/" + base(), isShared, isModule ? code : ""];
            var start = "self.__hdat=" + JSON.stringify(facts) + ";importScripts(\"" + client + "\"" + (isModule || !isFile ? "" : ",\"" + address + "\"") + ");";
            var made = new Native(blobOf([start, isModule || isFile ? "" : read(address)]), given[1] && { name: given[1].name });
            if (isShared) {
              var channel = new MessageChannel();
              made.port = channel.port1;
              made.postMessage(0, [channel.port2]);
            }
            return made;
          }
        });
      });
//]
    });
  }
  function read(address) {
    var reader = new XMLHttpRequest();
    reader.open("GET", address, false);
    reader.send();
    return reader.responseText;
  }
  function blobOf(code) { return NativeURL.createObjectURL(new Blob(code, { type: "text/javascript" })); }
  function argumentsOfMessage() {
    var given = Array.prototype.slice.call(arguments), to = given[1];
    if (typeof to === "string") given[1] = ledTarget(to);
    else if (to && typeof to.targetOrigin === "string") given[1] = Object.assign({}, to, { targetOrigin: ledTarget(to.targetOrigin) });
    return given;
  }
  function ledTarget(to) {
//[names
    return absolute.test(to) ? led(to).replace(/^(https?:\/\/[^\/]*).*/, "$1") : to;
//]
//[box
    return to === "/" || /^https?:/i.test(to) ? "*" : to;  // no window here has an origin
//]
  }
  // Where the page is, for scripts that read `location`: the server writes this in its place.
  var where = {};
  ["href", "protocol", "host", "hostname", "port", "origin"].forEach(function (name) {
    Object.defineProperty(where, name, { get: function () { return new NativeURL(placeOf())[name]; } });
  });
  function imported(address, from) {  // a name without a path is the import map's
    var text = String(address);
    return /^(?:\.{0,2}\/|https?:)/i.test(text) ? led(text, "js_", from) : text;
  }
  function global(scope, name, value) {
    Object.defineProperty(scope, name, { configurable: true, enumerable: false, writable: true, value: value });
  }

  if (inWorker) {
    requests(self);
    global(self, "__hdpm", argumentsOfMessage);
    global(self, "__hdi", imported);
    global(self, "__hdwhere", where);
    method(self, "importScripts", function (native) {
      return function () { return native.apply(self, Array.prototype.map.call(arguments, function (one) { return led(one, "js_"); })); };
    });
//[names
    property(self, "origin", plain);
//]
//[box
    attempt(function () { global(self, "origin", site); });
    attempt(function () { global(self, "location", new NativeURL(site + path)); });
    // A module is none here: it is fetched, and messages wait for it.
    if (facts[3]) {
      var waiting = [], hold = function (event) { event.stopImmediatePropagation(); waiting.push(event); };
      self.addEventListener("message", hold);
      import(facts[3]).then(function () {
        self.removeEventListener("message", hold);
        waiting.forEach(function (event) { self.dispatchEvent(new MessageEvent("message", { data: event.data, ports: event.ports })); });
      }, function (error) { setTimeout(function () { throw error; }); });
    }
    if (facts[2]) self.addEventListener("message", function (event) {
      var connected = new MessageEvent("connect", { data: "", ports: event.ports, source: event.ports[0] });
      event.stopImmediatePropagation();
      if (self.onconnect) self.onconnect(connected);
      self.dispatchEvent(connected);
    }, { once: true });
//]
    return;
  }

  // -- elements --------------------------------------------------------------------------------------------
  var attributes = {
    A: ["href"], AREA: ["href"], LINK: ["href"], BASE: ["href"], SCRIPT: ["src"], IMG: ["src", "srcset"], IFRAME: ["src", "srcdoc"],
    FRAME: ["src"], VIDEO: ["src", "poster"], AUDIO: ["src"], SOURCE: ["src", "srcset"], TRACK: ["src"], EMBED: ["src"],
    OBJECT: ["data"], INPUT: ["src", "formaction"], BUTTON: ["formaction"], FORM: ["action"], IMAGE: ["href"], USE: ["href"]
  };
  function change(tag, name, value, element) {
    name = name.toLowerCase().replace(/^xlink:/, "");
    tag = tag.toUpperCase();
    if (name === "style") return ledStyle(value);
//[box
    if (name === "type" && tag === "SCRIPT") return ofNoType(value);
//]
    if ((attributes[tag] || []).indexOf(name) < 0) return value;
//[box
    // Without an origin of its own a page may look into nothing that did not come by this.
    if (element && /^(?:src|href)$/.test(name) && /^(?:SCRIPT|IMG|VIDEO|AUDIO|LINK)$/.test(tag) && !element.hasAttribute("crossorigin")) setNative.call(element, "crossorigin", "");
//]
    return name === "srcdoc" ? ledInner(value) : name === "srcset" ? ledSet(value) : ledAs(value, tag, name, element);
  }
//[box
  var setNative = Element.prototype.setAttribute;
  // What a page would have fetched ahead is fetched past all policies: such rules become data of no type.
  function ofNoType(value) { return /^\s*speculationrules\s*$/i.test(value) ? "archived-speculationrules" : value; }
//]
  var classes = {
    HTMLAnchorElement: ["href"], HTMLAreaElement: ["href"], HTMLLinkElement: ["href"], HTMLBaseElement: ["href"],
    HTMLScriptElement: ["src"], HTMLImageElement: ["src", "srcset", "currentSrc"], HTMLIFrameElement: ["src", "srcdoc"],
    HTMLFrameElement: ["src"], HTMLMediaElement: ["src", "currentSrc"], HTMLVideoElement: ["poster"],
    HTMLSourceElement: ["src", "srcset"], HTMLTrackElement: ["src"], HTMLEmbedElement: ["src"], HTMLObjectElement: ["data"],
    HTMLInputElement: ["src", "formAction"], HTMLButtonElement: ["formAction"], HTMLFormElement: ["action"]
  };
  var tell = window.parent.postMessage.bind(window.parent), realParent = window.parent;
  var isOutermost = realParent !== window && realParent === window.top;

  // The archived page that fills the frame: what a script is told that compares `top` with a window.
  function outermost() {
    var w = window, up = realParent;
    while (up !== w && up !== window.top) { w = up; up = w.parent; }
    return w;
  }

  function dressed(w) {
    if (w.__hdpm) return;
    global(w, "__hdpm", argumentsOfMessage);
    global(w, "__hdtop", outermost());
    global(w, "__hdi", imported);
    global(w, "__hdwhere", where);
    requests(w);
//[box
    // What our server made of `location = a`, `location.href = a` and `location.assign(a)`.
    global(w, "__hdl", function (to) { return arguments.length === 1 ? [gone(to)] : Array.from(arguments); });
    [["__hdhref", "href"], ["__hdlocation", "location"]].forEach(function (pair) {
      attempt(function () {
        Object.defineProperty(w.Object.prototype, pair[0], { configurable: true, get: function () { return this[pair[1]]; }, set: function (to) {
          this[pair[1]] = this === w || this === w.document || this === w.location ? gone(to) : to;
        } });
      });
    });
//]
    ["RTCPeerConnection", "webkitRTCPeerConnection"].forEach(function (name) { attempt(function () { delete w[name]; }); });
    Object.keys(classes).forEach(function (kind) {
      classes[kind].forEach(function (name) {
        attempt(function () { property(w[kind].prototype, name, plain, function (value) { return change(this.tagName, name, value, this); }); });
      });
    });
    ["HTMLAnchorElement", "HTMLAreaElement"].forEach(function (kind) {
      ["origin", "protocol", "host", "hostname", "port", "pathname"].forEach(function (name) {
        property(w[kind].prototype, name, function (value) {
          try { return new NativeURL(this.href)[name]; } catch (error) { return value; }
        });
      });
      method(w[kind].prototype, "toString", function () { return function () { return this.href; }; });
    });
    var element = w.Element.prototype, doc = w.Document.prototype;
//[box
    property(w.HTMLScriptElement.prototype, "type", null, ofNoType);
//]
    method(element, "setAttribute", function (native) {
      return function (name, value) { return native.call(this, name, change(this.tagName, String(name), String(value), this)); };
    });
    method(element, "setAttributeNS", function (native) {
      return function (space, name, value) { return native.call(this, space, name, change(this.tagName, String(name), String(value), this)); };
    });
    method(element, "getAttribute", function (native) {
      return function (name) { return plain(native.call(this, name)); };
    });
    [[element, "innerHTML"], [element, "outerHTML"], [w.ShadowRoot.prototype, "innerHTML"]].forEach(function (one) {
      property(one[0], one[1], plain, function (html) {
        return one[1] === "innerHTML" && this.tagName === "STYLE" ? ledStyle(html) : ledMarkup(html);
      });
    });
    method(element, "insertAdjacentHTML", function (native) {
      return function (where, html) { return native.call(this, where, ledMarkup(html)); };
    });
    ["setHTMLUnsafe"].forEach(function (name) { method(element, name, first(ledMarkup)); });
    method(w.Range.prototype, "createContextualFragment", first(ledMarkup));
    attempt(function () { method(w.Worklet.prototype, "addModule", first(function (address) { return led(address, "js_"); })); });
    method(w.DOMParser.prototype, "parseFromString", first(ledMarkup));
    ["write", "writeln"].forEach(function (name) {
      method(doc, name, function (native) {
        return function () { return native.call(this, ledMarkup(Array.prototype.join.call(arguments, ""))); };
      });
    });
    property(w.Node.prototype, "textContent", null, function (text) { return this.tagName === "STYLE" ? ledStyle(text) : text; });
    property(w.HTMLElement.prototype, "innerText", null, function (text) { return this.tagName === "STYLE" ? ledStyle(text) : text; });
    method(w, "Audio", function (native) {
      return new Proxy(native, { construct: function (target, given, made) { return Reflect.construct(target, given.length ? [led(given[0])] : given, made); } });
    });
    ["insertRule", "replace", "replaceSync", "addRule"].forEach(function (name) { method(w.CSSStyleSheet.prototype, name, first(ledStyle)); });
    property(w.StyleSheet.prototype, "href", plain);
    attempt(function () { constructor(w, "FontFace", function (given) {
      if (typeof given[1] === "string") given[1] = ledStyle(given[1]);
      return given;
    }); });
    var style = w.CSSStyleDeclaration.prototype;
    method(style, "setProperty", function (native) {
      return function () { var given = Array.prototype.slice.call(arguments); given[1] = given[1] == null ? given[1] : ledStyle(given[1]); return native.apply(this, given); };
    });
    property(style, "cssText", null, ledStyle);
    ["background", "backgroundImage", "listStyleImage", "borderImage", "borderImageSource", "cursor", "content", "maskImage", "listStyle", "mask"].forEach(function (name) {
      var owner = w.CSSStyleProperties ? w.CSSStyleProperties.prototype : style;
      property(Object.getOwnPropertyDescriptor(owner, name) ? owner : style, name, null, ledStyle);
    });
    ["URL", "documentURI", "referrer"].forEach(function (name) {
      property(doc, name, function (value) {
        var text = original(value);
//[box
        if (name === "referrer" && !already.test(value)) return "";
//]
        return name === "referrer" && text === value ? "" : text;  // our page around it is nobody's referrer
      });
    });
    property(w.Node.prototype, "baseURI", plain);
    attempt(function () {
      var host = site.replace(/^https?:\/\/|:\d+$/g, "");
      Object.defineProperty(doc, "domain", { configurable: true, enumerable: true, get: function () { return host; }, set: function () {} });
    });
//[names
    property(w, "origin", plain);
//]
//[box
    attempt(function () { global(w, "origin", site); });
//]
    ["pushState", "replaceState"].forEach(function (name) {
      method(w.History.prototype, name, function (native) {
        return function () {
          var given = Array.prototype.slice.call(arguments);
          if (given[2] !== undefined && given[2] !== null) given[2] = placed(given[2]);
          var result = native.apply(this, given);
//[box
          follow();
//]
          if (w === window) report();
          return result;
        };
      });
    });
//[names
    method(w.Navigator.prototype, "sendBeacon", first(led));
//]
//[box
    method(w.Navigator.prototype, "sendBeacon", function () { return function () { return true; }; });
//]
    method(w, "open", function (native) {
      return function (address, name) {
        var frame = name && !/^_/.test(name) && frameNamed(w.document, String(name));
        if (frame || /^_self$/i.test(name)) return native.call(w, led(address, "mp_"), name);
//[box
        if (!isFramed) return null;
//]
        ask(new NativeURL(led(address || ""), location.href).href);
        return null;
      };
    });
    ["contentWindow", "contentDocument"].forEach(function (name) {
      ["HTMLIFrameElement", "HTMLFrameElement"].forEach(function (kind) {
        property(w[kind].prototype, name, function (value) {
          attempt(function () {  // throws where it is another site's
            var inner = name === "contentWindow" ? value : value.defaultView;
            if (inner && /^about:/.test(inner.location.href)) dressed(inner);
          });
          return value;
        });
      });
    });
    cookies(doc);
  }

  // -- cookies: pages in a frame of another site may keep none -----------------------------------------------
  function cookies(doc) {
    var KEY = "\u0001cookies";
    function kept() { try { return JSON.parse(localStorage.getItem(KEY)) || {}; } catch (error) { return {}; } }
    attempt(function () {
      Object.defineProperty(doc, "cookie", {
        configurable: true, enumerable: true,
        get: function () {
          var all = kept(), now = Date.now();
          return Object.keys(all).filter(function (name) { return all[name][1] === null || all[name][1] > now; })
            .map(function (name) { return name ? name + "=" + all[name][0] : all[name][0]; }).join("; ");
        },
        set: function (text) {
          var parts = String(text).split(";"), equal = parts[0].indexOf("="), all = kept();
          var name = parts[0].slice(0, Math.max(equal, 0)).trim(), value = parts[0].slice(equal + 1).trim(), ends = null;
          parts.slice(1).forEach(function (part) {
            var field = /^\s*(expires|max-age)\s*=\s*(.*?)\s*$/i.exec(part);
            if (!field) return;
            if (/^e/i.test(field[1])) { if (ends === null) ends = Date.parse(field[2]); } else ends = Date.now() + 1000 * Number(field[2]);
          });
          if (ends !== null && ends <= Date.now()) delete all[name];
          else if (name in all || Object.keys(all).length < 100) all[name] = [value.slice(0, 4096), ends];
          attempt(function () { localStorage.setItem(KEY, JSON.stringify(all)); });
        }
      });
    });
  }

  // -- where it is and goes, and what our page around it is told --------------------------------------------
  var last = "";
  function report() {
    if (!isOutermost) return;
    var said = original(location.href), title = document.title, isFirst = last === "";
    if (said + "\n" + title === last) return;
    last = said + "\n" + title;
    tell({ hd: "shown", url: said.slice(0, 4096), title: title.slice(0, 200), begins: isFirst }, "*");
  }
//[names
  function placed(address) { return led(address); }
  function up(said) { tell(said, "*"); }
//]
//[box
  var isFramed = window !== window.top, ours = null;
  function placed(address) {
    try {
      var url = new NativeURL(original(String(address)), base());
      return url.origin !== site ? address : isFramed ? portal + url.pathname + url.search + url.hash : led(url.href, ownFlag);
    } catch (error) { return address; }
  }
  function follow() { if (ours) ours.setAttribute("href", prefix + date + ownFlag + "/" + original(here.href).split("#")[0]); }
  if (isFramed && /^http/.test(here.protocol)) attempt(function () {
    ours = document.createElement("base");
    ours.setAttribute("href", facts[1].split("#")[0]);
    (document.head || document.documentElement).prepend(ours);
    history.replaceState(history.state, "", portal + path);
    window.addEventListener("popstate", follow);
  });
  function gone(to) {
    var text = String(to);
    if (text[0] === "#" || /^[\x00-\x20]*(?!https?:)[a-z][a-z0-9+.-]*:/i.test(text)) return to;
    // To another part of this page it goes without a load: what says so by a whole address, too.
    var part = text.indexOf("#"), own = here.href.split("#")[0];
    if (isFramed && part >= 0 && original(text.slice(0, part)) === original(own)) return own + text.slice(part);
    return led(text, isFramed ? ownFlag : "");
  }
  function up(said) {
    if (isFramed) tell(said, "*");
    else if (!navigator.userActivation || navigator.userActivation.isActive) location.href = prefix + date + "/" + said.url;
  }
  memory();
  greet();
//]
  function ask(address, name) { up({ hd: "open", url: original(address), name: name || "" }); }
  dressed(window);
  report();
  ["DOMContentLoaded", "load", "popstate", "hashchange", "pageshow"].forEach(function (name) { window.addEventListener(name, report); });
  attempt(function () { if (isOutermost) Object.defineProperty(window, "parent", { configurable: true, enumerable: true, get: function () { return window; }, set: function () {} }); });
  window.addEventListener("message", function (event) {
    var said = event.data;  // a frame of ours asks for a window
    if (!said || said.hd !== "open" && said.hd !== "go" || event.source === window) return;
    event.stopImmediatePropagation();
    if (typeof said.url !== "string") return;
    var frame = said.name && frameNamed(document, String(said.name));
    if (frame && /^https?:/i.test(said.url)) frame.src = said.url;
    else up({ hd: said.hd, url: said.url, name: said.name });
  });
  function frameNamed(doc, name) {
    return doc.querySelector("iframe[name=\"" + CSS.escape(name) + "\"],frame[name=\"" + CSS.escape(name) + "\"]");
  }
//[names
  attempt(function () {
    navigation.addEventListener("navigate", function (event) {
      var to = event.destination;
      if (to.sameDocument || !event.cancelable || event.formData || event.downloadRequest != null) return;
      var right = led(to.url);
      if (right === to.url) return;
      event.preventDefault();
      location.href = right;
    });
  });
//]
//[box
  // A message's sender has no origin here: windows tell each other which site they show.
  function greet() {
    var known = new WeakMap(), ownWindow = window;
    known.set(window, site);
    property(MessageEvent.prototype, "origin", function (value) { return value === "null" && known.get(this.source) || value; });
    if (ownWindow !== realParent) tell({ hd: "me", origin: site }, "*");
    window.addEventListener("message", function (event) {
      var said = event.data;
      if (!said || said.hd !== "me" || typeof said.origin !== "string") return;
      event.stopImmediatePropagation();
      if (!event.source || known.has(event.source)) return;
      known.set(event.source, said.origin);
      event.source.postMessage({ hd: "me", origin: site }, "*");
    });
  }
  // Storage that is forgotten with the page.
  function memory() {
    ["localStorage", "sessionStorage"].forEach(function (name) {
      attempt(function () {
        var kept = new Map();
        var methods = {
          getItem: function (key) { return kept.has(String(key)) ? kept.get(String(key)) : null; },
          setItem: function (key, value) { kept.set(String(key), String(value)); },
          removeItem: function (key) { kept.delete(String(key)); },
          clear: function () { kept.clear(); },
          key: function (at) { var keys = Array.from(kept.keys()); return at in keys ? keys[at] : null; }
        };
        Object.defineProperty(window, name, { configurable: true, value: new Proxy(Object.create(methods), {
          get: function (target, key) { return key === "length" ? kept.size : key in methods ? methods[key] : kept.get(String(key)); },
          set: function (target, key, value) { methods.setItem(key, value); return true; },
          has: function (target, key) { return kept.has(String(key)) || key in methods; },
          deleteProperty: function (target, key) { return kept.delete(String(key)) || true; },
          ownKeys: function () { return Array.from(kept.keys()); },
          getOwnPropertyDescriptor: function (target, key) {
            return kept.has(key) ? { configurable: true, enumerable: true, writable: true, value: kept.get(key) } : undefined;
          }
        }) });
      });
    });
    attempt(function () {
      function refusal() { return Promise.reject(new DOMException("not in an archive", "SecurityError")); }
      function nothing() { return Promise.resolve([]); }
      Object.defineProperty(navigator, "serviceWorker", { configurable: true, value: {
        controller: null, ready: new Promise(function () {}), register: refusal, addEventListener: nothing, removeEventListener: nothing,
        getRegistration: function () { return Promise.resolve(undefined); }, getRegistrations: nothing
      } });
    });
  }
  // A part of another file is shown only where that is of the page's own origin: the file becomes a part of the page.
  var sheets = new Map();
  function sprite(use) {
    var place = use.getAttributeNode("href") || use.getAttributeNode("xlink:href"), parts = place ? place.value.split("#") : [""];
    if (!parts[0] || !parts[1] || sheets.size > 50) return;
    var address = led(parts[0], "im_");
    if (!sheets.has(address)) sheets.set(address, fetch(address).then(function (answer) { return answer.text(); }).then(function (text) {
      var root = new DOMParser().parseFromString(text, "image/svg+xml").documentElement, start = "hd" + sheets.size + "-";
      if (root.tagName !== "svg") return "";
      root = document.importNode(root, true);
      root.querySelectorAll("script").forEach(function (one) { one.remove(); });
      [root].concat(Array.from(root.querySelectorAll("*"))).forEach(function (one) {
        Array.from(one.attributes).forEach(function (field) {
          if (field.name === "id") field.value = start + field.value;
          else if (/^(?:xlink:)?href$/.test(field.name)) field.value = field.value.replace(/^#/, "#" + start);
          else if (field.value.indexOf("url(") >= 0) field.value = field.value.replace(/url\((["']?)#/g, "url($1#" + start);
        });
      });
      root.setAttribute("style", "position:absolute;width:0;height:0;overflow:hidden");
      root.setAttribute("aria-hidden", "true");
      (document.body || document.documentElement).appendChild(root);
      return start;
    }));
    sheets.get(address).then(function (start) { if (start) place.value = "#" + start + parts[1]; }).catch(function () {});
  }
  window.addEventListener("error", function (event) {
    if (event.target && event.target.tagName && mend(event.target)) event.stopImmediatePropagation();
  }, true);
  function prepared(form) {
    if (isFramed && !form.getAttribute("action")) form.setAttribute("action", facts[1].slice(0, prefix.length + 14) + ownFlag + "/" + original(here.href).split("#")[0]);
  }
  ["submit", "requestSubmit"].forEach(function (name) {
    method(HTMLFormElement.prototype, name, function (native) { return function () { prepared(this); return native.apply(this, arguments); }; });
  });
//]
  function ownTarget(target) {
    if (!target || /^_self$/i.test(target)) return "self";
    if (/^_(top|parent|unfencedtop)$/i.test(target)) return isOutermost ? "here" : "self";
    return !/^_/.test(target) && (window.name === target || document.getElementsByName(target).length) ? "self" : "new";
  }
  window.addEventListener("click", clicked);
  window.addEventListener("auxclick", clicked);
  function clicked(event) {
    var start = event.composedPath ? event.composedPath()[0] : event.target;
    var link = start && start.closest && start.closest("a[href],area[href]");
    if (event.defaultPrevented || event.button > 1 || !link || link.hasAttribute("download")) return;
    if (/noreferrer/i.test(link.rel)) link.rel = link.rel.replace(/\bnoreferrer\b/gi, "noopener");
    var base = document.querySelector("base[target]"), href = link.href;
    if (!/^https?:/i.test(href)) return;
    var target = link.getAttribute("target") || (base && base.getAttribute("target")), where = ownTarget(target);
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button === 1) where = "new";
//[box
    var isHere = isFramed && href.indexOf("#") >= 0 && href.split("#")[0] === original(here.href).split("#")[0];
    if (where === "self" && isHere) { event.preventDefault(); location.hash = href.slice(href.indexOf("#")); return; }
    // A page in a sandbox steers itself alone. Where a reader goes, our page around it goes, too.
    if (/^_(?:top|parent)$/i.test(target) || isOutermost && event.isTrusted) where = where === "self" ? "here" : where;
    if (where === "here") { event.preventDefault(); up({ hd: "go", url: href }); return; }
//]
    if (where === "self") return;
    event.preventDefault();
    if (where === "new") ask(href, /^_/.test(target) ? "" : target); else location.href = led(href);
  }
  window.addEventListener("submit", function (event) {
    var form = event.target;
//[box
    prepared(form);
//]
    if (ownTarget(form.getAttribute && form.getAttribute("target")) !== "self") form.target = "_self";
  }, true);

  // What came by a way that is not known here asked for its addresses in vain: it asks again.
  function mend(node) {
    var isMended = false;
    if (!node.getAttributeNode) return isMended;
    (attributes[node.tagName.toUpperCase()] || []).concat(node.hasAttribute("style") ? ["style"] : []).forEach(function (name) {
      var place = node.getAttributeNode(name), right = place && name !== "srcdoc" && change(node.tagName, name, place.value);
      if (!right || right === place.value) return;
      isMended = true;
      if (node.tagName !== "SCRIPT") { node.setAttribute(name, right); return; }
      var again = document.createElement("script");
      Array.prototype.forEach.call(node.attributes, function (one) { again.setAttribute(one.name, one.value); });
      node.replaceWith(again);
    });
    if (node.tagName === "STYLE") {
      var rules = ledStyle(node.textContent);
      if (rules !== node.textContent) node.textContent = rules;
    }
//[box
    if (node.tagName.toLowerCase() === "use") sprite(node);
    if (node.tagName === "BASE" && ours && node !== ours && node.hasAttribute("href")) { ours.remove(); ours = null; }
//]
    return isMended;
  }
  new MutationObserver(function (changes) {
    changes.forEach(function (one) {
      if (one.type === "attributes") mend(one.target);
      if (one.target.tagName === "STYLE") mend(one.target);
      if (one.target.tagName === "TITLE") report();
      one.addedNodes.forEach(function (node) {
        if (node.nodeType !== 1) return;
        mend(node);
        node.querySelectorAll("[src],[href],[srcset],[style],[poster],[data],[action],style,use").forEach(mend);
      });
    });
  }).observe(document, { childList: true, subtree: true, attributes: true, attributeFilter: ["style", "src", "href"] });
})();
