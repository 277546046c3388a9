"""What does a stranger see first? `scripts/run` ends here: a peer of a test network in `.demo/`, until Ctrl-C."""

import os
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

DEMO_HOME = Path(__file__).parents[1] / ".demo" / "peer"
HERODOTUS = str(Path(sys.executable).with_name("herodotus"))


def main(arguments: list[str]) -> NoReturn:
    home = os.environ.get("HERODOTUS_HOME") or str(DEMO_HOME)
    if not (Path(home) / "state" / "home.json").exists():
        command = [HERODOTUS, "init", "--home", home, "--network", "test", "--preset", "test"]
        code = subprocess.run(command, check=False).returncode
        if code:
            sys.exit(code)
    sys.stdout.flush()
    # Port 5484 is the portal's by contract; the demo stays on this machine.
    where = [] if "--http" in arguments else ["--http", "127.0.0.1:5484"]
    # This process becomes the peer, so that Ctrl-C and the service manager's signals reach it alone.
    os.execv(HERODOTUS, [HERODOTUS, "run", "--home", home, *where, *arguments])


if __name__ == "__main__":
    main(sys.argv[1:])
