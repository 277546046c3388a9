"""Which pages are stored in the benchmark? HTML of documentation packages, and the simulated web's changing pages."""

import hashlib
import random
import subprocess
import sys
from pathlib import Path

from simnet.web.hosts import WebSettings
from simnet.web.site import Web

PACKAGES = (
    "python3.11-doc",
    "postgresql-doc-15",
    "git-doc",
    "apache2-doc",
    "debian-policy",
    "sqlite3-doc",
    "python-django-doc",
    "libgtk-3-doc",
    "octave-doc",
)
BODY_BYTES_MAX = 60_000  # keeps the mean near the thesis's 12 kB
SIMULATED_HOSTS = 30
DAYS_MAX = 4_000  # a page of three changes in a hundred days has its sixteenth version after some 500

Pages = list[tuple[str, bytes]]


def load_corpus(folder: Path, count: int) -> Pages:
    if not folder.exists():
        fetch_corpus(folder)
    bodies: dict[bytes, bytes] = {}
    for path in sorted(folder.rglob("*.html")):
        if path.is_file():
            body = path.read_bytes()
            if 0 < len(body) <= BODY_BYTES_MAX:
                bodies.setdefault(hashlib.sha256(body).digest(), body)
    pages = [(f"http://example.org/{number}", body) for number, body in enumerate(bodies.values())]
    random.Random(1).shuffle(pages)
    return pages[:count]


def fetch_corpus(folder: Path) -> None:
    folder.mkdir(parents=True)
    for package in PACKAGES:
        got = subprocess.run(
            ["apt-get", "download", "-q", package], cwd=folder, capture_output=True, check=False
        )
        if got.returncode:
            print(f"without {package}: apt-get could not fetch it", file=sys.stderr)
    for archive in folder.glob("*.deb"):
        subprocess.run(["dpkg", "-x", archive.name, "pages"], cwd=folder, check=True)
        archive.unlink()


def load_versions(urls: int, versions: int) -> list[list[bytes]]:
    """Pages of the simulated web as a daily crawl meets them: so many different bodies of each."""
    web = Web(WebSettings(seed=1, hosts=SIMULATED_HOSTS))
    found = []
    for number in range(SIMULATED_HOSTS):
        host = web.pages.hosts.host(number)
        for page in range(web.pages.hosts.pages_on(host, 0)):
            if web.pages.kind(number, page) != "page":
                continue
            bodies = _bodies(web, number, page, versions)
            if len(bodies) == versions:
                found.append(bodies)
            if len(found) == urls:
                return found
    return found


def _bodies(web: Web, number: int, page: int, versions: int) -> list[bytes]:
    host = web.pages.hosts.host(number)
    bodies: list[bytes] = []
    last = None
    for day in range(DAYS_MAX):
        version = web.version(host, page, False, day)
        if version != last:
            body = web.content(host, page, False, day).body
            if not bodies or body != bodies[-1]:
                bodies.append(body)
            last = version
        if len(bodies) == versions:
            break
    return bodies
