"""Do whole peers keep their network's archive, whatever happens to their machines?

`herodotus.peer.Peer` runs as it is (`simnet.peers`), in a world of its own under trio: machines lose their power or
their process and come back, datagrams and segments of streams are lost, one peer hands over its captures and leaves.
Readers read at the portals meanwhile. The run that `simnet` drives only asks for the outcome.
"""

from abc import ABC, abstractmethod
from functools import partial
from hashlib import sha256

import anyio
import trio

from herodotus.core.index_rows import KEY_BYTES
from herodotus.core.status import PeerStatus
from herodotus.core.warc import TIME_MAX_S
from herodotus.store.reader import Reader
from herodotus.store.recovery import open_archive
from herodotus.store.slices import archive_at
from simnet.machines import SimulatedMachine
from simnet.peers import Member, Peers, PeersSettings, run_peers
from simnet.runs import ScenarioRun, SimnetError
from simnet.scenarios import Figures, scenario
from simnet.web import Web, WebSettings
from simnet.web.site import EPOCH_S
from simnet.world.world import Silent, World

EXAMPLES = 3  # named in a complaint
LOOKS_LEAST = 5.0
"""Where fewer captures are to be fetched again, it may be none."""
SETTLE_DAYS = 3
TORN_PATIENCE_S = 900.0
"""After a tear: by then the ring is whole, and no lease of the other side runs."""
"""At the end nothing happens to them for so long: by then all copies are where they belong."""
READ_EVERY_S = 600.0
UNDER_WAY_S = 60.0
"""Pages this young may not be archived, or copied, yet: some clocks are in the next day before the run ends."""
READABLE_AFTER_S = 3_600.0
FAR_AHEAD = "20300101000000"
"""The newest version at that time counts as the newest."""
KEPT = "nothing acknowledged is lost"
COPIED = "every capture has all its copies"
DAILY = "nothing that can be reached is missed on two days in a row"
POLITE = "no host is asked too often, or for what it forbids"
READ = "readers get what is archived"
TORN = "a torn network asks at most twice as often"
SAME = "archives equal the web"
ALIVE = "no peer ends by itself"
CHECKED = "what others bring is looked at again"


class PeersTrial(ABC):
    """What becomes of whole peers in a world of their own: run once, and asked by several checkers."""

    def __init__(self, run: ScenarioRun, settings: PeersSettings, web: WebSettings) -> None:
        self._run, self._settings, self._web_settings = run, settings, web
        self._loss = run.setting("loss", 0.01, high=0.3)
        self.figures: Figures = {}
        self.complaints: dict[str, str | None] = {}

    def ask(self, *checkers: str) -> None:
        self._run.check(*(_Asks(name, self) for name in checkers))
        self._run.more_figures(lambda: self.figures)
        self._run.seconds = 1.0

    @abstractmethod
    async def live(self, peers: Peers, tasks: anyio.abc.TaskGroup) -> None:
        """Fills in figures and complaints. Ends with its tasks."""

    def look(self, world: World, checker: str) -> str | None:
        if not self.complaints:
            seed = self._run.options.seed
            digest = run_peers(
                self._play, self._settings, Web(self._web_settings), seed=seed, loss=self._loss
            )
            world.trace.note(world.now, "inside", digest)
            for name, value in self.figures.items():
                world.trace.note(world.now, "figure", name, value)
        return self.complaints[checker]

    async def _play(self, peers: Peers) -> str:
        async with anyio.create_task_group() as tasks:
            await self.live(peers, tasks)
            self._run.virtual_s = trio.current_time()
            tasks.cancel_scope.cancel()
        return peers.carrier.world.trace.digest()


class _Asks(Silent):
    def __init__(self, name: str, trial: PeersTrial) -> None:
        self.name, self._trial = name, trial

    def at_end(self, world: World) -> str | None:
        return self._trial.look(world, self.name)


class _Month(PeersTrial):
    def __init__(self, run: ScenarioRun) -> None:
        days = run.options.days or run.setting("for_days", 30, low=1, high=400)
        if days != int(days):
            raise SimnetError(f"a crawl takes place once a day: whole days, not {days:g}")
        self.days = int(days)
        settings = PeersSettings(
            peers=run.peers,
            day_s=run.setting("day_s", 3_600.0, low=600.0, high=86_400.0),
            copies=int(run.setting("copies", 4, low=1, high=16)),
            cross_fetch_share=run.setting("cross_fetch_share", 0.05, high=1.0),
            skew_s=run.setting("skew_s", 10.0, high=3_600.0),
        )
        if EPOCH_S % settings.day_s:
            raise SimnetError(f"a day of {settings.day_s:g} s does not begin with the web's")
        self._wiped = run.setting(
            "wiped", 0.1, high=1.0
        )  # of those killed: they come back with an empty disk
        self._torn_s = run.setting("torn_s", 600.0, high=3_600.0)
        self._kills = run.setting("kills", 0.2, high=10.0)  # of each peer, a day
        self._drains = run.setting("drains", 1, high=3)
        pages = int(run.setting("pages", 4, low=1, high=1_000))
        web = WebSettings(
            seed=run.options.seed,
            hosts=int(run.setting("hosts", 8, low=1, high=2_000)),
            names="test",
            pages_min=pages,
            pages_max=3 * pages,
            html_change_share=run.setting("change_share", 0.1, high=1.0),
            troubles=False,
        )
        super().__init__(run, settings, web)
        self._reads = self._failed_reads = 0
        self._unread: list[str] = []

    async def live(self, peers: Peers, tasks: anyio.abc.TaskGroup) -> None:
        day_s = self._settings.day_s
        await anyio.sleep(60.0 + 5.0 * self._settings.peers)
        await peers.seed(peers.origins.oracle.front_pages())
        calm_at = max(0.5, self.days - SETTLE_DAYS) * day_s
        if self._kills:
            tasks.start_soon(partial(peers.churn, self._kills, calm_at, wiped=self._wiped))
        tasks.start_soon(self._read_now_and_then, peers)
        if self._torn_s:
            tasks.start_soon(self._tear, peers, calm_at)
        for number in range(int(self._drains)):
            await trio.sleep_until(calm_at * (number + 1) / (self._drains + 2))
            await peers.drain(peers.members[-1 - number])
        await trio.sleep_until(self.days * day_s - 1.0)
        self._judge(peers, [await one.peer.status() for one in peers.members if one.peer is not None])

    async def _tear(self, peers: Peers, calm_at: float) -> None:
        await trio.sleep_until(peers.chance.uniform(0.3, 0.8) * calm_at)
        await peers.tear(self._torn_s, TORN_PATIENCE_S)

    async def _read_now_and_then(self, peers: Peers) -> None:
        while True:
            await anyio.sleep(READ_EVERY_S)
            now = anyio.current_time()
            known = [url for day in peers.origins.visits.values() for url in day if not _is_robots(url)]
            serving = peers.serving
            is_quiet = len(serving) == sum(not one.has_left for one in peers.members)
            if not known or not is_quiet or now < 2 * READABLE_AFTER_S or peers.is_torn(now):
                continue
            url, reader = peers.chance.choice(sorted(set(known))), peers.chance.choice(serving)
            answer = await peers.read(reader, f"/web/{FAR_AHEAD}id_/{url}")
            self._reads += 1
            while (
                answer is not None and answer.status in (301, 302) and "/web/" in answer.headers["Location"]
            ):
                where = answer.headers["Location"]
                target, at = "/web/" + where.partition("/web/")[2], where.partition("/web/")[0]
                there = [one for one in peers.members if one.host.address[0] in at]
                answer = await peers.read(there[0] if there else reader, target)
            if answer is None or answer.status != 200:
                self._failed_reads += 1
                said = "nobody" if answer is None else str(int(answer.status))
                self._unread.append(f"{url} at peer {reader.number} at {now:.0f} s: {said}")

    # --- the outcome

    def _judge(self, peers: Peers, statuses: list[PeerStatus]) -> None:
        oracle, visits = peers.origins.oracle, peers.origins.visits
        seeds = oracle.front_pages()
        due = [oracle.reachable(seeds, day) for day in range(self.days)]
        missed = [urls - visits[day].keys() for day, urls in enumerate(due)]
        late = [
            f"{url} on days {day} and {day + 1}"
            for day in range(self.days - 1)
            for url in sorted(missed[day] & missed[day + 1])
        ]
        members = peers.serving
        few = _too_few(peers, members, min(self._settings.copies, len(members)))
        checked = sum(status.copying.cross_fetches.made for status in statuses)
        self.figures |= {
            "fetches": float(sum(len(who) for day in visits.values() for who in day.values())),
            "captures": float(len(peers.committed)),
            "reads": float(self._reads),
            "reads that failed": float(self._failed_reads),
            "calls dialled": float(peers.around.lines.dialled),
            "cross fetches": float(checked),
            "serving at the end": float(len(members)),
        }
        self.figures |= {name: float(count) for name, count in sorted(peers.counts.items())}
        self.complaints = {
            ALIVE: first_of(peers.fallen),
            POLITE: first_of([one.what for one in peers.origins.rude if not peers.is_torn(one.at)]),
            TORN: first_of(crowded(peers, self._settings.delay_s)),
            SAME: first_of(_other(peers, members, self.days - 1)),
            DAILY: first_of(late),
            COPIED: first_of(few),
            READ: first_of(self._unread),
            CHECKED: "no capture of another peer was fetched again"
            if not checked
            and len(members) > 1
            and self._settings.cross_fetch_share * len(peers.committed) > LOOKS_LEAST
            else None,
            KEPT: first_of(_lost(peers)),
        }


def crowded(peers: Peers, delay_s: float) -> list[str]:
    return [
        f"{host} was asked three times within {third.at - one.at:.2f} s at {third.at:.1f} s"
        for host, starts in sorted(peers.origins.starts.items())
        for one, third in zip(starts, starts[2:], strict=False)
        if third.at - one.at < delay_s - 1e-6
    ]


def _other(peers: Peers, members: list[Member], day: int) -> list[str]:
    """For pages fetched on the last day: is the newest version the one that the web had then?"""
    oracle, now = peers.origins.oracle, anyio.current_time()
    last = {start.url: start.at for starts in peers.origins.starts.values() for start in starts}
    readers = [Reader(one.archive) for one in members if one.archive is not None]
    complaints = []
    for url in sorted(peers.origins.visits[day]):
        if _is_robots(url) or last[url] > now - UNDER_WAY_S:
            continue
        expected = oracle.digest(url, int(last[url] // peers.settings.day_s))
        found = [one for reader in readers if (one := reader.newest(url, TIME_MAX_S)) is not None]
        if expected is not None and expected not in [sha256(one.body).hexdigest() for one in found]:
            at = max((one.time_s for one in found), default=None)
            what = "is in no archive" if at is None else f"was last archived at {at}"
            complaints.append(f"{url} {what}, and changed since")
    return complaints


def _too_few(peers: Peers, members: list[Member], wanted: int) -> list[str]:
    archives = [one.archive for one in members if one.archive is not None]
    complaints = []
    for key, since in sorted(peers.committed.items()):
        if since > anyio.current_time() - UNDER_WAY_S:
            continue
        holders = sum(archive.index.get(key) is not None for archive in archives)
        if holders < wanted:
            complaints.append(f"{key[1 : 1 + KEY_BYTES].hex()} has {holders} copies of {wanted}")
    return complaints


def _lost(peers: Peers) -> list[str]:
    """Cut the power everywhere, and read the disks."""
    left = set(peers.committed)
    for member in peers.members:
        peers.lose(member, power_cut=True)
        machine = SimulatedMachine(peers.around, member.host, None, member.kept)
        archive = archive_at(member.home.path, lambda: 0.0, None, machine)
        open_archive(archive)
        reader = Reader(archive)
        for key in sorted(left):
            value = archive.index.get(key)
            found = None if value is None else reader.try_read(key, value)
            if found is not None and sha256(found.body).digest()[:3] == key[-3:]:
                left.discard(key)
        archive.close()
    return [f"capture {key.hex()} is on no disk" for key in sorted(left)]


def _is_robots(url: str) -> bool:
    return url.endswith("/robots.txt")


def first_of(complaints: list[str]) -> str | None:
    if not complaints:
        return None
    more = f" (and {len(complaints) - EXAMPLES:,} more)" if len(complaints) > EXAMPLES else ""
    return "; ".join(complaints[:EXAMPLES]) + more


CHECKERS = (ALIVE, POLITE, TORN, DAILY, COPIED, SAME, READ, CHECKED, KEPT)


@scenario("peers", summary="whole peers crawl, copy and serve a web that changes, while their machines fail",
          peers=12, peers_min=1, peers_max=50, seconds=1.0)  # fmt: skip
def peers_of_a_month(run: ScenarioRun) -> None:
    _Month(run).ask(*CHECKERS)
