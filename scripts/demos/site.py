"""How does somebody see their own site in an archive? One peer visits it politely, then shows it.

The site may be of the public web or of this machine. The peer stays by itself: it has a network of its own, and does
not crawl on after this, as its network has no scope.
"""

import dataclasses
import subprocess
from collections.abc import Sequence

from herodotus.core.charter import TEST_CHARTER
from scripts.demos.frame import HERODOTUS, DemoFailed, call, end_politely, say

CHARTER = dataclasses.replace(
    TEST_CHARTER, name="my site", delay_floor_s=1.0, per_address_concurrency=2, save_endpoint=False
)
FETCHES_MAX = 300
"""At a second each: nobody waits for longer, unasked."""
_INTERRUPTED = 130


def archive_site(home: str, urls: Sequence[str], address: str) -> None:
    """Before the peer is started on the home; `address` is where it will be read. Ctrl-C ends the crawl only."""
    say(
        f"archiving {' '.join(urls)}: one request a second, at most {FETCHES_MAX}; Ctrl-C stops it and shows the result"
    )
    command = [HERODOTUS, "crawl", "--home", home, "--limit", str(FETCHES_MAX), *urls]
    # In a session of its own: the terminal's Ctrl-C comes to it once, through us.
    crawl = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        code = crawl.wait()
    except KeyboardInterrupt:
        code = end_politely(crawl)
    if code not in (0, _INTERRUPTED):
        raise DemoFailed(f"`herodotus crawl` ended with {code}")
    call("pause", "--home", home)
    say(
        f"for more: herodotus crawl --resume --home {home}, while no peer runs; the archive is {home}/archive"
    )
    say("when the peer is ready, read it:")
    for url in urls:
        say(f"    http://{address}/web/*/{url}")
