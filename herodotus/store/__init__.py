"""Where are the captures, and will they still be there tomorrow? Standard WARC files, and what is derived
from them.

Other rooms import what stands here, and no module below. `faces` says what they may ask.
"""

from herodotus.store.bell import Bell, current_bell
from herodotus.store.deletion import as_warc
from herodotus.store.faces import (
    Acknowledge,
    Broken,
    Catalogue,
    ContainerFacts,
    Held,
    Holdings,
    OnStored,
    Parcel,
    Sign,
    Stretch,
    Taken,
    VersionEntry,
)
from herodotus.store.host_stream import HostPlace, HostStream
from herodotus.store.intake import StoreOutcome
from herodotus.store.members import MEMBER_BYTES_MAX
from herodotus.store.neighbours import Around
from herodotus.store.performer import history_as_json
from herodotus.store.reader import Version
from herodotus.store.streams import Cursor, Query, Stream
from herodotus.store.survey import Property, Span, Tally, tally_key

__all__ = [
    "MEMBER_BYTES_MAX",
    "Acknowledge",
    "Around",
    "Bell",
    "Broken",
    "Catalogue",
    "ContainerFacts",
    "Cursor",
    "Held",
    "Holdings",
    "HostPlace",
    "HostStream",
    "OnStored",
    "Parcel",
    "Property",
    "Query",
    "Sign",
    "Span",
    "StoreOutcome",
    "Stream",
    "Stretch",
    "Taken",
    "Tally",
    "Version",
    "VersionEntry",
    "as_warc",
    "current_bell",
    "history_as_json",
    "tally_key",
]
