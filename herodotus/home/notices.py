"""Where are the notices of removals kept? `state/notices.json`, replaced in one step.

    {"format":1,"lived_s":3600.0,"seen_s":1795000000.0,"kept":[{"notice":[1,"…id…","…issuer…","host","example.org",…],
     "heard_s":60.0,"place":"…"}]}

Bytes are in base64. Without the file the notices of the last year come again from other peers; what was dismissed is
then open once more, and what is hidden stays hidden (`home.removed`).
"""

from collections.abc import Callable
from pathlib import Path

import msgspec

from herodotus.core.notices import KEPT_MAX, Kept
from herodotus.home.state_files import one_change_at_a_time, read_state_file, write_state_file

FORMAT = 1
FILE_BYTES_MAX = KEPT_MAX * 16_384
NAME, LOCK = "notices.json", "notices.lock"


class NoticesFile(msgspec.Struct, frozen=True, kw_only=True):
    format: int = FORMAT
    lived_s: float = 0.0
    seen_s: float = 0.0
    kept: list[Kept] = []

    @property
    def by_id(self) -> dict[bytes, Kept]:
        return {one.notice.id: one for one in self.kept}


def read_notices(state: Path) -> NoticesFile:
    found = read_state_file(state / NAME, NoticesFile, newest=FORMAT, bytes_max=FILE_BYTES_MAX)
    return found or NoticesFile()


def change_notices(state: Path, rewrite: Callable[[NoticesFile], NoticesFile]) -> NoticesFile:
    """One change, durable when it returns."""
    with one_change_at_a_time(state / LOCK):
        before = read_notices(state)
        after = rewrite(before)
        if after != before:
            write_state_file(state / NAME, after)
        return after


def with_kept(file: NoticesFile, kept: list[Kept]) -> NoticesFile:
    return msgspec.structs.replace(file, kept=kept)
