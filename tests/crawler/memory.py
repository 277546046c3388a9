"""A sink in memory: what the crawler gave to be kept. As in an archive, only versions are found again."""

from crawler.core.capture import Capture


class MemorySink:
    def __init__(self) -> None:
        self.captures: list[Capture] = []
        self.notes: list[tuple[str, str]] = []
        """URLs whose visits failed, with the problem, and those that answered again, with none."""

    async def store(self, capture: Capture) -> None:
        self.captures.append(capture)

    async def find(self, url: str, since: float) -> Capture | None:
        found = [one for one in self.captures if one.is_new and one.url == url and one.requested_at >= since]
        return found[-1] if found else None

    async def note_failure(self, url: str, problem: str) -> None:
        self.notes.append((url, problem))

    async def note_answer(self, url: str) -> None:
        self.notes.append((url, ""))
