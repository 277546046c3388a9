"""What does systemd need to know to run a peer? The text of a user unit, and whether somebody changed one since.

`packaging/systemd/herodotus.service` is made from here (`scripts/docs.py`), and `herodotus service install` writes
the same for the home and the program at hand. The first line carries a digest of all that follows, so that an owner's
edit can be distinguished from the text of an older release.
"""

import hashlib
from dataclasses import dataclass

_MARK = "# Made by herodotus; sha256 of what follows: "
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+:@=,")
UNIT_BYTES_MAX = 100_000
"""A unit has about 3 kB."""

# Filters of system calls, which any user may ask for; what follows `_CONFINED` needs namespaces of users, which some
# distributions close to programs without privileges: there a unit with them does not start at all.
_TEMPLATE = """\
[Unit]
Description=Herodotus, a peer of the web archive
After=network-online.target
Wants=network-online.target

[Service]
Type=notify
NotifyAccess=main
ExecStart={command}
# For HERODOTUS_PASSPHRASE and settings; the file must be yours alone (chmod 600).
EnvironmentFile=-%E/herodotus/environment
Restart=on-failure
RestartSec=10
# 2: something is written wrong, 3: there is no home. Starting again would repair neither.
RestartPreventExitStatus=2 3
WatchdogSec=60
TimeoutStopSec={stop_s}
UMask=0077
# A core dump would hold the key.
LimitCORE=0
LimitNOFILE=8192
NoNewPrivileges=yes
LockPersonality=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
RestrictNamespaces=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
{confined}
[Install]
WantedBy=default.target
"""
_CONFINED = """\
# The peer sees the system and the home folder of its user, but writes to its own home alone.
PrivateUsers=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectSystem=strict
ProtectHome=read-only
ReadWritePaths={home}
InaccessiblePaths=-%h/.ssh -%h/.gnupg -%h/.aws -%h/.config/gh -%h/.mozilla
ProtectKernelTunables=yes
ProtectControlGroups=yes
"""
_AFTER_DRAIN_S = 7
"""For closing the archive, once the open work has ended or had its time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServicePlan:
    """`program` begins the command line. The defaults are the place where pipx and uv install it, and the usual
    home."""

    program: tuple[str, ...] = ()
    home: str | None = None
    drain_s: float = 8.0
    is_confined: bool = False


def unit_text(plan: ServicePlan) -> str:
    words = [quoted(word, in_command=True) for word in plan.program] or ["%h/.local/bin/herodotus"]
    words += [] if plan.home is None else ["--home", quoted(plan.home, in_command=True)]
    confined = ""
    if plan.is_confined:
        home = "%h/.local/share/herodotus" if plan.home is None else quoted(plan.home)
        confined = _CONFINED.format(home=home)
    body = _TEMPLATE.format(
        command=" ".join([*words, "run", "--quiet"]),
        stop_s=int(plan.drain_s) + _AFTER_DRAIN_S,
        confined=confined,
    )
    return f"{_MARK}{_digest(body)}\n{body}"


def is_unchanged(text: str) -> bool:
    """Whether the unit is as some release of ours wrote it."""
    first, _, body = text.partition("\n")
    return first == f"{_MARK}{_digest(body)}"


def quoted(word: str, *, in_command: bool = False) -> str:
    """As systemd reads it: it expands % everywhere and $ in commands, and splits at blanks."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("\n", "\\n")
    escaped = escaped.replace("$", "$$") if in_command else escaped
    return escaped if set(word) <= _PLAIN else f'"{escaped}"'


def _digest(body: str) -> str:
    return hashlib.sha256(body.encode("utf-8", "surrogateescape")).hexdigest()
