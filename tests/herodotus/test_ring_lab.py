"""Rings of real processes on loopback: the commands of `herodotus ring`, and what the peers do."""

import contextlib
import json
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import SystemRandom
from typing import Any

import anyio
import msgspec
import pytest

from herodotus.core.charter import TEST_CHARTER
from herodotus.home.folder import Home, running_on, wait_released
from herodotus.operate import lab_ring
from herodotus.operate.http_questions import ask
from herodotus.operate.lab_ring import LabPeer

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]  # seconds on an idle machine, minutes on a busy one

COMMAND_S = 100.0
IDEAL_S = 90.0
PORTS_APART = (0, 1_000, 2_000)  # ring, portal, rendezvous


def free_base(count: int, *more: int) -> int:
    """The first of so many ports that are free now, with those beside them; `more` are further distances."""
    chance = SystemRandom()
    for _ in range(100):
        base = chance.randrange(20_000, 29_000 - count)
        if all(
            _is_free(base + offset + number) for offset in (*PORTS_APART, *more) for number in range(count)
        ):
            return base
    raise AssertionError("no free ports")


def _is_free(port: int) -> bool:
    for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
        with socket.socket(socket.AF_INET, kind) as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                return False
    return True


def herodotus(*arguments: object, code: int = 0) -> subprocess.CompletedProcess[str]:
    command = lab_ring.herodotus(*map(str, arguments))
    done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_S, check=False)
    assert done.returncode == code, done.stderr
    return done


@dataclass(slots=True)
class Lab:
    """Rings of one test; whatever runs when it ends is killed."""

    folder: Path
    started: dict[str, subprocess.Popen[bytes]]

    def up(self, name: str, count: int) -> list[LabPeer]:
        folder = self.folder / name
        done = herodotus(
            "ring", "up", "--peers", count, "--base-port", free_base(count), "--dir", folder, "--json"
        )
        return [LabPeer(**peer) for peer in json.loads(done.stdout)["peers"]]

    def home(self, name: str, settings: dict[str, object] | None = None) -> Home:
        home = Home(self.folder / name)
        lab_ring.make_home(home, TEST_CHARTER, settings or {})
        return home

    def start(self, home: Home, port: int, join: str | None = None) -> LabPeer:
        peer = LabPeer(
            home=str(home.path), peer=f"127.0.0.1:{port}", http=f"http://127.0.0.1:{port + 1000}", pid=0
        )
        self.started[peer.home] = lab_ring.start(home.path, peer.peer, f"127.0.0.1:{port + 1000}", join)
        return peer

    def stop(self, home: Path) -> None:
        process = self.started.pop(str(home), None)
        running = running_on(Home(home))
        if running is not None and running.pid:
            os.kill(running.pid, signal.SIGKILL)
            wait_released(Home(home))
        if process is not None:
            process.kill()
            process.wait()


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    lab = Lab(tmp_path, {})
    yield lab
    for mark in [*tmp_path.glob("*/network.toml"), *tmp_path.glob("*/*/network.toml")]:
        lab.stop(mark.parent)


def wait_ideal(peers: Sequence[LabPeer], lab: Lab | None = None) -> None:
    anyio.run(lab_ring.wait_ideal, peers, lab.started if lab else {}, IDEAL_S, lambda _ideal: None)


async def until(fact: Callable[[], object], within_s: float = 30.0) -> None:
    """Of another process, which sends us no events."""
    with anyio.fail_after(within_s):
        while not fact():
            with anyio.move_on_after(0.05):
                await anyio.sleep_forever()


def status(peer: LabPeer) -> dict[str, Any]:
    facts: dict[str, Any] = ask(peer.http, "/api/v1/status")
    return facts


def commands_naming(folder: Path) -> list[bytes]:
    """Of the processes that run now."""
    found = []
    for one in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            found.append(one.read_bytes())
    return [command for command in found if bytes(folder) in command]


def positions(peers: Sequence[LabPeer]) -> dict[str, list[str]]:
    return {peer.peer: [node["position"] for node in status(peer)["ring"]["nodes"]] for peer in peers}


def test_a_ring_survives_kill_9_and_who_is_revived_takes_its_place_again(lab: Lab) -> None:
    folder = lab.folder / "ring"
    peers = lab.up("ring", 5)
    assert [Path(peer.home).name for peer in peers] == [f"peer-{number:03}" for number in range(5)]
    for peer in peers:
        facts = status(peer)
        assert facts["ring"]["members"] == 5
        assert facts["ring"]["ideal"] is True
        assert len(facts["ring"]["nodes"][0]["successors"]) == 4
        assert facts["http"] == peer.http
        assert facts["pid"] == peer.pid
        assert facts["observation"]["seen"] >= 1, "its neighbours at least have spoken with it"
    before = positions(peers)
    shown = herodotus("status", "--verbose", "--peer", peers[2].http).stdout
    for one in peers[:2] + peers[3:]:
        assert one.peer in shown, "as a successor"
    assert "members, half of them for 100.0% of the time or more; watched for 0 days" in shown

    herodotus("ring", "kill", 1, 3, "--dir", folder)
    assert not any(running_on(Home(Path(peers[number].home))) for number in (1, 3))
    survivors = [peers[number] for number in (0, 2, 4)]
    wait_ideal(survivors)
    shown = json.loads(herodotus("ring", "status", "--dir", folder, "--json").stdout)["peers"]
    assert [view["ring"] is not None for view in shown] == [True, False, True, False, True]
    assert "down" in herodotus("ring", "status", "--dir", folder).stdout

    herodotus("ring", "revive", 1, 3, "--dir", folder)
    assert positions(peers) == before
    assert all(status(peer)["ring"]["ideal"] for peer in peers)

    herodotus("ring", "up", "--dir", folder, code=2)
    herodotus("ring", "down", "--dir", folder)
    assert all(running_on(Home(Path(peer.home))) is None for peer in peers)
    assert "holds no ring" in herodotus("ring", "status", "--dir", folder, code=3).stderr


def test_two_rings_merge_after_one_join(lab: Lab) -> None:
    one, two = lab.up("one", 3), lab.up("two", 3)
    last = two[-1]
    lab.stop(Path(last.home))
    joined = lab.start(Home(Path(last.home)), int(last.peer.split(":")[1]), join=one[0].peer)
    wait_ideal([*one, *two[:-1], joined], lab)


RENDEZVOUS: dict[str, object] = {
    "discovery.kademlia": True,
    "discovery.rendezvous_find_s": 2.0,
    "discovery.rendezvous_publish_s": 4.0,
}


def test_two_rings_merge_by_kademlia_alone(lab: Lab) -> None:
    """One peer of the second ring knows a node of the first one's overlay from earlier, and nobody of its ring."""
    ports = free_base(6)
    homes = [lab.home(f"peer-{number}", RENDEZVOUS) for number in range(6)]
    overlay_node = [1, [["127.0.0.1", ports + 2_000]]]
    homes[3].rendezvous.write_bytes(msgspec.msgpack.encode(overlay_node))
    peers = []
    for number, home in enumerate(homes):
        first = number // 3 * 3
        join = f"127.0.0.1:{ports + first}" if number != first else None
        peers.append(lab.start(home, ports + number, join))
    wait_ideal(peers, lab)
    assert "met at the rendezvous" in "".join(
        log.read_text() for home in homes for log in home.log.glob("*") if log.is_file()
    )


def test_peers_of_one_local_network_find_each_other(lab: Lab) -> None:
    ports = free_base(2)
    peers = [
        lab.start(lab.home(f"peer-{number}", {"discovery.lan": True}), ports + number) for number in range(2)
    ]
    wait_ideal(peers, lab)


def test_a_peer_whose_contact_is_down_serves_at_once_and_joins_when_it_comes_up(lab: Lab) -> None:
    port = free_base(2)
    lonely = lab.start(lab.home("lonely"), port, join=f"127.0.0.1:{port + 1}")
    anyio.run(until, lambda: lab_ring.ring_view(lonely) is not None)
    wait_ideal([lonely], lab)
    contact = lab.start(lab.home("contact"), port + 1)
    wait_ideal([lonely, contact], lab)


def test_ring_up_says_which_port_is_taken_and_ends_what_it_started(lab: Lab) -> None:
    base = free_base(2)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", base + 1))
        done = herodotus(
            "ring", "up", "--peers", 2, "--base-port", base, "--dir", lab.folder / "ring", code=1
        )
    assert f"127.0.0.1:{base + 1}" in done.stderr
    assert "in use" in done.stderr
    for home in (lab.folder / "ring").glob("peer-*"):
        assert running_on(Home(home)) is None


def test_ctrl_c_during_ring_up_leaves_no_peer_behind(lab: Lab) -> None:
    folder = lab.folder / "ring"
    command = lab_ring.herodotus(
        "ring", "up", "--peers", "8", "--base-port", str(free_base(8)), "--dir", str(folder)
    )
    starting = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    anyio.run(until, lambda: list(folder.glob("peer-*/log/console.log")))  # the first peer was started
    starting.send_signal(signal.SIGINT)
    _, talk = starting.communicate(timeout=60)
    assert starting.returncode == 130, talk
    assert not commands_naming(folder), "one that had not locked its home yet"
    assert not lab_ring.note_in(folder).exists()


def test_peers_whose_ring_up_was_killed_before_they_locked_their_homes_are_ended(lab: Lab) -> None:
    folder = lab.folder / "ring"
    home = lab.home("ring/peer-000")
    peer = lab.start(home, free_base(1))
    assert "1 peers run" in herodotus("ring", "up", "--peers", 1, "--dir", folder, code=2).stderr
    anyio.run(lab_ring.end, {peer.home}, 60.0)
    assert lab.started[peer.home].wait(60) is not None
    lab.start(home, free_base(1))
    lab_ring.note_in(folder).write_bytes(b"{")
    assert "ring down" in herodotus("ring", "status", "--dir", folder, code=2).stderr
    assert "1 peers" in herodotus("ring", "down", "--dir", folder).stderr
    assert not commands_naming(folder)
    assert not lab_ring.note_in(folder).exists()
    assert "ring up" in herodotus("ring", "down", "--dir", folder, code=3).stderr


def test_mistakes_with_a_lab_are_explained(lab: Lab) -> None:
    folder = lab.folder / "ring"
    for words in (["status"], ["revive", "0"]):
        assert "ring up" in herodotus("ring", *words, "--dir", folder, code=3).stderr
    folder.mkdir()
    peer = LabPeer(home=str(folder / "peer-000"), peer="127.0.0.1:1", http="http://127.0.0.1:1001", pid=0)
    lab_ring.save(folder, lab_ring.Lab(peers=(peer,)))
    assert "peers are 0 to 0" in herodotus("ring", "kill", 1, "--dir", folder, code=3).stderr
    assert "not running" in herodotus("ring", "kill", 0, "--dir", folder).stderr
    lab_ring.note_in(folder).write_bytes(b"{")
    assert "damaged" in herodotus("ring", "status", "--dir", folder, code=2).stderr
    damages = (b"[]", b'{"peers": [{"home": 1}], "web": null}', b'{"peers": 3, "web": null}', b"\xff", b"")
    for damage in damages:
        lab_ring.note_in(folder).write_bytes(damage)
        with pytest.raises(lab_ring.LabDamaged):
            lab_ring.load(folder)
