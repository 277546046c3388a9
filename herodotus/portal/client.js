// Herodotus: lets an archived page at its label believe where it is. Apache-2.0.
// It helps pages and keeps nothing in: that is for the answer's headers (docs/understand/replay.md).
(function () {
  "use strict";
  var inWorker = typeof document === "undefined", here = self.location;
  var script = inWorker ? null : document.currentScript;
  var from = inWorker ? here.href.replace(/^blob:/, "") : script ? script.src : "";
  var label = /^(https?:)\/\/(\d{14})-[hs]\d*-[a-z0-9_-]+\.([^\/]+)\//.exec(from);
  if (!label) return;
  if (script) script.remove();
  var scheme = label[1], date = label[2], suffix = label[3], ownOrigin = new URL(from).origin, client = ownOrigin + "/_hd/client.js";
  var anyLabel = new RegExp(scheme + "//(\\d{14})-([hs])(\\d*)-([a-z0-9_-]+)\\." + suffix.replace(/[.\-]/g, "\\$&") + "(?![\\w.-])", "g");
  var absolute = /^[\x00-\x20]*(?:https?:|[\/\\]{2})/i, tabs = /[\t\n\r]+/g;
  var NativeURL = self.URL;

  // -- addresses: to labels, and back ---------------------------------------------------------------------
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
  var baseOf = Object.getOwnPropertyDescriptor(inWorker ? {} : Node.prototype, "baseURI");
  function base() { return original(inWorker ? from : baseOf.get.call(document)); }
  function led(reference) {
    var text = String(reference);
    if (!absolute.test(text.replace(tabs, ""))) return text;
    try {
      var url = new NativeURL(text, base()), to = isLabel(url.href) ? null : labelOf(url.origin);
      return to ? to + url.pathname + url.search + url.hash : text;
    } catch (error) { return text; }
  }
  function ledSet(text) {
    return String(text).replace(/(^|,\s+|,(?=https?:|\/\/))(\s*)(\S+)/g, function (whole, comma, gap, address) {
      return comma + gap + led(address);
    });
  }
  function ledStyle(text) {
    text = String(text);
    if (text.indexOf("//") < 0) return text;
    return text.replace(/(url\(\s*["']?|@import\s+["'])((?:https?:)?\/\/[^"')\s]+)/gi, function (whole, start, address) {
      return start + led(address);
    });
  }
  var named = /(<[a-z][^<>]*?\s|\s)(src|href|action|formaction|poster|data|background|srcset|style|srcdoc)(\s*=\s*)("[^"]*"|'[^']*'|[^\s"'>]+)/gi;
  function ledMarkup(html) {
    html = String(html);
    if (html.indexOf("//") < 0 && html.indexOf("srcdoc") < 0) return html;
    html = html.replace(named, function (whole, start, name, equals, value) {
      var quote = /^["']/.test(value) ? value[0] : "", text = quote ? value.slice(1, -1) : value;
      name = name.toLowerCase();
      if (name === "srcdoc") return whole;
      var made = name === "srcset" ? ledSet(text) : name === "style" ? ledStyle(text) : led(text);
      return made === text ? whole : start + name + equals + quote + made + quote;
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
      if (!given || !given.referrerPolicy) return given;
      return Object.assign({}, given, { referrerPolicy: "unsafe-url" });
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
    });
    attempt(function () {
      constructor(scope, "EventSource", function (given) { return [led(given[0])].concat(given.slice(1)); });
      property(scope.EventSource.prototype, "url", plain);
    });
    property(scope.MessageEvent.prototype, "origin", plain);
    ["Worker", "SharedWorker"].forEach(function (kind) {
      if (!scope[kind]) return;
      constructor(scope, kind, function (given) {
        var address = led(given[0]), isModule = given[1] && given[1].type === "module";
        if (/^blob:/.test(address)) attempt(function () {
          var reader = new XMLHttpRequest();
          reader.open("GET", address, false);
          reader.send();
          var start = isModule ? "import \"" + client + "\";" : "importScripts(\"" + client + "\");";
          address = NativeURL.createObjectURL(new Blob([start, reader.responseText], { type: "text/javascript" }));
        });
        return [address].concat(given.slice(1));
      });
    });
  }
  function argumentsOfMessage() {
    var given = Array.prototype.slice.call(arguments), to = given[1];
    if (typeof to === "string") given[1] = absolute.test(to) ? led(to).replace(/^(https?:\/\/[^\/]*).*/, "$1") : to;
    else if (to && typeof to.targetOrigin === "string") {
      given[1] = Object.assign({}, to, { targetOrigin: led(to.targetOrigin).replace(/^(https?:\/\/[^\/]*).*/, "$1") });
    }
    return given;
  }
  function global(scope, name, value) {
    Object.defineProperty(scope, name, { configurable: true, enumerable: false, writable: true, value: value });
  }

  if (inWorker) {
    requests(self);
    global(self, "__hdpm", argumentsOfMessage);
    method(self, "importScripts", function (native) {
      return function () { return native.apply(self, Array.prototype.map.call(arguments, led)); };
    });
    property(self, "origin", plain);
    return;
  }

  // -- elements --------------------------------------------------------------------------------------------
  var attributes = {
    A: ["href"], AREA: ["href"], LINK: ["href"], BASE: ["href"], SCRIPT: ["src"], IMG: ["src", "srcset"], IFRAME: ["src", "srcdoc"],
    FRAME: ["src"], VIDEO: ["src", "poster"], AUDIO: ["src"], SOURCE: ["src", "srcset"], TRACK: ["src"], EMBED: ["src"],
    OBJECT: ["data"], INPUT: ["src", "formaction"], BUTTON: ["formaction"], FORM: ["action"], IMAGE: ["href"], USE: ["href"]
  };
  function change(tag, name, value) {
    name = name.toLowerCase().replace(/^xlink:/, "");
    if (name === "style") return ledStyle(value);
    if ((attributes[tag.toUpperCase()] || []).indexOf(name) < 0) return value;
    return name === "srcdoc" ? ledInner(value) : name === "srcset" ? ledSet(value) : led(value);
  }
  var classes = {
    HTMLAnchorElement: ["href"], HTMLAreaElement: ["href"], HTMLLinkElement: ["href"], HTMLBaseElement: ["href"],
    HTMLScriptElement: ["src"], HTMLImageElement: ["src", "srcset", "currentSrc"], HTMLIFrameElement: ["src", "srcdoc"],
    HTMLFrameElement: ["src"], HTMLMediaElement: ["src", "currentSrc"], HTMLVideoElement: ["poster"],
    HTMLSourceElement: ["src", "srcset"], HTMLTrackElement: ["src"], HTMLEmbedElement: ["src"], HTMLObjectElement: ["data"],
    HTMLInputElement: ["src", "formAction"], HTMLButtonElement: ["formAction"], HTMLFormElement: ["action"]
  };
  var changers = { srcset: ledSet, srcdoc: ledInner };
  var tell = window.parent.postMessage.bind(window.parent), realParent = window.parent;
  var isOutermost = realParent !== window && realParent === window.top;

  function dressed(w) {
    if (w.__hdpm) return;
    global(w, "__hdpm", argumentsOfMessage);
    requests(w);
    ["RTCPeerConnection", "webkitRTCPeerConnection"].forEach(function (name) { attempt(function () { delete w[name]; }); });
    Object.keys(classes).forEach(function (kind) {
      classes[kind].forEach(function (name) {
        attempt(function () { property(w[kind].prototype, name, plain, changers[name] || led); });
      });
    });
    ["HTMLAnchorElement", "HTMLAreaElement"].forEach(function (kind) {
      ["origin", "protocol", "host", "hostname", "port"].forEach(function (name) {
        property(w[kind].prototype, name, function (value) {
          try { return new NativeURL(this.href)[name]; } catch (error) { return value; }
        });
      });
      method(w[kind].prototype, "toString", function () { return function () { return this.href; }; });
    });
    var element = w.Element.prototype, doc = w.Document.prototype;
    method(element, "setAttribute", function (native) {
      return function (name, value) { return native.call(this, name, change(this.tagName, String(name), String(value))); };
    });
    method(element, "setAttributeNS", function (native) {
      return function (space, name, value) { return native.call(this, space, name, change(this.tagName, String(name), String(value))); };
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
    method(w.DOMParser.prototype, "parseFromString", first(ledMarkup));
    ["write", "writeln"].forEach(function (name) {
      method(doc, name, function (native) {
        return function () { return native.call(this, ledMarkup(Array.prototype.join.call(arguments, ""))); };
      });
    });
    property(w.Node.prototype, "textContent", null, function (text) { return this.tagName === "STYLE" ? ledStyle(text) : text; });
    property(w.HTMLElement.prototype, "innerText", null, function (text) { return this.tagName === "STYLE" ? ledStyle(text) : text; });
    method(w, "Audio", function (native) {
      return new Proxy(native, { construct: function (target, given, made) { return Reflect.construct(target, given.map(led), made); } });
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
        return name === "referrer" && text === value ? "" : text;  // our page around it is nobody's referrer
      });
    });
    property(w.Node.prototype, "baseURI", plain);
    attempt(function () {
      var host = original(ownOrigin).replace(/^https?:\/\/|:\d+$/g, "");
      Object.defineProperty(doc, "domain", { configurable: true, enumerable: true, get: function () { return host; }, set: function () {} });
    });
    property(w, "origin", plain);
    ["pushState", "replaceState"].forEach(function (name) {
      method(w.History.prototype, name, function (native) {
        return function () {
          var given = Array.prototype.slice.call(arguments);
          if (given[2] !== undefined && given[2] !== null) given[2] = led(given[2]);
          var result = native.apply(this, given);
          if (w === window) report();
          return result;
        };
      });
    });
    method(w.Navigator.prototype, "sendBeacon", first(led));
    method(w, "open", function (native) {
      return function (address, name) {
        var frame = name && !/^_/.test(name) && w.document.querySelector("iframe[name=\"" + CSS.escape(String(name)) + "\"],frame[name=\"" + CSS.escape(String(name)) + "\"]");
        if (frame || /^_self$/i.test(name)) return native.call(w, led(address), name);
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

  // -- where it goes, and what our page around it is told --------------------------------------------------
  var last = "";
  function report() {
    if (!isOutermost) return;
    var said = original(location.href), title = document.title;
    if (said + "\n" + title === last) return;
    last = said + "\n" + title;
    tell({ hd: "shown", url: said.slice(0, 4096), title: title.slice(0, 200) }, "*");
  }
  function ask(address) { tell({ hd: "open", url: original(address) }, "*"); }
  dressed(window);
  report();
  ["DOMContentLoaded", "load", "popstate", "hashchange", "pageshow"].forEach(function (name) { window.addEventListener(name, report); });
  attempt(function () { if (isOutermost) Object.defineProperty(window, "parent", { configurable: true, enumerable: true, get: function () { return window; }, set: function () {} }); });
  window.addEventListener("message", function (event) {
    var said = event.data;  // a frame of ours asks for a window
    if (!said || said.hd !== "open" || event.source === window) return;
    event.stopImmediatePropagation();
    if (typeof said.url === "string") tell({ hd: "open", url: said.url }, "*");
  });
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
    var where = ownTarget(link.getAttribute("target") || (base && base.getAttribute("target")));
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button === 1) where = "new";
    if (where === "self") return;
    event.preventDefault();
    if (where === "new") ask(href); else location.href = led(href);
  }
  window.addEventListener("submit", function (event) {
    var form = event.target;
    if (ownTarget(form.getAttribute && form.getAttribute("target")) !== "self") form.target = "_self";
  }, true);

  // What came by a way that is not known here asked for its addresses in vain: it asks again.
  function mend(node) {
    if (!node.getAttributeNode) return;
    (attributes[node.tagName.toUpperCase()] || []).concat(node.hasAttribute("style") ? ["style"] : []).forEach(function (name) {
      var place = node.getAttributeNode(name), right = place && name !== "srcdoc" && change(node.tagName, name, place.value);
      if (!right || right === place.value) return;
      if (node.tagName !== "SCRIPT") { node.setAttribute(name, right); return; }
      var again = document.createElement("script");
      Array.prototype.forEach.call(node.attributes, function (one) { again.setAttribute(one.name, one.value); });
      node.replaceWith(again);
    });
    if (node.tagName === "STYLE") {
      var rules = ledStyle(node.textContent);
      if (rules !== node.textContent) node.textContent = rules;
    }
  }
  new MutationObserver(function (changes) {
    changes.forEach(function (one) {
      if (one.type === "attributes") mend(one.target);
      if (one.target.tagName === "STYLE") mend(one.target);
      if (one.target.tagName === "TITLE") report();
      one.addedNodes.forEach(function (node) {
        if (node.nodeType !== 1) return;
        mend(node);
        node.querySelectorAll("[src],[href],[srcset],[style],[poster],[data],[action],style").forEach(mend);
      });
    });
  }).observe(document, { childList: true, subtree: true, attributes: true, attributeFilter: ["style", "src", "href"] });
})();
