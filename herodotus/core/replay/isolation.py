"""What keeps archived pages in? The headers that a browser enforces, whatever the page contains.

Rewriting makes pages work; it is no defence, as a page can build any address by script. These are:

- *reach the portal's pages, storage, cookies, other archived pages*: `sandbox` without `allow-same-origin`; the
  page has an origin of its own, shared with nobody
- *register a service worker*: the same; and requests with `Service-Worker: script` are refused
  (`is_worker_registration`)
- *load from or send to the live web*: `default-src`, `connect-src`, `form-action` name the archive's path only
- *fetch `/api`, `/save`, `/status` by script*: the same
- *post a form to the portal*: `form-action` names the archive's path only, and `may_change` refuses
  `Origin: null`
- *frame busting*: `sandbox` without `allow-top-navigation`
- *windows, `window.opener`*: `sandbox` without `allow-popups`
- *show the portal in an archived frame*: the portal's own `frame-ancestors 'none'`
- *pages that nobody rewrote (raw flags, beyond a bound)*: `sandbox` without `allow-scripts`, which ends meta
  refreshes, too
- *lead the reader away by `location =`*: no header stops it for a page that fills the window; our script does
  (`guard.py`), and the page around a frame (`frame_headers`) for certain
- *ask for camera, place, payment*: `Permissions-Policy`
"""

from collections.abc import Mapping
from dataclasses import replace

from herodotus.core.replay.banner import FRAME_SCRIPT_SOURCE, FRAME_STYLE_SOURCE
from herodotus.core.replay.context import ReplayContext

_NOT_ALLOWED = (
    "accelerometer", "camera", "clipboard-read", "display-capture",
    "geolocation", "gyroscope", "hid", "idle-detection", "local-fonts", "magnetometer", "microphone", "midi",
    "payment", "publickey-credentials-get", "screen-wake-lock", "serial", "usb", "window-management",
    "xr-spatial-tracking",
)  # fmt: skip
PEERS_NAMED_MAX = 16
"""In a policy: more than holders of a key, less than would fill a head."""
_PERMISSIONS = ", ".join(f"{name}=()" for name in _NOT_ALLOWED)


def isolation_headers(context: ReplayContext, *, is_rewritten: bool = True) -> dict[str, str]:
    """For every answer with archived bytes, whatever its type and flag: an image may be opened as a page.
    Browsers show PDF outside of a sandbox only, so archived ones are downloaded.
    `is_rewritten`: false of a page that goes out as it was stored. It runs no scripts, as do those with a raw flag:
    nothing would keep the window that they fill from going to the live web."""
    portal, archive = _sources(context)
    own = " allow-same-origin" if context.has_own_origin else ""
    runs_scripts = is_rewritten and not context.flag.is_raw
    allowed = "allow-scripts allow-forms allow-modals allow-pointer-lock" if runs_scripts else "allow-forms"
    sandbox = f"sandbox {allowed}{own}; "
    # Root-relative strays of scripts say where they come from only where pages have an origin (Referrer Policy,
    # 8.3: none for an opaque one); there they are let through to be redirected into the archive.
    anywhere = portal if context.has_own_origin else archive
    policy = (
        f"{sandbox}"
        f"default-src {anywhere} data: blob: 'unsafe-inline' 'unsafe-eval'; "
        f"connect-src {archive} data: blob:; form-action {archive}; object-src {archive} data: blob:; "
        f"frame-src {archive} data: blob:; worker-src {archive} data: blob:; base-uri {archive}"
    )
    return {
        "Content-Security-Policy": policy,
        # Strays are found by their Referer; by the policy above it is sent to nobody else.
        "Referrer-Policy": "unsafe-url",
        "Permissions-Policy": _PERMISSIONS,
        # Pages have an origin of their own: fonts, modules and fetches need leave to come back to them.
        "Access-Control-Allow-Origin": "*",
        "Cross-Origin-Resource-Policy": "cross-origin",
        "X-Robots-Tag": "noindex, nofollow",
        "X-DNS-Prefetch-Control": "off",
    }


def frame_headers(context: ReplayContext, inner_origin: str = "") -> dict[str, str]:
    """For our page around an archived one (`banner.frame_html`): whatever the archived page does, its frame
    can show nothing that is not of the archive."""
    _, archive = _sources(replace(context, portal_origin=inner_origin) if inner_origin else context)
    return {
        "Content-Security-Policy": (
            f"default-src 'none'; frame-src {archive}; style-src {FRAME_STYLE_SOURCE}; "
            f"script-src {FRAME_SCRIPT_SOURCE}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        ),
        "Referrer-Policy": "no-referrer",
        "Permissions-Policy": _PERMISSIONS,
        "Cross-Origin-Opener-Policy": "same-origin",
        "X-Content-Type-Options": "nosniff",
        "Vary": "Sec-Fetch-Dest, Upgrade-Insecure-Requests",
    }


def _sources(context: ReplayContext) -> tuple[str, str]:
    """The whole portal, and the archive. A policy can name a path behind an origin only; redirects may leave
    the path, never the origin."""
    prefix = context.archive_prefix
    path = prefix if prefix[:1] == "/" else "/" + prefix.split("/", 3)[3]
    others = "".join(f" {origin}{path}" for origin in context.peer_origins[:PEERS_NAMED_MAX])
    if prefix[:1] != "/":
        return prefix + others, prefix + others
    if context.portal_origin is None:
        return "'self'" + others, "'self'" + others
    return context.portal_origin + others, f"{context.portal_origin}{prefix}{others}"


def wants_frame(headers: Mapping[str, str]) -> bool:
    """Whether a request for a page (no flag) fills a browser's window, so that the page around a frame is the
    right answer. Other programs want the page itself."""
    lower = {name.lower(): value for name, value in headers.items()}
    destination = lower.get("sec-fetch-dest")
    if destination is not None:
        return destination == "document"
    # Browsers say where it goes on secure connections only, but ask this for every page.
    return lower.get("upgrade-insecure-requests") == "1"


def is_worker_registration(headers: Mapping[str, str]) -> bool:
    """A browser fetches a service worker's script with this field; of archived bytes the answer is 403."""
    return any(name.lower() == "service-worker" for name in headers)


def may_change(headers: Mapping[str, str], portal_origin: str) -> bool:
    """Whether a request that does something (save, operator's functions) came from the portal's own pages or
    from no page at all. Sandboxed pages send `Origin: null`, other sites their own."""
    lower = {name.lower(): value for name, value in headers.items()}
    origin = lower.get("origin")
    if origin is not None:
        return origin == portal_origin
    return lower.get("sec-fetch-site", "none") in ("none", "same-origin")
