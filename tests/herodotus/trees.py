"""What is in a folder? For tests that show that nothing was changed."""

from pathlib import Path


def tree(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Mode and content of everything below, folders with no content."""
    found = {}
    for one in sorted(folder.rglob("*")):
        content = one.read_bytes() if one.is_file() else b""
        found[str(one.relative_to(folder))] = (one.lstat().st_mode, content)
    return found
