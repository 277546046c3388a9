"""What does a peer's line carry when nobody asks anything of it? Counted by the kernel, and by kind of message."""

import json
import time
from collections.abc import Mapping

from scripts.labs.claims import claim_of, sentence_of
from scripts.labs.internet import Host
from scripts.labs.kinds import Made
from scripts.labs.laboratory import Asked, Laboratory, LabRing, Rows, public_charter
from scripts.labs.mix import MIXED, made_on, wait_standings
from scripts.labs.routers import HOME_LAN

PUBLIC = 4
WINDOW_S = 300.0
SHORT_WINDOW_S = 60.0
WINDOWS, LONG_WINDOWS = 2, 8
"""Ten minutes show how it begins. After half an hour closed peers are members, and quiet neighbours ask less often."""
JUDGED = 2
"""Of the last windows: with one alone a round of gossip would count for much."""
KBIT_MAX = 1.0
KINDS_SHOWN = 6
_WAYS = ("in", "out")
_PARTS = ("datagrams", "calls", "home", "rest")
Counted = Mapping[str, int]


def idle(lab: Laboratory, asked: Asked) -> Rows:
    """Twelve peers on the mix of lines do nothing: at most 1 kbit/s each way (--long: from minute 30 to 40)."""
    ring = LabRing(lab, public_charter("idle"))
    public = ring.begin(PUBLIC, v6=True)
    made = {one.name: Made(host=one.host, outside=one.host.addresses) for one in public}
    made |= made_on(lab.internet, ring, MIXED[-4:] if asked.is_short else MIXED)
    for one in made.values():
        one.host.do("nft -f -", given=_counters())
    wait_standings(lab, ring)
    window_s = SHORT_WINDOW_S if asked.is_short else WINDOW_S
    windows = LONG_WINDOWS if asked.is_long else WINDOWS
    looks = [_Look(ring, made)]
    for _ in range(windows):
        lab.linger(window_s)
        looks.append(_Look(ring, made))
        lab.say(looks[-1].beside(looks[-2]))
    first, last = looks[-1 - JUDGED], looks[-1]
    rows = [last.row(name, first) for name in made]
    for row in rows:
        rates = f"{row['in']} in and {row['out']} kbit/s out, as {row['says']}; {row['kinds']}"
        is_quiet = max(float(str(row["in"])), float(str(row["out"]))) <= KBIT_MAX
        lab.note(f"{row['peer']} is quiet", is_quiet, rates)
    return rows


class _Look:
    """What all have carried so far."""

    def __init__(self, ring: LabRing, made: Mapping[str, Made]) -> None:
        self.at = time.monotonic()
        self.counted = {name: _counted(one.host) for name, one in made.items()}
        self.facts = ring.statuses()

    def beside(self, before: "_Look") -> str:
        """The kbit/s of each since then, in and out."""
        rates = {
            name: [self._kbit(name, before, way, ("datagrams", "calls")) for way in _WAYS]
            for name in self.counted
        }
        return "kbit/s in/out: " + ", ".join(f"{name} {a:.2f}/{b:.2f}" for name, (a, b) in rates.items())

    def row(self, name: str, before: "_Look") -> Mapping[str, object]:
        row: dict[str, object] = {"peer": name, "says": claim_of(sentence_of(self.facts[name])).standing}
        for way in _WAYS:
            row[way] = f"{self._kbit(name, before, way, ('datagrams', 'calls', 'rest')):.2f}"
        for part in _PARTS:
            row[part] = "/".join(f"{self._kbit(name, before, way, (part,)):.2f}" for way in _WAYS)
        row["kinds"] = self._kinds(name, before)
        return row

    def _kbit(self, name: str, before: "_Look", way: str, parts: tuple[str, ...]) -> float:
        now, then = self.counted[name], before.counted[name]
        carried = sum(now[f"{way}_{part}"] - then[f"{way}_{part}"] for part in parts)
        return carried * 8 / 1_000 / (self.at - before.at)

    def _kinds(self, name: str, before: "_Look") -> str:
        """The largest kinds of datagrams: bit/s, sealed, in and out."""
        now = self.facts[name]["ring"]["traffic"]["kinds"]
        then = before.facts[name]["ring"]["traffic"]["kinds"]
        passed = self.at - before.at
        rates = {
            kind: [(size - old) * 8 / passed for size, old in zip(sizes, then.get(kind, (0, 0)), strict=True)]
            for kind, sizes in now.items()
        }
        most = sorted(rates, key=lambda kind: -sum(rates[kind]))[:KINDS_SHOWN]
        return ", ".join(f"{kind} {rates[kind][0]:.0f}/{rates[kind][1]:.0f}" for kind in most)


def _counters() -> str:
    """`home` is what does not leave the house: what routers and peers there say to each other and to all."""
    named = "".join(f" counter {way}_{part} {{ }}\n" for way in _WAYS for part in _PARTS)

    def chain(way: str, hook: str, card: str, end: str) -> str:
        at_home = f"{{ {HOME_LAN}.0/24, 224.0.0.0/4, 255.255.255.255 }}"
        return f""" chain {hook} {{ type filter hook {hook} priority -300; policy accept;
  {card} "lo" accept
  ip {end} {at_home} counter name {way}_home accept
  meta l4proto udp counter name {way}_datagrams accept
  meta l4proto tcp counter name {way}_calls accept
  counter name {way}_rest
 }}
"""

    return (
        f"table inet lab_idle {{\n{named}"
        f"{chain('in', 'input', 'iifname', 'saddr')}{chain('out', 'output', 'oifname', 'daddr')}}}\n"
    )


def _counted(host: Host) -> Counted:
    listed = json.loads(host.do("nft -j list counters table inet lab_idle"))["nftables"]
    return {one["counter"]["name"]: one["counter"]["bytes"] for one in listed if "counter" in one}
