"""For how long did the operator pause the peer? The file `state/paused`, so that a pause outlives a restart.

It is there while the peer is paused. Empty: until `resume`. Else format 1 (golden bytes in a test), in seconds since
1970 by this machine's clock:

    {"format":1,"from_s":1795000000,"until_s":1795001800}

No clock can make a pause longer than it was ordered: what is left is never more than all of it, and within one run a
clock that nobody sets counts, too. A file that cannot be read is a pause until `resume`, as somebody wanted one.
"""

import math
from collections.abc import Callable
from pathlib import Path

import msgspec

from herodotus.home.durable import write_durably

FORMAT = 1
PAUSE_S_MAX = 366 * 86_400.0
"""A longer one is a pause until `resume`."""
_BYTES_MAX = 1_000


class _File(msgspec.Struct, kw_only=True):
    format: int
    from_s: float
    until_s: float


def write_pause(path: Path, now_s: float, for_s: float | None) -> None:
    """None: until `resume`. Raises StorageFailure."""
    content = b""
    if for_s is not None:
        assert 0 < for_s <= PAUSE_S_MAX
        content = msgspec.json.encode(_File(format=FORMAT, from_s=round(now_s), until_s=round(now_s + for_s)))
    write_durably(path, content)


def left_of_pause(path: Path, now_s: float) -> float:
    """0 where there is no pause, or no longer; infinite until `resume`."""
    from_s, until_s = _span(path)
    return _left_s(from_s, until_s, now_s)


def _span(path: Path) -> tuple[float, float]:
    try:
        with path.open("rb") as file:
            found = msgspec.json.decode(file.read(_BYTES_MAX), type=_File)
    except FileNotFoundError:
        return 0.0, 0.0
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return 0.0, math.inf
    if found.format != FORMAT or not 0 <= found.until_s - found.from_s <= PAUSE_S_MAX + 1:
        return 0.0, math.inf
    return found.from_s, found.until_s


def _left_s(from_s: float, until_s: float, now_s: float) -> float:
    return min(max(0.0, until_s - now_s), until_s - from_s)


class OperatorPause:
    """The pause of a running peer."""

    def __init__(self, path: Path, wall_s: Callable[[], float], steady_s: Callable[[], float]) -> None:
        self._path, self._wall_s, self._steady_s = path, wall_s, steady_s
        self._span = 0.0, 0.0
        self._ends = 0.0
        """By the steady clock."""

    def recall(self) -> None:
        """What the last run left."""
        self._span = _span(self._path)
        self._ends = self._steady_s() + _left_s(*self._span, self._wall_s())

    def begin(self, for_s: float | None) -> None:
        """Raises StorageFailure."""
        write_pause(self._path, self._wall_s(), for_s)
        self.recall()

    def end(self) -> bool:
        """Says whether there was one."""
        was_paused = self.left_s() > 0
        self._path.unlink(missing_ok=True)
        self._span, self._ends = (0.0, 0.0), 0.0
        return was_paused

    def left_s(self) -> float:
        """As `left_of_pause`. The wall clock also counts what the machine slept."""
        return max(0.0, min(self._ends - self._steady_s(), _left_s(*self._span, self._wall_s())))
