"""Directives that render tables from the data the tests run on, so that no page can drift from it."""

import tomllib
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from prometheus_client import CollectorRegistry
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from craig_mq.observe.instruments import Instruments
from craig_mq.testing.chaos.report import JSON_NAME, read_report, where

ROOT = Path(__file__).resolve().parent.parent.parent


class ClauseTable(SphinxDirective):
    """``adr-clauses``: ADR-059 clause by clause, from reference/adr-059.toml."""

    def run(self) -> list[nodes.Node]:
        """Render one heading per place and one row per clause."""
        source = ROOT / "docs" / "reference" / "adr-059.toml"
        self.env.note_dependency(str(source))
        clauses = tomllib.loads(source.read_text(encoding="utf-8"))["clause"]
        lines = ["| # | clause | what holds | kept by | proven by |", "|---|---|---|---|---|"]
        for number, clause in enumerate(clauses, start=1):
            tests = "<br>".join(f"`{test.removeprefix('tests/')}`" for test in clause["tests"])
            cells = [
                str(number),
                f"`{clause['id']}` {clause['place']}",
                clause["text"],
                f"`{clause['file']}`",
                tests,
            ]
            lines.append(f"| {' | '.join(cells)} |")
        container = nodes.container()
        self.state.nested_parse(StringList(lines, str(source)), self.content_offset, container)
        return container.children


class MetricsTable(SphinxDirective):
    """``metrics-table``: every series, from the code that registers it."""

    def run(self) -> list[nodes.Node]:
        """Render one row per series."""
        registry = CollectorRegistry()
        series = vars(Instruments(registry)).values()
        lines = ["| series | kind | labels | what |", "|---|---|---|---|"]
        for metric in series:
            name = metric._name + ("_total" if metric._type == "counter" else "")
            labels = ", ".join(f"`{label}`" for label in metric._labelnames)
            lines.append(f"| `{name}` | {metric._type} | {labels} | {metric._documentation} |")
        container = nodes.container()
        self.state.nested_parse(StringList(lines, __file__), self.content_offset, container)
        return container.children


class GuaranteeTable(SphinxDirective):
    """``guarantees``: what holds under which fault, from guarantees.toml and the chaos report beside it."""

    def run(self) -> list[nodes.Node]:
        """Render one row per fault, one column per setting that was really broken."""
        folder = ROOT / "docs" / "explanation"
        for name in ("guarantees.toml", JSON_NAME):
            self.env.note_dependency(str(folder / name))
        rows = tomllib.loads((folder / "guarantees.toml").read_text(encoding="utf-8"))["row"]
        outcomes = read_report(folder)
        met: dict[str, Counter[str]] = defaultdict(Counter)
        for outcome in outcomes:
            met[where(outcome).removeprefix("RabbitMQ ").replace(" queues", "")].update(outcome.troubles)
        heads = ["fault", "guaranteed", "not guaranteed", *met, "on the model", "proven by"]
        lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
        for row in rows:
            proof = f"`{row['test'].removeprefix('tests/')}`" if row["test"] else "-"
            kept = (self._kept(row, troubles) for troubles in met.values())
            cells = (row["fault"], row["guaranteed"], row["limits"], *kept, row["model"], proof)
            lines.append(f"| {' | '.join(cells)} |")
        container = nodes.container()
        self.state.nested_parse(
            StringList(lines, str(folder / "guarantees.toml")), self.content_offset, container
        )
        return container.children

    @staticmethod
    def _kept(row: dict[str, Any], troubles: Counter[str]) -> str:
        """Say whether a setting kept the guarantee, and how often it had to."""
        times = sum(troubles[name] for name in row["troubles"])
        if row["guaranteed"].startswith("Nothing:"):
            return f"nothing (met {times} times)" if times else "nothing"
        return f"kept, {times} times" if times else "not run"


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directives."""
    app.add_directive("adr-clauses", ClauseTable)
    app.add_directive("metrics-table", MetricsTable)
    app.add_directive("guarantees", GuaranteeTable)
    return {"parallel_read_safe": True}
