"""Does the search for dead code find what nobody reaches, and nothing that somebody does?"""

from pathlib import Path
from textwrap import dedent

import pytest

from scripts.dead import dead_in, names_in_templates

PEER = """
    from herodotus.store import keep, Rules, Kind, Phase, Store

    def main(rules: Rules) -> None:
        if rules.copies:
            keep(Kind.PAGE, Phase(1))
        with Store() as store:
            store.put()

    if __name__ == "__main__":
        main(Rules())
"""
STORE = """
    from dataclasses import dataclass
    from enum import Enum

    LIMIT = 3

    class Kind(Enum):
        PAGE = 1

    class Phase(Enum):
        ONE = 1
        TWO = 2

    @dataclass
    class Rules:
        copies: int = 6

    class Store:
        def put(self) -> None:
            getattr(self, "_put_all")()

        def _put_all(self) -> None: ...

        def __enter__(self) -> "Store": ...

        def __exit__(self, *error: object) -> None: ...

    def keep(kind: Kind, phase: Phase) -> None:
        print(kind, phase, LIMIT)
"""


def dead(folder: Path, *, peer: str = "", store: str = "", simulator: str = "") -> set[str]:
    texts = {"peer": PEER, "store": STORE}
    texts["peer"] += peer
    texts["store"] += store
    for name, text in texts.items():
        file = folder / "herodotus" / f"{name}.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text(dedent(text))
    (folder / "simnet").mkdir(exist_ok=True)
    (folder / "simnet" / "__main__.py").write_text(dedent(simulator))
    found, _ = dead_in(folder, ["herodotus.peer", "simnet.__main__"], kept=["on_bytes"])
    return {unit.path.partition(":")[2] for unit in found}


def test_what_the_entry_leads_to_is_alive(tmp_path: Path) -> None:
    assert dead(tmp_path) == set()


@pytest.mark.parametrize(
    ("planted", "found"),
    [
        ("def lost() -> None: ...", {"lost"}),
        ("def lost() -> None:\n        lost()", {"lost"}),
        ("class Lost:\n        def put(self) -> None: ...", {"Lost"}),
        ("LOST = 4", {"LOST"}),
        ("LOST: int = LIMIT", {"LOST"}),
        ("def lost() -> None:\n        gone()\n\n    def gone() -> None:\n        lost()", {"lost", "gone"}),
    ],
)
def test_what_only_dead_code_names_is_dead(tmp_path: Path, planted: str, found: set[str]) -> None:
    assert dead(tmp_path, store=f"\n    {planted}\n") == found


def test_a_method_a_setting_and_a_kind_that_nobody_reads_are_dead(tmp_path: Path) -> None:
    store = STORE.replace("def put(self)", "def lost(self) -> None: ...\n\n        def put(self)")
    store = store.replace("copies: int = 6", "copies: int = 6\n        lost_s: float = 1.0")
    store = store.replace("PAGE = 1", "PAGE = 1\n        LOST = 2")
    assert dead(tmp_path) == set()
    (tmp_path / "herodotus" / "store.py").write_text(dedent(store))
    found, _ = dead_in(tmp_path, ["herodotus.peer"])
    assert {unit.path.partition(":")[2] for unit in found} == {"Store.lost", "Rules.lost_s", "Kind.LOST"}
    assert {unit.what for unit in found} == {"method", "field", "member"}


def test_a_setting_that_is_only_set_is_dead(tmp_path: Path) -> None:
    peer = "\n    from dataclasses import replace\n    replace(Rules(lost_s=2.0), lost_s=3.0)\n"
    store = "\n    @dataclass\n    class MoreRules(Rules):\n        lost_s: float = 1.0\n"
    assert dead(tmp_path, peer=peer, store=store) == {"MoreRules"}
    assert dead(
        tmp_path, peer=peer + "    from herodotus.store import MoreRules\n    MoreRules()\n", store=store
    ) == {"MoreRules.lost_s"}


def test_equal_names_of_two_modules_are_two_things(tmp_path: Path) -> None:
    assert dead(
        tmp_path, peer="\n    def used() -> None: ...\n    used()\n", store="\n    def used() -> None: ...\n"
    ) == {"used"}


def test_the_simulator_keeps_alive_only_what_is_its_own(tmp_path: Path) -> None:
    store = "\n    def simulated() -> None: ...\n"
    simulator = """
    from herodotus.store import simulated

    def run() -> None:
        simulated()

    run()

    def lost() -> None: ...
    """
    assert dead(tmp_path, store=store, simulator=simulator) == {"simulated", "lost"}


def test_what_is_registered_or_called_by_a_library_is_alive(tmp_path: Path) -> None:
    peer = """
    from somewhere import Protocol, command

    @command()
    def crawl() -> None: ...

    class Line(Protocol):
        def on_bytes(self) -> None: ...

        def on_lost(self) -> None: ...

    Line()
    """
    assert dead(tmp_path, peer=peer) == {"Line.on_lost"}


def test_what_a_template_asks_for_is_alive(tmp_path: Path) -> None:
    (tmp_path / "herodotus").mkdir()
    (tmp_path / "herodotus" / "page.html").write_text(
        "{% if status.is_late %}{{ row.at.path | shown }}{% endif %} no.thing"
    )
    assert names_in_templates(tmp_path, ["herodotus"]) == {"is_late", "at", "path"}


def test_an_exception_keeps_what_it_names_and_is_reported_once_nothing_needs_it(tmp_path: Path) -> None:
    dead(tmp_path, store="\n    def lost() -> None:\n        gone()\n\n    def gone() -> None: ...\n")
    assert dead_in(
        tmp_path, ["herodotus.peer"], exceptions=["herodotus.store:lost", "herodotus.store:keep"]
    ) == (
        [],
        {"herodotus.store:keep"},
    )
