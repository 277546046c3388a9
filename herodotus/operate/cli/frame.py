"""What do all commands share? Options that stand before or after the subcommand, errors, exit codes, logging.

Data goes to stdout and messages to stderr. An expected error is one sentence and its family's exit code. An
unexpected one is a sentence too, with its traceback under `--debug`.

Each command, `--help` and `--version` wait for what this module imports; so what only some commands need is imported
when they ask for it.
"""

import logging
import re
import sys
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from io import StringIO
from math import isnan
from operator import add, or_, sub
from pathlib import Path
from pkgutil import get_data, iter_modules
from typing import TYPE_CHECKING, Any, NoReturn

import click

from crawler.core.errors import CrawlWorldError
from herodotus.core.errors import HerodotusError, NotFound, WorldFailure
from herodotus.operate.cli import commands
from herodotus.operate.cli.printing import escaped, print_json, print_line, say, say_text

if TYPE_CHECKING:
    from rich.console import Console

    from herodotus.home.folder import Home, Running
    from herodotus.operate.settings.load import Effective, Layer

HELP = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class _Seconds(click.FloatRange):
    """`nan` is within every range, as click compares."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        seconds: float = super().convert(value, param, ctx)
        if isnan(seconds):
            self.fail(f"{value!r} is not a number of seconds.", param, ctx)
        return seconds


SECONDS = _Seconds(0, 86_400)


@dataclass(slots=True)
class CommandFrame:
    """The options that every command has, wherever they stood on the line."""

    home_flag: str | None = None
    loudness: int = 0
    is_debug: bool = False
    is_json: bool = False
    _console: "Console | None" = None

    @property
    def console(self) -> "Console":
        from rich.console import Console

        if self._console is None:
            self._console = Console(stderr=True, highlight=False, emoji=False)
        return self._console

    @property
    def home(self) -> "Home":
        from herodotus.home.folder import choose_home

        return choose_home(self.home_flag)

    @property
    def talk_level(self) -> int:
        steps = {-2: logging.ERROR, -1: logging.WARNING, 0: logging.INFO, 1: logging.DEBUG}
        return logging.DEBUG if self.is_debug else steps[max(-2, min(self.loudness, 1))]

    def say(self, words: str) -> None:
        """For people; `-q` is silent, and `--json` leaves stdout to machines anyway."""
        if self.loudness >= 0:
            self.console.print(escaped(words), markup=False, soft_wrap=True)

    def show(self, value: Any, lines: Iterable[object] = ()) -> None:
        """Data: JSON for machines where they asked for it, else its lines for people, if it has any."""
        if self.is_json:
            print_json(value)
            return
        for line in lines:
            print_line(line)

    def running(self) -> "Running":
        """The peer that runs on the home."""
        from herodotus.home.folder import HomeMissing, running_on

        if not self.home.exists():
            raise HomeMissing(self.home)
        running = running_on(self.home)
        if running is None:
            raise NotRunning(self.home)
        return running

    def running_pid(self) -> int:
        if not (pid := self.running().pid):
            raise NotRunning(self.home)
        return pid

    def effective(self, *flags: "Layer") -> "Effective":
        """The settings in force; without a home yet, the defaults and the environment."""
        from herodotus.operate.settings.load import environment_layer, file_layer, resolve

        # A home whose settings are gone must not run on others: the portal might open to the world.
        has_file = self.home.exists() or self.home.config.exists()
        layers = [file_layer(self.home.config)] if has_file else []
        return resolve(*layers, environment_layer(), *flags)

    def configure_logs(self, effective: "Effective", *, into_home: bool = False) -> None:
        from herodotus.operate.logs import configure

        folder = self.home.log if into_home else None
        configure(effective.settings.log, talk_level=self.talk_level, folder=folder)


pass_frame = click.make_pass_decorator(CommandFrame, ensure=True)


def _option(*names: str, into: str, merged: Callable[[Any, Any], Any], **more: Any) -> Callable[[Any], Any]:
    """For the frame's field `into`: merged with what stood before, since an option may stand on both sides of a
    subcommand."""

    def note(context: click.Context, _parameter: click.Parameter, value: Any) -> None:
        frame = context.ensure_object(CommandFrame)
        setattr(frame, into, merged(getattr(frame, into), value))

    return click.option(*names, expose_value=False, callback=note, **more)


_COMMON = [
    _option(
        "--home",
        into="home_flag",
        merged=lambda before, value: before if value is None else value,
        metavar="H",
        help="Home folder of the peer.",
    ),
    _option("-v", "--verbose", into="loudness", merged=add, count=True, help="Say more."),
    _option("-q", "--quiet", into="loudness", merged=sub, count=True, help="Say less."),
    _option("--debug", into="is_debug", merged=or_, is_flag=True, help="Show tracebacks."),
]
_json_option = _option("--json", into="is_json", merged=or_, is_flag=True, help="Print JSON for machines.")


def common_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_COMMON):
        command = option(command)
    return command


def framed(*, json: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Below a command's own options: the frame, the options of all commands, and `--json` where it prints data."""

    def on_frame(work: Callable[..., Any]) -> Callable[..., Any]:
        work = pass_frame(work)
        return common_options(_json_option(work) if json else work)

    return on_frame


def _cause(error: BaseException) -> BaseException:
    """The error itself: each task group that it passed has wrapped it once."""
    while isinstance(error, BaseExceptionGroup):
        expected = error.subgroup(HerodotusError)
        error = (expected or error).exceptions[0]
    return error


def _sentence(error: BaseException) -> tuple[str, int]:
    """For people, and the exit code."""
    if isinstance(error, HerodotusError):
        return str(error), error.exit_code
    if isinstance(error, CrawlWorldError):
        return str(error), WorldFailure.exit_code
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror.lower()}; add --debug for where", HerodotusError.exit_code
    if isinstance(
        error.__cause__, KeyboardInterrupt
    ):  # while a class was made, in an import: before Python 3.12
        return "interrupted", 130
    where = _place_of(error)
    return (
        f"a mistake of ours: {type(error).__name__}: {error}{where}; add --debug for the way there, and report it",
        1,
    )


def _place_of(error: BaseException) -> str:
    """A daemon that ended cannot be asked again with --debug."""
    frames = traceback.extract_tb(error.__traceback__)
    return f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""


class FramedGroup(click.Group):
    """Turns every failure into a sentence and an exit code. All commands pass here."""

    def main(self, *arguments: Any, **options: Any) -> NoReturn:
        frame = CommandFrame()
        options["standalone_mode"] = False
        options["obj"] = frame
        try:
            code = super().main(*arguments, **options)
        except click.exceptions.Abort:
            self._fail("interrupted", 130)
        except click.ClickException as error:
            told = StringIO()
            error.show(told)
            say_text(told.getvalue())
            sys.exit(error.exit_code)
        except BrokenPipeError:
            sys.stderr.close()  # the reader of our output has left
            sys.exit(1)
        except Exception as error:  # noqa: BLE001  # the last place where a mistake of ours can be reported
            if frame.is_debug:
                frame.console.print_exception()
            self._fail(*_sentence(_cause(error)))
        sys.exit(code if isinstance(code, int) else 0)

    def _fail(self, sentence: str, code: int) -> NoReturn:
        say(f"{self.name}: error: {sentence}")
        sys.exit(code)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            hint = f"`{self.name} --help` lists the commands."
            raise click.UsageError(f"{error.message} {hint}", ctx) from None


class Commands(FramedGroup):
    """A command is the module of its name in `commands`, which registers it here; nothing else lists commands.

    Only the module of the command that runs is imported, and it imports its heavy parts when it runs, as some bring a
    whole archive or HTTP server along.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return sorted(command_modules())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = command_modules().get(cmd_name)
        if module is not None:
            import_module(f"{commands.__name__}.{module}")
        return super().get_command(ctx, cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """As click does, but from the commands' texts: importing all of them takes thrice as long as the rest."""
        names = self.list_commands(ctx)
        width_max = formatter.width - 6 - max(map(len, names))
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, self._said_of(ctx, name).get_short_help_str(width_max)) for name in names]
            )

    def _said_of(self, ctx: click.Context, name: str) -> click.Command:
        """The command, or one that says the same of itself."""
        try:
            text = get_data(commands.__name__, f"{command_modules()[name]}.py") or b""
        except OSError:  # bytecode alone is there, or another folder
            text = b""
        if said := _SAID.search(text.decode()):
            return click.Command(name, help=said[1])
        command = self.get_command(ctx, name)
        assert command is not None
        return command


_SAID = re.compile(r'^@main\.(?:command|group)\(.*?^    """(.+?)"""', re.DOTALL | re.MULTILINE)
"""In the text of a command's module: what the command says of itself."""


@cache
def command_modules() -> dict[str, str]:
    """By the command's name: `add-slice` is `add_slice`, and `import`, a word of the language, `import_`."""
    modules = (one.name for one in iter_modules(commands.__path__))
    return {name.rstrip("_").replace("_", "-"): name for name in modules}


@click.group(name="herodotus", cls=Commands, context_settings=HELP)
@click.version_option(package_name="herodotus", prog_name="herodotus")
@common_options
def main() -> None:
    """Run a peer of the web archive that nobody can switch off.

    \b
    First steps:
      herodotus init --contact https://example.org/about-my-peer
      herodotus run
      herodotus status
    """


class NotRunning(NotFound):
    def __init__(self, home: "Home") -> None:
        super().__init__(f"no peer runs on {home.path}; start it with `herodotus run --home {home.quoted}`")
