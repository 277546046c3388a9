"""How are two browsers told where to go, and asked what a page says in any of its frames?

Chromium by its own protocol, Firefox by WebDriver BiDi: one window, all of whose frames can be asked.
"""

import json
import re
import subprocess
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import aiohttp
import anyio
import anyio.to_thread

from tests.herodotus.portal.browser import Browser, browser

ANSWER_S, FIREFOX_ANSWER_S = 3.0, 20.0
"""Firefox is asked for all frames at once, and is slow where a page has a hundred."""
CALL_S = 120.0
_LISTENING = re.compile(r"WebDriver BiDi listening on (ws://\S+)")


class Window(Protocol):
    async def visit(self, address: str) -> None: ...

    async def everywhere(self, expression: str) -> list[Any]:
        """What it is in each frame, the window's own first; frames where it fails are left out."""
        ...


class _Chromium:
    def __init__(self, inner: Browser) -> None:
        self._inner = inner

    async def visit(self, address: str) -> None:
        await self._inner.visit(address)

    async def everywhere(self, expression: str) -> list[Any]:
        sessions = [self._inner.session, *list(self._inner.frames.values())]
        found: dict[str, Any] = {}

        async def ask(session: str) -> None:
            with suppress(RuntimeError):  # it goes just now, or throws
                found[session] = await self._inner.run(expression, session)

        # A frame that a policy has stopped does not answer.
        with anyio.move_on_after(ANSWER_S):
            async with anyio.create_task_group() as tasks:
                for session in sessions:
                    tasks.start_soon(ask, session)
        return [found[one] for one in sessions if one in found]


class _Firefox:
    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = count(1)
        self._window = ""

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        with anyio.move_on_after(CALL_S):
            async for message in self._socket:
                said = message.json()
                if said.get("id") == number:
                    if said["type"] == "error":
                        raise RuntimeError(f"{method}: {said['error']}: {said.get('message', '')[:200]}")
                    result: dict[str, Any] = said["result"]
                    return result
        raise RuntimeError(f"{method}: the browser is gone, or a page keeps it from answering")

    async def begin(self) -> None:
        await self.call("session.new", capabilities={})
        self._window = (await self.call("browsingContext.getTree"))["contexts"][0]["context"]

    async def visit(self, address: str) -> None:
        await self.call("browsingContext.navigate", context=self._window, url=address, wait="none")

    async def everywhere(self, expression: str) -> list[Any]:
        tree = await self.call("browsingContext.getTree", root=self._window)
        frames, waiting = [], list(tree["contexts"])
        while waiting:
            frames.append(one := waiting.pop(0))
            waiting += one["children"] or []
        asked: set[int] = set()
        for frame in frames:
            asked.add(number := next(self._numbers))
            parameters = {
                "expression": f"JSON.stringify({expression})",
                "target": {"context": frame["context"]},
                "awaitPromise": False,
            }
            await self._socket.send_json({"id": number, "method": "script.evaluate", "params": parameters})
        return await self._answers(asked)

    async def _answers(self, asked: set[int]) -> list[Any]:
        """In the order of the questions. A frame that was stopped, or waits for a person, gives none."""
        found: dict[int, Any] = {}
        with anyio.move_on_after(FIREFOX_ANSWER_S):
            async for message in self._socket:
                said = message.json()
                if said.get("id") in asked:
                    asked.discard(said["id"])
                    if said["type"] == "success" and said["result"]["type"] == "success":
                        found[said["id"]] = json.loads(said["result"]["result"].get("value", "null"))
                if not asked:
                    break
        return [found[number] for number in sorted(found)]


@asynccontextmanager
async def chromium(folder: Path, proxy: str) -> AsyncIterator[Window]:
    async with browser(folder, f"--proxy-server=http://{proxy}") as inner:
        yield _Chromium(inner)


@asynccontextmanager
async def firefox(folder: Path, proxy: str) -> AsyncIterator[Window]:
    host, _, port = proxy.partition(":")
    profile = folder / "firefox"
    profile.mkdir()
    settings: dict[str, object] = {
        "network.proxy.type": 1, "network.proxy.http": host, "network.proxy.http_port": int(port),
        "network.proxy.ssl": host, "network.proxy.ssl_port": int(port), "app.update.enabled": False,
        "datareporting.healthreport.uploadEnabled": False, "toolkit.telemetry.server": "",
        "browser.safebrowsing.malware.enabled": False, "browser.safebrowsing.phishing.enabled": False,
        "network.captive-portal-service.enabled": False, "network.connectivity-service.enabled": False,
        "services.settings.server": "http://127.0.0.1:1", "browser.region.network.url": "",
        "extensions.update.enabled": False, "dom.push.enabled": False, "app.normandy.enabled": False,
    }  # fmt: skip
    lines = [f"user_pref({json.dumps(name)}, {json.dumps(value)});" for name, value in settings.items()]
    await anyio.Path(profile / "user.js").write_text("\n".join(lines))
    command = [
        "firefox-esr",
        "--headless",
        "--profile",
        str(profile),
        "--remote-debugging-port",
        "0",
        "about:blank",
    ]
    process = await anyio.to_thread.run_sync(_started, command)
    try:
        address = await anyio.to_thread.run_sync(_address, process)
        async with (
            aiohttp.ClientSession() as client,
            client.ws_connect(f"{address}/session", max_msg_size=64_000_000) as socket,
        ):
            made = _Firefox(socket)
            await made.begin()
            yield made
    finally:
        process.kill()
        await anyio.to_thread.run_sync(process.communicate)


def _started(command: list[str]) -> "subprocess.Popen[str]":
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def _address(process: "subprocess.Popen[str]") -> str:
    assert process.stderr is not None
    for line in process.stderr:
        found = _LISTENING.search(line)
        if found:
            return found[1]
    raise RuntimeError("Firefox says nowhere that it listens")


BROWSERS: dict[str, Any] = {"chromium": chromium, "firefox": firefox}


def opened(name: str, folder: Path, proxy: str) -> AbstractAsyncContextManager[Window]:
    made: AbstractAsyncContextManager[Window] = BROWSERS[name](folder, proxy)
    return made
