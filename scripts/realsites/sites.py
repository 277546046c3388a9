"""Which real sites are looked at, and how does each become a folder? `corpus/sites.toml` lists them.

Most are shown as they were published. Where a package has no page of its own, it gets the one of its README; a CDN
is another host. Some are built here, as their users build them.
"""

import os
import shutil
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from scripts.realsites.packages import (
    MissingError,
    copied,
    debian_packages,
    kept,
    npm_package,
    python_tools,
    run,
)

CORPUS = Path(__file__).with_name("corpus")
SHORT = ("faq", "haddock", "swagger", "reveal", "redoc", "impress")
"""Little to fetch, and quick."""
_GROUPS = {
    "@sphinx": (
        *(
            "libjs-sphinxdoc",
            "libjs-jquery",
            "libjs-underscore",
            "libjs-modernizr",
            "sphinx-rtd-theme-common",
        ),
        *("fonts-lato", "fonts-font-awesome", "fonts-roboto-slab", "fonts-roboto-unhinted"),
    )
}
_DATE = "1700000000"
"""Of all that is built: builders like to write when they did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The fields are those of the list, which explains them."""

    name: str
    is_application: bool
    pages: Sequence[str] = ("",)
    fallback: str = ""
    cdn: str = ""
    npm: Mapping[str, str] = field(default_factory=dict)
    debian: Sequence[str] = ()
    root: str = ""
    python: Sequence[str] = ()
    build: Sequence[str] = ()
    built: str = ""
    overlays: Sequence[str] = ()

    @property
    def host(self) -> str:
        return f"{self.name}.example"

    @property
    def cdn_host(self) -> str:
        return f"cdn-{self.name}.example"

    def folder(self, cache: Path) -> Path:
        """Made once. Raises MissingError."""
        made = kept(cache / "sites" / self.name, partial(self._make, cache))
        lacking = [page for page in self.pages if not self._has(made, page)]
        if lacking:
            raise MissingError(f"{self.name} has no {', '.join(lacking)}")
        return made

    def _has(self, made: Path, page: str) -> bool:
        return bool(self.fallback) or (made / page).is_file() or (made / page / "index.html").is_file()

    def _make(self, cache: Path, folder: Path) -> None:
        for place, part in self.npm.items():
            at = part.index("@", 1)
            version, _, below = part[at:].partition("/")
            package = npm_package(cache, part[:at] + version)
            copied(package, package / below, folder / place)
        if self.debian:
            root = debian_packages(cache, [one for name in self.debian for one in _GROUPS.get(name, (name,))])
            copied(root, root / "usr/share" / self.root, folder)
        if self.build:
            self._build(cache, folder)
            return
        for overlay in self.overlays or [self.name]:
            _lay_over(CORPUS / overlay, folder)

    def _build(self, cache: Path, folder: Path) -> None:
        work = cache / "work" / self.name
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(CORPUS / self.name, work)
        tools = [str(python_tools(cache, self.python) / "bin")] if self.python else []
        if (work / "package.json").exists():
            run("npm", "install", "--silent", "--no-audit", "--no-fund", cwd=work)
        path = os.pathsep.join([*tools, os.environ["PATH"]])
        run(*self.build, cwd=work, PATH=path, CI="true", SOURCE_DATE_EPOCH=_DATE)
        copied(work, work / self.built, folder)


def _lay_over(source: Path, folder: Path) -> None:
    for file in sorted(one for one in source.rglob("*") if one.is_file()):
        target = folder / file.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)  # the package's own is one file with that in the cache
        shutil.copy(file, target)


def listed() -> tuple[Site, ...]:
    return tuple(Site(**one) for one in tomllib.loads((CORPUS / "sites.toml").read_text())["site"])
