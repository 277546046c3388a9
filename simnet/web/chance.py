"""How does everything about a page follow from numbers alone?

One mixing function instead of stored state: `draw(seed, host, page, purpose)` is the same in every process
and on every day. SplitMix64's finisher is used, as it is quick in Python and its bits are independent
enough for slots.
"""

MASK = 0xFFFF_FFFF_FFFF_FFFF


def mix(number: int) -> int:
    number = (number + 0x9E37_79B9_7F4A_7C15) & MASK
    number = ((number ^ (number >> 30)) * 0xBF58_476D_1CE4_E5B9) & MASK
    number = ((number ^ (number >> 27)) * 0x94D0_49BB_1331_11EB) & MASK
    return number ^ (number >> 31)


def draw(*numbers: int) -> int:
    """64 bits that depend on every number and on their order."""
    state = 0
    for number in numbers:
        state = mix(state ^ number)
    return state


def share(bits: int) -> float:
    """The same bits as a number in [0, 1)."""
    return (bits >> 11) / 9_007_199_254_740_992
