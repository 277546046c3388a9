"""What are the pages made of? Words, paragraphs and picture bytes, drawn once per web from its seed."""

import random

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
