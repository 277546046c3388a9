"""Writes the pages that follow from the code: settings.md (with the charter), commands.md and metrics.md in
docs/look-up/, and packaging/systemd/herodotus.service.

scripts/docs.py           writes them
scripts/docs.py --check   exits 1 if one of them is not current
"""

import sys
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).parents[1]))

from herodotus.core.charter import Charter
from herodotus.core.service_unit import ServicePlan, unit_text
from herodotus.core.settings.fields import fields_of, kind_of, reason_of
from herodotus.core.settings.sections import PRESETS, SECTIONS
from herodotus.operate.cli import main as herodotus
from herodotus.portal.metrics import INFO, INFO_HELP, METRICS, PREFIX
from simnet.cli import main as simnet

DOCS = Path(__file__).parents[1] / "docs" / "look-up"
_MADE = "<!-- Made by scripts/docs.py from the code: change it there. -->\n"


def _table(section: type, prefix: str) -> list[str]:
    rows = ["| key | default | what it takes | what it is for |", "|---|---|---|---|"]
    for name, one in fields_of(section).items():
        kind = kind_of(one)
        cells = [f"`{prefix}{name}`", f"`{kind.write(one.default)}`", kind.what, reason_of(one)]
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return rows


def settings_page() -> str:
    lines = [
        "# Settings",
        _MADE,
        "`config.toml` in the home. Later wins: default, preset, file, environment (`HERODOTUS_HTTP_LISTEN` sets",
        "`http.listen`), flag. `herodotus config show` prints what is in force and where it came from.",
    ]
    for name, section in SECTIONS.items():
        lines += ["", f"## [{name}]", f"{section.__doc__}", "", *_table(section, f"{name}.")]
    lines += [
        "",
        "## Presets",
        '`preset = "..."`, the file\'s first line, moves several defaults together.',
        "",
    ]
    for name, values in PRESETS.items():
        shown = ", ".join(f"`{key}` = `{value}`" for key, value in values.items())
        lines.append(f"- `{name}`: {shown or 'the defaults above'}")
    lines += [
        "",
        "# The charter",
        "`network.toml` in the home: what all peers of a network agreed on. Another value is another network.",
        "",
        *_table(Charter, ""),
    ]
    return "\n".join(lines) + "\n"


def commands_of(group: click.Group, path: str) -> list[tuple[str, click.Command]]:
    """(full name, command), groups opened, in alphabetical order."""
    found: list[tuple[str, click.Command]] = []
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        full = f"{path} {name}"
        found += commands_of(command, full) if isinstance(command, click.Group) else [(full, command)]
    return found


def commands_page() -> str:
    lines = [
        "# Commands",
        _MADE,
        "Data goes to stdout, messages go to stderr. Exit codes: 0 done, 1 failed, 2 wrong usage, 3 not found.",
        "`--home` and the other common options may stand before or after the subcommand.",
    ]
    for group in (herodotus, simnet):
        name = str(group.name)
        for full, command in [(name, group), *commands_of(group, name)]:
            names = [
                "-h",
                "--help",
            ]  # click keeps the option that it made first, so all must ask for the same
            context = click.Context(
                command, info_name=full, max_content_width=100, terminal_width=100, help_option_names=names
            )
            lines += ["", f"## {full}", "```", command.get_help(context), "```"]
    return "\n".join(line.rstrip() for line in "\n".join(lines).splitlines()) + "\n"


def metrics_page() -> str:
    lines = [
        "# Metrics",
        _MADE,
        "`/metrics` answers Prometheus (text format 0.0.4), on the peer's own machine or with the",
        "[operator's secret](../do/operate.md#is-it-working). What ends in `_total` counts from the peer's start.",
        "",
        "| metric | label | what |",
        "|---|---|---|",
        f"| `{PREFIX}{INFO}` | `version`, `network`, `network_id` | {INFO_HELP} |",
    ]
    for row in METRICS:
        label = f"`{row.label}`" if row.label else ""
        lines.append(f"| `{PREFIX}{row.name}` | {label} | {row.help} |")
    return "\n".join(lines) + "\n"


PAGES = {"settings.md": settings_page, "commands.md": commands_page, "metrics.md": metrics_page}
UNIT = Path(__file__).parents[1] / "packaging" / "systemd" / "herodotus.service"
"""For packages of distributions; `herodotus service install` writes one for the program and home at hand."""


def main(arguments: list[str]) -> int:
    made = {DOCS / name: make() for name, make in PAGES.items()} | {UNIT: unit_text(ServicePlan())}
    stale = 0
    for file, page in made.items():
        if not file.exists() or file.read_text() != page:
            stale += 1
            if "--check" not in arguments:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(page)
            name = file.relative_to(DOCS.parents[1])
            print(f"{name} {'is not current' if '--check' in arguments else 'written'}")
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
