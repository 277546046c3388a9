"""Where does a peer live? The home folder: its layout, how it is made, and who may use it now."""

import contextlib
import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from platformdirs import user_data_path

from herodotus.config.load import read_toml
from herodotus.core.charter import Charter, NetworkId, shown_network_id
from herodotus.core.errors import CharterMismatch, FileSyntaxError, HomeInUse, Misuse, NotFound
from herodotus.files import storage_failure, write_durably

HOME_FORMAT = 1  # raised when an older release could not read a newer home
_FOLDERS = ("archive", "index", "queue", "state", "log")


@dataclass(frozen=True, slots=True)
class Home:
    path: Path

    @property
    def config(self) -> Path:
        return self.path / "config.toml"

    @property
    def charter(self) -> Path:
        return self.path / "network.toml"

    @property
    def key(self) -> Path:
        return self.path / "identity.key"

    @property
    def previous_key(self) -> Path:
        """The key before the last rotation, which vouches for the present one."""
        return self.path / "identity.previous.key"

    @property
    def record(self) -> Path:
        """What this peer last told the ring of itself."""
        return self.state / "record"

    @property
    def log(self) -> Path:
        return self.path / "log"

    @property
    def state(self) -> Path:
        return self.path / "state"

    @property
    def mark(self) -> Path:
        """Says that this is a home, of which format and which network."""
        return self.state / "home.json"

    @property
    def lock(self) -> Path:
        return self.state / "lock"

    def exists(self) -> bool:
        return self.mark.is_file()


def choose_home(flag: str | None, environment: Mapping[str, str] | None = None) -> Home:
    """`--home`, else `$HERODOTUS_HOME`, else the platform's folder for a user's data."""
    environment = os.environ if environment is None else environment
    chosen = flag or environment.get("HERODOTUS_HOME")
    return Home(
        Path(chosen).expanduser().absolute() if chosen else user_data_path("herodotus", appauthor=False)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NewHome:
    config: str
    charter: Charter
    key_pem: bytes


def create_home(home: Home, content: NewHome) -> None:
    """All of it or nothing: it is made beside its place and moved there in one step."""
    if home.path.exists() and any(home.path.iterdir()):
        raise HomeOccupied(home)
    made: Path | None = None
    try:
        home.path.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=".herodotus-", dir=home.path.parent))
        for name in _FOLDERS:
            (made / name).mkdir(mode=0o700)
        _fill(Home(made), content)
        made.replace(home.path)
    except OSError as error:
        raise storage_failure(error, home.path, "create") from error
    finally:
        if made is not None:
            shutil.rmtree(made, ignore_errors=True)


def _fill(home: Home, content: NewHome) -> None:
    mark = {"format": HOME_FORMAT, "network": content.charter.network_id().hex()}
    write_durably(home.key, content.key_pem, mode=0o600)
    write_durably(home.config, content.config.encode(), mode=0o600)
    write_durably(home.charter, content.charter.to_toml().encode())
    write_durably(home.mark, json.dumps(mark).encode())


class HomeOccupied(Misuse):
    def __init__(self, home: Home) -> None:
        self.home = home

    def __str__(self) -> str:
        if self.home.exists():
            return (
                f"{self.home.path} is already a home; `herodotus run --home {self.home.path}` starts its peer"
            )
        return f"{self.home.path} is not empty and not a home; choose another folder with --home"


class HomeMissing(NotFound):
    def __init__(self, home: Home) -> None:
        self.home = home

    def __str__(self) -> str:
        return f"{self.home.path} is not a home; make one with `herodotus init --home {self.home.path}`"


def open_home(home: Home) -> Charter:
    """The home's charter, once everything about the folder is found to be in order."""
    if not home.exists():
        raise HomeMissing(home)
    charter = read_charter(home.charter)
    check_network(charter, home, file=home.charter)
    return charter


def read_charter(path: Path) -> Charter:
    return Charter.from_table(read_toml(path), source=str(path))


def check_network(charter: Charter, home: Home, *, file: Path) -> None:
    """A home belongs to one network for life: its copies would mean nothing in another."""
    expected = _recorded_network(home)
    found = charter.network_id()
    if found != expected:
        raise CharterMismatch(
            file=str(file),
            found=f"{charter.name!r} ({shown_network_id(found)})",
            home=str(home.path),
            expected=shown_network_id(expected),
        )


def _recorded_network(home: Home) -> NetworkId:
    try:
        mark = json.loads(home.mark.read_bytes())
        version, network = int(mark["format"]), NetworkId(bytes.fromhex(mark["network"]))
    except OSError as error:
        raise storage_failure(error, home.mark, "read") from error
    except (ValueError, KeyError, TypeError) as error:
        hint = 'it should hold {"format": 1, "network": "..."}: restore it from a backup'
        raise FileSyntaxError(file=str(home.mark), problem="is damaged", hint=hint) from error
    if version > HOME_FORMAT:
        hint = f"upgrade herodotus: this release reads formats up to {HOME_FORMAT}"
        raise FileSyntaxError(
            file=str(home.path), problem=f"was written by a newer release (format {version})", hint=hint
        )
    return network


@contextlib.contextmanager
def locked(home: Home) -> Iterator[None]:
    """One process per home. The kernel lets go when the holder dies, so a stale lock heals itself."""
    try:
        descriptor = os.open(home.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise storage_failure(error, home.lock, "open") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise HomeInUse(home=str(home.path), pid=_pid_in(descriptor)) from None
        _write_note(descriptor, {"pid": os.getpid()}, home)
        yield
        os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def publish_address(home: Home, http: str) -> None:
    """Written into the lock we hold: where `herodotus status` finds this peer."""
    descriptor = os.open(home.lock, os.O_RDWR)
    try:
        _write_note(descriptor, {"pid": os.getpid(), "http": http}, home)
    finally:
        os.close(descriptor)


def _write_note(descriptor: int, note: dict[str, object], home: Home) -> None:
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(note).encode(), 0)
    except OSError as error:
        raise storage_failure(error, home.lock, "write") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """The process that holds a home; `http` is empty until it serves."""

    pid: int
    http: str


def running_on(home: Home) -> Running | None:
    """Who holds the home now? Asked of the kernel, as a note alone may be of the dead."""
    try:
        descriptor = os.open(home.lock, os.O_RDONLY)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise storage_failure(error, home.lock, "read") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        note = _note_in(descriptor)
        http = note.get("http")
        return Running(pid=_pid_in(descriptor), http=http if isinstance(http, str) else "")
    else:
        return None
    finally:
        os.close(descriptor)


def wait_released(home: Home) -> None:
    """Block this thread until no process holds the home."""
    descriptor = os.open(home.lock, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


def _note_in(descriptor: int) -> dict[str, object]:
    try:
        note = json.loads(os.pread(descriptor, 4096, 0))
    except ValueError:
        return {}
    return note if isinstance(note, dict) else {}


def _pid_in(descriptor: int) -> int:
    pid = _note_in(descriptor).get("pid")
    return pid if isinstance(pid, int) else 0
