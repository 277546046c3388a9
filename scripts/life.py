"""How many of our modules does the life of one URL enter?

    scripts/life.py            counts them, and names them by package
    scripts/life.py --most 90  also exits 1 when there are more

Two whole peers live in a simulated world with a web of one host. They are watched while their ring is idle. Then
somebody names a page to one of them: it is found, walked to its owner, leased, fetched, stored and copied; its links
take the same way. At last both portals are asked for it.

A module belongs to the life of a URL when the life runs a function there that the idle ring never ran. What is run
only when a module is imported, and methods that a dataclass makes, do not count. Modules of which only functions run
that an idle ring runs, too (gossip, timers, looking whether something is due), are counted apart.
"""

import argparse
import inspect
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType

import anyio

from simnet.host import TrioCarrier, run_world
from simnet.peers import Peers, PeersSettings
from simnet.web import Web, WebSettings
from simnet.world.network import LineQuality

OURS = ("dht", "crawler", "herodotus")
SETTLED_S, IDLE_S, LIFE_S = 300.0, 20_000.0, 1_500.0
NEVER_S = 10.0**7
FAR_AHEAD = "20300101000000"


Function = tuple[str, str]
"""The names of its module and of itself."""


@contextmanager
def entered() -> Iterator[set[Function]]:
    """Our functions that run meanwhile."""
    found: set[Function] = set()
    modules: dict[CodeType, str] = {}

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code not in modules:
            modules[frame.f_code] = frame.f_globals["__name__"]

    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(None)
        for code, module in modules.items():
            is_function = code.co_flags & inspect.CO_OPTIMIZED and not code.co_filename.startswith("<")
            if is_function and module.partition(".")[0] in OURS:
                found.add((module, code.co_qualname))


async def live(peers: Peers) -> tuple[set[Function], set[Function]]:
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
    """The modules that a URL's life is about, and those that it enters, too, by functions of an idle ring."""
    settings = PeersSettings(peers=2, copies=2, compare_s=NEVER_S, cross_fetch_share=0.0)
    web = Web(WebSettings(seed=1, hosts=1, names="test", pages_min=3, pages_max=3, troubles=False))

    async def main(carrier: TrioCarrier) -> tuple[set[Function], set[Function]]:
        with tempfile.TemporaryDirectory(prefix="life-") as folder:
            peers = Peers(carrier, Path(folder), settings, web)
            async with peers.running():
                return await live(peers)

    idle, life = run_world(main, seed=1, link=LineQuality())
    own = {module for module, _ in life - idle}
    return own, {module for module, _ in life} - own


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--most", type=int, help="fail when the life has more modules")
    chosen = parser.parse_args()
    own, idle = measured()
    packages: dict[str, list[str]] = defaultdict(list)
    for name in sorted(own):
        package, _, module = name.rpartition(".")
        packages[package].append(module)
    for package, modules in packages.items():
        print(f"{package} {len(modules)}: {' '.join(modules)}")
    print(f"{len(own)} modules; {len(idle)} more are entered as in an idle ring")
    return chosen.most is not None and len(own) > chosen.most


if __name__ == "__main__":
    raise SystemExit(main())
