"""Draws a results document: one SVG a question, used by the documentation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt

mpl.use("svg")
mpl.rcParams["svg.hashsalt"] = "craig_mq"  # the same figures give the same file
OWN, PEER = "#1f6f8b", "#9aa5ab"
OURS = {"native", "aio-pika-transport", "memory"}


def draw(results: dict[str, Any], folder: Path) -> None:
    """Write every plot the results have figures for."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = results["results"]
    base = [row for row in rows if row["prefetch"] == 256 and row["body_bytes"] == 512]
    parks = [row for row in base if row["workload"] == "park"]
    _bars(parks, "msgs_per_s", "park: messages a second, prefetch 256, 512 bytes", folder / "park_rate.svg")
    _bars(parks, "cpu_us_per_msg", "park: client CPU, µs a message", folder / "park_cpu.svg")
    _prefetch([row for row in rows if row["workload"] == "park" and row["body_bytes"] == 512], folder)
    if "capture_size" in results:
        _line(
            results["capture_size"],
            "body_bytes",
            "cpu_us",
            "reading and capturing, CPU µs",
            folder / "capture.svg",
        )


def _bars(rows: list[dict[str, Any]], value: str, title: str, target: Path) -> None:
    if not rows:
        return
    rows = sorted(rows, key=lambda row: row[value])
    figure, axes = plt.subplots(figsize=(7, 0.4 * len(rows) + 1), layout="constrained")
    names = [row["client"] for row in rows]
    errors = None
    if value == "msgs_per_s":
        below = [row[value] - row["msgs_per_s_min"] for row in rows]
        errors = [below, [row["msgs_per_s_max"] - row[value] for row in rows]]
    colours = [OWN if name in OURS else PEER for name in names]
    bars = axes.barh(names, [row[value] for row in rows], color=colours, xerr=errors)
    axes.bar_label(bars, fmt="{:,.0f}", padding=6)
    axes.margins(x=0.15)
    axes.set_title(title)
    _save(figure, target)


def _prefetch(rows: list[dict[str, Any]], folder: Path) -> None:
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for name in sorted({row["client"] for row in rows}):
        mine = sorted((row["prefetch"], row["msgs_per_s"]) for row in rows if row["client"] == name)
        if len(mine) > 1:
            axes.plot(*zip(*mine, strict=True), marker="o", label=name, linewidth=3 if name in OURS else 1.5)
    axes.set(
        xscale="log", yscale="log", xlabel="prefetch", ylabel="messages a second", title="park, 512 bytes"
    )
    if axes.lines:
        axes.legend()
        _save(figure, folder / "park_prefetch.svg")
    plt.close(figure)


def _line(rows: list[dict[str, Any]], x: str, y: str, title: str, target: Path) -> None:
    figure, axes = plt.subplots(figsize=(7, 3.5), layout="constrained")
    axes.plot([row[x] for row in rows], [row[y] for row in rows], marker="o", color=OWN)
    axes.set(xscale="log", yscale="log", xlabel=x.replace("_", " "), title=title)
    _save(figure, target)


def _save(figure: Any, target: Path) -> None:
    figure.savefig(target, metadata={"Date": None})
    plt.close(figure)
