"""What does a terminal show at a crawl's end? One sentence, what to do next, tables by host, status and type."""

from collections.abc import Mapping, Sequence
from typing import Any

from herodotus.operate.cli.status_text import harmless, table_lines

ROWS_MAX = 12
HOSTS_NAMED = 3
_OUTCOMES = ("fetched", "stored", "unchanged", "gone", "refused", "failed", "forbidden")
_COLUMNS = ("fetched", "stored", "stored_bytes", "unchanged", "failed", "forbidden", "problem")


def crawl_lines(found: Mapping[str, Any], resume: str) -> list[str]:
    """`resume` is the command that continues."""
    lines = [", ".join(f"{found[word]:,} {word}" for word in _OUTCOMES)]
    if found["ended"] == "waiting":
        lines += _waiting(found["waiting"], resume)
    elif found["ended"] != "done":
        reason = "the limit was reached" if found["ended"] == "limit" else "interrupted, everything is kept"
        lines.append(f"{reason}; {found['due']:,} known URLs wait: `{resume}` continues")
    elif not any(found[word] for word in ("fetched", "forbidden", "recovered", "reread")):
        lines.append(f"nothing was due: all {found['known']:,} known URLs were visited today")
    hosts = list(found["by_host"].items())
    rows: list[Sequence[object]] = [("host", *_COLUMNS)]
    rows += [(host[:60], *(_cell(counts[name]) for name in _COLUMNS)) for host, counts in hosts[:ROWS_MAX]]
    if len(rows) > 1:
        lines += ["", *table_lines(rows)]
    if len(hosts) > ROWS_MAX:
        lines.append(f"and {len(hosts) - ROWS_MAX:,} more hosts: --json lists all")
    lines += _counted("status", found["by_status"]) + _counted("type", found["by_mime"])
    lines += _rules(found["rules"])
    lines += _counted("not fetched", found["by_error"]) + _counted("links not taken", found["links"]["left"])
    return lines


def _rules(rules: Mapping[str, Mapping[str, int]]) -> list[str]:
    """How what pages need was found, and how much of it was there."""
    rows = [(rule, f"{counts['tried']:,}", f"{counts['found']:,}") for rule, counts in rules.items()]
    return ["", *table_lines([("found by rule", "tried", "found"), *rows])] if rows else []


def _waiting(waiting: Mapping[str, Any], resume: str) -> list[str]:
    hosts = list(waiting["hosts"].items())
    names = ", ".join(f"{harmless(host)[:60]} until {until}" for host, until in hosts[:HOSTS_NAMED])
    more = f" and {len(hosts) - HOSTS_NAMED:,} more hosts" if len(hosts) > HOSTS_NAMED else ""
    return [f"{waiting['urls']:,} URLs wait for hosts that rest: {names}{more}; then `{resume}` continues"]


def _cell(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else harmless(value)[:60]


def _counted(name: str, counts: Mapping[str, int]) -> list[str]:
    if not counts:
        return []
    first = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:ROWS_MAX]
    return ["", *table_lines([(name, "count"), *((key[:60], f"{count:,}") for key, count in first)])]
