"""Where do archived pages live, if the operator gave them a place of their own, and which scripts of ours go there?

A second name of the same port. Pages shown there share an origin with each other, so they have storage, say where
their requests come from, and may have a service worker; the portal has another origin, so they reach nothing of it.
The service worker is ours, or a file of the operator's choice that is served as it is.
"""

from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from herodotus.core.errors import SettingError
from herodotus.core.replay import (
    GUARD_PATH,
    GUARD_SCRIPT,
    WORKER_PATH,
    WORKER_SCRIPT,
    checked_origin,
    script_headers,
)
from herodotus.core.settings.sections import HttpSettings
from herodotus.portal.answer import Answer

WORKER_BYTES_MAX = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayPlace:
    """Without an origin there is no such place, and archived pages are in a sandbox."""

    origin: str = ""
    portal_origin: str = ""
    """Of the page around an archived one, for windows that were opened at the wrong name."""
    worker: bytes = field(default=WORKER_SCRIPT.encode(), repr=False)

    def script(self, path: str, *, is_replay: bool) -> Answer | None:
        """None: no script of ours. A service worker is given out at its own place only."""
        if path == f"/web/{GUARD_PATH}":
            return _script(GUARD_PATH, GUARD_SCRIPT.encode())
        if path == f"/web/{WORKER_PATH}" and is_replay:
            return _script(WORKER_PATH, self.worker)
        return None


def replay_place(http: HttpSettings) -> ReplayPlace:
    """As the operator set it; SettingError where it cannot be."""
    if not http.replay_url:
        if http.service_worker:
            raise _refused(
                "http.service_worker", "needs http.replay_url: in a sandbox there are no service workers"
            )
        return ReplayPlace()
    portal, replay = _origin(http.public_url), _origin(http.replay_url)
    if not portal:
        raise _refused("http.replay_url", "needs http.public_url, the name of the portal itself")
    if not replay or urlsplit(replay).hostname == urlsplit(portal).hostname:
        raise _refused("http.replay_url", "must be an address under another name than http.public_url")
    worker = _read(http.service_worker) if http.service_worker else WORKER_SCRIPT.encode()
    return ReplayPlace(origin=replay, portal_origin=portal, worker=worker)


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return checked_origin(parts.scheme, parts.netloc) or ""


def _read(name: str) -> bytes:
    try:
        with Path(name).open("rb") as file:
            worker = file.read(WORKER_BYTES_MAX + 1)
    except OSError as error:
        raise _refused("http.service_worker", f"{name}: {(error.strerror or str(error)).lower()}") from error
    if len(worker) > WORKER_BYTES_MAX:
        raise _refused("http.service_worker", f"{name} has more than {WORKER_BYTES_MAX} bytes")
    return worker


def _refused(key: str, problem: str) -> SettingError:
    return SettingError(source="config.toml", key=key, problem=problem)


def _script(path: str, body: bytes) -> Answer:
    headers = script_headers(path, "/web/")
    return Answer(content_type=headers.pop("Content-Type"), body=body, headers=headers)
