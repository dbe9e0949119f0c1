"""Charts as SVG text: small, sharp at any size, and part of the page itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 720, 360, 46, 34, 12, 12
# Okabe and Ito's palette, which colour-blind readers can tell apart; dashes help in grey.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D31")
DASHES = ("", "6 3", "2 3", "8 3 2 3")


def line_chart(series: Mapping[str, Sequence[float]], x_label: str, y_label: str) -> str:
    """Curves over 1, 2, 3, ...; each carries its name and values for the page's script."""
    longest = max(len(values) for values in series.values())
    low = min(min(values) for values in series.values())
    high = max(max(values) for values in series.values())
    low, high = low - 0.02 * (high - low + 1), high + 0.02 * (high - low + 1)

    def _points(values: Sequence[float]) -> str:
        places = [f"{_x(k, longest):.1f},{_y(value, low, high):.1f}" for k, value in enumerate(values)]
        return " ".join(places * 2 if len(places) == 1 else places)  # a single point is drawn as a dot

    lines = [
        f'<polyline class="curve" data-name="{escape(name, quote=True)}" fill="none" stroke="{_colour(i)}" '
        f'stroke-width="2" stroke-linecap="round" stroke-dasharray="{_dash(i)}" points="{_points(v)}"/>'
        for i, (name, v) in enumerate(series.items())
    ]
    ticks = "".join(_y_tick(low + (high - low) * k / 4, low, high) for k in range(5))
    epochs = sorted({round(1 + (longest - 1) * k / 4) for k in range(5)})
    ticks += "".join(_x_tick(epoch, longest) for epoch in epochs)
    return _frame(ticks + "".join(lines), x_label, y_label)


def histogram(groups: Mapping[str, Sequence[float]], edges: Sequence[float], x_label: str) -> str:
    """Shares of each group in the bins between ``edges``, drawn as steps over each other."""
    bins = len(edges) - 1
    parts = []
    for i, (name, shares) in enumerate(groups.items()):
        points = [f"{_x(0, bins + 1):.1f},{_y(0, 0, 1):.1f}"]
        for k, share in enumerate(shares):
            points += [
                f"{_x(k, bins + 1):.1f},{_y(share, 0, 1):.1f}",
                f"{_x(k + 1, bins + 1):.1f},{_y(share, 0, 1):.1f}",
            ]
        points.append(f"{_x(bins, bins + 1):.1f},{_y(0, 0, 1):.1f}")
        parts.append(
            f'<polygon data-name="{escape(name, quote=True)}" fill="{_colour(i)}" fill-opacity="0.25" '
            f'stroke="{_colour(i)}" stroke-width="2" stroke-dasharray="{_dash(i)}" points="{" ".join(points)}"/>'
        )
    ticks = "".join(_y_tick(k / 4, 0, 1) for k in range(5))
    for k in range(0, bins + 1, max(1, bins // 5)):
        ticks += _text(_x(k, bins + 1), HEIGHT - BOTTOM + 16, f"{edges[k]:g}", "middle")
    return _frame(ticks + "".join(parts), x_label, "share of samples")


def buttons(names: Sequence[str]) -> str:
    """The names beside their lines, as buttons that the page's script listens to."""
    return "".join(
        f'<button type="button" class="key" data-name="{escape(name, quote=True)}" aria-pressed="true">'
        f"{_key(i, name)}</button>"
        for i, name in enumerate(names)
    )


def legend(names: Sequence[str]) -> str:
    """The names beside their lines, to read."""
    return "".join(f'<span class="name">{_key(i, name)}</span>' for i, name in enumerate(names))


def _key(i: int, name: str) -> str:
    return (
        f'<svg width="26" height="8" aria-hidden="true"><line x1="0" y1="4" x2="26" y2="4" stroke="{_colour(i)}" '
        f'stroke-width="3" stroke-dasharray="{_dash(i)}"/></svg> {escape(name)}'
    )


def _frame(inside: str, x_label: str, y_label: str) -> str:
    middle = TOP + (HEIGHT - TOP - BOTTOM) / 2
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(y_label, quote=True)}">'
        f'<rect x="{LEFT}" y="{TOP}" width="{WIDTH - LEFT - RIGHT}" height="{HEIGHT - TOP - BOTTOM}" '
        f'fill="none" stroke="#bbb"/>{inside}'
        + _text(LEFT + (WIDTH - LEFT - RIGHT) / 2, HEIGHT - 4, x_label, "middle")
        + f'<text text-anchor="middle" transform="translate(12 {middle}) rotate(-90)">{escape(y_label)}</text></svg>'
    )


def _x(k: float, count: int) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * (k / max(count - 1, 1))


def _y(value: float, low: float, high: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value - low) / max(high - low, 1e-12)


def _y_tick(value: float, low: float, high: float) -> str:
    y = _y(value, low, high)
    line = f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ececec"/>'
    return line + _text(LEFT - 5, y + 4, f"{value:.3g}", "end")


def _x_tick(epoch: int, longest: int) -> str:
    return _text(_x(epoch - 1, longest), HEIGHT - BOTTOM + 16, str(epoch), "middle")


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _colour(i: int) -> str:
    return COLOURS[i % len(COLOURS)]


def _dash(i: int) -> str:
    return DASHES[(i // len(COLOURS) + i) % len(DASHES)]
