"""Fetch the judges that come from npm: `python scripts/npm_judges.py requirements/judges-npm.txt FOLDER`.

Without node: a package is one archive at a known address, and its checksum is pinned. NPM_CONFIG_REGISTRY names a
mirror. What is there already is left alone.
"""

import base64
import hashlib
import io
import os
import sys
import tarfile
import urllib.request
from pathlib import Path

BYTES_MAX = 64 * 1024 * 1024
WAIT_S = 120
REGISTRY = "https://registry.npmjs.org"


def main(listed: Path, folder: Path) -> None:
    registry = os.environ.get("NPM_CONFIG_REGISTRY", REGISTRY).rstrip("/")
    if not registry.startswith(("https://", "http://")):
        raise SystemExit(f"npm_judges: {registry!r} is no address of a registry")
    for line in listed.read_text().splitlines():
        if line and not line.startswith("#"):
            name, version, integrity = line.split()
            fetch(registry, name, version, integrity, folder / name)


def fetch(registry: str, name: str, version: str, integrity: str, target: Path) -> None:
    mark = target / ".version"
    if mark.exists() and mark.read_text() == integrity:
        return
    address = f"{registry}/{name}/-/{name}-{version}.tgz"
    with urllib.request.urlopen(address, timeout=WAIT_S) as answer:  # noqa: S310  # its scheme was looked at
        data = answer.read(BYTES_MAX + 1)
    if f"sha512-{base64.b64encode(hashlib.sha512(data).digest()).decode()}" != integrity:
        raise SystemExit(f"npm_judges: {address} is not what was pinned")
    target.mkdir(parents=True, exist_ok=True)
    with tarfile.open(fileobj=io.BytesIO(data)) as package:
        package.extractall(target, filter="data")
    mark.write_text(integrity)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
