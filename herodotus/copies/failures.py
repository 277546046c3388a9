"""Which holders failed their proofs, and when? A small file, so that a restart does not make them count again."""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from herodotus.core.copies import PeerKey
from herodotus.core.errors import StorageFailure
from herodotus.home.durable import write_durably

logger = logging.getLogger(__name__)

FORMAT = 1


class _File(msgspec.Struct, kw_only=True):
    format: int
    failed: dict[str, float]
    """Public keys in hex, and the second since 1970 at which each failed."""


class Failures:
    """As many as `HolderStates` keeps. A file that cannot be read is as none: they will fail again."""

    def __init__(self, file: Path, wall_clock: Callable[[], float]) -> None:
        self._file, self._wall_clock = file, wall_clock

    def load(self) -> dict[PeerKey, float]:
        """How many seconds ago each failed."""
        try:
            found = msgspec.json.decode(self._file.read_bytes(), type=_File)
            now = self._wall_clock()
            return (
                {bytes.fromhex(peer): now - at for peer, at in found.failed.items()}
                if found.format == FORMAT
                else {}
            )
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            logger.warning("which holders failed their proofs cannot be read error=%s", error)
            return {}

    def save(self, failed: Mapping[PeerKey, float]) -> None:
        now = self._wall_clock()
        held = _File(format=FORMAT, failed={peer.hex(): round(now - age_s) for peer, age_s in failed.items()})
        try:
            write_durably(self._file, msgspec.json.encode(held), mode=0o600)
        except StorageFailure as error:
            logger.warning("which holders failed their proofs is not saved error=%s", error)
