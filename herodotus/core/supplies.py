"""What does the machine live on just now, and does background work rest for it?"""

from dataclasses import dataclass

from herodotus.core.budgets import Rest
from herodotus.core.settings.sections import BudgetSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Supplies:
    """As the system says; a machine of which nobody knows has mains power and a line that is paid by the month."""

    is_on_battery: bool = False
    is_metered: bool = False


def rests_of(supplies: Supplies, settings: BudgetSettings, *, is_paused: bool) -> frozenset[Rest]:
    is_so = {
        Rest.PAUSED: is_paused,
        Rest.BATTERY: supplies.is_on_battery and settings.rest_on_battery,
        Rest.METERED: supplies.is_metered and settings.rest_on_metered_line,
    }
    return frozenset(rest for rest in Rest if is_so[rest])
