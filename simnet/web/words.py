"""What are the pages made of? Draws from numbers; words, paragraphs and picture bytes, made once for each web."""

import random

MASK = 0xFFFF_FFFF_FFFF_FFFF


# How everything about a page follows from numbers alone: one mixing function instead of stored state, the same in every
# process and on every day. SplitMix64's finisher is quick in Python, and its bits are independent enough for slots.
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


SECTIONS = (
    "about", "archive", "articles", "courses", "department", "events", "faculty", "forum", "guides",
    "history", "library", "museum", "news", "notes", "people", "private", "projects", "research", "review",
    "students",
)  # fmt: skip
WORDS = (
    "amber", "anchor", "autumn", "bridge", "candle", "canyon", "cedar", "circle", "copper", "cotton",
    "desert", "driver", "ember", "engine", "falcon", "farmer", "fossil", "garden", "glacier", "granite",
    "harbour", "harvest", "hollow", "island", "jasper", "journal", "kettle", "ladder", "lantern", "linen",
    "marble", "meadow", "mirror", "morning", "nectar", "number", "orchard", "oyster", "paper", "pepper",
    "pillow", "planet", "quarry", "raven", "river", "saddle", "salmon", "shadow", "silver", "spiral",
    "stone", "summer", "temple", "thunder", "timber", "tunnel", "valley", "velvet", "violet", "walnut",
    "willow", "window", "winter",
)  # fmt: skip
# Words outside ASCII, as a European, a Cyrillic and an East Asian site have them.
FOREIGN_WORDS = ("café", "größe", "señal", "архив", "город", "東京", "図書館", "ναός")
PARAGRAPHS = 1_024
PICTURE_POOL_BYTES = 1 << 20


class Material:
    """Shared by all pages of a web; about 1.5 MB, whatever the web's size."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.paragraphs = [self._paragraph(rng, WORDS) for _ in range(PARAGRAPHS)]
        mixed = (*WORDS[:24], *FOREIGN_WORDS)
        self.foreign_paragraphs = [self._paragraph(rng, mixed) for _ in range(PARAGRAPHS // 4)]
        self.pictures = rng.randbytes(PICTURE_POOL_BYTES)

    @staticmethod
    def _paragraph(rng: random.Random, words: tuple[str, ...]) -> str:
        text = " ".join(rng.choices(words, k=rng.randint(20, 60)))
        return f"<p>{text}.</p>\n"
