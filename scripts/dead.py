"""Which functions, classes, methods, settings and constants does no code of the product reach?

    scripts/dead.py         says what is dead, one line each, and exits 1 when something is

A fixpoint over names. The roots are the entry points and what runs when a module that they lead to is imported. A
definition that live code names is live, and then so is what it names in turn; a function that only dead code calls
is therefore dead. Functions, classes and constants of modules are followed through imports, so equal names in two
modules are two things. Methods and fields are known by their name alone: `x.close()` keeps every `close`, since no
types are looked at; so do names that a page's template asks for. The reverse holds: what is reported has no reader in
the product at all.

The product is dht, crawler and herodotus; what is in simnet may be reached by simnet's own command. Tests and scripts
keep nothing alive. A field of settings, rules or the charter is alive when some code reads it; it is not enough that
it can be set. Not looked at: local names, parameters, fields of other classes (they may be encoded as a whole).
"""

import ast
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

ENTRIES = (
    "herodotus.operate.cli.*",
    "herodotus.__main__",
    "simnet.scenarios.*",
    "simnet.__main__",
)
"""Modules that are started or found by their place. What registers itself there, as commands do, is reached."""
PACKAGES = ("dht", "crawler", "herodotus", "simnet")
_IN_TEMPLATE = re.compile(r"\{[{%](.*?)[}%]\}", re.DOTALL)
_ATTRIBUTE = re.compile(r"\.([A-Za-z_]+)")
SETTINGS = ("Settings", "Rules", "Policy", "Limits", "Terms", "Charter")
"""A class whose name ends so has fields that somebody is to read."""

CALLED_BY_LIBRARIES: Mapping[str, str] = {
    **dict.fromkeys(
        ("connection_made", "connection_lost", "data_received", "eof_received"), "asyncio.Protocol"
    ),
    **dict.fromkeys(("datagram_received", "error_received"), "asyncio.DatagramProtocol"),
    **dict.fromkeys(("pause_writing", "resume_writing"), "asyncio.BaseProtocol"),
    **dict.fromkeys(
        ("main", "resolve_command", "list_commands", "get_command", "format_commands"), "click.Group"
    ),
    "collect": "prometheus_client's Collector",
    "redirect_request": "urllib.request.HTTPRedirectHandler",
    "_output_child_pre": "jinja2.compiler.CodeGenerator",
    "escaped": "Python code that Jinja makes of a template, as our `_output_child_pre` writes it",
    **dict.fromkeys(("call_find_node", "_nodes_found"), "kademlia"),
}
"""Names of methods that no code of ours calls, and who does."""

_LOOKED_AT = "tests look at it: nothing else shows that what was held is given back"
_HURTS = "part of what a simulated machine can suffer; the tests of stores ask for it"
EXCEPTIONS: Mapping[str, str] = {
    "crawler.rocks:RocksRows.cache_bytes_max": _LOOKED_AT,
    "herodotus.peers.net.answer_memory:AnswerRoom.bytes_held": _LOOKED_AT,
    "herodotus.core.settings.sections:HttpSettings.gateway": "without effect now; configurations of before have it",
    "simnet.ringwatch:RingUnderTest": "what it is for are tests",
    "simnet.ringstorm:RingStorm.lie": "a blow that a state machine of the tests chooses",
    **dict.fromkeys(
        ("simnet.world.disk:SimulatedDisk.crash_images",),
        _HURTS,
    ),
}
"""Definitions that stay, with what they name, although no code of the product names them; and why."""


@dataclass(slots=True)
class Unit:
    """Something defined in a module or in a class of it, and what its text names."""

    module: str
    name: str
    line: int
    owner: "Unit | None" = None
    what: str = "function"  # class, method, field, constant, member
    names: set[tuple[str, str]] = field(default_factory=set)  # module and name
    wholes: set[tuple[str, str]] = field(
        default_factory=set
    )  # names that stand for themselves: called, or iterated
    attributes: set[str] = field(default_factory=set)

    @property
    def path(self) -> str:
        return f"{self.module}:{self.owner.name}.{self.name}" if self.owner else f"{self.module}:{self.name}"


@dataclass(slots=True)
class Module:
    name: str
    imports: dict[str, tuple[str, str]] = field(default_factory=dict)
    """By local name: module and name there; a module as a whole has the name ''."""
    units: dict[str, Unit] = field(default_factory=dict)
    members: list[Unit] = field(default_factory=list)
    body: Unit | None = None
    """What runs on import."""
    leads_to: set[str] = field(default_factory=set)


def modules_in(root: Path, packages: Iterable[str]) -> dict[str, Module]:
    files = {
        ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): path
        for package in packages
        for path in sorted((root / package).rglob("*.py"))
    }
    return {
        name: _Reader(name, path.name == "__init__.py", files.keys()).read(ast.parse(path.read_bytes()))
        for name, path in files.items()
    }


class _Reader:
    def __init__(self, name: str, is_package: bool, known: Iterable[str]) -> None:
        self._module = Module(name)
        self._package = name if is_package else name.rpartition(".")[0]
        self._known = frozenset(known)

    def read(self, tree: ast.Module) -> Module:
        module = self._module
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                self._import(node)
            elif isinstance(node, ast.Constant) and node.value in self._known and "." in str(node.value):
                module.leads_to.add(
                    str(node.value)
                )  # from a table of modules that are imported when asked for
        module.body = Unit(module.name, "", 1)
        for node in tree.body:
            self._define(node)
        return module

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        if isinstance(node, ast.Import):
            for one in node.names:
                self._lead_to(one.name)
                local = one.asname or one.name.partition(".")[0]
                self._module.imports[local] = (one.name if one.asname else local, "")
            return
        origin = node.module or ""
        if node.level:
            above = self._package.split(".")[: len(self._package.split(".")) - node.level + 1]
            origin = ".".join([*above, origin] if origin else above)
        self._lead_to(origin)
        for one in node.names:
            whole = f"{origin}.{one.name}"
            is_module = whole in self._known
            if is_module:
                self._lead_to(whole)
            self._module.imports[one.asname or one.name] = (whole, "") if is_module else (origin, one.name)

    def _lead_to(self, name: str) -> None:
        """A module, and the packages that are imported with it."""
        while name:
            if name in self._known:
                self._module.leads_to.add(name)
            name = name.rpartition(".")[0]

    def _define(self, node: ast.stmt) -> None:
        module, body = self._module, self._module.body
        assert body is not None
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                unit = self._unit(node.name, node.lineno, "function")
                if _registers(node):
                    body.names.add((module.name, node.name))
                self._note(unit, node)
            case ast.ClassDef():
                self._define_class(node)
            case ast.Assign() | ast.AnnAssign():
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                names = [
                    one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)
                ]
                if names and all(isinstance(one, ast.Name | ast.Tuple) for one in targets):
                    for name in names:
                        self._note(self._unit(name, node.lineno, "constant"), node)
                else:
                    self._note(body, node)
            case ast.Import() | ast.ImportFrom():
                pass
            case _:  # what is defined under a condition counts as run, too
                self._note(body, node)

    def _unit(self, name: str, line: int, what: str, owner: Unit | None = None) -> Unit:
        unit = Unit(self._module.name, name, line, owner, what)
        if owner is None:
            unit = self._module.units.setdefault(name, unit)
        else:
            self._module.members.append(unit)
        return unit

    def _define_class(self, node: ast.ClassDef) -> None:
        unit = self._unit(node.name, node.lineno, "class")
        bases = {_last_name(base) for base in node.bases}
        if _registers(node):
            assert self._module.body is not None
            self._module.body.names.add((self._module.name, node.name))
        for part in (*node.bases, *node.keywords, *node.decorator_list):
            self._note(unit, part)
        is_enum = any(base.endswith(("Enum", "Flag")) for base in bases)
        for one in node.body:
            match one:
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    member = self._unit(one.name, one.lineno, "method", unit)
                    if _registers(one):
                        member.what = "registered"
                    self._note(member, one)
                case ast.AnnAssign(target=ast.Name(id=name)) if node.name.endswith(SETTINGS):
                    self._unit(name, one.lineno, "field", unit)
                    self._note(unit, one)
                case ast.Assign(targets=[ast.Name(id=name)]) if is_enum and not name.startswith("_"):
                    self._unit(name, one.lineno, "member", unit)
                    self._note(unit, one)
                case _:
                    self._note(unit, one)

    def _note(self, unit: Unit, node: ast.AST) -> None:
        """What a part of the text names."""
        imports = self._module.imports
        looked_into = {id(one.value) for one in ast.walk(node) if isinstance(one, ast.Attribute)}
        annotations = {id(part) for one in ast.walk(node) for part in _annotations_of(one)}
        for one in ast.walk(node):
            match one:
                case ast.Name(id=name, ctx=ast.Load()):
                    unit.names.add(imports.get(name, (self._module.name, name)))
                    if id(one) not in looked_into and id(one) not in annotations:
                        unit.wholes.add(imports.get(name, (self._module.name, name)))
                case ast.Attribute(attr=name, ctx=ast.Load()):
                    unit.attributes.add(name)
                    whole = _dotted(one.value, imports)
                    if whole:
                        unit.names.add((whole, name))
                case ast.MatchClass(kwd_attrs=names):
                    unit.attributes.update(names)
                case ast.Call(func=func, args=args) if _last_name(func) in _BY_NAME:
                    unit.attributes.update(
                        part
                        for arg in args
                        if isinstance(arg, ast.Constant) and isinstance(arg.value, str)
                        for part in arg.value.split(".")
                    )
                case ast.Constant(value=str(text)) if text.isidentifier() and text.startswith("_"):
                    unit.attributes.add(text)  # a table of private handlers by name
                case ast.arg(annotation=ast.expr() as annotation) | ast.AnnAssign(annotation=annotation):
                    self._note_quoted(unit, annotation)
                case ast.FunctionDef(returns=ast.expr() as annotation):
                    self._note_quoted(unit, annotation)
                case _:
                    pass

    def _note_quoted(self, unit: Unit, annotation: ast.expr) -> None:
        for one in ast.walk(annotation):
            if isinstance(one, ast.Constant) and isinstance(one.value, str):
                try:
                    self._note(unit, ast.parse(one.value, mode="eval"))
                except SyntaxError:
                    continue


_BY_NAME = frozenset({"getattr", "hasattr", "attrgetter", "methodcaller", "setattr"})
_HARMLESS = frozenset(
    {
        "abstractmethod", "asynccontextmanager", "cache", "cached_property", "classmethod", "contextmanager",
        "dataclass", "final", "lru_cache", "overload", "override", "property", "runtime_checkable", "staticmethod",
    }
)  # fmt: skip
"""Decorators that only change what they decorate; any other may register it with somebody who calls it."""


def _registers(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    return any(
        _last_name(one.func if isinstance(one, ast.Call) else one) not in _HARMLESS
        for one in node.decorator_list
    )


def _annotations_of(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.arg(annotation=ast.expr() as annotation) | ast.AnnAssign(annotation=annotation):
            yield from ast.walk(annotation)
        case (
            ast.FunctionDef(returns=ast.expr() as annotation)
            | ast.AsyncFunctionDef(returns=ast.expr() as annotation)
        ):
            yield from ast.walk(annotation)
        case _:
            return


def _last_name(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Subscript(value=value):
            return _last_name(value)
        case _:
            return ""


def _dotted(node: ast.expr, imports: Mapping[str, tuple[str, str]]) -> str:
    """The module that an expression stands for, or ''."""
    match node:
        case ast.Name(id=name):
            module, inside = imports.get(name, ("", "?"))
            return "" if inside else module
        case ast.Attribute(value=value, attr=name):
            above = _dotted(value, imports)
            return f"{above}.{name}" if above else ""
        case _:
            return ""


class Reach:
    """What the entry points lead to."""

    def __init__(
        self,
        modules: Mapping[str, Module],
        entries: Iterable[str],
        kept: Iterable[str] = (),
        exceptions: Iterable[str] = (),
    ) -> None:
        self._modules = modules
        self._kept = frozenset(kept)
        self.alive: set[int] = set()
        self._by_name: dict[str, list[Unit]] = {}
        for module in modules.values():
            for member in module.members:
                self._by_name.setdefault(member.name, []).append(member)
        self._members_of: dict[int, list[Unit]] = {}
        for module in modules.values():
            for member in module.members:
                self._members_of.setdefault(id(member.owner), []).append(member)
        self._attributes: set[str] = set()
        self._imported: set[str] = set()
        self._work: list[Unit] = []
        for entry in entries:
            for name in modules:
                if name == entry.removesuffix(".*") or (entry.endswith("*") and name.startswith(entry[:-1])):
                    self._import(name)
        wanted = frozenset(exceptions)
        for module in modules.values():
            for unit in (*module.units.values(), *module.members) if wanted else ():
                if unit.path in wanted:
                    self._live(unit)
        while self._work:
            self._follow(self._work.pop())

    def _import(self, name: str) -> None:
        waiting = [name]
        while waiting:
            module = self._modules.get(waiting.pop())
            if module is not None and module.name not in self._imported:
                self._imported.add(module.name)
                waiting.extend(module.leads_to)
                if module.body is not None:
                    self._work.append(module.body)

    def _defined(self, module: str, name: str) -> Unit | None:
        """Through the faces that only pass a name on."""
        for _ in range(10):
            known = self._modules.get(module)
            if known is None or (name not in known.units and name not in known.imports):
                return None
            if name in known.units:
                return known.units[name]
            module, name = known.imports[name]
        return None

    def _live(self, unit: Unit) -> None:
        if id(unit) not in self.alive:
            self.alive.add(id(unit))
            self._work.append(unit)

    def _follow(self, unit: Unit) -> None:
        for named in filter(None, (self._defined(*name) for name in unit.names)):
            if named is not unit:
                self._live(named)
        for named in filter(None, (self._defined(*name) for name in unit.wholes)):
            if named is not unit.owner:
                self._live_members(named, lambda member: member.what == "member")
        for name in unit.attributes - self._attributes:
            if unit.owner is None or name != unit.name:  # a method that only calls its like proves nothing
                self._attributes.add(name)
                for member in self._by_name.get(name, ()):
                    if id(member.owner) in self.alive:
                        self._live(member)
        if unit.what == "class":
            self._live_members(unit, self._is_called)

    def _live_members(self, of: Unit, which: Callable[[Unit], bool]) -> None:
        for member in self._members_of.get(id(of), ()):
            if which(member):
                self._live(member)

    def _is_called(self, member: Unit) -> bool:
        is_known = member.name in self._attributes or member.name in self._kept
        return is_known or member.what == "registered" or _is_special(member.name)

    def dead(self) -> Iterator[Unit]:
        for module in self._modules.values():
            for unit in (*module.units.values(), *module.members):
                is_inside = unit.owner is not None and id(unit.owner) not in self.alive
                if id(unit) not in self.alive and not is_inside and not _is_special(unit.name):
                    yield unit


def _is_special(name: str) -> bool:
    return name == "_" or (name.startswith("__") and name.endswith("__"))


def dead_in(
    root: Path,
    entries: Iterable[str] = ENTRIES,
    packages: Iterable[str] = PACKAGES,
    kept: Iterable[str] = (),
    exceptions: Iterable[str] = (),
) -> tuple[list[Unit], set[str]]:
    """What is dead, simnet's own by simnet's entries too; and the exceptions that nothing needs any more."""
    modules = modules_in(root, packages)
    found = _dead(modules, entries, kept, exceptions)
    without = {unit.path for unit in _dead(modules, entries, kept, ())} if exceptions else set()
    return found, set(exceptions) - without


def _dead(
    modules: Mapping[str, Module], entries: Iterable[str], kept: Iterable[str], exceptions: Iterable[str]
) -> list[Unit]:
    product = {name: module for name, module in modules.items() if not _is_of_simulator(name)}
    simulator = Reach(modules, entries, kept, exceptions).dead()
    return [
        *Reach(product, entries, kept, exceptions).dead(),
        *(unit for unit in simulator if _is_of_simulator(unit.module)),
    ]


def names_in_templates(root: Path, packages: Iterable[str] = PACKAGES) -> set[str]:
    """What templates of pages ask of the values that they are given."""
    files = [file for package in packages for file in (root / package).rglob("*.html")]
    asked = [one for file in files for one in _IN_TEMPLATE.findall(file.read_text())]
    return {name for one in asked for name in _ATTRIBUTE.findall(one)}


def _is_of_simulator(module: str) -> bool:
    return module.partition(".")[0] == "simnet"


def main() -> int:
    root = Path(__file__).parents[1]
    kept = {*CALLED_BY_LIBRARIES, *names_in_templates(root)}
    found, unneeded = dead_in(root, kept=kept, exceptions=EXCEPTIONS)
    for unit in found:
        print(f"{unit.module.replace('.', '/')}.py:{unit.line}: nothing reaches the {unit.what} {unit.path}")
    for path in sorted(unneeded):
        print(f"scripts/dead.py: {path} needs no exception any more")
    return 1 if found or unneeded else 0


if __name__ == "__main__":
    sys.exit(main())
