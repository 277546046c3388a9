"""How does a peer start with the machine? `service install|uninstall|status`."""

import sys

import click

from herodotus.core.service_unit import ServicePlan, is_unchanged, unit_text
from herodotus.home.folder import open_home
from herodotus.operate.cli.frame import CommandFrame, common_options, framed, main
from herodotus.operate.cli.printing import print_text
from herodotus.operate.service import (
    check_manager,
    facts_of,
    installed_unit,
    order,
    own_program,
    remove_unit,
    unit_file,
    write_unit,
)


class _UnitName(click.ParamType[str]):
    """A name that systemd accepts; not a path."""

    name = "unit name"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        is_fit = (
            0 < len(value) <= 64 and value.isascii() and value.replace("-", "").replace("_", "").isalnum()
        )
        if not is_fit:
            self.fail(f"{value!r} is not a name: use letters, digits, - and _.", param, ctx)
        return value


_name_option = click.option(
    "--name",
    type=_UnitName(),
    default="herodotus",
    show_default=True,
    metavar="N",
    help="The unit's name; your second peer needs another.",
)
_replace_option = click.option("--replace", is_flag=True, help="Do it even if you changed the unit.")


@main.group()
@common_options
def service() -> None:
    """Run the peer as your service, under systemd."""


@service.command()
@_name_option
@click.option("--print", "is_shown", is_flag=True, help="Only show the unit; write and start nothing.")
@click.option("--confined", is_flag=True, help="Allow writing only to its home; needs user namespaces.")
@click.option("--no-start", is_flag=True, help="Write the unit, but do not start it now or at boot.")
@_replace_option
@framed()
def install(
    frame: CommandFrame, name: str, is_shown: bool, confined: bool, no_start: bool, replace: bool
) -> None:
    """Run the peer of this home as a systemd user service.

    Run it again to update the unit. A unit that you changed stays as it is unless you say --replace; then your version
    is kept beside the new one.

    \b
    Examples:
      herodotus service install
      herodotus service install --print
      herodotus service install --home /srv/second --name herodotus-second
    """
    if not is_shown:
        open_home(frame.home)
    drain_s = frame.effective().settings.lifecycle.drain_s
    plan = ServicePlan(
        program=own_program(), home=str(frame.home.path), drain_s=drain_s, is_confined=confined
    )
    text = unit_text(plan)
    if is_shown:
        print_text(text)
        return
    check_manager()
    written = write_unit(unit_file(name), text, replaces=replace)
    if written.kept is not None:
        frame.say(f"kept yours as {written.kept}")
    frame.say(f"{written.outcome} {written.file}")
    order("read its units again", "daemon-reload")
    if no_start:
        frame.say(f"start it with `systemctl --user enable --now {name}`")
        return
    order("enable the service", "enable", f"{name}.service")
    order("start the service", "start" if written.outcome != "updated" else "restart", f"{name}.service")
    frame.say(f"{name} is running; see `herodotus service status` and `herodotus status`")
    frame.say("To let it run while you are logged out: loginctl enable-linger")


@service.command()
@_name_option
@_replace_option
@framed()
def uninstall(frame: CommandFrame, name: str, replace: bool) -> None:
    """Stop the service and remove its unit. The home and its archive stay.

    \b
    Example:
      herodotus service uninstall
    """
    file = unit_file(name)
    text = installed_unit(file)
    check_manager()
    if replace or is_unchanged(text):  # otherwise removing refuses, and the service keeps running
        order("stop the service", "disable", "--now", f"{name}.service")
    remove_unit(file, replaces=replace)
    order("read its units again", "daemon-reload")
    frame.say(f"stopped {name} and removed {file}; {frame.home.path} is unchanged")


@service.command()
@_name_option
@framed(json=True)
def status(frame: CommandFrame, name: str) -> None:
    """Show whether the service is installed and running: exit 0 running, 1 not running, 3 not installed.

    \b
    Example:
      herodotus service status --json
    """
    file = unit_file(name)
    text = installed_unit(file)
    facts = facts_of(name)
    is_active = facts.get("ActiveState") == "active"
    shown = {
        "name": name,
        "file": str(file),
        "changed": not is_unchanged(text),
        "active": is_active,
        "state": f"{facts.get('ActiveState', '')} ({facts.get('SubState', '')})",
        "starts_at_boot": facts.get("UnitFileState") == "enabled",
        "pid": int(facts["MainPID"]) if facts.get("MainPID", "").isdecimal() else 0,
        "result": facts.get("Result", ""),
        "says": facts.get("StatusText", ""),
    }
    words = {True: "yes", False: "no"}
    lines = ((key, words[value] if isinstance(value, bool) else value) for key, value in shown.items())
    frame.show(shown, (f"{key:<15} {value}" for key, value in lines))
    sys.exit(0 if is_active else 1)
