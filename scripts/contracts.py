"""Which rules of the architecture can `lint-imports` not say by itself? Three contract types of our own.

`CorePurity`: a module below a folder `core/` imports, of ours, only modules that are themselves in a core,
and of the rest of the world nothing that reads clocks, files or the network. As purity is a folder, a new
module is covered from birth. `StandardLibraryOnly`: a package that knows the standard library only. `Faces`: a room
is imported from outside by its package alone, which shows what others may use.
"""

import sys
from typing import Any

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output

OURS = ("dht", "crawler", "herodotus", "simnet")


def _offences(graph: ImportGraph, importer: str, imported: str) -> list[str]:
    details = graph.get_import_details(importer=importer, imported=imported)
    return [f"{importer}:{detail['line_number']} imports {imported}" for detail in details]


class _OffenceContract(Contract):
    def render_broken_contract(self, check: ContractCheck) -> None:
        for offence in check.metadata["offences"]:
            output.print_error(offence)

    def _verdict(self, graph: ImportGraph, pairs: list[tuple[str, str]]) -> ContractCheck:
        offences = sorted(line for pair in pairs for line in _offences(graph, *pair))
        return ContractCheck(kept=not offences, metadata={"offences": offences})


class CorePurity(_OffenceContract):
    forbidden: Any = fields.ListField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        del verbose
        pairs = []
        for importer in graph.modules:
            if importer.split(".")[0] not in OURS or "core" not in importer.split("."):
                continue
            for imported in graph.find_modules_directly_imported_by(importer):
                top = imported.split(".")[0]
                leaves_core = top in OURS and "core" not in imported.split(".")
                is_impure = any(
                    imported == name or imported.startswith(f"{name}.") for name in self.forbidden
                )
                if leaves_core or is_impure:
                    pairs.append((importer, imported))
        return self._verdict(graph, pairs)


class StandardLibraryOnly(_OffenceContract):
    module: Any = fields.StringField()
    forbidden: Any = fields.ListField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        del verbose
        name: str = self.module
        pairs = []
        for importer in graph.modules:
            if importer != name and not importer.startswith(f"{name}."):
                continue
            for imported in graph.find_modules_directly_imported_by(importer):
                is_own = imported == name or imported.startswith(f"{name}.")
                top = imported.split(".")[0]
                if not is_own and (top not in sys.stdlib_module_names or top in self.forbidden):
                    pairs.append((importer, imported))
        return self._verdict(graph, pairs)


class Faces(_OffenceContract):
    """`rooms` are packages that have a face; `open_to` are modules (with all below them) that may look behind it."""

    rooms: Any = fields.ListField(subfield=fields.StringField())
    open_to: Any = fields.ListField(subfield=fields.StringField(), required=False)

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        del verbose
        pairs = []
        for importer in graph.modules:
            for imported in graph.find_modules_directly_imported_by(importer):
                rooms = [room for room in self.rooms if imported.startswith(f"{room}.")]
                welcome = [*rooms, *(self.open_to or ())]
                if rooms and not any(_is_in(importer, package) for package in welcome):
                    pairs.append((importer, imported))
        return self._verdict(graph, pairs)


def _is_in(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")
