"""What are we made of? A CycloneDX bill of materials (JSON, version 1.6) from the lock file and what is installed.

scripts/sbom.py [OUT]     writes it to OUT or stdout; equal inputs give equal bytes

Versions and the hashes of what may be downloaded come from `requirements/run.txt`; licences and who needs whom from
the metadata of the installed packages. A package that this machine does not need, such as one for another system,
is listed without them.
"""

import json
import re
import sys
import tomllib
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "requirements" / "run.txt"
_PINNED = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;\\]+)", re.MULTILINE)
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_BY_CLASSIFIER = {
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "BSD 3-Clause License": "BSD-3-Clause",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "MIT No Attribution License (MIT-0)": "MIT-0",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
    "GNU Lesser General Public License v2 or later (LGPLv2+)": "LGPL-2.1-or-later",
}
_BY_WORDS = {
    "Apache 2": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
    "Apache License, Version 2.0": "Apache-2.0",
    "BSD": "BSD-3-Clause",
    "BSD License": "BSD-3-Clause",
    "BSD 3-Clause License": "BSD-3-Clause",
    "MIT License": "MIT",
    "PSF-2.0": "PSF-2.0",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Locked:
    name: str
    version: str
    hashes: tuple[str, ...]


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def locked(text: str) -> list[Locked]:
    """In the order of the file, which is that of their names."""
    starts = list(_PINNED.finditer(text))
    ends = [one.start() for one in starts[1:]] + [len(text)]
    return [
        Locked(name=normal(one[1]), version=one[2], hashes=tuple(_HASH.findall(text[one.start() : end])))
        for one, end in zip(starts, ends, strict=True)
    ]


def installed(name: str) -> Distribution | None:
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def licence_of(found: Distribution) -> str:
    """An SPDX expression, or the words that the package has instead."""
    expressions = found.metadata.get_all("License-Expression", ())
    if expressions:
        return str(expressions[0])
    last = [
        one.rpartition(" :: ")[2] for one in found.metadata.get_all("Classifier", ()) if "License ::" in one
    ]
    known = [_BY_CLASSIFIER.get(one, one) for one in last if one not in ("OSI Approved", "DFSG approved")]
    if known:
        return " OR ".join(sorted(dict.fromkeys(known)))
    words = str(next(iter(found.metadata.get_all("License", ())), "unknown")).strip().splitlines()[0]
    return _BY_WORDS.get(words, words)


def needs_of(found: Distribution, among: Mapping[str, str]) -> list[str]:
    """References of those that it requires, extras left out."""
    names = [
        normal(re.split(r"[^A-Za-z0-9._-]", one, maxsplit=1)[0])
        for one in found.requires or ()
        if "extra ==" not in one
    ]
    return sorted({among[name] for name in names if name in among})


def bill() -> dict[str, Any]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    packages = locked(LOCK.read_text())
    references = {one.name: f"pkg:pypi/{one.name}@{one.version}" for one in packages}
    own = f"pkg:pypi/{project['name']}@{project['version']}"
    direct = [normal(re.split(r"[<>=; ]", one)[0]) for one in project["dependencies"]]
    dependencies = [{"ref": own, "dependsOn": sorted(references[one] for one in direct if one in references)}]
    for one in packages:
        found = installed(one.name)
        dependencies.append(
            {"ref": references[one.name], "dependsOn": needs_of(found, references) if found else []}
        )
    body: dict[str, Any] = {
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": project["name"],
                "version": project["version"],
                "licenses": [{"expression": project["license"]}],
                "purl": own,
            }
        },
        "components": [_component(one, references[one.name]) for one in packages],
        "dependencies": dependencies,
    }
    number = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(body, sort_keys=True))
    head = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{number}",
        "version": 1,
    }
    return {**head, **body}


def _component(one: Locked, reference: str) -> dict[str, Any]:
    found = installed(one.name)
    component: dict[str, Any] = {
        "type": "library",
        "bom-ref": reference,
        "name": one.name,
        "version": one.version,
        "purl": reference,
        "externalReferences": [
            {
                "type": "distribution",
                "url": f"https://pypi.org/project/{one.name}/{one.version}/",
                "hashes": [{"alg": "SHA-256", "content": content} for content in one.hashes],
            }
        ],
    }
    if found is not None:
        component["licenses"] = [{"expression": licence_of(found)}]
    return component


def main(arguments: list[str]) -> int:
    text = json.dumps(bill(), indent=1) + "\n"
    if arguments:
        Path(arguments[0]).write_text(text)
    else:
        print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
