"""Is what a peer says of its own line true? Its sentence, against what strangers found and what it does.

A peer that says it is a member must be reached by strangers, by datagram and by stream, or through its relays; one that
says "half" must name the half that is missing; whoever owns keys must be a member. Nothing here knows of processes.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_CLOSED = re.compile(r"behind a closed router|through \d+ relays?", re.IGNORECASE)
_HALF = re.compile(r"half open:? (UDP|TCP)(?: \d+)? arrives", re.IGNORECASE)
_ON_TRUST = re.compile(r"on trust", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    standing: str
    """"member", "closed", "trust", "half", "leaf", "helper", "alone", or "unknown"."""
    arrives: str = ""
    """Of one that is half open: "UDP" or "TCP"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What was found about a peer without asking it."""

    by_udp: bool
    by_tcp: bool
    is_owner: bool
    """It takes keys for its own."""
    is_called: bool
    """Calls of other peers came in, and no member says that none does."""
    is_alone: bool = False
    """No other peer is in its table, though there are some."""


def claim_of(sentence: str) -> Claim:
    words = sentence.strip().lower()
    half = _HALF.search(sentence)
    if half is not None:
        return Claim(standing="half", arrives=half[1].upper())
    if words.startswith("member"):
        if _CLOSED.search(sentence):
            return Claim(standing="closed")
        return Claim(standing="trust" if _ON_TRUST.search(sentence) else "member")
    if words.startswith("cut off"):
        return Claim(standing="alone")
    for standing in ("helper", "alone", "leaf"):
        if words.startswith(standing):
            return Claim(standing=standing)
    return Claim(standing="leaf" if words.startswith("not callable") else "unknown")


def untruth(claim: Claim, case: Case) -> str:
    """Why the claim is not true; empty where it is."""
    if case.is_alone and claim.standing != "alone":
        return f"it is alone, and says {claim.standing!r}"
    is_open = case.by_udp and case.by_tcp
    arrives = {"UDP": case.by_udp, "TCP": case.by_tcp}
    match claim.standing:
        case "member" | "trust" if not is_open:
            missing = " and ".join(one for one in arrives if not arrives[one])
            return f"strangers do not get through by {missing}"
        case "closed" if not case.is_called:
            return "no call of another peer comes in"
        case "half" if not arrives[claim.arrives] or is_open:
            return f"by UDP {_got(case.by_udp)}, by TCP {_got(case.by_tcp)}"
        case "leaf" | "helper" if is_open:
            return "strangers get through by UDP and TCP"
        case "alone" if case.is_alone:
            return ""
        case "unknown" | "alone":
            return f"it says {claim.standing!r} in a ring"
    is_member = claim.standing in ("member", "trust", "closed")
    if case.is_owner and not is_member:
        return "it owns keys, and is no member"
    if is_member and not case.is_owner:
        return "a member that owns nothing"
    return ""


def _got(gets: bool) -> str:
    return "they get through" if gets else "they do not"


def sentence_of(facts: Mapping[str, Any]) -> str:
    """The first that its operator reads."""
    return str(facts["said"]["standing"])
