"""Which attacks are there, and does the ring hold? `scripts/attack`."""

import argparse
import dataclasses
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from scripts.attacks import with_daemons, with_programs
from scripts.attacks.siege import CHARTER, DEFAULT_TIMERS, Siege, SiegeFailed
from scripts.sweeps import namespaces

ATTACKS: Mapping[str, Callable[[Siege], None]] = {
    "removal": with_daemons.removal,
    "keys": with_daemons.keys,
    "rot": with_daemons.rot,
    "lost-log": with_daemons.lost_log,
    "short-log": with_daemons.short_log,
    "phantoms": with_programs.phantoms,
    "phantom-copies": with_programs.phantom_copies,
    "forged": with_programs.forged,
    "readers": with_programs.readers,
    "drip": with_programs.drip,
}

SPREADING = {"phantom-copies", "drip"}
"""Where what a peer imports is copied to others: there it is the work that an attack may slow down."""


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(arguments)
    if asked.names == ["list"]:
        for name, attack in ATTACKS.items():
            print(f"{name:12} {(attack.__doc__ or '').splitlines()[0]}")
        return 0
    names = list(ATTACKS) if asked.names == ["all"] else asked.names
    if namespaces.is_inside():
        return 0 if _attack(names[0], asked.keep, asked.timers) else 1
    reason = namespaces.why_not()
    if reason is not None:
        print(f"attack: each peer needs a network of its own: {reason}", file=sys.stderr)
        return 2
    options = [*(["--keep"] if asked.keep else []), "--timers", asked.timers]
    codes = [namespaces.run_inside("scripts.attacks.run", [name, *options]) for name in names]
    return max(codes)


def _attack(name: str, is_kept: bool, timers: str) -> bool:
    folder, began = Path(tempfile.mkdtemp(prefix=f"herodotus-attack-{name}-")), time.monotonic()

    def say(words: str) -> None:
        print(f"{name}: {words}", file=sys.stderr, flush=True)

    charter = dataclasses.replace(CHARTER, spread_imports=True) if name in SPREADING else CHARTER
    siege = Siege(folder, say, charter, DEFAULT_TIMERS if timers == "default" else {})
    failure = ""
    try:
        with siege.archived():
            ATTACKS[name](siege)
            complaints = siege.ring.complaints()
            siege.note("no mistake of ours in a log", not complaints, "; ".join(complaints[:5]) or "none")
    except SiegeFailed as error:
        failure = str(error)
        say(failure)
    for one in siege.verdicts:
        say(f"{'holds' if one.is_ok else 'BROKEN'}: {one.name}: {one.detail}")
    is_held = not failure and bool(siege.verdicts) and all(one.is_ok for one in siege.verdicts)
    if is_held and not is_kept:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        say(f"homes and logs are kept in {folder}")
    report = {
        "attack": name,
        "timers": timers,
        "held": is_held,
        "failure": failure,
        "took_s": round(time.monotonic() - began),
        "verdicts": [dataclasses.asdict(one) for one in siege.verdicts],
    }
    print(json.dumps(report, ensure_ascii=False, indent=1))
    return is_held


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/attack", description=__doc__)
    parser.add_argument("names", nargs="+", choices=["list", "all", *ATTACKS], metavar="NAME")
    parser.add_argument("--keep", action="store_true", help="keep homes and logs, also when all holds")
    parser.add_argument(
        "--timers",
        choices=["test", "default"],
        default="test",
        help="of the honest peers: the test preset's (an hour is a minute), or those that everybody has",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
