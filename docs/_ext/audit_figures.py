"""``measured-audit`` renders benchmarks/results/audit.json: the ledger beside bare drivers, and the path."""

import json
from typing import Any

from measurements import RESULTS, Measured
from sphinx.application import Sphinx


class Audit(Measured):
    """When and on what it was measured, rows a second of each store, messages a second of the whole path."""

    def lines(self, results: dict[str, Any], runs: list[dict[str, Any]]) -> list[str]:  # noqa: ARG002
        """Render a paragraph and two tables."""
        run = json.loads((RESULTS / "audit.json").read_text(encoding="utf-8"))
        return [_circumstances(run), "", *_ledger(run["ledger"]), "", *_path(run["path"])]


def _circumstances(run: dict[str, Any]) -> str:
    machine = run["machine"]
    known = ", ".join(f"{name} {number}" for name, number in run["versions"].items() if number)
    return (
        f"{run['at']}: {machine['cores']} cores ({machine['processor']}), {machine['system']}; load average"
        f" {machine['load_before']:.1f} before and {machine['load_after']:.1f} after the run; {known}."
        f" {run['rows']:,} rows of {run['body_bytes']} bytes; medians and extremes of {run['rounds']} rounds."
    )


def _ledger(stores: dict[str, Any]) -> list[str]:
    lines = ["| store | loop | rows/s | extremes | CPU µs |", "|---|---|--:|--:|--:|"]
    for store, named in stores.items():
        for name, figure in named.items():
            if "rows_per_s" in figure:
                unit, each, cpu = "", figure["rows_per_s"], figure["cpu_us_per_row"]["median"]
            else:
                unit, each, cpu = "× ", figure["by_wall"], ""
            shown = [f"{unit}{each[of]:,}" for of in ("median", "min", "max")]
            lines.append(f"| {store} | {name} | {shown[0]} | {shown[1]} – {shown[2]} | {cpu} |")
    return lines


def _path(rows: list[dict[str, Any]]) -> list[str]:
    heads = "| store | messages/s | extremes | CPU µs: client | broker | PostgreSQL |"
    lines = [heads, "|---|--:|--:|--:|--:|--:|"]
    for row in rows:
        cpu = row["cpu_us_per_msg"]
        parties = " | ".join(f"{cpu.get(name, 0.0):,}" for name in ("client", "broker", "postgres"))
        lines.append(
            f"| {row['store']} | {row['msgs_per_s']:,} | {row['min']:,} – {row['max']:,} | {parties} |"
        )
    return lines


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("measured-audit", Audit)
    return {"parallel_read_safe": True}
