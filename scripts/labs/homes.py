"""How does it go for two people at home? One begins a network, the other pastes the invitation and reads a page.

Both have an ordinary router that opens ports for those who ask. Each command is what a person would type, and none of
them has a number in it.
"""

import http.client
import time
from urllib.parse import quote

from scripts.labs.laboratory import Asked, LabFailed, Laboratory, Rows
from scripts.labs.routers import Behaviour
from scripts.labs.volunteers import CommandFailed, Volunteer

BOUND_S = 120.0
"""From the first command to the page of the other's archive: the design's goal."""
WAIT_S = 240.0
_CONTACT = "mailto:somebody@lab.example"


def homes(lab: Laboratory, _asked: Asked) -> Rows:
    """Two machines behind two home routers: create, paste the line, read the other's first page; no number typed."""
    router = Behaviour(asks_by=("upnp", "pcp"))
    ada, bob = (_machine(lab, name, router) for name in ("ada", "bob"))
    front = lab.serve(hosts=1, pages_max=20)[0]
    began = time.monotonic()
    ada.start("network", "create", "our-library", "--public", "--contact", _CONTACT)
    lab.must("ada's peer answers", lambda: ada.status() is not None, WAIT_S)
    ada.command("crawl", front, "--quiet")
    line = _invitation(lab, ada)
    invited = time.monotonic()
    lab.must("ada's archive has the page", lambda: _has(ada, front), WAIT_S)
    pasted = time.monotonic()
    bob.start("join", line, "--contact", _CONTACT)
    is_read = lab.until(lambda: _has(bob, front), WAIT_S)
    done = time.monotonic()
    lab.note(
        "bob reads the page of ada's archive", is_read, f"{done - pasted:.0f} s after the line was pasted"
    )
    lab.note("in under two minutes", is_read and done - began < BOUND_S, f"{done - began:.0f} s in all")
    lab.note("the line is short enough for a message", len(line) < 200, f"{len(line)} characters")
    return [
        {
            "invitation_s": round(invited - began, 1),
            "pasted_s": round(pasted - began, 1),
            "read_s": round(done - began, 1),
            "characters": len(line),
        }
    ]


def _machine(lab: Laboratory, name: str, router: Behaviour) -> Volunteer:
    """Without a home folder: the commands make it."""
    host = lab.internet.router(f"r-{name}", router).host(name)
    one = lab.volunteers[name] = Volunteer(name, host, lab.folder / name)
    return one


def _invitation(lab: Laboratory, one: Volunteer) -> str:
    """As soon as the command prints one."""
    found: list[str] = []

    def is_printed() -> bool:
        try:
            found[:] = one.command("invite").split()
        except CommandFailed:
            return False
        return bool(found)

    if not lab.until(is_printed, WAIT_S):
        raise LabFailed(f"{one.name} never got an invitation")
    lab.say(f"the invitation is {found[0][:40]}...")
    return found[0]


def _has(one: Volunteer, url: str) -> bool:
    """Whether its portal gives the page itself."""
    try:
        rows = one.asked(f"/web/*/{quote(url, safe=':/?=&')}")
        date = rows[-1]["date"].translate({ord(sign): None for sign in "-:TZ"})[:14]
        return b"<html" in one.page(f"/web/{date}id_/{url}").lower()
    except (OSError, http.client.HTTPException, ValueError, LookupError):
        return False
