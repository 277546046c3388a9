"""How does an operator work on the archive of a home? The archive's commands, put into the frame of all commands.

`herodotus.operate.cli.archive` says what each does; here they get the frame's home, its lock and its `--json`. A
running peer holds the lock and the archive: then the order goes to that peer, through the socket in its home.
"""

import os
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

import click

from herodotus.core.errors import HomeInUse
from herodotus.home.folder import locked, open_home
from herodotus.operate.cli.archive import COMMANDS, performer_of
from herodotus.operate.cli.frame import CommandFrame, common_options, json_option, main, pass_frame
from herodotus.operate.cli.remove import remove_command
from herodotus.operate.offer import own_peer_id
from herodotus.operate.order_socket import ask_at_door
from herodotus.operate.remote_archive import read_from
from herodotus.store.settings import archive_settings

_FROM_FRAME = frozenset({"home", "is_json"})
_FOR_OTHERS = frozenset({"export_command", "get_command"})  # their files are handed on
_STORING = frozenset({"import_command"})  # these keep within the disk that was offered
_OF_OTHERS = frozenset({"get", "history"})


def framed(command: click.Command) -> Callable[..., None]:
    """The command's work, with what the frame knows filled in."""
    work = command.callback
    assert work is not None
    takes_json = any(parameter.name == "is_json" for parameter in command.params)

    def call(frame: CommandFrame, peer: str | None = None, **values: Any) -> None:
        values |= {"home": frame.home.path} | ({"is_json": frame.is_json} if takes_json else {})
        if peer is not None:
            work(by=partial(read_from, peer), **values)
            return
        charter = open_home(frame.home)
        if work.__name__ not in _FOR_OTHERS:
            os.umask(0o077)  # what it leaves in the home is for its owner alone
        effective = frame.effective()
        frame.configure_logs(effective)
        with ExitStack() as held:
            try:
                held.enter_context(locked(frame.home))
            except HomeInUse:
                if not frame.home.door.exists():  # the holder is another command, such as a crawl
                    raise
                values["by"] = partial(ask_at_door, frame.home)
            if work.__name__ in _STORING and "by" not in values:
                files = archive_settings(effective.settings, charter, own_peer_id(frame.home))
                values["by"] = performer_of(frame.home.path, files)
            work(**values)

    call.__doc__ = command.help
    return json_option(pass_frame(call)) if takes_json else pass_frame(call)


def _register(command: click.Command) -> None:
    work = framed(command)
    if command.name in _OF_OTHERS:
        work = click.option("--peer", metavar="URL", help="Ask this peer instead of the home's archive.")(
            work
        )
    mine = main.command(command.name)(common_options(work))
    mine.params = [p for p in command.params if p.name not in _FROM_FRAME] + mine.params


for _command in (*COMMANDS, remove_command):
    _register(_command)
