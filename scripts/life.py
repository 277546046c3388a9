"""How many of our modules does the life of one URL enter?

    scripts/life.py            counts them, and names them by package
    scripts/life.py --most 90  also exits 1 when there are more

Two whole peers live in a simulated world with a web of one host. When their ring is settled and idle, somebody names a
page to one of them: it is found, walked to its owner, leased, fetched, stored and copied; its links take the same way.
At last both portals are asked for it. A module is entered when a function that it defines runs; what is run only when
a module is imported, and methods that a dataclass makes, do not count. What an idle ring enters all the time (gossip,
looking whether something is due) is shown apart: it is no part of the URL's life, unless the life enters it, too.
"""

import argparse
import inspect
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import anyio

from simnet.host import TrioCarrier, run_world
from simnet.peers import Peers, PeersSettings
from simnet.web import Web, WebSettings
from simnet.world.network import LineQuality

OURS = ("dht", "crawler", "herodotus")
SETTLED_S, IDLE_S, LIFE_S = 300.0, 600.0, 1_500.0
NEVER_S = 10.0**7
FAR_AHEAD = "20300101000000"


@contextmanager
def entered() -> Iterator[set[str]]:
    """The names of our modules whose functions run meanwhile."""
    found: set[str] = set()

    def note(frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_flags & inspect.CO_OPTIMIZED and code.co_filename[:1] != "<":
            found.add(frame.f_globals["__name__"])

    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(None)
        found.intersection_update({name for name in found if name.partition(".")[0] in OURS})


async def live(peers: Peers) -> tuple[set[str], set[str]]:
    """What is entered when nothing is to be done, and in the life of a URL."""
    await anyio.sleep(SETTLED_S)
    with entered() as idle:
        await anyio.sleep(IDLE_S)
    url = peers.origins.oracle.front_pages()[0]
    with entered() as life:
        await peers.seed([url])
        await anyio.sleep(LIFE_S)
        for member in peers.members:
            answer = await peers.read(member, f"/web/{FAR_AHEAD}id_/{url}")
            while answer is not None and answer.status in (301, 302):
                answer = await peers.read(member, answer.headers["Location"])
            if answer is None or answer.status != 200:
                raise SystemExit(f"peer {member.number} does not show {url}: the life was not whole")
    return idle, life


def measured() -> tuple[set[str], set[str]]:
    settings = PeersSettings(peers=2, copies=2, compare_s=NEVER_S, cross_fetch_share=0.0)
    web = Web(WebSettings(seed=1, hosts=1, names="test", pages_min=3, pages_max=3, troubles=False))

    async def main(carrier: TrioCarrier) -> tuple[set[str], set[str]]:
        with tempfile.TemporaryDirectory(prefix="life-") as folder:
            peers = Peers(carrier, Path(folder), settings, web)
            async with peers.running():
                return await live(peers)

    return run_world(main, seed=1, link=LineQuality())


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--most", type=int, help="fail when the life enters more modules")
    chosen = parser.parse_args()
    idle, life = measured()
    packages: dict[str, list[str]] = defaultdict(list)
    for name in sorted(life):
        package, _, module = name.rpartition(".")
        packages[package].append(f"({module})" if name in idle else module)
    for package, modules in packages.items():
        print(f"{package} {len(modules)}: {' '.join(modules)}")
    print(f"{len(life)} modules, {len(life & idle)} of them, in brackets, also in an idle ring")
    return chosen.most is not None and len(life) > chosen.most


if __name__ == "__main__":
    raise SystemExit(main())
