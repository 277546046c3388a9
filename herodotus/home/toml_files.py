"""What stands in a TOML file that a person wrote, and which line is wrong when it cannot be read?"""

import tomllib
from pathlib import Path

from herodotus.core.errors import FileSyntaxError, StorageFailure

_FILE_BYTES_MAX = 1_000_000  # a settings file is a few kB; anything near this is not one


def read_toml(path: Path) -> dict[str, object]:
    """The parsed file. An error names line and column if it is not TOML."""
    try:
        with path.open("rb") as file:
            raw = file.read(_FILE_BYTES_MAX + 1)
    except OSError as error:
        raise StorageFailure(
            path=str(path),
            action="read",
            reason=(error.strerror or str(error)).lower(),
            hint="check the file and its owner",
        ) from error
    if len(raw) > _FILE_BYTES_MAX:
        raise FileSyntaxError(
            file=str(path), problem="is larger than 1 MB", hint="a settings file is a few kB"
        )
    try:
        return tomllib.loads(raw.decode())
    except UnicodeDecodeError as error:
        raise FileSyntaxError(
            file=str(path), problem=f"is not UTF-8 text (byte {error.start})", hint="save it as UTF-8"
        ) from error
    except tomllib.TOMLDecodeError as error:
        raise FileSyntaxError(
            file=str(path),
            problem=f"is not valid TOML: {error}",
            hint="correct that line, or move the file away",
        ) from error
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, or brackets as deep
        raise FileSyntaxError(
            file=str(path),
            problem="holds a number too long or lists too deep to be read",
            hint="a settings file needs neither",
        ) from error
