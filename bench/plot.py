"""Line charts as SVG, by hand: a few hundred bytes per line, readable on light and on dark pages, no library."""

import math
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 640, 360
LEFT, RIGHT, TOP, BOTTOM = 66, 150, 34, 46  # the legend stands at the right
COLOURS = ("#3b82f6", "#f97316", "#10b981", "#a855f7", "#ef4444", "#14b8a6", "#eab308", "#ec4899", "#64748b", "#84cc16")
STYLE = """<style>
svg{background:#fff;font:12px system-ui,sans-serif}
text{fill:#24292f}.quiet{fill:#57606a}.grid{stroke:#d8dee4}.aim{stroke:#57606a;stroke-dasharray:5 4}
@media(prefers-color-scheme:dark){svg{background:#0d1117}
text{fill:#e6edf3}.quiet{fill:#9198a1}.grid{stroke:#2f353d}.aim{stroke:#9198a1}}
</style>"""


def short(value: float) -> str:
    """1200 → 1.2k."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.4g}{letter}"
    return f"{value:.3g}"


class Axis:
    """Data to pixels along one side, and where its ticks stand."""

    def __init__(self, values: list[float], log: bool, near: float, far: float):
        self.log, self.near, self.far = log, near, far
        low, high = min(values), max(values)
        if log:
            pad = max(0.15, 0.04 * math.log10(high / low))
            self.low, self.high = math.log10(low) - pad, math.log10(high) + pad
        else:
            self.low, self.high = 0.0, high * 1.08 or 1.0

    def at(self, value: float) -> float:
        place = ((math.log10(value) if self.log else value) - self.low) / (self.high - self.low)
        return self.near + place * (self.far - self.near)

    def ticks(self) -> list[float]:
        if self.log:
            steps = (1, 2, 5) if self.high - self.low < 2.5 else (1,)
            found = [m * 10.0 ** e for e in range(math.floor(self.low), math.ceil(self.high) + 1) for m in steps]
            return [v for v in found if self.low <= math.log10(v) <= self.high]
        step = 10.0 ** math.floor(math.log10(self.high / 4))
        step *= next(m for m in (1, 2, 5, 10) if self.high / (step * m) <= 6)
        return [i * step for i in range(int(self.high / step) + 1)]


def chart(title: str, x_title: str, y_title: str, lines: dict[str, list[tuple[float, float]]],
          log_x: bool = True, log_y: bool = True, aim: tuple[str, float] | None = None) -> str:
    """An SVG document. lines: legend → points (x, y); points without y are left out. aim: (what, y), a dashed line
    across."""
    lines = {name: sorted((x, y) for x, y in points if y is not None and (y > 0 or not log_y))
             for name, points in lines.items()}
    lines = {name: points for name, points in lines.items() if points}
    if not lines:
        raise ValueError(f"nothing to draw in {title!r}")
    xs = [x for points in lines.values() for x, _ in points]
    ys = [y for points in lines.values() for _, y in points] + ([aim[1]] if aim else [])
    across = Axis(xs, log_x, LEFT, WIDTH - RIGHT)
    up = Axis(ys, log_y, HEIGHT - BOTTOM, TOP)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
           f' role="img">', STYLE,
           f"<title>{escape(title)}</title>", f'<text x="{LEFT}" y="20" font-weight="600">{escape(title)}</text>']
    for value in across.ticks():
        x = across.at(value)
        out.append(f'<path class="grid" d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}"/><text class="quiet" x="{x:.1f}"'
                   f' y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{short(value)}</text>')
    for value in up.ticks():
        y = up.at(value)
        out.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/><text class="quiet" x="{LEFT - 6}"'
                   f' y="{y + 4:.1f}" text-anchor="end">{short(value)}</text>')
    out.append(f'<text class="quiet" x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}"'
               f' text-anchor="middle">{escape(x_title)}</text>')
    out.append(f'<text class="quiet" transform="translate(14 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)"'
               f' text-anchor="middle">{escape(y_title)}</text>')
    if aim:
        y = up.at(aim[1])
        out.append(f'<path class="aim" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/><text class="quiet" x="{LEFT + 6}"'
                   f' y="{y - 4:.1f}">{escape(aim[0])}</text>')
    for i, (name, points) in enumerate(lines.items()):
        colour, y = COLOURS[i % len(COLOURS)], TOP + 12 + 18 * i
        path = "L".join(f"{across.at(x):.1f} {up.at(v):.1f}" for x, v in points)
        out.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out += [f'<circle cx="{across.at(x):.1f}" cy="{up.at(v):.1f}" r="3" fill="{colour}"><title>{escape(name)}:'
                f' {short(x)} → {short(v)}</title></circle>' for x, v in points]
        out.append(f'<path d="M{WIDTH - RIGHT + 10} {y}h18" stroke="{colour}" stroke-width="3"/><text'
                   f' x="{WIDTH - RIGHT + 34}" y="{y + 4}">{escape(name)}</text>')
    return "\n".join(out) + "\n</svg>\n"


def bars(title: str, values: dict[str, float]) -> str:
    """An SVG document: a horizontal bar for each value, with what it is at the left and how much at its end."""
    left, row = 200, 26
    height = TOP + row * len(values) + 12
    wide = (WIDTH - left - 70) / max(values.values())
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
           f' role="img">', STYLE, f'<text x="12" y="20" font-weight="600">{escape(title)}</text>']
    for place, (name, value) in enumerate(values.items()):
        y = TOP + row * place
        out.append(f'<text x="{left - 8}" y="{y + 17}" text-anchor="end">{escape(name)}</text>'
                   f'<rect x="{left}" y="{y + 4}" width="{value * wide:.1f}" height="{row - 8}"'
                   f' fill="{COLOURS[place % len(COLOURS)]}"/>'
                   f'<text class="quiet" x="{left + value * wide + 6:.1f}" y="{y + 17}">{value:,.0f}</text>')
    return "\n".join([*out, "</svg>", ""])
