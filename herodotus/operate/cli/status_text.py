"""How does a terminal show a peer's status? A few sentences, or small tables, made from the answer of its HTTP port.

The answer may come from any peer, even a lying one. Malformed parts are left out, and nothing in it can steer the
terminal.
"""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from herodotus.operate.cli.printing import escaped

CIRCLE = 1 << 160
SHOWN_MAX = 64
"""Rows of a table: a peer has at most 16 successors and 64 positions."""
AUDITS_SHOWN = 5
OBSERVED_SHOWN = 5
KINDS_SHOWN = 6
_SENTENCE_MAX = 600
_WIDTH = 13
_Facts = Mapping[str, Any]


def sentence_lines(facts: _Facts, width: int | None = None) -> list[str]:
    """Who the peer is to the ring, what is wrong, what it does now, what it holds, what comes next; nothing where the
    peer does not say so, as it does to its operator alone. Without a width a line is as long as it is."""
    words = _dict(facts, "said")
    said = [text for name in ("standing", "doing", "holds", "next") if (text := _sentence(words.get(name)))]
    if not said:
        return []
    wrong = [f"! {text}" for one in _list(facts.get("alarms")) if (text := _sentence(one))]
    lines = [said[0], *wrong, *said[1:]]
    name = _sentence(facts.get("nickname")) or _sentence(facts.get("peer_id"))[:14]
    where = f"{name} of {_sentence(facts.get('network'))}, {_sentence(facts.get('http'))}/"
    shown = [part for line in lines for part in _wrapped(line, width)]
    return [*shown, "", f"{where}  (more: `herodotus status --verbose`)"]


def _sentence(value: object) -> str:
    return harmless(value)[:_SENTENCE_MAX] if isinstance(value, str) else ""


def _wrapped(text: str, width: int | None) -> list[str]:
    if width is None:
        return [text]
    indent = "  " if text.startswith("! ") else ""
    return textwrap.wrap(
        text, width, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False
    )


def status_lines(facts: _Facts, previous: _Facts | None = None) -> list[str]:
    """`previous` is the same peer's answer of some seconds ago; rates are then of the time between."""
    names = ("peer_id", "nickname", "version", "network", "network_id", "http", "pid", "started", "uptime_s")
    lines = [_line(name, facts.get(name, "")) for name in names]
    lines += [_line("alarm", one) for one in _list(facts.get("alarms"))]
    ring = facts.get("ring")
    if isinstance(ring, dict):
        lines += _ring_lines(ring, facts, previous)
    lines += _observation_lines(facts.get("observation"))
    for name in (
        "calls",
        "readers",
        "links",
        "crawl",
        "helpers",
        "helping",
        "stewards",
        "store",
        "search",
        "copies",
        "copying",
        "notices",
        "budget",
        "leaving",
    ):
        part = facts.get(name)
        if isinstance(part, dict):
            numbers = "  ".join(
                f"{key} {value}" for key, value in part.items() if not isinstance(value, list | dict)
            )
            lines.append(_line(name, numbers or "-"))
    return lines + _copying_lines(_dict(facts, "copying"))


def _copying_lines(copying: _Facts) -> list[str]:
    """The last comparison with each holder, the results of audits, the suspects."""
    told = _dict(copying, "places").get("told")
    lines = [_line("  places", told)] if told else []
    lines += _spare_lines(_dict(copying, "spares"))
    full = [str(peer) for peer in _list(copying.get("full"))]
    lines += [_line("  no room", f"{', '.join(full)}: their neighbours get copies instead")] if full else []
    for holder in _dicts(copying.get("holders")):
        ago = holder.get("compared_s_ago")
        when = f"compared {_number(ago):,} s ago" if isinstance(ago, int) else "not compared yet"
        found = f"{_number(holder.get('differences')):,} differences, {_number(holder.get('bytes')):,} bytes"
        away = ", absent" if holder.get("is_absent") is True else ""
        proven = holder.get("proven_s_ago")
        proof = f", {holder.get('proof')}" if holder.get("proof") else ""
        proof += f" {_number(proven):,} s ago" if isinstance(proven, int) and proof == ", proven" else ""
        lines.append(_line("  holder", f"{holder.get('peer')}  {when}: {found}{away}{proof}"))
    lines += [
        _line("  audit", f"{audit.get('peer')}  {audit.get('result')}, {_number(audit.get('s_ago')):,} s ago")
        for audit in _dicts(copying.get("audits"))[:AUDITS_SHOWN]
    ]
    crossed = _dict(_dict(copying, "cross_fetches"), "peers")
    lines += [
        _line(
            "  checked",
            f"{peer}  {_number(one.get('differed')):,} differ, {_number(one.get('agreed')):,} agree",
        )
        for peer, one in list(crossed.items())[:AUDITS_SHOWN]
    ]
    doors = _dict(copying, "doors")
    for name, what in (("came in", "came"), ("refused", "turned_away")):
        counted = "  ".join(f"{why} {count}" for why, count in _dict(doors, what).items())
        lines += [_line(f"  {name}", counted)] if counted else []
    lines += [
        _line("  quota", f"{peer}  {_number(size):,} bytes too much today")
        for peer, size in _dict(doors, "quotas_hit").items()
    ]
    lines += [_line("  sender", f"{peer}  {why}") for peer, why in _dict(doors, "peers").items()]
    suspects = _dict(copying, "suspects")
    lines += [_line("  suspect", f"{peer}  {how}") for peer, how in list(suspects.items())[:SHOWN_MAX]]
    return lines


def _spare_lines(spares: _Facts) -> list[str]:
    """Copies beyond those that the network promises, on average, and what this peer keeps of them."""
    most, own, known = (_number(spares.get(name)) for name in ("copies", "own", "known"))
    if not most:
        return []
    average = (
        f"{known / own:.1f} of up to {most:,.0f} besides those" if own else f"up to {most:,.0f} besides those"
    )
    more = "takes more" if spares.get("fills") is True else "takes no more now"
    return [
        _line(
            "  spare", f"{average}; this peer keeps {_number(spares.get('held')):,.0f} for others, and {more}"
        )
    ]


def _observation_lines(observation: object) -> list[str]:
    """For how much of the time members were there: the median, and those that were there the least."""
    if not isinstance(observation, dict):
        return []
    watched, seen = _number(observation.get("watched_days")), _number(observation.get("seen"))
    usual = f", half of them for {_number(observation.get('there')):.1%} of the time or more" if seen else ""
    lines = [_line("seen", f"{seen:,.0f} members{usual}; watched for {watched:,.0f} days")]
    for one in _dicts(observation.get("members"))[:OBSERVED_SHOWN]:
        age, ago = _number(one.get("age_days")), _number(one.get("seen_min_ago"))
        there = f"there {_number(one.get('there')):.1%} of {age:,.0f} days"
        lines.append(_line("  member", f"{one.get('peer')}  {there}, last seen {ago:,.0f} min ago"))
    return lines


def _line(name: str, value: object) -> str:
    return f"{harmless(name):<{_WIDTH}}{harmless(value)}".rstrip()


def harmless(value: object) -> str:
    """Another peer's words must not steer this terminal."""
    return escaped(str(value)[:1000])


def _ring_lines(ring: _Facts, facts: _Facts, previous: _Facts | None) -> list[str]:
    shape = "ideal" if ring.get("ideal") is True else "not ideal (yet)"
    shape = "alone" if ring.get("members") == 1 else shape
    lines = [
        _line("ring", f"{_number(ring.get('members')):,} members, {shape}"),
        _line("  reached at", _place(ring)),
        _line("  outside", ring.get("reachability", "-")),
        *_place_lines(_dict(ring, "places")),
        *map(_uncallable_line, _dicts(ring.get("uncallable"))),
        _line("  traffic", _traffic(ring, facts, previous)),
        *_kind_lines(_dict(_dict(ring, "traffic"), "kinds")),
    ]
    dropped = _dict(_dict(ring, "traffic"), "dropped")
    if dropped:
        lines.append(
            _line("  dropped", "  ".join(f"{key} {value}" for key, value in sorted(dropped.items())))
        )
    lines += _arc_lines(ring.get("arcs"))
    for node in _dicts(ring.get("nodes")):
        lines += _node_lines(node)
    unwell = _dict(ring, "unwell")
    if unwell:
        rows = [("unwell peer", "clock"), *sorted(unwell.items())]
        lines += ["", *table_lines(rows)]
    return [*lines, ""]


def _uncallable_line(one: _Facts) -> str:
    why = f"{one.get('why')}, for {_number(one.get('for_s')):,.0f} s"
    return _line("  uncallable", f"{one.get('peer')} at {one.get('address')}: {why}")


def _place_lines(places: _Facts) -> list[str]:
    """Where each key is a place of its own there is nothing to tell."""
    if places.get("by") != "prefix":
        return []
    found = f"{_number(places.get('places')):,} with {_number(places.get('of_age')):,} members that count"
    probation, veteran = _number(places.get("probation_days")), _number(places.get("veteran_days"))
    since = f"; a new one counts after {probation:,} days, is a veteran after {veteran:,}"
    lines = [_line("  places", found + since)]
    if places.get("is_counted") is False:
        lines.append(
            _line(
                "", "this peer does not count yet: it stores what it will hold, and others do not rely on it"
            )
        )
    return lines


def _place(ring: _Facts) -> str:
    """The slot only if it is not the first: then other peers share our address."""
    slot = _number(ring.get("slot"))
    return f"{ring.get('address', '-')}{f', slot {slot:.0f}' if slot else ''}"


def _traffic(ring: _Facts, facts: _Facts, previous: _Facts | None) -> str:
    traffic, seconds = _dict(ring, "traffic"), _number(facts.get("uptime_s"))
    before: _Facts = {}
    if previous is not None and previous.get("pid") == facts.get("pid"):
        before = _dict(_dict(previous, "ring"), "traffic")
        seconds -= _number(previous.get("uptime_s"))
    rates = [
        (_number(traffic.get(name)) - _number(before.get(name))) / max(seconds, 1)
        for name in ("bytes_in", "bytes_out")
    ]
    sessions = _number(traffic.get("sessions"))
    return f"in {_bytes(rates[0])}/s, out {_bytes(rates[1])}/s, {sessions:,.0f} sessions"


def _kind_lines(kinds: _Facts) -> list[str]:
    """Most of it by kind of message, since the start."""
    sizes = {
        str(kind): [_number(size) for size in both]
        for kind, both in kinds.items()
        if isinstance(both, list | tuple)
    }
    most = sorted(sizes, key=lambda kind: (-sum(sizes[kind]), kind))[:KINDS_SHOWN]
    told = ", ".join(f"{harmless(kind)} {' and '.join(map(_bytes, sizes[kind]))}" for kind in most)
    return [_line("  in and out", told)] if told else []


def _arc_lines(arcs: object) -> list[str]:
    rows = [("", "holds keys after", "up to", "of the circle")]
    for arc in (arcs if isinstance(arcs, list) else [])[:SHOWN_MAX]:
        ends = [_position(end) for end in arc] if isinstance(arc, list) else []
        if len(ends) == 2 and ends[0] is not None and ends[1] is not None:
            share = ((ends[1] - ends[0]) % CIRCLE or CIRCLE) / CIRCLE
            after, up_to = (f"{end or 0:040x}"[:16] for end in ends)
            rows.append(("", after, up_to, f"{share:7.2%}"))
    return ["", *table_lines(rows)] if len(rows) > 1 else []


def _node_lines(node: _Facts) -> list[str]:
    standing = "member" if node.get("is_member") is True else "joining"
    rows = [("position " + harmless(node.get("position", ""))[:16], standing, "", "")]
    before = node.get("predecessor")
    neighbours = [("predecessor", before)] if isinstance(before, dict) else []
    neighbours += [(f"successor {n}", one) for n, one in enumerate(_dicts(node.get("successors")), 1)]
    for name, one in neighbours:
        position = harmless(one.get("position", ""))[:16]
        rows.append(("  " + name, position, harmless(one.get("address", "")), harmless(one.get("clock", ""))))
    return ["", *table_lines(rows)]


def table_lines(rows: Sequence[Sequence[object]]) -> list[str]:
    cells = [[harmless(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]


def _bytes(count: float) -> str:
    return f"{count / 1000:,.1f} kB" if abs(count) >= 10_000 else f"{count:,.0f} B"


def _number(value: object) -> float:
    return value if isinstance(value, int | float) else 0


def _dict(facts: _Facts, name: str) -> dict[str, Any]:
    value = facts.get(name)
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[object]:
    return value[:SHOWN_MAX] if isinstance(value, list) else []


def _dicts(value: object) -> list[dict[str, Any]]:
    return [one for one in value[:SHOWN_MAX] if isinstance(one, dict)] if isinstance(value, list) else []


def _position(text: object) -> int | None:
    try:
        return int(str(text), 16) % CIRCLE
    except ValueError:
        return None
