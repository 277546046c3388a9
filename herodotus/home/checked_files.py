"""How does a small file of bytes, with a version and a checksum, outlive a bad sector and a newer release?

It is kept twice and replaced in one step. Damaged in both copies it is put aside, and its owner begins without it; what
a newer release wrote is left alone, and refused. `herodotus.core` has the bytes of each such file.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from herodotus.core.errors import FileSyntaxError, StorageFailure
from herodotus.home.durable import set_aside, storage_failure
from herodotus.home.second_copies import read_twice_kept, write_twice

logger = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedFile(Generic[T]):
    path: Path
    bytes_max: int
    decode: Callable[[bytes], T]
    """Raises `damaged`."""
    damaged: type[Exception]
    encode: Callable[[T], bytes]
    is_of_newer_release: Callable[[bytes], bool]
    content: str
    """For the log."""

    def read(self) -> T | None:
        """None if there is no file, or a damaged one. Raises FileSyntaxError for the file of a newer release."""
        try:
            data = read_twice_kept(self.path, self.bytes_max + 1, self._is_sound)
        except OSError as error:
            raise storage_failure(error, self.path, "read") from error
        if data is None:
            return None
        if self.is_of_newer_release(data):
            raise FileSyntaxError(
                file=str(self.path), problem="was written by a newer release", hint="upgrade herodotus"
            )
        try:
            return self.decode(data)
        except self.damaged as error:
            logger.warning(
                "damaged, and begun anew content=%r file=%s error=%s", self.content, self.path, error
            )
            try:
                set_aside(self.path)
            except OSError as failure:
                raise storage_failure(failure, self.path, "move") from failure
            return None

    def write(self, value: T) -> None:
        """If the disk does not accept it, the peer continues: the next time may succeed."""
        try:
            write_twice(self.path, self.encode(value))
        except StorageFailure as error:
            logger.warning("not saved content=%r error=%s", self.content, error)

    def _is_sound(self, data: bytes) -> bool:
        """Or of another release, which is for others to say."""
        try:
            self.decode(data)
        except self.damaged:
            return self.is_of_newer_release(data)
        return True
