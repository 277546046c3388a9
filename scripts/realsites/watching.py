"""What does a page show in Chromium, and what did it ask for? Words, a picture, requests.

Each load has a clean profile of its own. A page is taken as it is when nothing has
been asked for some time.
"""

import base64
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from tests.herodotus.portal.browser import Browser, browser

WIDTH, HEIGHT = 1200, 800
QUIET_S = 1.0
"""Without a request, and the page is done; timers of pages that were looked at are shorter."""
STEADY_S = 0.5
PAGE_S_MAX = 25.0
ASK_S = 5.0
PIXEL_APART = 24
"""Of 255 in one colour: less is how letters are smoothed."""

_WORDS = """(function () {
  function text(node) {
    var said = "";
    if (node.shadowRoot) said += " " + all(node.shadowRoot);
    return said;
  }
  function all(root) {
    var said = root.body ? root.body.innerText : Array.from(root.children).map(function (one) {
      return ["STYLE", "SCRIPT", "TEMPLATE"].indexOf(one.tagName) < 0 ? one.innerText || "" : "";
    }).join(" ");
    root.querySelectorAll("*").forEach(function (one) { said += text(one); });
    return said;
  }
  return all(document);
})()"""
_FRAME = """(function () {
  var frame = document.querySelector("iframe").getBoundingClientRect();
  return {x: Math.round(frame.x), y: Math.round(frame.y), height: Math.floor(frame.height)};
})()"""
_COMPARED = """(async function (a, b) {
  async function pixels(data) {
    var image = new Image();
    image.src = "data:image/png;base64," + data;
    await image.decode();
    var canvas = document.createElement("canvas");
    canvas.width = %d; canvas.height = %d;
    var context = canvas.getContext("2d");
    context.drawImage(image, 0, 0);
    return context.getImageData(0, 0, canvas.width, canvas.height).data;
  }
  var one = await pixels(a), other = await pixels(b), apart = 0;
  for (var at = 0; at < one.length; at += 4)
    if (Math.max(Math.abs(one[at] - other[at]), Math.abs(one[at + 1] - other[at + 1]),
                 Math.abs(one[at + 2] - other[at + 2])) > %d) apart++;
  return apart / (one.length / 4);
})"""


@dataclass
class Load:
    """What one load of a page asked for and showed."""

    statuses: dict[str, int] = field(default_factory=dict)
    """By address; 0 where there was no answer."""
    words: Counter[str] = field(default_factory=Counter)
    picture: bytes = b""
    frames: list[str] = field(default_factory=list)

    @property
    def succeeded(self) -> set[str]:
        return {url for url, status in self.statuses.items() if 200 <= status < 400}

    @property
    def failed(self) -> set[str]:
        return {url for url, status in self.statuses.items() if not 200 <= status < 400}


class _Watch:
    """Who answered what, and whether something is under way."""

    def __init__(self) -> None:
        self.load = Load()
        self._under_way: set[str] = set()
        self._change = anyio.Event()
        self._urls: dict[str, str] = {}

    def __call__(self, said: dict[str, Any]) -> None:
        facts = said.get("params", {})
        match said["method"]:
            case "Network.requestWillBeSent":
                self._ask(facts)
            case "Network.responseReceived":
                self._answer(facts["requestId"], facts["response"]["status"])
            case "Network.loadingFinished" | "Network.loadingFailed":
                if said["method"] == "Network.loadingFailed" and not facts.get("canceled"):
                    self._answer(facts["requestId"], 0)
                self._under_way.discard(facts["requestId"])
                self._change.set()

    def _ask(self, facts: dict[str, Any]) -> None:
        url, number = facts["request"]["url"].partition("#")[0], facts["requestId"]
        if not url.startswith(("http://", "https://")):
            return
        if "redirectResponse" in facts:
            self._answer(number, facts["redirectResponse"]["status"])
        self._urls[number] = url
        self._under_way.add(number)
        self._change.set()

    def _answer(self, number: str, status: int) -> None:
        """The same thing may be asked again: what has come once is there."""
        url = self._urls.get(number)
        if url and not 200 <= self.load.statuses.get(url, 0) < 400:
            self.load.statuses[url] = status

    async def settled(self) -> None:
        """Nothing is under way, and nothing was asked for a while."""
        with anyio.move_on_after(PAGE_S_MAX):
            while True:
                self._change = anyio.Event()
                with anyio.move_on_after(QUIET_S) as quiet:
                    await self._change.wait()
                if quiet.cancelled_caught and not self._under_way:
                    return


class Watcher:
    """A browser that looks at one page after the other."""

    def __init__(self, inner: Browser) -> None:
        self._inner = inner
        self._heads: dict[str, int] = {}
        """Pixels that an archive's own page takes above the frame with the archived one."""

    async def look(self, address: str, framed_by: str = "") -> Load:
        """`framed_by`: whose frame in the page is looked at, made as large as a window that has the page alone."""
        load, place = await self._loaded(address, framed_by)
        if framed_by and place["height"] != HEIGHT:
            self._heads[framed_by] = self._heads.get(framed_by, 0) + HEIGHT - int(place["height"])
            load, place = await self._loaded(address, framed_by)
        return load

    async def _loaded(self, address: str, framed_by: str) -> tuple[Load, dict[str, float]]:
        inner = self._inner
        context = (await inner.call("Target.createBrowserContext", ""))["browserContextId"]
        watch, before = _Watch(), set(inner.frames)
        inner.watchers.append(watch)
        try:
            target = await inner.open_window(browserContextId=context)
            height = HEIGHT + self._heads.get(framed_by, 0)
            await inner.call(
                "Emulation.setDeviceMetricsOverride",
                width=WIDTH,
                height=height,
                deviceScaleFactor=1,
                mobile=False,
            )
            await inner.visit(address)
            await watch.settled()
            watch.load.words, watch.load.frames = await self._steady_words(
                before, skips_window=bool(framed_by)
            )
            place: dict[str, float] = {"x": 0, "y": 0, "width": WIDTH, "height": HEIGHT}
            if framed_by:
                place = {**await inner.run(_FRAME), "width": WIDTH}
            shot = await inner.call(
                "Page.captureScreenshot", format="png", clip={**place, "height": HEIGHT, "scale": 1}
            )
            watch.load.picture = base64.b64decode(shot["data"])
            await inner.call("Target.closeTarget", "", targetId=target)
        finally:
            inner.watchers.remove(watch)
            await inner.call("Target.disposeBrowserContext", "", browserContextId=context)
        return watch.load, place

    async def _steady_words(self, before: set[str], *, skips_window: bool) -> tuple[Counter[str], list[str]]:
        """Once they stay the same: a script may work long on what came."""
        found = await self._words(before, skips_window=skips_window)
        with anyio.move_on_after(PAGE_S_MAX):
            while True:
                await anyio.sleep(STEADY_S)
                again = await self._words(before, skips_window=skips_window)
                if again == found:
                    return found
                found = again
        return found

    async def _words(self, before: set[str], *, skips_window: bool) -> tuple[Counter[str], list[str]]:
        words: Counter[str] = Counter()
        seen = []
        window = self._inner.session
        others = [one for target, one in self._inner.frames.items() if target not in before and one != window]
        for session in [window, *others]:
            with (
                suppress(RuntimeError, TimeoutError),
                anyio.fail_after(ASK_S),
            ):  # a worker, or stopped by a policy
                tree = (await self._inner.call("Page.getFrameTree", session))["frameTree"]
                for frame in _frames(tree):
                    if skips_window and session == window and "parentId" not in frame:
                        continue
                    made = await self._inner.call("Page.createIsolatedWorld", session, frameId=frame["id"])
                    said = await self._inner.call(
                        "Runtime.evaluate", session, expression=_WORDS, returnByValue=True,
                        contextId=made["executionContextId"],
                    )  # fmt: skip
                    words.update(str(said["result"].get("value") or "").split())
                    seen.append(frame["url"])
        return words, seen

    async def difference(self, one: bytes, other: bytes) -> float:
        """The share of pixels that are not alike, as a browser decodes them."""
        await self._inner.open_window()
        asked = f"{_COMPARED % (WIDTH, HEIGHT, PIXEL_APART)}({_quoted(one)}, {_quoted(other)})"
        share: float = await self._inner.run(asked)
        return share


def _frames(tree: dict[str, Any]) -> list[dict[str, Any]]:
    return [tree["frame"], *(one for child in tree.get("childFrames", ()) for one in _frames(child))]


def _quoted(data: bytes) -> str:
    return json.dumps(base64.b64encode(data).decode())


@asynccontextmanager
async def watcher(folder: Path, proxy: str) -> AsyncIterator[Watcher]:
    arguments = (
        "--hide-scrollbars",
        "--force-color-profile=srgb",
        "--enable-unsafe-swiftshader",
        "--force-prefers-reduced-motion",
    )
    async with browser(folder, f"--proxy-server=http://{proxy}", *arguments) as inner:
        yield Watcher(inner)
