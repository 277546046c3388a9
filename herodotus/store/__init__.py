"""Where are the captures, and will they still be there tomorrow? Standard WARC files, and what is derived
from them.

Other rooms import only the names exported here, no module below. `faces` defines the calls.
"""

from herodotus.store.changes import ArchiveChanges, Changes
from herodotus.store.committer import Bell, current_bell
from herodotus.store.deletion import as_warc
from herodotus.store.disk import free_bytes_at
from herodotus.store.evidence import id_of_facts
from herodotus.store.faces import (
    Around,
    Broken,
    Catalogue,
    Checked,
    ContainerFacts,
    Held,
    Holdings,
    OnStored,
    Parcel,
    Sign,
    Store,
    Stretch,
    Taken,
    VersionEntry,
)
from herodotus.store.home_archive import HomeArchive, StoreWorld
from herodotus.store.intake import StoreOutcome
from herodotus.store.large_parcels import Packed
from herodotus.store.members import MEMBER_BYTES_MAX, is_within
from herodotus.store.performer import export_to, history_facts, perform
from herodotus.store.reader import HISTORY_MAX, Version
from herodotus.store.settings import ArchiveSettings, archive_settings
from herodotus.store.slices import LocalStorage, add_slice, archive_at
from herodotus.store.spools import Lying, OnDisk, Spool
from herodotus.store.store import Acknowledge, DiskStore, Page, Stored, open_store
from herodotus.store.stored_records import StoredCapture, capture_of_file
from herodotus.store.streams import Cursor, HostPlace, HostStream, Query, Stream
from herodotus.store.survey import Property, Span, Tally, read_contents, tally_key
from herodotus.store.threads import ThreadWorkers
from herodotus.store.upkeep import tidy_before_leaving

__all__ = [
    "HISTORY_MAX",
    "MEMBER_BYTES_MAX",
    "Acknowledge",
    "ArchiveChanges",
    "ArchiveSettings",
    "Around",
    "Bell",
    "Broken",
    "Catalogue",
    "Changes",
    "Checked",
    "ContainerFacts",
    "Cursor",
    "DiskStore",
    "Held",
    "Holdings",
    "HomeArchive",
    "HostPlace",
    "HostStream",
    "LocalStorage",
    "Lying",
    "OnDisk",
    "OnStored",
    "Packed",
    "Page",
    "Parcel",
    "Property",
    "Query",
    "Sign",
    "Span",
    "Spool",
    "Store",
    "StoreOutcome",
    "StoreWorld",
    "Stored",
    "StoredCapture",
    "Stream",
    "Stretch",
    "Taken",
    "Tally",
    "ThreadWorkers",
    "Version",
    "VersionEntry",
    "add_slice",
    "archive_at",
    "archive_settings",
    "as_warc",
    "capture_of_file",
    "current_bell",
    "export_to",
    "free_bytes_at",
    "history_facts",
    "id_of_facts",
    "is_within",
    "open_store",
    "perform",
    "read_contents",
    "tally_key",
    "tidy_before_leaving",
]
