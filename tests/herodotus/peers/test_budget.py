"""Do waiting, booking and remembering work in the order of asking, and does a peer step back as it was told?"""

import gzip
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from trio.testing import MockClock

from crawler.core.capture import Capture, PayloadDigest
from crawler.core.politeness import Wait
from crawler.ports import FetchRequest, Skipped
from herodotus import __version__
from herodotus.core.budgets import ClockReading, Rest, Spending, Volume
from herodotus.core.charter import PUBLIC_CHARTER, TEST_CHARTER
from herodotus.core.errors import FileSyntaxError, StoreRefusedError
from herodotus.core.layout import Compression
from herodotus.core.settings.sections import BudgetSettings, Settings
from herodotus.home.folder import Home, NewHome, create_home
from herodotus.home.identity import key_to_pem, peer_id, shown_peer_id
from herodotus.machine import Machine
from herodotus.operate.offer import own_peer_id, with_offered_positions
from herodotus.peers.budget import SAVE_EVERY_S, Budget, BudgetedFetcher, read_ledger
from herodotus.store.deletion import delete
from herodotus.store.home_archive import HomeArchive
from herodotus.store.intake import Intake
from herodotus.store.reader import Reader
from herodotus.store.sealing import seal
from herodotus.store.settings import ArchiveSettings, archive_settings
from tests.herodotus.operate.cli.processes import called, new_home, running
from tests.herodotus.store.making import NOW_S, open_on, page, store

NOVEMBER_S = 1_795_000_000.0  # 2026-11-18


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return "trio", {"clock": MockClock(autojump_threshold=0)}


def moment() -> ClockReading:
    """Virtual time, which begins in November."""
    now = anyio.current_time()
    return ClockReading(steady_s=now, wall_s=NOVEMBER_S + now)


def made(tmp_path: Path, **settings: object) -> Budget:
    section = replace(BudgetSettings(), **settings)  # type: ignore[arg-type]  # each test names its own
    return Budget(section, tmp_path / "traffic.json", moment=moment)


@pytest.mark.anyio
async def test_spending_waits_until_the_line_has_room(tmp_path: Path) -> None:
    budget = made(tmp_path, download_mbit_per_s_max=0.8)  # 100 kB/s
    begin = anyio.current_time()
    for _ in range(10):
        await budget.spend(Spending.CRAWL, 100_000)
    took_s = anyio.current_time() - begin
    assert took_s == pytest.approx(8.0, abs=1.1)  # a burst of two seconds, and the last may go into debt


@pytest.mark.anyio
async def test_each_way_of_the_line_has_its_own_rate(tmp_path: Path) -> None:
    budget = made(tmp_path, upload_mbit_per_s_max=0.8)
    begin = anyio.current_time()
    for _ in range(5):
        await budget.spend(Spending.COPIES_IN, 10_000_000)
    assert anyio.current_time() == begin
    await budget.spend(Spending.COPIES_OUT, 1_000_000)
    await budget.spend(Spending.COPIES_OUT, 1)
    assert anyio.current_time() - begin == pytest.approx(8.0, abs=0.1)
    assert budget.statistics().month_down_bytes == 50_000_000


@pytest.mark.anyio
async def test_who_asks_first_is_served_first(tmp_path: Path) -> None:
    budget = made(tmp_path, upload_mbit_per_s_max=0.8)
    budget.charge(Spending.COPIES_OUT, 1_000_000)
    served: list[int] = []

    async def one(number: int) -> None:
        await budget.spend(Spending.COPIES_OUT, 100_000)
        served.append(number)

    async with anyio.create_task_group() as tasks:
        for number in range(5):
            tasks.start_soon(one, number)
            await anyio.sleep(0.01)
    assert served == [0, 1, 2, 3, 4]


@pytest.mark.anyio
async def test_who_gives_up_waiting_spends_nothing_and_blocks_nobody(tmp_path: Path) -> None:
    budget = made(tmp_path, upload_mbit_per_s_max=0.8)
    budget.charge(Spending.READERS, 1_000_000)
    with anyio.move_on_after(1.0) as scope:
        await budget.spend(Spending.READERS, 500)
    assert scope.cancelled_caught
    await budget.spend(Spending.READERS, 7)
    assert budget.statistics().month_up_bytes == 1_000_007


@pytest.mark.anyio
async def test_while_background_work_rests_only_readers_and_the_ring_go_on(tmp_path: Path) -> None:
    budget = made(tmp_path)
    assert budget.rest(frozenset({Rest.BATTERY})) is True
    assert budget.rest(frozenset({Rest.BATTERY})) is False
    went: list[Spending] = []

    async def spend(kind: Spending) -> None:
        await budget.spend(kind, 10)
        went.append(kind)

    async with anyio.create_task_group() as tasks:
        for kind in Spending:
            tasks.start_soon(spend, kind)
        await anyio.sleep(3_600.0)
        assert set(went) == {Spending.READERS, Spending.FETCHED, Spending.LINE_IN, Spending.LINE_OUT}
        assert (budget.statistics().closed_by, budget.statistics().closed_s) == (("battery",), 60)
        begin = anyio.current_time()
        budget.rest(frozenset())
        await anyio.sleep(0.001)
        assert set(went) == set(Spending)
        assert anyio.current_time() - begin < 1
    assert budget.statistics().closed_by == ()


@pytest.mark.anyio
async def test_what_connections_carried_beyond_what_was_booked_is_booked_too(tmp_path: Path) -> None:
    carried = (0, 0)
    budget = made(tmp_path, download_mbit_per_s_max=0.8)
    async with budget.kept(carried=lambda: carried):
        budget.charge(Spending.FETCHED, 10_000)
        await budget.spend(Spending.COPIES_OUT, 500)
        await anyio.sleep(SAVE_EVERY_S)
        assert ledger(budget) == (10_000, 500), "connections that are open tell nothing yet"
        carried = (11_000, 700)
        await anyio.sleep(SAVE_EVERY_S)
        assert ledger(budget) == (11_000, 700)
        budget.charge(Spending.FETCHED, 4_000)
        await anyio.sleep(SAVE_EVERY_S)
        assert ledger(budget) == (15_000, 700), "it is ahead, and nothing is taken back"
        carried = (15_500, 1_000_000)
        await anyio.sleep(SAVE_EVERY_S)
        assert ledger(budget) == (15_500, 1_000_000)
        carried = (15_500 + 10 * 100_000, 1_000_000)
        await anyio.sleep(SAVE_EVERY_S / 10)
        assert budget.grant(Spending.CRAWL, 1) > 1, "calls and headers count for the rate as well"


def ledger(budget: Budget) -> tuple[int, int]:
    found = budget.statistics()
    return found.month_down_bytes, found.month_up_bytes


@pytest.mark.anyio
async def test_the_ledger_outlives_the_peer(tmp_path: Path) -> None:
    seen = (100, 30)
    budget = made(tmp_path)
    async with budget.kept(lambda: seen):
        budget.charge(Spending.READERS, 5_000)
        seen = (250, 90)
        await anyio.sleep(SAVE_EVERY_S + 1)
        assert read_ledger(tmp_path / "traffic.json").of("2026-11") == Volume(up=5_090, down=250)
        seen = (260, 90)
        budget.charge(Spending.CRAWL, 40)
    assert made(tmp_path).statistics().month_down_bytes == 300
    assert (tmp_path / "traffic.json").read_bytes() == b'{"format":1,"months":[["2026-11",5090,300]]}'
    assert (tmp_path / "traffic.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.anyio
async def test_a_month_that_is_used_up_stays_so_after_a_restart(tmp_path: Path) -> None:
    first = made(tmp_path, month_gb_max=1.0)
    async with first.kept():
        first.charge(Spending.READERS, 1_000_000_000)
    again = made(tmp_path, month_gb_max=1.0)
    assert again.grant(Spending.READERS, 1) > 86_400
    assert again.statistics().waits_s["crawl"] > 86_400


@pytest.mark.anyio
async def test_a_ledger_that_cannot_be_written_ends_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    budget = Budget(BudgetSettings(), tmp_path / "gone" / "traffic.json", moment=moment)
    async with budget.kept():
        budget.charge(Spending.READERS, 9)
        await anyio.sleep(SAVE_EVERY_S + 1)
        assert "traffic of the month not saved" in caplog.text
        (tmp_path / "gone").mkdir()
    assert read_ledger(tmp_path / "gone" / "traffic.json").of("2026-11") == Volume(up=9)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is damaged"), (b"{", "is damaged"), (b'{"format":1,"months":[["2026-11",-1,0]]}', "is damaged"),
        (b'{"format":1,"months":[[1,2,3]]}', "is damaged"), (b"[" * 9_000, "is damaged"),
        (b'{"format":2,"months":[]}', "has format 2, and this release reads 1; upgrade herodotus"),
    ],
)  # fmt: skip
def test_a_ledger_that_cannot_be_read_is_not_forgotten_silently(
    tmp_path: Path, content: bytes, sentence: str
) -> None:
    file = tmp_path / "traffic.json"
    file.write_bytes(content)
    with pytest.raises(FileSyntaxError, match=sentence):
        read_ledger(file)


class OnePage:
    """A fetcher that always finds the same."""

    fetched = 0

    async def fetch(self, request: FetchRequest) -> Capture | Skipped:
        self.fetched += 1
        return Capture(
            url=request.url, requested_at=0.0, duration_s=0.0, request=b"r" * 100, status=200, head=b"h" * 200,
            body=b"b" * 99_700, sha256=PayloadDigest(bytes(32)), sha1=bytes(20), remote_ip="",
        )  # fmt: skip

    async def address_of(self, host: str) -> str | Wait:
        return host


@pytest.mark.anyio
async def test_a_budgeted_fetcher_books_what_came_and_keeps_the_rate(tmp_path: Path) -> None:
    budget, inner = made(tmp_path, download_mbit_per_s_max=0.8), OnePage()
    fetcher = BudgetedFetcher(inner, budget)
    begin = anyio.current_time()
    for _ in range(10):
        await fetcher.fetch(FetchRequest(url="http://a.example/"))
    assert anyio.current_time() - begin == pytest.approx(7.5, abs=1.1)
    assert budget.statistics().month_down_bytes == 1_000_000
    assert (inner.fetched, await fetcher.address_of("a.example")) == (10, "a.example")


# -- the machine ------------------------------------------------------------------------------------------


def test_an_archive_stops_at_what_it_may_have_and_deleting_goes_on(tmp_path: Path) -> None:
    budget = replace(BudgetSettings(), disk_gb_max=20e-6)  # 20 kB
    archive = open_on(tmp_path, settings=archive_settings(replace(Settings(), budget=budget)))

    def fill() -> None:
        for number in range(100):
            store(archive, page(f"http://a.example/{number}", NOW_S, os.urandom(3_000)))

    with pytest.raises(StoreRefusedError, match="the archive is full: it may have 20000 bytes"):
        fill()
    assert 15_000 < archive.files.bytes_used() <= 20_000
    (version,) = Reader(archive).history("http://a.example/0")
    assert delete(archive, Intake(archive), [version.id]) == 1
    assert Reader(archive).history("http://a.example/0") == []
    archive.close()


def test_files_say_who_wrote_them_and_are_packed_as_the_operator_wants(tmp_path: Path) -> None:
    key = Ed25519PrivateKey.from_private_bytes(bytes(32))
    made_home = Home(tmp_path / "home")
    create_home(made_home, NewHome(config="", charter=TEST_CHARTER, key_pem=key_to_pem(key, None)))
    archived = replace(Settings().archive, codec="gzip")
    operator = replace(Settings().operator, contact="https://example.org/we")
    files = archive_settings(
        replace(Settings(), archive=archived, operator=operator), PUBLIC_CHARTER, own_peer_id(made_home)
    )
    assert files.codec is Compression.GZIP
    archive = open_on(tmp_path, settings=files)
    store(archive, page("http://a.example/", NOW_S))
    seal(archive)
    for number in archive.files.catalogue:
        path = tmp_path / archive.files.path(number)
        assert path.name.endswith(".warc.gz")
        info = gzip.decompress(path.read_bytes())[:2_000].decode()
        for line in (
            f"software: Herodotus/{__version__}", f"herodotus-peer: {shown_peer_id(peer_id(key.public_key()))}",
            "operator: https://example.org/we", f"isPartOf: {PUBLIC_CHARTER.name}",
        ):  # fmt: skip
            assert f"{line}\r\n" in info
    archive.close()
    made_home.key.write_bytes(key_to_pem(key, b"secret"))
    assert own_peer_id(made_home) is None  # nobody is asked for a passphrase to name the peer
    packed = replace(Settings().archive, dictionary_kb=110)
    assert archive_settings(replace(Settings(), archive=packed)).dictionary_bytes == 110_000


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made_home = Home(tmp_path / "home")
    create_home(made_home, NewHome(config="", charter=TEST_CHARTER, key_pem=b"key"))
    return made_home


def positions(home: Home, **budget: float) -> int:
    settings = replace(Settings(), budget=replace(BudgetSettings(), **budget))  # type: ignore[arg-type]  # numbers
    return with_offered_positions(home, PUBLIC_CHARTER, settings).ring.virtual_nodes


def test_positions_follow_the_disk_that_is_offered(home: Home) -> None:
    assert positions(home, disk_free_gb_min=1e6) == 1  # nothing
    fixed = replace(Settings(), ring=replace(Settings().ring, virtual_nodes=5))
    assert with_offered_positions(home, PUBLIC_CHARTER, fixed) == fixed


def test_positions_follow_a_cap_below_what_the_disk_has(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("herodotus.store.disk.OsDisk.free_bytes", lambda self: 10**13)
    assert positions(home, disk_gb_max=150.0) == 3
    assert positions(home) == 8  # of 64 on one address, 8 peers may share them


@pytest.mark.e2e
def test_a_peer_steps_back_and_books_its_traffic(tmp_path: Path) -> None:
    home = new_home(tmp_path / "home")
    before = os.getpriority(os.PRIO_PROCESS, 0)
    with running(home, environment={"HERODOTUS_BUDGET_NICENESS": "17"}) as peer:
        assert os.getpriority(os.PRIO_PROCESS, peer.process.pid) == max(17, before)
        status = called("status", "--home", home, "--json").json
        assert set(status["budget"]) == {
            "month", "month_up_bytes", "month_down_bytes", "month_bytes_max", "waits_s", "closed_by", "closed_s",
            "connections",
        }  # fmt: skip
        assert peer.end()[0] == 0
    assert json.loads((home / "state" / "traffic.json").read_bytes())["format"] == 1


def test_who_started_us_further_back_is_obeyed() -> None:
    """In a process of its own, as niceness only grows."""
    program = "import os; from herodotus.operate.offer import step_back; os.nice({n}); step_back(5); print(os.nice(0))"
    base = os.getpriority(os.PRIO_PROCESS, 0)
    for start, ends_at in ((0, max(5, base)), (12, min(19, base + 12))):
        done = subprocess.run(
            [sys.executable, "-c", program.format(n=start)], capture_output=True, text=True, check=True, timeout=60
        )  # fmt: skip
        assert int(done.stdout) == ends_at


@pytest.mark.anyio
@pytest.mark.usefixtures("in_place")
async def test_the_status_says_that_a_full_archive_takes_nothing_more(tmp_path: Path) -> None:
    for settings, is_full in ((ArchiveSettings(archive_bytes_max=1), True), (ArchiveSettings(), False)):
        holdings = HomeArchive(Home(tmp_path), Machine(), settings)
        async with holdings.opened():
            await holdings.wait_open()
            problem = (await holdings.status()).problem
            assert ("as large as was offered" in (problem or "")) == is_full
