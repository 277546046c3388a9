"""Where does a peer live? The home folder: its layout, how it is made, and which process may use it now."""

import contextlib
import fcntl
import json
import os
import shlex
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from platformdirs import user_data_path

from herodotus.core.charter import (
    NETWORK_ID_BYTES,
    Charter,
    NetworkId,
    check_protocol,
    shown_network_id,
)
from herodotus.core.errors import (
    CharterMismatch,
    FileSyntaxError,
    HomeInUse,
    Misuse,
    NotFound,
    StorageFailure,
)
from herodotus.home.durable import opened, set_aside, storage_failure, sync_folder, write_durably
from herodotus.home.toml_files import read_toml

HOME_FORMAT = 1  # raised when an older release could not read a newer home
_FOLDERS = ("archive", "index", "queue", "state", "log")
_IGNORED = frozenset({"lost+found"})  # what a freshly made disk holds
_MARK_BYTES_MAX = 10_000  # the mark is about 100 bytes
_NOTE_BYTES = 512  # a note in the lock is padded to this, so that one write replaces it whole
_ASKERS_MAX = 10_000  # tries while other processes only ask who holds the lock, for microseconds


@dataclass(frozen=True, slots=True)
class Home:
    path: Path

    @property
    def quoted(self) -> str:
        """The path as it stands in a command that people paste into a shell."""
        return shlex.quote(str(self.path))

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
        """The key before the last rotation; it vouches for the present one."""
        return self.path / "identity.previous.key"

    @property
    def record(self) -> Path:
        """The record that this peer last published."""
        return self.state / "record"

    @property
    def met(self) -> Path:
        """Peers met before."""
        return self.state / "peers"

    @property
    def observation(self) -> Path:
        """How long this peer has known each member, by its own sight."""
        return self.state / "observation"

    @property
    def seats(self) -> Path:
        """From where the other members' seats are."""
        return self.state / "seats"

    @property
    def rendezvous(self) -> Path:
        return self.state / "rendezvous"

    @property
    def traffic(self) -> Path:
        """The traffic of each month."""
        return self.state / "traffic.json"

    @property
    def door(self) -> Path:
        """The socket on which a running peer takes its operator's orders."""
        return self.state / "door"

    @property
    def token(self) -> Path:
        """The secret by which the portal knows the peer's operator."""
        return self.state / "operator.token"

    @property
    def exchange(self) -> Path:
        """Links that wait for delivery, and URLs remembered for others."""
        return self.state / "exchange"

    @property
    def paused(self) -> Path:
        """Exists while the operator wants the peer not to crawl."""
        return self.state / "paused"

    @property
    def draining(self) -> Path:
        """Exists while the peer is leaving for good."""
        return self.state / "draining"

    @property
    def words(self) -> Path:
        """The index of words: derived from the archive, may be deleted while no peer runs."""
        return self.path / "words"

    @property
    def log(self) -> Path:
        return self.path / "log"

    @property
    def state(self) -> Path:
        return self.path / "state"

    @property
    def tenure(self) -> Path:
        """Since when this peer has held which keys."""
        return self.state / "tenure.json"

    @property
    def quotas(self) -> Path:
        """The bytes that each other peer brought today."""
        return self.state / "quotas.json"

    @property
    def helpers(self) -> Path:
        """How far peers are trusted that fetch for this one."""
        return self.state / "helpers.json"

    @property
    def copies(self) -> Path:
        """New captures that other holders do not have yet."""
        return self.state / "copies"

    @property
    def failed_holders(self) -> Path:
        """Which holders failed their proofs."""
        return self.state / "failed-holders.json"

    @property
    def mark(self) -> Path:
        """Says that this is a home, of which format and which network."""
        return self.state / "home.json"

    @property
    def lock(self) -> Path:
        return self.state / "lock"

    def exists(self) -> bool:
        try:
            return stat.S_ISREG(self.mark.stat().st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:  # it may exist, but we may not look
            raise storage_failure(error, self.path, "look into") from error


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
    """Makes all of it or nothing: beside its place, then moved there in one step.

    An empty folder may be a mounted disk, and nothing can be moved onto that: it is filled in place, and the mark that
    makes it a home comes last.
    """
    try:
        if not home.path.exists():
            _create_new(home, content)
        elif not home.path.is_dir() or any(entry.name not in _IGNORED for entry in home.path.iterdir()):
            raise HomeOccupied(home)
        else:
            _fill_existing(home, content)
    except OSError as error:
        raise storage_failure(error, home.path, "create") from error


def _create_new(home: Home, content: NewHome) -> None:
    new_parents = [one for one in home.path.parents if not one.exists()]  # the nearest first
    made: Path | None = None
    try:
        home.path.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=".herodotus-", dir=home.path.parent))
        _fill(Home(made), content)
        made.replace(home.path)
        sync_folder(home.path.parent)
    except BaseException:
        if made is not None:
            shutil.rmtree(made, ignore_errors=True)
        for folder in new_parents:
            with contextlib.suppress(OSError):  # somebody else may use it by now
                folder.rmdir()
        raise


def _fill_existing(home: Home, content: NewHome) -> None:
    try:
        _fill(home, content)
    except BaseException:
        for name in _FOLDERS:
            shutil.rmtree(home.path / name, ignore_errors=True)
        for file in (home.key, home.config, home.charter):
            with contextlib.suppress(OSError):
                file.unlink(missing_ok=True)
        raise


def _fill(home: Home, content: NewHome) -> None:
    for name in _FOLDERS:
        (home.path / name).mkdir(mode=0o700)
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
            return f"{self.home.path} is already a home; `herodotus run --home {self.home.quoted}` starts its peer"
        if not self.home.path.is_dir():
            return f"{self.home.path} is not a folder; choose another place with --home"
        return f"{self.home.path} is not empty and not a home; choose another folder with --home"


class HomeMissing(NotFound):
    def __init__(self, home: Home) -> None:
        self.home = home

    def __str__(self) -> str:
        return f"{self.home.path} is not a home; make one with `herodotus init --home {self.home.quoted}`"


def open_home(home: Home) -> Charter:
    """The home's charter, after the folder has been checked."""
    if not home.exists():
        raise HomeMissing(home)
    charter = read_charter(home.charter)
    check_network(charter, home, file=home.charter)
    return charter


def read_charter(path: Path) -> Charter:
    charter = Charter.from_table(read_toml(path), source=str(path))
    check_protocol(charter, source=str(path))
    return charter


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
    hint = 'it should hold {"format": 1, "network": "..."}: restore it from a backup'
    try:
        with home.mark.open("rb") as file:
            mark = json.loads(file.read(_MARK_BYTES_MAX))
        version = mark["format"]
        if isinstance(version, int) and version > HOME_FORMAT:
            upgrade = f"upgrade herodotus: this release reads formats up to {HOME_FORMAT}"
            problem = f"was written by a newer release (format {version:.0f})"
            raise FileSyntaxError(file=str(home.path), problem=problem, hint=upgrade)
        network = NetworkId(bytes.fromhex(mark["network"]))
    except OSError as error:
        raise storage_failure(error, home.mark, "read") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise FileSyntaxError(file=str(home.mark), problem="is damaged", hint=hint) from error
    if version != HOME_FORMAT or len(network) != NETWORK_ID_BYTES:
        raise FileSyntaxError(file=str(home.mark), problem="is damaged", hint=hint)
    return network


class HomeLock:
    """Held by this process. The kernel releases it when its holder dies."""

    def __init__(self, home: Home, held: contextlib.ExitStack) -> None:
        self._home = home
        self._held = held
        self._take()

    def _take(self) -> None:
        if self._home.lock.is_dir():
            set_aside(self._home.lock)
        descriptor = self._held.enter_context(opened(self._home.lock, os.O_RDWR | os.O_CREAT))
        if not _taken(descriptor):
            raise HomeInUse(home=str(self._home.path), pid=_pid_in(descriptor))
        self._descriptor = descriptor
        self._write({"pid": os.getpid()})

    def _write(self, note: dict[str, object]) -> None:
        self._note = note
        _write_note(self._descriptor, note, self._home)

    def publish(self, http: str) -> None:
        """Where `herodotus status` finds this peer."""
        self._write({"pid": os.getpid(), "http": http})

    def hold_on(self) -> bool:
        """Take it again where its file is gone or a folder is there: commands would think that no peer runs. True: it
        was. Raises OSError, HerodotusError."""
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(self._home.lock.stat(), os.fstat(self._descriptor)):
                return False
        note = self._note
        self._take()
        self._write(note)
        return True

    def release(self) -> None:
        os.ftruncate(self._descriptor, 0)


@contextlib.contextmanager
def locked(home: Home) -> Iterator[HomeLock]:
    """One process for each home."""
    with contextlib.ExitStack() as held:
        lock = HomeLock(home, held)
        yield lock
        lock.release()


def _taken(descriptor: int) -> bool:
    """Whether the lock is ours now. `running_on` shares it for an instant; that must not look like use."""
    for _ in range(_ASKERS_MAX):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not _is_shareable(descriptor):
                return False
        else:
            return True
    return False


def _is_shareable(descriptor: int) -> bool:
    """Whether nobody holds the lock for himself."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    return True


def _write_note(descriptor: int, note: dict[str, object], home: Home) -> None:
    try:
        os.pwrite(descriptor, json.dumps(note).encode().ljust(_NOTE_BYTES), 0)
    except OSError as error:
        raise storage_failure(error, home.lock, "write") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """The process that holds a home; `http` is empty until it serves."""

    pid: int
    http: str


def running_on(home: Home) -> Running | None:
    """Which process holds the home now? The kernel answers, because a note may be of a dead process."""
    try:
        with opened(home.lock, os.O_RDONLY, "read") as descriptor:
            if _is_shareable(descriptor):
                return None
            http = _note_in(descriptor).get("http")
            return Running(pid=_pid_in(descriptor), http=http if isinstance(http, str) else "")
    except StorageFailure as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return None
        raise


def wait_released(home: Home) -> None:
    """Block this thread until no process holds the home."""
    with opened(home.lock, os.O_RDONLY) as descriptor:
        fcntl.flock(descriptor, fcntl.LOCK_SH)


def _note_in(descriptor: int) -> dict[str, object]:
    try:
        note = json.loads(os.pread(descriptor, _NOTE_BYTES, 0))
    except (ValueError, RecursionError):
        return {}
    return note if isinstance(note, dict) else {}


def _pid_in(descriptor: int) -> int:
    pid = _note_in(descriptor).get("pid")
    return pid if isinstance(pid, int) else 0
