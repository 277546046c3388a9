"""A made-up web of some days: pages that change, go, and come back as they were, and what truly stood on them."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from herodotus.core.captures import Deposit
from herodotus.core.warc import format_date, parse_date
from tests.herodotus.deposits import make_deposit

DAY_S = 86_400
BEGIN_S = parse_date("2026-03-01T08:00:00Z")
History = list[str | None]
"""The words of each day; "" is a day on which the page answered 404, None one before it was known."""


@dataclass(frozen=True)
class MadeWeb:
    pages: dict[str, History]
    days: int
    words: tuple[str, ...]

    @property
    def end_s(self) -> int:
        return BEGIN_S + self.days * DAY_S

    def deposits(self, day: int) -> Iterator[Deposit]:
        for url, history in self.pages.items():
            text = history[day]
            if text is not None:
                yield deposit_of(url, BEGIN_S + day * DAY_S, text)

    def with_word(self, word: str, day: int) -> set[str]:
        """As the day ended."""
        return {url for url, history in self.pages.items() if word in (history[day] or "").split()}

    def telling(self) -> list[tuple[str, int]]:
        """Words and days: on the day some pages have the word, and on another not the same ones."""
        found = []
        for word in self.words:
            of_day = [self.with_word(word, day) for day in range(self.days)]
            found += [
                (word, day)
                for day in range(self.days)
                if of_day[day] and of_day.count(of_day[day]) < self.days
            ]
        return found


def made_web(seed: int, pages: int, days: int, words: int = 60) -> MadeWeb:
    chance = random.Random(seed)
    syllables = [a + b for a in "bdfgklmnprst" for b in "aeiou"]
    vocabulary = tuple(sorted({"".join(chance.choices(syllables, k=3)) for _ in range(words)}))
    found: dict[str, History] = {}
    for number in range(pages):
        texts = [" ".join(chance.choices(vocabulary, k=5)) for _ in range(3)] + [""]
        born = chance.choice((0, 0, 0, chance.randrange(days)))
        history: History = [None] * born
        current = texts[0]
        for _ in range(born, days):
            current = chance.choice(texts) if chance.random() < 0.4 else current
            history.append(current)
        found[f"https://h{number % 7}.example/{number}"] = history
    return MadeWeb(found, days, vocabulary)


def date_of(day: int) -> str:
    return format_date(BEGIN_S + day * DAY_S)[:10]


def deposit_of(url: str, time_s: int, text: str) -> Deposit:
    status = "200 OK" if text else "404 Not Found"
    body = f"<!doctype html><title>{text[:20]}</title><p>{text}</p>".encode() if text else b"gone"
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    return make_deposit(url=url, time_s=time_s, head=head, body=body)
