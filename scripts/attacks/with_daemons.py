"""What do ordinary peers in the wrong hands, and a rotten disk, do to a ring? Each needs no special program."""

import time
from pathlib import Path
from urllib.parse import urlsplit

from scripts.attacks.siege import Siege

STAY_S = 300.0
"""So long the keys behave; copies go to them, and time passes in which honest peers could let theirs go."""
AFTER_S = 60.0
ROTTEN = 12
"""Bits that turn over."""
VICTIM = 3
MENDED_S = 300.0


def removal(siege: Siege) -> None:
    """Four keys on one address order the removal of every host."""
    before = siege.captures()
    attackers = siege.join(4)
    hosts = sorted({urlsplit(one.url).hostname or "" for one in siege.wanted})
    for one in attackers:
        siege.command(one, "remove", "--yes", "--host", *hosts)
    siege.say(f"{len(attackers)} keys at one address removed {len(hosts)} hosts")
    siege.judge_alarm("notice", "remov")
    siege.linger(AFTER_S)
    after = siege.captures()
    siege.note(
        "no honest peer deleted anything",
        all(after[number] >= count for number, count in before.items()),
        f"captures before {before}, after {after}",
    )
    siege.judge_pages()


def keys(siege: Siege) -> None:
    """Eight keys on one address take part, promise, and then vanish with all they hold."""
    siege.join(8)
    siege.say(f"eight keys at one address take part for {STAY_S:g} s")
    siege.linger(STAY_S)
    held = siege.captures()
    for one in siege.attackers:
        siege.ring.kill(one.number)
    siege.say("they are gone")
    siege.linger(AFTER_S)
    siege.note("honest peers kept their copies", all(held.values()), f"captures {held}")
    siege.judge_pages()


def rot(siege: Siege) -> None:
    """Bits turn over in a log of one peer."""
    home = siege.ring.peers[VICTIM].home
    siege.command(siege.ring.peers[VICTIM], "stop")
    siege.ring.kill(VICTIM)
    log = _last_log(home)
    data = bytearray(log.read_bytes())
    step = len(data) // (ROTTEN + 1)
    for place in range(step, step * ROTTEN + 1, step):
        data[place] ^= 0x10
    log.write_bytes(data)
    siege.say(f"{ROTTEN} bits of {log.name} of peer {VICTIM} turned over")
    _start_again(siege)
    siege.facts(siege.ring.peers[VICTIM], "verify")
    siege.judge_alarm("damaged", "quarantine", among=[VICTIM])
    _judge_mended(siege)


def lost_log(siege: Siege) -> None:
    """The last log of one peer is gone."""
    _without(siege, lambda log: log.unlink())


def short_log(siege: Siege) -> None:
    """The last log of one peer is half as long as it was."""
    _without(siege, lambda log: log.write_bytes(log.read_bytes()[: log.stat().st_size // 2]))


def _without(siege: Siege, hurt: object) -> None:
    assert callable(hurt)
    siege.command(siege.ring.peers[VICTIM], "stop")
    siege.ring.kill(VICTIM)
    log = _last_log(siege.ring.peers[VICTIM].home)
    hurt(log)
    siege.say(f"{log.name} of peer {VICTIM} was cut or removed")
    _start_again(siege)
    siege.judge_alarm("lost", "missing", "short", among=[VICTIM])
    _judge_mended(siege)


def _last_log(home: Path) -> Path:
    logs = [one for one in sorted((home / "archive" / "log").glob("*.warc.gz")) if one.stat().st_size]
    assert logs, f"{home} has no log"
    return logs[-1]


def _start_again(siege: Siege) -> None:
    siege.ring.peers[VICTIM].ended = None
    siege.ring.start(VICTIM)
    siege.must("the hurt peer is up again", lambda: VICTIM in siege.statuses(), MENDED_S)


def _judge_mended(siege: Siege) -> None:
    """Without a command the hurt peer is whole again; its own copies are then read without the others."""
    victim, began = siege.ring.peers[VICTIM], time.monotonic()
    is_sound = siege.until(lambda: bool(siege.facts(victim, "verify")["is_sound"]), MENDED_S)
    siege.note("the archive is sound again", is_sound, f"after {time.monotonic() - began:.0f} s")
    siege.judge_pages()
