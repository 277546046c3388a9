"""How are sizes, times and numbers of things said to a person?"""


def readable_bytes(size: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1_000:
            return f"{size:,.0f} {unit}" if unit == "B" else f"{size:,.1f} {unit}"
        size /= 1_000
    return f"{size:,.1f} TB"


def readable_duration(seconds: int) -> str:
    minutes, hours, days = seconds // 60, seconds // 3_600, seconds // 86_400
    if days:
        return f"{days:,} d {hours % 24} h"
    return f"{hours} h {minutes % 60} min" if hours else f"{minutes} min"


def soon(seconds: float) -> str:
    """A time that is left; never "0 min"."""
    return f"{max(1, round(seconds))} s" if seconds < 60 else readable_duration(int(seconds))


def counted(count: int, noun: str) -> str:
    return f"1 {noun}" if count == 1 else f"{count:,} {noun}s"
