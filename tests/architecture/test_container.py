"""Does the Containerfile name only what exists, and keep what it promises? Read by lines: no test builds images."""

import json
import re
import shlex
import tomllib
from pathlib import Path

import pytest

from herodotus.core.settings.sections import HTTP_PORT_OFFSET, Settings
from herodotus.operate.cli import main as herodotus
from herodotus.peers.finders import RENDEZVOUS_PORT_OFFSET
from scripts.docs import commands_of

ROOT = Path(__file__).parents[2]
KNOWN = {"FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "VOLUME", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK"}
KNOWN |= {"ENTRYPOINT", "CMD"}


def instructions(text: str) -> list[tuple[str, str]]:
    """(word, rest) with continued lines joined."""
    joined = re.sub(r"\\\n\s*", "", "\n".join(one for one in text.splitlines() if not one.startswith("#")))
    lines = [line for line in joined.splitlines() if line.strip()]
    return [(line.split(maxsplit=1)[0], line.split(maxsplit=1)[1]) for line in lines]


def stages(text: str) -> list[list[tuple[str, str]]]:
    found: list[list[tuple[str, str]]] = []
    for word, rest in instructions(text):
        if word == "FROM":
            found.append([])
        found[-1].append((word, rest))
    return found


@pytest.fixture(scope="module")
def text() -> str:
    return (ROOT / "Containerfile").read_text()


def last(stage: list[tuple[str, str]], word: str) -> str:
    return [rest for one, rest in stage if one == word][-1]


def missing_sources(text: str, root: Path) -> list[str]:
    """What is copied from the tree and is not there, or is kept from the builder."""
    ignored = (root / ".containerignore").read_text().splitlines()
    let_in = {line[1:] for line in ignored if line.startswith("!")}
    copies = [rest.split() for word, rest in instructions(text) if word == "COPY" and "--from=" not in rest]
    sources = [one for *sources, _ in copies for one in sources]
    return [one for one in sources if not (root / one).exists() or one.partition("/")[0] not in let_in]


def test_every_instruction_is_one_that_builders_know(text: str) -> None:
    assert {word for word, _ in instructions(text)} - KNOWN == set()


def test_all_that_is_copied_exists_and_reaches_the_builder(text: str) -> None:
    assert missing_sources(text, ROOT) == []
    assert (ROOT / ".dockerignore").read_text() == (ROOT / ".containerignore").read_text()
    assert missing_sources("FROM x\nCOPY nothing there\nCOPY tests .\n", ROOT) == ["nothing", "tests"]


def test_all_that_the_wheel_needs_is_copied(text: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = set(project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])
    wanted |= {project["project"]["readme"], *project["project"]["license-files"], "pyproject.toml"}
    copied = {one for word, rest in stages(text)[0] if word == "COPY" for one in rest.split()[:-1]}
    assert wanted - copied == set()


def test_the_base_is_a_python_that_we_support(text: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    bases = {last(stage, "FROM").split()[0] for stage in stages(text)}
    assert len(bases) == 1, "what was built for one Python runs on another"
    version = re.fullmatch(r"docker\.io/library/python:(3\.\d+)-slim", bases.pop())
    assert version is not None
    assert f"Programming Language :: Python :: {version[1]}" in project["classifiers"]


def test_only_the_locked_set_is_installed(text: str) -> None:
    installs = [
        command
        for word, rest in instructions(text)
        if word == "RUN"
        for command in rest.split("&&")
        if "pip install" in command
    ]
    assert len(installs) == 2
    for command in installs:
        assert "--require-hashes" in command or "--no-index" in command, command


def test_the_peer_runs_as_nobody_special_on_a_volume_of_its_own(text: str) -> None:
    final = stages(text)[-1]
    words = [word for word, _ in final]
    made = re.search(
        r"useradd --uid (\d+) --gid (\d+)", " ".join(rest for word, rest in final if word == "RUN")
    )
    assert made is not None
    assert last(final, "USER") == f"{made[1]}:{made[2]}"
    assert int(made[1]) > 1000
    assert words.index("USER") < words.index("ENTRYPOINT")
    assert "RUN" not in words[words.index("USER") :]
    environment = dict(part.split("=", 1) for part in shlex.split(last(final, "ENV")))
    assert environment["HERODOTUS_HOME"] == last(final, "VOLUME")
    assert f"--mode 0700 {last(final, 'VOLUME')}" in " ".join(rest for word, rest in final if word == "RUN")
    (source, place) = last(final, "COPY").removeprefix("--from=build ").split()
    assert (
        source == place == environment["PATH"].partition("/bin:")[0]
    )  # scripts in an environment name their place


def test_the_ports_are_those_of_the_defaults(text: str) -> None:
    settings = Settings()
    ring, http = settings.ring.listen.port, settings.http.listen.port
    assert http == ring + HTTP_PORT_OFFSET
    assert set(last(stages(text)[-1], "EXPOSE").split()) == {
        f"{ring}/udp", f"{ring}/tcp", f"{http}/tcp", f"{ring + RENDEZVOUS_PORT_OFFSET}/udp",
    }  # fmt: skip


def test_every_command_in_it_exists(text: str) -> None:
    known = {name for name, _ in commands_of(herodotus, "herodotus")}
    final = stages(text)[-1]
    entry, default = json.loads(last(final, "ENTRYPOINT")), json.loads(last(final, "CMD"))
    assert " ".join([*entry, *default]) in known
    health = json.loads(last(final, "HEALTHCHECK").partition("CMD ")[2])
    assert " ".join(health[:2]) in known
    shown = re.findall(r"^#.*? herodotus ([a-z]+)", text, re.MULTILINE)
    assert set(shown) == {"init", "status"}
    assert {f"herodotus {name}" for name in shown} <= known
