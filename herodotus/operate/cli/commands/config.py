"""Which settings are in force, and where did each come from? `config show`."""

from herodotus.operate.cli.frame import CommandFrame, common_options, framed, main
from herodotus.operate.settings.render import effective_rows


@main.group()
@common_options
def config() -> None:
    """Show the settings of this peer."""


@config.command()
@framed(json=True)
def show(frame: CommandFrame) -> None:
    """Print each setting and where its value came from.

    Later wins: default, preset, config.toml, environment HERODOTUS_SECTION_NAME, flag.
    """
    rows = effective_rows(frame.effective())
    width_key = max(len(key) for key, _, _ in rows)
    width_value = min(40, max(len(value) for _, value, _ in rows))
    frame.show(
        {key: {"value": value, "origin": origin} for key, value, origin in rows},
        (f"{key:<{width_key}} = {value:<{width_value}}  # {origin}" for key, value, origin in rows),
    )
