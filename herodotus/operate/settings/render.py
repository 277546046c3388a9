"""How are settings shown to people: as a commented file, and as the list of what is in force?"""

import dataclasses
from collections.abc import Mapping

from herodotus.core.settings.fields import fields_of, kind_of, reason_of
from herodotus.core.settings.sections import PRESETS, SECTIONS
from herodotus.operate.settings.load import Effective


def commented_file(preset: str, chosen: Mapping[str, object]) -> str:
    """A `config.toml` with every setting, its unit, range and reason; only chosen values are in force."""
    lines = [
        "# Settings of this peer. A line that begins with # shows the default; remove the # to choose another value.",
        "# `herodotus config show` prints each value and where it came from.",
        "",
        f"# What the other defaults follow: {', '.join(PRESETS)}",
        f'preset = "{preset}"',
    ]
    for section, kind in SECTIONS.items():
        lines += ["", "", f"# {kind.__doc__}", f"[{section}]"]
        for name, one in fields_of(kind).items():
            key = f"{section}.{name}"
            default = PRESETS[preset].get(key, one.default)
            write = kind_of(one).write
            lines += ["", f"# {reason_of(one)}", f"# {kind_of(one).what}"]
            lines.append(
                f"{name} = {write(chosen[key])}" if key in chosen else f"# {name} = {write(default)}"
            )
    return "\n".join(lines) + "\n"


def effective_rows(effective: Effective) -> list[tuple[str, str, str]]:
    """(dotted name, value as TOML writes it, where it came from), in the order of the file."""
    rows = [("preset", f'"{effective.preset}"', effective.origins["preset"])]
    for section, kind in SECTIONS.items():
        part = getattr(effective.settings, section)
        for one in dataclasses.fields(kind):
            key = f"{section}.{one.name}"
            rows.append((key, kind_of(one).write(getattr(part, one.name)), effective.origins[key]))
    return rows
