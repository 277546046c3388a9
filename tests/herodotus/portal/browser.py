"""A headless browser that does what it is told and tells what it asked for (Chrome DevTools Protocol)."""

import base64
import re
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp
import anyio

WAIT_S = 45.0
ANSWERED_S = 5.0
"""A page that goes to another process while it is asked may never answer: it is asked again."""
_LISTENING = re.compile(r"DevTools listening on (ws://\S+)")


class Browser:
    """One window. `asked` are the addresses that pages caused to be asked, in all their frames."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = count(1)
        self._answers: dict[int, dict[str, Any]] = {}
        self._arrived = anyio.Condition()
        self.asked: list[str] = []
        self.blocked: set[str] = set()
        """Of these, what a policy stopped before it was sent."""
        self._addresses: dict[str, str] = {}
        self.complaints: list[str] = []
        self.frames: dict[str, str] = {}
        """Session of each frame or window by its target."""
        self.session = ""
        self.watchers: list[Callable[[dict[str, Any]], None]] = []
        """Told all that happens."""

    async def listen(self) -> None:
        async for message in self._socket:
            said = message.json()
            async with self._arrived:
                if "id" in said:
                    self._answers[said["id"]] = said
                else:
                    await self._note(said)
                self._arrived.notify_all()

    async def _note(self, said: dict[str, Any]) -> None:
        facts = said.get("params", {})
        for watch in self.watchers:
            watch(said)
        match said["method"]:
            case "Target.attachedToTarget":
                session = facts["sessionId"]
                self.frames[facts["targetInfo"]["targetId"]] = session
                for method in ("Network.enable", "Runtime.enable", "Log.enable", "Page.enable"):
                    await self._send(method, {}, session)
                await self._send("Target.setAutoAttach", _ATTACH, session)
                await self._send("Runtime.runIfWaitingForDebugger", {}, session)
            case "Target.detachedFromTarget":
                gone = facts["sessionId"]
                self.frames = {target: one for target, one in self.frames.items() if one != gone}
            case "Network.requestWillBeSent":
                self.asked.append(facts["request"]["url"])
                self._addresses[facts["requestId"]] = facts["request"]["url"]
            case "Network.loadingFailed":
                if facts.get("blockedReason"):
                    self.blocked.add(self._addresses.get(facts["requestId"], ""))
            case "Log.entryAdded":
                self.complaints.append(facts["entry"]["text"])

    async def _send(self, method: str, parameters: dict[str, Any], session: str) -> int:
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        await self._socket.send_json(message)
        return number

    async def call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        number = await self._send(method, parameters, self.session if session is None else session)
        async with self._arrived:
            while number not in self._answers:
                await self._arrived.wait()
        answer = self._answers.pop(number)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        result: dict[str, Any] = answer["result"]
        return result

    async def open_window(self, **options: str) -> str:
        """The one that is looked at from now on; its target."""
        made = await self.call("Target.createTarget", "", url="about:blank", **options)
        target: str = made["targetId"]
        attached = await self.call("Target.attachToTarget", "", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        for method in ("Network.enable", "Runtime.enable", "Log.enable", "Page.enable"):
            await self.call(method)
        await self._send("Target.setAutoAttach", _ATTACH, self.session)
        return target

    async def run(self, script: str, session: str | None = None) -> Any:
        """The value of an expression in a page, or in one of its frames."""
        result = await self.call(
            "Runtime.evaluate", session, expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in result:
            raise RuntimeError(str(result["exceptionDetails"])[:500])
        return result["result"].get("value")

    async def until(self, script: str, *, anywhere: bool = True, framed: bool = False) -> str:
        """Wait until an expression is true in the window or one of its frames; the session it is true in.

        `framed` for what both may say: the window takes over the title of the page in its frame.
        """
        with anyio.fail_after(WAIT_S):
            while True:
                frames = [one for one in self.frames.values() if one != self.session]
                for session in frames if framed else [self.session, *(frames if anywhere else [])]:
                    with anyio.move_on_after(ANSWERED_S), suppress(RuntimeError):  # the page goes just now
                        if await self.run(script, session):
                            return session
                await self._next_event()

    async def _next_event(self) -> None:
        with anyio.move_on_after(0.1):
            async with self._arrived:
                await self._arrived.wait()

    def forget(self) -> None:
        """What was asked so far."""
        self.asked.clear()
        self.blocked.clear()
        self.complaints.clear()

    async def visit(self, address: str) -> None:
        await self.call("Page.navigate", url=address)

    async def press(self, selector: str, session: str | None = None) -> None:
        """As a reader's mouse does, which a page can tell from a script's click."""
        place = (
            "(function (e) { e.scrollIntoView({block: 'center', behavior: 'instant'}); "
            "var r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })"
        )
        x, y = await self.run(f"{place}(document.querySelector({selector!r}))", session)
        if session not in (None, self.session):
            frame = "(function (r) { return [r.x, r.y]; })(document.querySelector('iframe').getBoundingClientRect())"
            left, top = await self.run(frame)
            x, y = x + left, y + top
        for kind in ("mousePressed", "mouseReleased"):
            await self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    async def follow(self, selector: str, session: str, arrived: str, *, framed: bool = False) -> str:
        """Press until it led somewhere: a frame that is not drawn yet takes no notice of a mouse."""
        with anyio.fail_after(WAIT_S):
            while True:
                with suppress(RuntimeError):  # the page goes just now
                    await self.press(selector, session)
                with anyio.move_on_after(2):
                    return await self.until(arrived, framed=framed)

    async def picture(
        self, path: Path, *, width: int = 1200, height: int = 900, is_dark: bool = False
    ) -> None:
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}]
        await self.call("Emulation.setEmulatedMedia", features=scheme)
        shot = await self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))  # noqa: ASYNC240  # a test writes a small file


_ATTACH = {"autoAttach": True, "waitForDebuggerOnStart": True, "flatten": True}


_HERE = "EXCLUDE 127.0.0.1, EXCLUDE 127.0.0.2, EXCLUDE 127.0.0.3, EXCLUDE localhost, EXCLUDE *.localhost"


@asynccontextmanager
async def browser(folder: Path, *arguments: str) -> AsyncIterator[Browser]:
    command = [
        "chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--remote-debugging-port=0",
        "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
        f"--host-resolver-rules=MAP * ~NOTFOUND, {_HERE}",
        f"--user-data-dir={folder / 'profile'}",
        *arguments,
        "about:blank",
    ]  # fmt: skip
    process = await anyio.to_thread.run_sync(_started, command)
    try:
        address = await anyio.to_thread.run_sync(_address, process)
        async with (
            aiohttp.ClientSession() as client,
            client.ws_connect(address, max_msg_size=64_000_000) as socket,
            anyio.create_task_group() as tasks,
        ):
            made = Browser(socket)
            tasks.start_soon(made.listen)
            with anyio.fail_after(WAIT_S):
                await made.open_window()
            yield made
            tasks.cancel_scope.cancel()
    finally:
        process.kill()
        process.communicate()


def _started(command: list[str]) -> "subprocess.Popen[str]":
    return subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)


def _address(process: "subprocess.Popen[str]") -> str:
    assert process.stderr is not None
    for line in process.stderr:
        if found := _LISTENING.search(line):
            return found[1]
    raise AssertionError("the browser did not start")
