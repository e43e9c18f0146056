"""The transition table as a picture: ``python -m supervisors.diagram`` prints the documentation's SVG."""

from __future__ import annotations

import math
import sys

from supervisors.state import LIVE, ChildState
from supervisors.transitions import TRANSITIONS

_PLACES: dict[ChildState, tuple[int, int]] = {
    ChildState.WAITING: (110, 90),
    ChildState.STARTING: (360, 90),
    ChildState.RUNNING: (610, 90),
    ChildState.BACKOFF: (110, 310),
    ChildState.STOPPING: (360, 310),
    ChildState.DRAINING: (610, 310),
    ChildState.DONE: (360, 520),
    ChildState.REMOVED: (610, 520),
}
_HALF_WIDTH, _HALF_HEIGHT, _BEND, _LINE = 56, 22, 0.16, 18


def render_svg() -> str:
    """Every state as a box (live ones filled), every edge as a numbered arrow, each number in a legend."""
    height = 600 + _LINE * len(TRANSITIONS)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 740 {height}"',
        ' font-family="sans-serif" font-size="13">',
        "<title>Transitions of a child</title>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4"',
        ' markerWidth="8" markerHeight="8" orient="auto">',
        '<polygon points="0,0 8,4 0,8" fill="#444"/></marker></defs>',
        f'<rect width="740" height="{height}" fill="#fff"/>',
    ]
    parts += [_edge(number, before, after) for number, (before, after) in enumerate(TRANSITIONS, 1)]
    parts += [_box(state) for state in _PLACES]
    for number, ((before, after), cause) in enumerate(TRANSITIONS.items(), 1):
        y = 590 + _LINE * number
        parts.append(f'<text x="20" y="{y}">{number}. {before.value} → {after.value}</text>')
        parts.append(f'<text x="230" y="{y}">{cause}</text>')
    return "\n".join([*parts, "</svg>"])


def _box(state: ChildState) -> str:
    x, y = _PLACES[state]
    fill = "#d7ecd9" if state in LIVE else "#eee"
    return (
        f'<rect x="{x - _HALF_WIDTH}" y="{y - _HALF_HEIGHT}"'
        f' width="{2 * _HALF_WIDTH}" height="{2 * _HALF_HEIGHT}" rx="8" fill="{fill}" stroke="#444"/>'
        f'<text x="{x}" y="{y + 5}" text-anchor="middle">{state.name}</text>'
    )


def _edge(number: int, before: ChildState, after: ChildState) -> str:
    (x1, y1), (x2, y2) = _PLACES[before], _PLACES[after]
    bend_x = (x1 + x2) / 2 - (y2 - y1) * _BEND
    bend_y = (y1 + y2) / 2 + (x2 - x1) * _BEND
    start, end = _border(x1, y1, bend_x, bend_y), _border(x2, y2, bend_x, bend_y)
    label_x, label_y = (start[0] + 2 * bend_x + end[0]) / 4, (start[1] + 2 * bend_y + end[1]) / 4
    return (
        f'<path d="M{start[0]:.0f},{start[1]:.0f} Q{bend_x:.0f},{bend_y:.0f} {end[0]:.0f},{end[1]:.0f}"'
        f' fill="none" stroke="#444" marker-end="url(#tip)"/>'
        f'<text x="{label_x:.0f}" y="{label_y:.0f}" fill="#b00" font-weight="bold">{number}</text>'
    )


def _border(x: float, y: float, toward_x: float, toward_y: float) -> tuple[float, float]:
    """Where the line from a box's middle toward a point leaves the box."""
    dx, dy = toward_x - x, toward_y - y
    scale = min(
        _HALF_WIDTH / abs(dx) if dx else math.inf,
        _HALF_HEIGHT / abs(dy) if dy else math.inf,
    )
    return x + dx * scale, y + dy * scale


def main() -> None:
    """Print the picture."""
    sys.stdout.write(render_svg() + "\n")


if __name__ == "__main__":
    main()
