"""How does a peer become a service of its user, started with the machine and restarted when it falls?

`core/service_unit.py` makes the text of the unit; here it is put where systemd's user manager looks for it, and the
manager is told. Only --replace replaces or removes a unit that its owner changed; the old one stays beside it.
"""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from herodotus.core.errors import FileMisuse, NotFound, WorldFailure
from herodotus.core.service_unit import UNIT_BYTES_MAX, is_unchanged
from herodotus.home.durable import storage_failure, write_durably

_ANSWER_S = 60.0  # starting waits until the peer says that it is ready


class NoServiceManager(WorldFailure):
    def __init__(self, reason: str) -> None:
        super().__init__(
            f"systemd's user manager cannot be reached: {reason}; `herodotus service install --print` shows the"
            " unit, and under another service manager `herodotus run` is the command to keep alive"
        )


def unit_file(name: str) -> Path:
    """Where the user manager looks: systemd.unit(5)."""
    chosen = os.environ.get("XDG_CONFIG_HOME", "")
    folder = Path(chosen) if chosen.startswith("/") else Path.home() / ".config"
    return folder / "systemd" / "user" / f"{name}.service"


def own_program() -> tuple[str, ...]:
    """The command that started us, as a place that an upgrade by pip, pipx or uv keeps."""
    beside = Path(sys.executable).with_name("herodotus")
    return (str(beside),) if os.access(beside, os.X_OK) else (sys.executable, "-m", "herodotus")


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenUnit:
    """What happened to the file; `kept` is the former file, put aside."""

    file: Path
    outcome: str
    kept: Path | None = None


def write_unit(file: Path, text: str, *, replaces: bool) -> WrittenUnit:
    """Write the unit. A unit that was changed since is replaced only if `replaces`, and kept beside."""
    before = read_unit(file)
    if before == text:
        return WrittenUnit(file=file, outcome="was there already")
    kept = None
    if before is not None and not is_unchanged(before):
        if not replaces:
            raise FileMisuse(
                file=str(file),
                problem="was changed since it was written",
                hint="--replace writes it again and keeps yours beside it; --print shows the new one",
            )
        kept = file.with_suffix(".service.before")
        _put(kept, before)
    _put(file, text)
    return WrittenUnit(file=file, outcome="wrote" if before is None else "updated", kept=kept)


def remove_unit(file: Path, *, replaces: bool) -> None:
    if not is_unchanged(installed_unit(file)) and not replaces:
        raise FileMisuse(
            file=str(file),
            problem="was changed since it was written",
            hint="--replace removes it anyway",
        )
    try:
        file.unlink()
    except OSError as error:
        raise storage_failure(error, file, "remove") from error


def installed_unit(file: Path) -> str:
    text = read_unit(file)
    if text is None:
        raise NotFound(f"there is no {file}; `herodotus service install` makes it")
    return text


def read_unit(file: Path) -> str | None:
    try:
        with file.open("rb") as opened:
            return opened.read(UNIT_BYTES_MAX).decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise storage_failure(error, file, "read") from error


def _put(file: Path, text: str) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise storage_failure(error, file.parent, "create") from error
    write_durably(file, text.encode("utf-8", "surrogateescape"))


# -- the user manager -------------------------------------------------------------------------------------


def check_manager() -> None:
    """Called before anything is written: without a manager nothing would read it."""
    _shown("--property=Version")


def order(what: str, *arguments: str) -> None:
    done = _systemctl(*arguments)
    if done.returncode != 0:
        sentence = f"systemd did not {what}: {_sentence(done)}; `journalctl --user -u herodotus` says more"
        raise WorldFailure(sentence)


def facts_of(name: str) -> dict[str, str]:
    """How the manager sees the unit."""
    wanted = ("LoadState", "ActiveState", "SubState", "UnitFileState", "MainPID", "Result", "StatusText")
    shown = _shown(f"--property={','.join(wanted)}", f"{name}.service")
    lines = (line.partition("=") for line in shown.splitlines())
    return {key: value for key, _, value in lines if key in wanted}


def _shown(*arguments: str) -> str:
    done = _systemctl("show", *arguments)
    if done.returncode != 0:
        raise NoServiceManager(_sentence(done))
    return done.stdout


def _systemctl(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = ["systemctl", "--user", "--no-pager", "--no-ask-password", *arguments]
    try:
        return subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_ANSWER_S, check=False
        )
    except FileNotFoundError as error:
        raise NoServiceManager("there is no systemctl on this machine") from error
    except subprocess.TimeoutExpired as error:
        raise NoServiceManager(f"no answer within {_ANSWER_S:g} s") from error


def _sentence(done: "subprocess.CompletedProcess[str]") -> str:
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    return lines[0][:300].rstrip(".") if lines else f"exit code {done.returncode}"
