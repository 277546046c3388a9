"""How does an archived page come back to life, leading nowhere but into the archive? Pure, for any server.

A handler makes a `ReplayContext`, asks `rewriter_for` for what the body needs, sends `replay_headers` with
`isolation_headers`, and the body through the rewriter:

    context = ReplayContext(page_url=url, timestamp="20260102000000", flag=Flag.PAGE, portal_origin=origin)
    status, headers = replay_headers(200, fields, context)
"""

from herodotus.core.replay.banner import (
    NEWER_MARK,
    BannerFacts,
    HolderNote,
    banner_html,
    frame_html,
    readable_date,
)
from herodotus.core.replay.charsets import written_charset
from herodotus.core.replay.context import Flag, ReplayContext, checked_origin
from herodotus.core.replay.headers import (
    NO_TYPE,
    MediaType,
    frame_headers,
    is_worker_registration,
    isolation_headers,
    label_flag,
    label_headers,
    may_change,
    media_type,
    replay_headers,
    replay_status,
    script_headers,
    wants_frame,
)
from herodotus.core.replay.labels import (
    BOX_CLIENT_PATH,
    CLIENT_PATH,
    Label,
    NamedSite,
    Names,
    label_of,
    read_label,
)
from herodotus.core.replay.revisits import Reference, Shown, Unresolved, merged_head, resolution
from herodotus.core.replay.rewriter import Rewriter
from herodotus.core.replay.rewriter_choice import looks_like_html, rewriter_for, shown_flag, shown_type

__all__ = [
    "BOX_CLIENT_PATH",
    "CLIENT_PATH",
    "NEWER_MARK",
    "NO_TYPE",
    "BannerFacts",
    "Flag",
    "HolderNote",
    "Label",
    "MediaType",
    "NamedSite",
    "Names",
    "Reference",
    "ReplayContext",
    "Rewriter",
    "Shown",
    "Unresolved",
    "banner_html",
    "checked_origin",
    "frame_headers",
    "frame_html",
    "is_worker_registration",
    "isolation_headers",
    "label_flag",
    "label_headers",
    "label_of",
    "looks_like_html",
    "may_change",
    "media_type",
    "merged_head",
    "read_label",
    "readable_date",
    "replay_headers",
    "replay_status",
    "resolution",
    "rewriter_for",
    "script_headers",
    "shown_flag",
    "shown_type",
    "wants_frame",
    "written_charset",
]
