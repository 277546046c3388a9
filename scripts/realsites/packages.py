"""How does a site of the corpus come to be a folder? By the ordinary clients of npm, Debian and PyPI, once.

What was fetched is kept, each package by its name and version, and each site as a folder. No script of a package runs,
but for sites that are built: there their builder does.
"""

import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterable
from pathlib import Path

WAIT_S = 900


class MissingError(Exception):
    """A program, package or page that a site needs is not to be had."""


def run(*words: str | Path, cwd: Path | None = None, **environment: str) -> None:
    command = [str(word) for word in words]
    program = shutil.which(command[0], path=environment.get("PATH"))
    if program is None:
        raise MissingError(f"{command[0]} is not installed")
    command[0] = program
    done = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, timeout=WAIT_S, check=False, stdin=subprocess.DEVNULL,
        env={**os.environ, **environment},
    )  # fmt: skip
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise MissingError(f"{' '.join(command[:4])}: {' / '.join(said[-3:])[:300]}")


def kept(folder: Path, make: Callable[[Path], None]) -> Path:
    """Made once: half of one is never taken for the whole."""
    if not folder.exists():
        new = folder.with_name(f"{folder.name}.new")
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(parents=True)
        make(new)
        new.rename(folder)
    return folder


def npm_package(cache: Path, package: str) -> Path:
    """`name@version`, as it was published."""

    def make(folder: Path) -> None:
        run("npm", "pack", "--silent", "--pack-destination", folder, package)
        (archive,) = folder.glob("*.tgz")
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
        archive.unlink()

    folder = kept(cache / "npm" / package.replace("/", "+"), make)
    return next(one for one in folder.iterdir() if one.is_dir())


def debian_packages(cache: Path, names: Iterable[str]) -> Path:
    """The root of a system that has these packages and nothing else."""

    def make(folder: Path) -> None:
        for name in names:
            run("apt-get", "-o", "APT::Sandbox::User=root", "download", name, cwd=folder)
        for archive in sorted(folder.glob("*.deb")):
            run("dpkg-deb", "-x", archive, folder)
            archive.unlink()

    return kept(cache / "debian" / "+".join(names), make)


def python_tools(cache: Path, packages: Iterable[str]) -> Path:
    """An environment that has these."""

    def make(folder: Path) -> None:
        folder.rmdir()  # an environment knows its place, so it is made there
        final = folder.with_name(folder.name.removesuffix(".new"))
        run("python3", "-m", "venv", final)
        try:
            run(final / "bin" / "python", "-m", "pip", "install", "--quiet", *packages)
        except MissingError:
            shutil.rmtree(final)
            raise

    folder = cache / "python" / "+".join(packages)
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        new = folder.with_name(f"{folder.name}.new")
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir()
        make(new)
    return folder


def copied(root: Path, source: Path, target: Path) -> None:
    """With what its links lead to, as long as that is below `root`, which stands for the root of a system."""
    target.mkdir(parents=True, exist_ok=True)
    for one in sorted(source.iterdir()):
        real = _followed(root, one)
        if real is not None and real.is_dir():
            copied(root, real, target / one.name)
        elif real is not None and not (target / one.name).exists():
            os.link(real, target / one.name)


def _followed(root: Path, path: Path) -> Path | None:
    for _ in range(8):
        if not path.is_symlink():
            break
        leads = path.readlink()
        path = root / str(leads).lstrip("/") if leads.is_absolute() else path.parent / leads
    path = Path(os.path.normpath(path))
    real = Path(os.path.realpath(path))
    is_below = real.is_relative_to(os.path.realpath(root))
    return real if real.exists() and is_below else None
