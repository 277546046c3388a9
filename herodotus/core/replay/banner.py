"""What does a reader see above an archived page? Whose page it is, of when, and the ways to other days.

Plain links and no script: the page below may change or remove its banner, and gains nothing by it. The frame
page has the banner outside, where no archived script reaches it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from herodotus.core.replay.context import ReplayContext

HOLDERS_SHOWN_MAX = 8
URL_SHOWN_MAX = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
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
    unchanged_since: str | None = None
    """Set where this day's visit found what an earlier one had."""
    requested: str | None = None
    """The date asked for, where another day is shown for want of it."""
    holders: Sequence[Holder] = ()
    is_disputed: bool = False
    """Peers hold different contents for this URL and day."""


def banner_html(context: ReplayContext, facts: BannerFacts) -> bytes:
    """In ASCII, so that it can stand in a page of any charset."""
    parts = [f"<b>{_date(context.timestamp)}</b>"]
    if facts.requested is not None:
        parts.append(f"(asked for {_date(facts.requested)})")
    for label, date in (
        ("first", facts.first),
        ("previous", facts.previous),
        ("next", facts.next),
        ("last", facts.last),
    ):
        if date is not None:
            parts.append(f'<a href="{_address(context, date)}">{label}</a>')
    history = escape(f"{context.archive_prefix}*/{context.page_url}")
    parts.append(f'<a href="{history}">history</a>')
    text = " ".join(parts)
    return f'<div id="herodotus-banner" role="navigation" aria-label="Web archive">{text}</div>'.encode(
        "ascii", "xmlcharrefreplace"
    )


def frame_html(context: ReplayContext, facts: BannerFacts) -> bytes:
    """A page of our own with the banner, and the archived page in a frame. Sent with `frame_headers`."""
    source = escape(f"{context.archive_prefix}{context.timestamp}if_/{context.page_url}")
    page = (
        "<!DOCTYPE html><meta charset=utf-8><title>Archived page</title>"
        f'<iframe src="{source}" sandbox="allow-scripts allow-forms"></iframe>'
    )
    return banner_html(context, facts) + page.encode("ascii", "xmlcharrefreplace")


def _address(context: ReplayContext, date: str) -> str:
    return escape(f"{context.archive_prefix}{date}{context.flag}/{context.page_url}")


def _date(digits: str) -> str:
    day = "-".join(part for part in (digits[:4], digits[4:6], digits[6:8]) if part)
    return f"{day} {digits[8:10]}:{digits[10:12]}:{digits[12:14]}" if len(digits) == 14 else day
