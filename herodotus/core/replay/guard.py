"""What keeps addresses in the archive that a script makes while it runs, in the sandbox? A small script of ours.

`GUARD_SCRIPT` runs before the page's own: what scripts ask for by the usual ways (fetch, XMLHttpRequest, `src`
and `href` of elements, markup put into the page) is led to the page's date; cookies and storage, which a page
without an origin of its own may not touch, are there and forgotten with the page; links that name another
frame or window work, though the page may open none. It is a help to pages, no defence: that is `headers.py`.
"""

GUARD_PATH = "_/guard.js"
"""Behind the archive's prefix; the answer may be cached for long, as the page's facts are in its address."""

_LED = r"""
  function ledInto(reference, base, flag, prefix, date, site) {
    var url;
    try { url = new URL(reference, base); } catch (error) { return reference; }
    if (url.protocol !== "http:" && url.protocol !== "https:") return reference;
    if (url.href.indexOf(prefix) === 0 && /^(\d{1,14}|\*|_)/.test(url.href.slice(prefix.length))) return reference;
    var isOfPortal = url.origin === new URL(prefix).origin;
    var live = isOfPortal ? site + url.pathname + url.search + url.hash : url.href;
    return prefix + date + flag + "/" + live;
  }
"""

GUARD_SCRIPT = (
    r"""// Herodotus: keeps what scripts ask for in the archive. Apache-2.0.
(function () {
  "use strict";
  var script = document.currentScript, source = script ? script.src : "", end = source.indexOf("_/guard.js");
  if (end < 0) return;
  var prefix = source.slice(0, end), address = location.protocol === "about:" ? document.baseURI : location.href;
  var memento = /^(\d{14})([a-z]{2}_)?\/(https?:\/\/[^\/?#]*)/.exec(address.slice(prefix.length));
  if (!memento || address.indexOf(prefix) !== 0) return;
  var date = memento[1], ownFlag = memento[2] || "", site = memento[3];
  script.remove();
"""
    + _LED
    + r"""
  function led(reference, flag) {
    return ledInto(String(reference), document.baseURI, flag, prefix, date, site);
  }
  function attempt(change) { try { change(); } catch (error) { /* an old browser: the page does without */ } }

  attempt(function () {
    var fetched = window.fetch;
    window.fetch = function (input, options) {
      if (window.Request && input instanceof Request) {
        var right = led(input.url, "oe_");
        return fetched.call(window, right === input.url ? input : new Request(right, input), options);
      }
      return fetched.call(window, led(input, "oe_"), options);
    };
  });
  attempt(function () {
    var opened = XMLHttpRequest.prototype.open;
    XMLHttpRequest.prototype.open = function () {
      var given = Array.prototype.slice.call(arguments);
      given[1] = led(given[1], "oe_");
      return opened.apply(this, given);
    };
  });
  attempt(function () { navigator.sendBeacon = function () { return true; }; });

  var flags = {
    IMG: { src: "im_" }, SCRIPT: { src: "js_" }, LINK: { href: "cs_" }, IFRAME: { src: "if_" }, FRAME: { src: "if_" },
    VIDEO: { src: "oe_", poster: "im_" }, AUDIO: { src: "oe_" }, SOURCE: { src: "oe_" }, TRACK: { src: "oe_" },
    EMBED: { src: "oe_" }, OBJECT: { data: "oe_" }, INPUT: { src: "im_" }, A: { href: ownFlag },
    AREA: { href: ownFlag }, FORM: { action: ownFlag }
  };
  var kinds = {
    HTMLImageElement: "IMG", HTMLScriptElement: "SCRIPT", HTMLLinkElement: "LINK", HTMLIFrameElement: "IFRAME",
    HTMLFrameElement: "FRAME", HTMLMediaElement: "VIDEO", HTMLVideoElement: "VIDEO", HTMLSourceElement: "SOURCE",
    HTMLTrackElement: "TRACK", HTMLEmbedElement: "EMBED", HTMLObjectElement: "OBJECT", HTMLInputElement: "INPUT",
    HTMLAnchorElement: "A", HTMLAreaElement: "AREA", HTMLFormElement: "FORM"
  };
  Object.keys(kinds).forEach(function (kind) {
    var names = flags[kinds[kind]];
    Object.keys(names).forEach(function (name) {
      attempt(function () {
        var property = Object.getOwnPropertyDescriptor(window[kind].prototype, name);
        if (!property || !property.set) return;
        Object.defineProperty(window[kind].prototype, name, {
          configurable: true, enumerable: property.enumerable, get: property.get,
          set: function (value) { property.set.call(this, led(value, names[name])); }
        });
      });
    });
  });
  // What a page would have fetched ahead is fetched past all policies: such rules become data of no type.
  function ofNoType(value) { return /^\s*speculationrules\s*$/i.test(value) ? "archived-speculationrules" : value; }
  attempt(function () {
    var type = Object.getOwnPropertyDescriptor(HTMLScriptElement.prototype, "type");
    Object.defineProperty(HTMLScriptElement.prototype, "type", {
      configurable: true, enumerable: type.enumerable, get: type.get,
      set: function (value) { type.set.call(this, ofNoType(value)); }
    });
  });
  attempt(function () {
    var set = Element.prototype.setAttribute;
    Element.prototype.setAttribute = function (name, value) {
      var lower = String(name).toLowerCase(), flag = (flags[this.tagName] || {})[lower];
      if (lower === "type" && this.tagName === "SCRIPT") return set.call(this, name, ofNoType(value));
      return set.call(this, name, flag === undefined ? value : led(value, flag));
    };
  });

  // What came by innerHTML and the like asked for its addresses already, in vain: it asks again, rightly.
  function mend(element) {
    var names = flags[element.tagName] || {};
    return Object.keys(names).filter(function (name) {
      var value = element.getAttribute(name), right = value && led(value, names[name]);
      if (!value || right === value) return false;
      if (element.tagName !== "SCRIPT") { element[name] = right; return true; }
      var again = document.createElement("script");
      Array.prototype.forEach.call(element.attributes, function (one) { again.setAttribute(one.name, one.value); });
      element.replaceWith(again);
      return true;
    }).length > 0;
  }
  window.addEventListener("error", function (event) {
    if (event.target && event.target.tagName && mend(event.target)) event.stopImmediatePropagation();
  }, true);
  attempt(function () {
    var tags = Object.keys(flags).filter(function (tag) { return tag !== "SCRIPT"; }).join(",");
    new MutationObserver(function (changes) {
      changes.forEach(function (change) {
        change.addedNodes.forEach(function (node) {
          if (node.nodeType !== 1) return;
          if (node.matches(tags)) mend(node);
          node.querySelectorAll(tags).forEach(mend);
        });
      });
    }).observe(document, { childList: true, subtree: true });
  });

  if (window.origin === "null") {
    attempt(function () {
      var cookies = {};
      Object.defineProperty(document, "cookie", {
        configurable: true,
        get: function () {
          return Object.keys(cookies).map(function (name) { return name + "=" + cookies[name]; }).join("; ");
        },
        set: function (text) {
          var pair = /^\s*([^=;]+)=([^;]*)/.exec(String(text));
          if (pair && Object.keys(cookies).length < 100) cookies[pair[1].trim()] = pair[2].trim();
        }
      });
    });
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
        var storage = new Proxy(methods, {
          get: function (target, key) {
            if (key === "length") return kept.size;
            return key in target ? target[key] : kept.get(String(key));
          },
          set: function (target, key, value) { kept.set(String(key), String(value)); return true; },
          deleteProperty: function (target, key) { kept.delete(String(key)); return true; }
        });
        Object.defineProperty(window, name, { configurable: true, value: storage });
      });
    });
    attempt(function () {
      var refusal = function () { return Promise.reject(new DOMException("not in an archive", "SecurityError")); };
      Object.defineProperty(navigator, "serviceWorker", {
        configurable: true,
        value: {
          controller: null, ready: new Promise(function () {}), register: refusal, addEventListener: function () {},
          removeEventListener: function () {}, getRegistration: function () { return Promise.resolve(undefined); },
          getRegistrations: function () { return Promise.resolve([]); }
        }
      });
    });
  }

  // A page in a sandbox may steer only itself. Links to other frames are passed up to their frame.
  function frameNamed(name) {
    return Array.prototype.filter.call(document.querySelectorAll("frame,iframe"), function (frame) {
      return frame.name === name;
    })[0];
  }
  function tell(other, said) { other.postMessage(said, "*"); }
  function open(to, name) {
    var frame = name && frameNamed(name);
    if (frame) frame.src = to;
    else if (name && window.parent !== window) tell(window.parent, { herodotus: "open", address: to, name: name });
    else if (window === window.top) location.href = to.replace(/^(.*?\/\d{14})(?:if_|mp_)\//, "$1/");
    else tell(window.top, { herodotus: "open", address: to });
  }
  window.addEventListener("message", function (event) {
    var said = event.data;
    if (!said || said.herodotus !== "open" || typeof said.address !== "string") return;
    event.stopImmediatePropagation();
    if (said.address.indexOf(prefix) === 0 && event.source !== window) open(said.address, String(said.name || ""));
  });
  window.addEventListener("click", function (event) {
    if (event.defaultPrevented || event.button) return;
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    var from = event.composedPath ? event.composedPath()[0] : event.target;
    var link = from && from.closest && from.closest("a[href],area[href]");
    if (!link || link.hasAttribute("download") || String(link.href).indexOf(prefix) !== 0) return;
    var base = document.querySelector("base[target]");
    var target = link.getAttribute("target") || (base && base.getAttribute("target")) || "_self";
    if (/^_(top|parent|blank|new)$/i.test(target)) target = "";
    else if (target.toLowerCase() === "_self") {
      if (ownFlag !== "mp_" || link.href.split("#")[0] === location.href.split("#")[0]) return;
      target = "";
    }
    event.preventDefault();
    open(link.href, target);
  });
})();
"""
)


def script_headers() -> dict[str, str]:
    """For the answer at `GUARD_PATH`, and at `labels.CLIENT_PATH`."""
    return {
        "Content-Type": "text/javascript; charset=utf-8",
        "Cache-Control": "public, max-age=3600",
        "X-Content-Type-Options": "nosniff",
        "Access-Control-Allow-Origin": "*",
        "Cross-Origin-Resource-Policy": "cross-origin",
    }
