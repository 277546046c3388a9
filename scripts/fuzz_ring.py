"""Can any bytes break the ring's ways in? By atheris; `scripts/fuzz ring` installs and starts it."""

import importlib
import sys
import tempfile
from pathlib import Path


def main() -> None:
    atheris = importlib.import_module("atheris")  # no dependency of ours: see scripts/fuzz
    with atheris.instrument_imports(include=["dht"]):
        from tests.dht import fuzzing
        from tests.dht.vectors import vectors

    def test_one_input(data: bytes) -> None:
        for target in fuzzing.ALL:
            target(data)

    artifacts = Path(tempfile.gettempdir())  # where an input that broke something is kept
    with tempfile.TemporaryDirectory() as folder:
        for name, data in vectors():
            (Path(folder) / name).write_bytes(data)
        atheris.Setup([*sys.argv, "-max_len=1300", f"-artifact_prefix={artifacts}/", folder], test_one_input)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
