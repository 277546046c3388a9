"""What happened, in which order, and was it the same as last time?

Every event is a line (a tuple as Python writes it); the lines run through one hash, so two runs are equal
when their hashes are. Arrivals, the commonest, are hashed in a packed form, and made into text for readers
only. The last lines are kept for the report of a failure, and for its file. The
file is text: a header line of JSON that says how to run it again, the events, and an end line with the hash.
`version` is the format's; a file of another version is refused, as its events would mean something else.
"""

import hashlib
import json
from collections import deque
from dataclasses import asdict, dataclass, field
from pathlib import Path
from struct import Struct
from typing import Any
from zlib import crc32

FORMAT = "simnet-trace"
VERSION = 2  # since 2 the hash takes arrivals packed
LAST_LINES = 200
BATCH_LINES = 512  # hashed together: hashing each line alone doubles its cost
ARRIVE = "arrive"
_ARRIVAL = Struct("<dIHII")  # time, host, sender's port, length, checksum; then the sender's address as text


class TraceError(Exception):
    """A trace file cannot be used; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceHeader:
    scenario: str
    seed: int
    options: dict[str, Any] = field(default_factory=dict)
    commit: str = ""
    violation: dict[str, Any] | None = None  # {"checker", "detail", "time_s", "event"}
    faults: list[dict[str, Any]] = field(default_factory=list)


class Trace:
    """Notes are kept as tuples and made into text a batch at a time, which halves the cost of a note."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=16)
        self._batch: list[tuple[Any, ...]] = []
        self._last: deque[tuple[Any, ...]] = deque(maxlen=LAST_LINES)
        self._drained = 0

    @property
    def lines(self) -> int:
        return self._drained + len(self._batch)

    @property
    def last(self) -> list[str]:
        """The last lines, oldest first."""
        return [_line(entry) for entry in (*self._last, *self._batch)][-LAST_LINES:]

    def note(self, time_s: float, kind: str, *details: object) -> None:
        """Details are numbers and strings; floats are written exactly."""
        self._batch.append((time_s, kind, *details))
        if len(self._batch) >= BATCH_LINES:
            self._drain()

    def arrived(self, time_s: float, host: int, sender: tuple[str, int], data: bytes) -> None:
        """The commonest note: the datagram stands in it by length and checksum."""
        self._batch.append((time_s, ARRIVE, host, sender[0], sender[1], len(data), crc32(data)))
        if len(self._batch) >= BATCH_LINES:
            self._drain()

    def digest(self) -> str:
        """Of all lines so far; asking changes nothing."""
        self._drain()
        return self._hash.hexdigest()

    def _drain(self) -> None:
        if not self._batch:
            return
        self._hash.update(b"".join(map(_hashed, self._batch)))
        self._last.extend(self._batch)
        self._drained += len(self._batch)
        self._batch.clear()


def _line(entry: tuple[Any, ...]) -> str:
    return f"{entry!r}\n"


def _hashed(entry: tuple[Any, ...]) -> bytes:
    if entry[1] is not ARRIVE:
        return _line(entry).encode("utf-8", "surrogatepass")
    time_s, _, host, ip, port, length, checksum = entry
    arrival = _ARRIVAL.pack(time_s, host, port, length, checksum)
    return arrival + str(ip).encode()


def write_trace(path: Path, header: TraceHeader, trace: Trace) -> None:
    """The header and the last events: enough to run it again, and to see how it ended."""
    head = {"format": FORMAT, "version": VERSION, **asdict(header)}
    end = {"lines": trace.lines, "hash": trace.digest()}
    body = "".join(trace.last)
    path.write_text(f"{json.dumps(head, sort_keys=True)}\n{body}{json.dumps(end, sort_keys=True)}\n")


def read_trace(path: Path) -> tuple[TraceHeader, str]:
    """The header and the hash."""
    try:
        lines = path.read_text().splitlines()
        head, end = json.loads(lines[0]), json.loads(lines[-1])
        if head.get("format") != FORMAT:
            raise TraceError(f"{path} is not a trace of simnet")
        if head.get("version") != VERSION:
            raise TraceError(
                f"{path} is a trace of version {head.get('version')}, and this simnet reads {VERSION}: "
                "run the scenario again by its seed"
            )
        header = TraceHeader(
            scenario=str(head["scenario"]),
            seed=int(head["seed"]),
            options=dict(head["options"]),
            commit=str(head["commit"]),
            violation=head["violation"],
            faults=list(head["faults"]),
        )
        return header, str(end["hash"])
    except OSError as error:
        raise TraceError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise TraceError(f"{path} is not a whole trace of simnet") from error
