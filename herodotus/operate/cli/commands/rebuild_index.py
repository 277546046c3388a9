"""How does a lost index come back? `rebuild-index`."""

import shutil

import click

from herodotus.core.orders import RebuildIndex, RebuildWords
from herodotus.home.folder import locked, open_home
from herodotus.operate.cli.archive_access import archive_access, order_running_peer
from herodotus.operate.cli.frame import CommandFrame, framed, main
from herodotus.operate.cli.printing import say


@main.command()
@click.option(
    "--words", "is_of_words", is_flag=True, help="Only the index of words, by which pages are found."
)
@framed()
def rebuild_index(frame: CommandFrame, is_of_words: bool) -> None:
    """Rebuild the index from the WARC files alone.

    The index of words follows by itself. With --words it alone is made again: by a running peer, which answers
    from the present one meanwhile, or when the peer runs next.
    """
    if is_of_words:
        _rebuild_words(frame)
        return
    with archive_access(frame) as archive:
        say(f"{archive.perform(RebuildIndex()).facts['captures']} captures indexed")


def _rebuild_words(frame: CommandFrame) -> None:
    open_home(frame.home)
    if order_running_peer(frame, RebuildWords()) is not None:
        say("the index of words is being made again; herodotus status says how far it is")
        return
    with locked(frame.home):
        shutil.rmtree(frame.home.words, ignore_errors=True)
    say("the index of words will be made again when the peer runs")
