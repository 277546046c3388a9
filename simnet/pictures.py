"""What did the run look like over time? One small chart per series, as SVG made by hand.

An SVG needs no library to make and any browser shows it.
"""

from collections.abc import Mapping, Sequence
from html import escape

WIDTH, HEIGHT, MARGIN = 720, 160, 46
COLOURS = ("#2a6f97", "#b5651d", "#4f772d", "#8e4585", "#9b2226", "#555555")

Series = Mapping[str, Sequence[tuple[float, float]]]
Histograms = Mapping[str, Mapping[int, int]]  # how often each number was seen
BARS_MAX = 40


def draw(title: str, series: Series, histograms: Histograms | None = None) -> str:
    """Charts one under the other, all over the same time; histograms below them."""
    charts = [_chart(name, points, index) for index, (name, points) in enumerate(series.items()) if points]
    bars = {name: counts for name, counts in (histograms or {}).items() if counts}
    charts += [_bars(name, counts, index) for index, (name, counts) in enumerate(bars.items(), len(charts))]
    height = 34 + len(charts) * HEIGHT
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'font-family="sans-serif" font-size="11">\n'
        f'<rect width="100%" height="100%" fill="white"/>\n'
        f'<text x="{MARGIN}" y="20" font-size="14">{escape(title)}</text>\n' + "".join(charts) + "</svg>\n"
    )


def _chart(name: str, points: Sequence[tuple[float, float]], index: int) -> str:
    top = 34 + index * HEIGHT + 16
    bottom = top + HEIGHT - 44
    end = max(time for time, _ in points) or 1.0
    values = [value for _, value in points]
    low, high = min(0.0, *values), max(values)
    span = (high - low) or 1.0

    def place(time: float, value: float) -> str:
        x = MARGIN + (WIDTH - 2 * MARGIN) * time / end
        return f"{x:.1f},{bottom - (bottom - top) * (value - low) / span:.1f}"

    line = " ".join(place(time, value) for time, value in points)
    colour = COLOURS[index % len(COLOURS)]
    right = WIDTH - MARGIN
    return (
        f'<text x="{MARGIN}" y="{top - 5}" fill="{colour}">{escape(name)}</text>\n'
        f'<path d="M{MARGIN},{top} V{bottom} H{right}" fill="none" stroke="#999"/>\n'
        f'<text x="{MARGIN - 4}" y="{top + 8}" text-anchor="end">{_short(high)}</text>\n'
        f'<text x="{MARGIN - 4}" y="{bottom}" text-anchor="end">{_short(low)}</text>\n'
        f'<text x="{right}" y="{bottom + 13}" text-anchor="end">{_short(end)} s</text>\n'
        f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.5"/>\n'
    )


def _bars(name: str, counts: Mapping[int, int], index: int) -> str:
    top = 34 + index * HEIGHT + 16
    bottom = top + HEIGHT - 44
    numbers = sorted(counts)[:BARS_MAX]
    most, all_of_them = max(counts.values()), sum(counts.values())
    step = (WIDTH - 2 * MARGIN) / len(numbers)
    colour = COLOURS[index % len(COLOURS)]
    drawn = (
        f'<text x="{MARGIN}" y="{top - 5}" fill="{colour}">{escape(name)}, {all_of_them:,} in all</text>\n'
        f'<path d="M{MARGIN},{top} V{bottom} H{WIDTH - MARGIN}" fill="none" stroke="#999"/>\n'
    )
    for place, number in enumerate(numbers):
        height = (bottom - top - 14) * counts[number] / most
        left = MARGIN + place * step
        drawn += (
            f'<rect x="{left + 0.15 * step:.1f}" y="{bottom - height:.1f}" width="{0.7 * step:.1f}" '
            f'height="{height:.1f}" fill="{colour}"/>\n'
            f'<text x="{left + step / 2:.1f}" y="{bottom + 13}" text-anchor="middle">{number}</text>\n'
            f'<text x="{left + step / 2:.1f}" y="{bottom - height - 3:.1f}" text-anchor="middle">'
            f"{counts[number] / all_of_them:.1%}</text>\n"
        )
    return drawn


def _short(value: float) -> str:
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= limit:
            divisor = limit if unit != "k" else 1e3
            return f"{value / divisor:.3g}{unit}"
    return f"{value:.4g}"
