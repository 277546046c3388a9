"""Do the dashboard and the alerts ask only for metrics that there are?"""

import json
import re
from pathlib import Path

from herodotus.portal import metrics

FOLDER = Path(__file__).parents[2] / "docs" / "do" / "monitoring"
_NAME = re.compile(r"\bherodotus_[a-z_]+\b")


def listed() -> set[str]:
    rows = [line for line in (FOLDER / "README.md").read_text().splitlines() if line.startswith("| `")]
    return {name for row in rows for name in _NAME.findall(row)}


def used() -> set[str]:
    return set(_NAME.findall((FOLDER / "dashboard.json").read_text() + (FOLDER / "alerts.yml").read_text()))


def test_what_is_asked_for_is_what_is_listed() -> None:
    assert used() == listed()


def test_what_is_listed_is_what_a_peer_tells() -> None:
    told = set(re.findall(r'"([a-z_]+)"', Path(metrics.__file__).read_text()))
    assert {name.removeprefix("herodotus_") for name in listed()} - told == set()


def test_the_dashboard_can_be_imported() -> None:
    dashboard = json.loads((FOLDER / "dashboard.json").read_text())
    assert dashboard["title"]
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) > 8
    places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}
    assert len(places) == len(panels), "panels lie on each other"
    for panel in panels:
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
        assert all(_NAME.search(target["expr"]) for target in panel["targets"])


def test_every_alert_says_what_to_do() -> None:
    rules = (FOLDER / "alerts.yml").read_text().split("- alert: ")[1:]
    assert len(rules) >= 8
    for rule in rules:
        for key in ("expr: ", "severity: ", "summary: ", "action: "):
            assert key in rule, rule
