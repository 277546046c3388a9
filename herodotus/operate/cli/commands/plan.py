"""How large must a network be? `plan`."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import click

from herodotus.core.planning import SLIPS, THESIS, Assumptions, gone_at_once, plan
from herodotus.core.settings.fields import fields_of, kind_of, read_table, reason_of
from herodotus.home.folder import open_home
from herodotus.operate.cli.commands.status import facts_of, operator_token, running_address
from herodotus.operate.cli.frame import CommandFrame, framed, main
from herodotus.operate.cli.printing import print_text
from herodotus.operate.cli.status_text import table_lines

_SHARES = frozenset({"lost_in_a_repair", "lost_in_a_year", "reachable"})
_MILLION = ("lost_sixth_", "lost_third_")
"""Counted in a million captures: as shares they are too small to read."""


def _assumption_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for name, one in reversed(fields_of(Assumptions).items()):
        option = "--" + name.replace("_", "-")
        reason = reason_of(one)
        text = f"{reason[0].upper()}{reason[1:]} ({one.default:g}): {kind_of(one).what}."
        kind = int if isinstance(one.default, int) else float
        command = click.option(option, name, type=kind, metavar="N", help=text)(command)
    return command


@main.command("plan")
@click.option(
    "--ring", "of_ring", is_flag=True, help="Take nodes, places, copies and uptime from the running peer."
)
@_assumption_options
@framed(json=True)
def plan_command(frame: CommandFrame, /, of_ring: bool, **given: float | None) -> None:
    """Compute how many nodes, how much disk and line an archive needs (the thesis's chapter 6).

    Without options it takes the thesis's assumptions of 2002 and shows its results beside ours. At the end it
    says how many captures are lost if many peers vanish in one hour.

    \b
    Examples:
      herodotus plan
      herodotus plan --ring
      herodotus plan --pages 5e10 --page-bytes 60000 --node-bytes 2e12 --nodes 0 --fetches 1
    """
    stated = {name: value for name, value in given.items() if value is not None}
    chosen = {**(_seen_by_the_peer(frame) if of_ring else {}), **stated}
    assumptions = Assumptions(**read_table(Assumptions, chosen, source="the command line"))
    found = asdict(plan(assumptions))
    is_thesis = assumptions == Assumptions()
    if frame.is_json:
        thesis = {"thesis": dict(THESIS), "slips": list(SLIPS)} if is_thesis else {}
        frame.show({"assumptions": asdict(assumptions), "plan": found, **thesis})
        return
    rows = [("", "here", "thesis")] if is_thesis else [("", "here", "")]
    for name, value in found.items():
        beside = _shown(name, THESIS[name]) if is_thesis and name in THESIS else ""
        rows.append((name.replace("_", " "), _shown(name, value), beside))
    lines = [*table_lines(rows), "", *_gone_at_once_lines(assumptions)]
    if is_thesis:
        lines += ["", "Where the thesis contradicts itself:", *(f"  {slip}" for slip in SLIPS)]
    print_text("\n".join([*lines, ""]))


def _seen_by_the_peer(frame: CommandFrame) -> dict[str, float]:
    """What the peer of the home knows of its network. Uptime is the median that it saw; a new peer has seen none."""
    charter = open_home(frame.home)
    facts = facts_of(running_address(frame), operator_token(frame.home))
    ring, there = facts["ring"], facts["observation"]["there"]
    places = ring["places"]
    counted = places["places"] if places["by"] == "prefix" else ring["members"]
    found = {"nodes": ring["members"], "places": counted, "copies": charter.copies}
    found |= {"spare_copies": charter.spare_copies} | ({"uptime": there} if there else {})
    return {name: max(1, value) if name in ("nodes", "places") else value for name, value in found.items()}


def _gone_at_once_lines(given: Assumptions) -> list[str]:
    lines = [
        "If one attacker has a share of the places, and all its peers vanish in the same hour, then lost are:"
    ]
    for one in gone_at_once(given):
        lost = f"{_one_of(one.lost)} with {given.copies} copies"
        if given.spare_copies:
            lost += f", {_one_of(one.lost_with_spares)} with {given.copies + given.spare_copies}"
        lines.append(f"  with a {one.name} ({one.gone:,} of {given.places:,} places) {lost}")
    return [*lines, "  C(gone, copies) / C(places, copies): no rule changes that, only more copies do."]


def _one_of(share: float) -> str:
    """To three digits: 1 of 60,600 captures."""
    if not share:
        return "no capture"
    rarity = 1 / share
    return f"1 of {float(f'{rarity:.3g}'):,.0f} captures" if rarity < 1e15 else "practically no capture"


def _shown(name: str, value: float) -> str:
    if name in _SHARES:
        return f"{100 * value:.4g} %" if value < 0.5 else f"{100 * value:.6g} %"
    if name.startswith(_MILLION):
        return f"{value * 1e6:,.4g} in 1e6" if value >= 1e-6 else f"{value * 1e6:.2g} in 1e6"
    unit = "bit/s" if name.endswith("bit_s") else "B" if "bytes" in name else ""
    if not unit:
        return f"{value:,.0f}"
    for prefix in ("", "k", "M", "G", "T", "P"):
        if value < 1000 or prefix == "P":
            return f"{value:.4g} {prefix}{unit}"
        value /= 1000
    raise AssertionError("the last prefix returns")
