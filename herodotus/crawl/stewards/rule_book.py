"""Which rules did a steward find for its hosts, and how are they told? By version, and for each host by one number.

The number follows from the versions alone: all stewards that found the same rules have the same number, so a change
of stewards makes no peer ask again.
"""

import hashlib

from crawler.core.robots import RobotsRules, parse_robots
from crawler.core.urls import Origin, host_of
from herodotus.crawl.stewards.wire import RULES_BYTES_MAX, NewRules, RulesAnswer, SameRules, to_ms

HOSTS_MAX = 100_000
ORIGINS_OF_A_HOST_MAX = 64
"""Ports of a host whose rules its number tells of; those of more are asked for daily."""


def version_of(rules: RobotsRules) -> bytes:
    said = b"%d\0%b\0%b" % (rules.is_reachable, rules.problem.encode(), rules.as_text())
    return hashlib.sha256(said).digest()[:8]


def rules_of(answer: NewRules, product_token: str) -> RobotsRules:
    if not answer.is_reachable:
        return RobotsRules(is_reachable=False, problem=answer.problem)
    return parse_robots(answer.text, product_token)


class RuleBook:
    """Of the hosts that we are steward of."""

    def __init__(self) -> None:
        self._versions: dict[str, dict[Origin, bytes]] = {}

    def note(self, origin: Origin, rules: RobotsRules) -> None:
        if len(self._versions) >= HOSTS_MAX:
            self._versions.clear()
        versions = self._versions.setdefault(host_of(f"{origin}/"), {})
        if len(versions) < ORIGINS_OF_A_HOST_MAX or origin in versions:
            versions[origin] = version_of(rules)

    def knows(self, origin: Origin) -> bool:
        return origin in self._versions.get(host_of(f"{origin}/"), ())

    def number(self, host: str) -> int:
        versions = self._versions.get(host)
        if not versions:
            return 0
        joined = b"".join(version for _, version in sorted(versions.items()))
        return int.from_bytes(hashlib.sha256(joined).digest()[:6], "big")

    def answer(self, host: str, rules: RobotsRules, known: bytes, for_s: float) -> RulesAnswer:
        """For an asker that knows this version, or none."""
        version, age_ms, number = version_of(rules), to_ms(for_s), self.number(host)
        if version == known:
            return SameRules(number, age_ms)
        text = rules.as_text()
        if len(text) > RULES_BYTES_MAX:
            return NewRules(number, age_ms, version, False, b"", "robots.txt has too many rules")
        return NewRules(number, age_ms, version, rules.is_reachable, text, rules.problem[:300])
