"""Does a log keep its acknowledged records? The smallest store that can get durability wrong.

One server keeps a log of numbered records; clients send records and count those acknowledged. Power cuts
strike the server. With `--set sync=0` it acknowledges before it syncs, the oldest bug of stores: the
checker must find it. It is the example of `docs/do/simulate.md` and the yardstick for the simulator itself.
"""

import os
import zlib

from simnet.runs import ScenarioRun
from simnet.scenarios import scenario
from simnet.world.faults import draw_faults
from simnet.world.hosts import WorldHost
from simnet.world.network import Address, LineQuality
from simnet.world.world import Silent, World

RETRY_S = 0.5
RECORD_BYTES = 16
LOG = "/log"


def encode(client: int, number: int) -> bytes:
    body = client.to_bytes(4, "big") + number.to_bytes(8, "big")
    return body + zlib.crc32(body).to_bytes(4, "big")


def decode(record: bytes) -> tuple[int, int] | None:
    if len(record) != RECORD_BYTES or zlib.crc32(record[:12]).to_bytes(4, "big") != record[12:]:
        return None
    return int.from_bytes(record[:4], "big"), int.from_bytes(record[4:12], "big")


class Server:
    """Append, sync, acknowledge; after a restart, cut the log where it stops making sense."""

    def __init__(self, host: WorldHost, *, syncs: bool) -> None:
        self._disk, self._syncs = host.disk, syncs
        self._out: list[tuple[Address, bytes]] = []
        self.kept: set[tuple[int, int]] = set()
        self._fd = self._disk.open(LOG, os.O_CREAT | os.O_RDWR)
        directory = self._disk.open("/", os.O_RDONLY)
        self._disk.fsync(directory)
        self._disk.close(directory)
        self._recover()

    def receive(self, data: bytes, sender: Address, now: float) -> None:
        record = decode(data)
        if record is None:
            return
        if record not in self.kept:
            self._disk.pwrite(self._fd, data, self._disk.stat(LOG).st_size)
            if self._syncs:
                self._disk.fdatasync(self._fd)
            self.kept.add(record)
        self._out.append((sender, data))

    def advance(self, now: float) -> None:
        """Nothing falls due by time."""

    def next_deadline(self) -> float | None:
        return None

    def take_datagrams(self) -> list[tuple[Address, bytes]]:
        out, self._out = self._out, []
        return out

    def describe(self) -> str:
        return f"{len(self.kept)} records kept"

    def _recover(self) -> None:
        size = self._disk.stat(LOG).st_size
        for offset in range(0, size, RECORD_BYTES):
            record = decode(self._disk.pread(self._fd, RECORD_BYTES, offset))
            if record is None:
                self._disk.ftruncate(self._fd, offset)
                self._disk.fdatasync(self._fd)
                return
            self.kept.add(record)


class Client:
    """One record at a time, again until acknowledged."""

    def __init__(self, host: WorldHost, server: Address) -> None:
        self._number, self._server = host.number, server
        self._out: list[tuple[Address, bytes]] = []
        self._deadline = host.clock()
        self.acknowledged = 0

    def receive(self, data: bytes, sender: Address, now: float) -> None:
        if decode(data) == (self._number, self.acknowledged + 1):
            self.acknowledged += 1
            self._deadline = now

    def advance(self, now: float) -> None:
        self._out.append((self._server, encode(self._number, self.acknowledged + 1)))
        self._deadline = now + RETRY_S

    def next_deadline(self) -> float | None:
        return self._deadline

    def take_datagrams(self) -> list[tuple[Address, bytes]]:
        out, self._out = self._out, []
        return out

    def describe(self) -> str:
        return f"{self.acknowledged} records acknowledged"


class AcknowledgedStays(Silent):
    """Whenever the server is up, it has every record that a client was told it has. All are looked for when the
    server has booted, the only time at which it forgets, and else the last of each client."""

    name = "acknowledged stays"

    def __init__(self) -> None:
        self._boots = 0

    def after_event(self, world: World) -> str | None:
        server, boots = world.hosts[0].program, world.hosts[0].boots
        if not isinstance(server, Server):
            return None
        is_known, self._boots = self._boots == boots, boots
        for host in world.hosts[1:]:
            client = host.program
            if not isinstance(client, Client) or not client.acknowledged:
                continue
            for number in range(client.acknowledged if is_known else 1, client.acknowledged + 1):
                if (host.number, number) not in server.kept:
                    return f"record {number} of client {host.number} is gone"
        return None


class ClientsGoOn(Silent):
    """Once the faults have stopped, every client gets its records acknowledged again."""

    name = "clients go on"

    def __init__(self, peace_at_s: float) -> None:
        self._peace_at_s = peace_at_s
        self._before: list[int] | None = None

    def after_event(self, world: World) -> str | None:
        if self._before is None and world.now > self._peace_at_s:
            self._before = acknowledged(world)
        return None

    def at_end(self, world: World) -> str | None:
        pairs = zip(self._before or [], acknowledged(world), strict=False)
        stuck = [number for number, (old, new) in enumerate(pairs, 1) if new <= old]
        return f"clients {stuck} got no further" if stuck else None


def acknowledged(world: World) -> list[int]:
    return [host.program.acknowledged for host in world.hosts[1:] if isinstance(host.program, Client)]


@scenario("toy-log", summary="a log on one disk under power cuts: is what was acknowledged kept?",
          peers=4, peers_min=2, peers_max=1_000, seconds=120.0)  # fmt: skip
def toy_log(run: ScenarioRun) -> None:
    syncs = bool(run.setting("sync", 1, high=1))
    run.use_network(link=LineQuality(loss=0.02, duplicate=0.02, reorder=0.1))
    server = run.world.add_host(lambda host: Server(host, syncs=syncs))
    for _ in range(run.peers - 1):
        run.world.add_host(lambda host: Client(host, server.address))
    peace_at_s = run.seconds * 0.75
    cuts = int(run.setting("cuts", 8, high=1_000))
    faults = draw_faults(
        run.world.chance("faults"), hosts=1, count=cuts, until_s=peace_at_s, kinds=["restart"]
    )
    run.plan(faults)
    run.check(AcknowledgedStays(), ClientsGoOn(peace_at_s))
    run.figure("acknowledged", lambda: sum(acknowledged(run.world)))
    run.sample("acknowledged", lambda: sum(acknowledged(run.world)))
