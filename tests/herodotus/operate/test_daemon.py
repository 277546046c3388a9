"""Does a running peer's home stay whole, and can its operator still be told from others?"""

from pathlib import Path
from typing import Any

import anyio
import pytest
import trio.testing

from herodotus.core.errors import StorageFailure
from herodotus.home.folder import Home, locked, running_on
from herodotus.home.second_copies import HomeWatch, keep_home
from herodotus.operate.daemon import LOOK_AT_HOME_S, keep_home_whole
from herodotus.portal.operator_rule import OperatorRule, operator_token
from tests.herodotus.operate.cli.processes import new_home

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("in_place")]


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


async def test_what_a_home_loses_is_there_again_within_a_minute(tmp_path: Path) -> None:
    home, rule, told = Home(new_home(tmp_path / "peer")), OperatorRule(), list[str]()
    settings = home.config.read_text()
    keep_home(home.path)
    before = operator_token(home)
    with locked(home) as lock:
        async with anyio.create_task_group() as tasks:

            def read_token() -> None:
                rule.knows(operator_token(home))

            tasks.start_soon(keep_home_whole, HomeWatch(home.path, lock.hold_on), told.extend, read_token)
            for lost in (home.config, home.lock, home.token):
                lost.unlink()
                lost.mkdir()
            await anyio.sleep(2 * LOOK_AT_HOME_S + 1)
            tasks.cancel_scope.cancel()
        assert sorted(told) == ["config.toml", "lock"]
        assert home.config.read_text() == settings
        assert running_on(home) is not None
        assert rule.is_secret(operator_token(home))
        assert not rule.is_secret(before), "who deletes it wants another"


async def test_a_secret_that_cannot_be_read_stays_as_it_was(tmp_path: Path) -> None:
    looks = list[int]()

    def read_token() -> None:
        looks.append(1)
        raise StorageFailure(path="token", action="read", reason="no", hint="none")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(keep_home_whole, HomeWatch(tmp_path, lambda: False), lambda _names: None, read_token)
        await anyio.sleep(3 * LOOK_AT_HOME_S + 1)
        tasks.cancel_scope.cancel()
    assert len(looks) == 3
