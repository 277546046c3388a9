"""A sink in memory: what the crawler gave to be kept. As in an archive, only versions are found again."""

from crawler.core.capture import Capture


class MemorySink:
    def __init__(self) -> None:
        self.captures: list[Capture] = []

    async def store(self, capture: Capture) -> None:
        self.captures.append(capture)

    async def find(self, url: str, since: float) -> Capture | None:
        found = [one for one in self.captures if one.is_new and one.url == url and one.requested_at >= since]
        return found[-1] if found else None
