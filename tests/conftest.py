"""What every test may use: the loops, and programs that a machine may lack."""

import os
import shutil

import pytest


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A test that needs a program is skipped with a reason where it is missing, and fails there in CI."""
    for marker in item.iter_markers("needs"):
        for program in marker.args:
            if shutil.which(program) is None:
                reason = f"{program} is not installed: scripts/setup dev, as root on Debian, installs it"
                if os.environ.get("CI") == "true":
                    pytest.fail(reason)
                pytest.skip(reason)


@pytest.fixture
def anyio_backend() -> str:
    """Production's loop; a test of virtual time overrides this with trio and its MockClock."""
    return "asyncio"
