"""What does a stranger see first? `scripts/run` ends here.

    scripts/run                       a ring of five peers archives a made-up web on two days, and loses a peer
    scripts/run URL...                one peer archives that site, and shows it
    scripts/run --http IP:PORT ...    one peer archives a made-up web; the options are those of `herodotus run`
    HERODOTUS_HOME=... scripts/run    only the peer of that home

`--base-port P` moves the ring's ports. Where the ring cannot be shown, one peer shows what it can. All that is kept is
in `.demo/`.
"""

import dataclasses
import os
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

from herodotus.core.charter import Charter
from scripts.demos import alone, site
from scripts.demos.frame import HERODOTUS, DemoFailed, say
from scripts.demos.ring import BASE_PORT, show_ring

DEMO = Path(__file__).parents[1] / ".demo"
PORTAL = "127.0.0.1:5484"  # the port is the portal's by contract; the demo stays on this machine


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    urls: tuple[str, ...]
    options: tuple[str, ...]
    """For `herodotus run`."""
    base_port: int

    @property
    def portal(self) -> str:
        has_own = "--http" in self.options[:-1]
        return self.options[self.options.index("--http") + 1] if has_own else PORTAL


def main(arguments: list[str]) -> NoReturn:
    own_home = os.environ.get("HERODOTUS_HOME")
    if own_home:
        _make_home(own_home, None)
        _become_peer(own_home, Asked(urls=(), options=tuple(arguments), base_port=BASE_PORT))
    asked = _asked(arguments)
    if asked.urls:
        home = str(DEMO / "site")
        _make_home(home, site.CHARTER)
        try:
            site.archive_site(home, asked.urls, asked.portal)
        except DemoFailed as error:
            say(str(error))
            sys.exit(1)
        _become_peer(home, asked)
    if not asked.options:
        try:
            show_ring(DEMO / "ring", asked.base_port)
            sys.exit(0)
        except DemoFailed as error:
            say(f"the ring cannot be shown ({error}); continuing with a single peer")
    home = str(DEMO / "peer")
    _make_home(home, alone.CHARTER)
    alone.show_alone(DEMO, home, asked.portal)
    _become_peer(home, asked)


def _asked(arguments: list[str]) -> Asked:
    """URLs come first; what begins with the first dash is for the peer."""
    count = next((at for at, word in enumerate(arguments) if word.startswith("-")), len(arguments))
    options = arguments[count:]
    base_port = BASE_PORT
    if options[:1] == ["--base-port"]:
        if len(options) < 2 or not options[1].isdecimal():
            sys.exit("demo: --base-port takes a number; see scripts/demo.py for what scripts/run takes")
        base_port, options = int(options[1]), options[2:]
    return Asked(urls=tuple(arguments[:count]), options=tuple(options), base_port=base_port)


def _become_peer(home: str, asked: Asked) -> NoReturn:
    where = () if "--http" in asked.options else ("--http", PORTAL)
    sys.stdout.flush()
    # This process becomes the peer, so that Ctrl-C and the service manager's signals reach it alone.
    os.execv(HERODOTUS, [HERODOTUS, "run", "--home", home, *where, *asked.options])


def _make_home(home: str, charter: Charter | None) -> None:
    """In the network of the charter; without one, in that of tests."""
    if (Path(home) / "state" / "home.json").exists():
        return
    network = "test"
    if charter is not None:
        DEMO.mkdir(exist_ok=True)
        network = str(DEMO / f"{charter.name.replace(' ', '-')}.toml")
        Path(network).write_text(charter.to_toml(), encoding="utf-8")
    command = [HERODOTUS, "init", "--home", home, "--network", network, "--preset", "test"]
    code = subprocess.run(command, check=False).returncode
    if code:
        sys.exit(code)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit(130)
