"""Directives that render figures from the committed results of the benchmark, so that no page can drift."""

import json
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

IN_FULL = 10_000
"""From so many microseconds a duration is given in milliseconds."""

RESULTS = Path(__file__).resolve().parent.parent.parent / "benchmarks" / "results"


def committed() -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return every run's findings in one, and the runs themselves; each is one file of the script's."""
    files = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(RESULTS.glob("*.json"))]
    runs = [file for file in files if "kind" in file]  # other benchmarks keep their results here too
    together: dict[str, Any] = {}
    for run in runs:
        together.update(run)
    together["results"] = [row for run in runs for row in run["results"]]
    together["targets"] = [{"run": run["kind"], **row} for run in runs for row in run.get("targets", ())]
    return together, runs


class Measured(SphinxDirective):
    """A table or a paragraph made of the results file."""

    def run(self) -> list[nodes.Node]:
        """Render what ``lines`` makes of the results."""
        for path in RESULTS.glob("*.json"):
            self.env.note_dependency(str(path))
        lines = self.lines(*committed())
        container = nodes.container()
        self.state.nested_parse(StringList(lines, str(RESULTS)), self.content_offset, container)
        return container.children

    def lines(self, results: dict[str, Any], runs: list[dict[str, Any]]) -> list[str]:
        """Return MyST lines."""
        raise NotImplementedError


class MeasuredOn(Measured):
    """``measured-on``: when, on what, with which versions, and what each run left out."""

    def lines(self, results: dict[str, Any], runs: list[dict[str, Any]]) -> list[str]:  # noqa: ARG002
        """Render one item a run."""
        return [f"- {_circumstances(run)}" for run in runs]


def _circumstances(run: dict[str, Any]) -> str:
    machine = run["machine"]
    known = ", ".join(f"{name} {number}" for name, number in run["versions"].items() if number)
    left_out = "; ".join(run["left_out"]) or "nothing"
    failed = "; ".join(run["failed"]) or "nothing"
    return (
        f"{run['kind']}, {run['at']}: {machine['cores']} cores ({machine['processor']}), "
        f"{machine['system']}; "
        f"load average {machine['load_before']:.1f} before and {machine['load_after']:.1f} after the run; "
        f"{known}. Left out for want of time: {left_out}. Failed: {failed}."
    )


class Rates(Measured):
    """``measured-rates``: workloads, clients, rates, spread, ratio to pika's bare loop, CPU."""

    has_content = False
    optional_arguments = 9

    def lines(self, results: dict[str, Any], runs: list[dict[str, Any]]) -> list[str]:  # noqa: ARG002
        """Render one row a measurement of the workloads named, or of all."""
        wanted = set(self.arguments)
        rows = [row for row in results["results"] if not wanted or row["workload"] in wanted]
        base = {
            (row["prefetch"], row["body_bytes"]): row["msgs_per_s"]
            for row in results["results"]
            if (row["workload"], row["client"]) == ("park", "pika")
        }
        lines = [
            "| workload | client | prefetch | body | msgs/s | extremes | × pika | CPU µs | Python | rounds |",
            "|---|---|--:|--:|--:|--:|--:|--:|---|--:|",
        ]
        for row in rows:
            pika = base.get((row["prefetch"], row["body_bytes"]))
            ratio = f"{row['msgs_per_s'] / pika:.2f}" if pika and row["client"] != "memory" else ""
            lines.append(
                f"| {row['workload']} | {row['client']} | {row['prefetch']} | {row['body_bytes']:,} "
                f"| {row['msgs_per_s']:,.0f} | {row['msgs_per_s_min']:,.0f} – {row['msgs_per_s_max']:,.0f} "
                f"| {ratio} | {row['cpu_us_per_msg']:,.1f} | {row['python']} | {row['rounds']} |"
            )
        return lines


class Detail(Measured):
    """``measured-detail NAME``: one of the run's other findings, as a table."""

    required_arguments = 1

    def lines(self, results: dict[str, Any], runs: list[dict[str, Any]]) -> list[str]:  # noqa: ARG002
        """Render a table whose columns are the finding's own names."""
        found = results.get(self.arguments[0])
        if not found:
            return ["*This run left it out.*"]
        rows = found if isinstance(found, list) else [found]
        heads = list(rows[0])
        lines = [f"| {' | '.join(head.replace('_', ' ') for head in heads)} |", "|" + "--:|" * len(heads)]
        lines += [f"| {' | '.join(_shown(row[head]) for head in heads)} |" for row in rows]
        return lines


def _shown(value: object) -> str:
    return f"{value:,}" if isinstance(value, int | float) else str(value)


class Restarts(Measured):
    """``measured-restarts``: supervisors-restarts.json, with the time per member for group restarts."""

    def lines(self, results: dict[str, Any], runs: list[dict[str, Any]]) -> list[str]:  # noqa: ARG002
        """Render one row a strategy and size."""
        rows = json.loads((RESULTS / "supervisors-restarts.json").read_text(encoding="utf-8"))
        lines = ["| what | children | median | per member | clock |", "|---|--:|--:|--:|---|"]
        for row in rows:
            microseconds, children = row["value"], row["children"]
            each = "–" if row["name"].endswith("one_for_one") else f"{microseconds / children:,.0f} µs"
            median = f"{microseconds:,.0f} µs" if microseconds < IN_FULL else f"{microseconds / 1e3:,.0f} ms"
            lines.append(f"| {row['name']} | {children:,} | {median} | {each} | {row['clock']} |")
        return lines


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directives."""
    app.add_directive("measured-on", MeasuredOn)
    app.add_directive("measured-rates", Rates)
    app.add_directive("measured-detail", Detail)
    app.add_directive("measured-restarts", Restarts)
    return {"parallel_read_safe": True}
