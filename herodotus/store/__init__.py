"""Where are the captures, and will they still be there tomorrow? Standard WARC files, and what is derived
from them.

Other rooms import what stands here, and no module below. `faces` says what they may ask.
"""

from herodotus.store.bell import Bell, current_bell
from herodotus.store.faces import (
    Acknowledge,
    Broken,
    Held,
    Holdings,
    OnStored,
    Parcel,
    Sign,
    Stretch,
    Taken,
)
from herodotus.store.intake import StoreOutcome
from herodotus.store.members import MEMBER_BYTES_MAX

__all__ = [
    "MEMBER_BYTES_MAX",
    "Acknowledge",
    "Bell",
    "Broken",
    "Held",
    "Holdings",
    "OnStored",
    "Parcel",
    "Sign",
    "StoreOutcome",
    "Stretch",
    "Taken",
    "current_bell",
]
