"""What did the made-up web see of its visitors? Its log has a line of JSON for each request."""

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

_OWN_ADDRESS = "127.0.0.1"  # the tester's questions, not visits


@dataclass(frozen=True, slots=True, kw_only=True)
class Visits:
    """`status` by host and path: the last answer. Requests for robots.txt are left out."""

    requests: int
    status: dict[tuple[str, str], int]


def visits_on(log: Path, day: int) -> Visits:
    """On a day of the web, which is turned by its control address."""
    lines = [line for line in _lines(log) if line["day"] == day and line["path"] != "/robots.txt"]
    return Visits(
        requests=len(lines), status={(line["host"], line["path"]): line["status"] for line in lines}
    )


def least_pause_s(log: Path) -> float:
    """Between two requests to one host, robots.txt included."""
    times: dict[str, list[float]] = defaultdict(list)
    for line in _lines(log):
        times[line["host"]].append(line["time"])
    return min(after - before for seen in times.values() for before, after in pairwise(sorted(seen)))


def _lines(log: Path) -> Iterator[dict[str, Any]]:
    for text in log.read_text(encoding="utf-8").splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            continue  # the last one, still being written
        if line["host"] != _OWN_ADDRESS:
            yield line
