"""``python -m benchmarks``: everything in one go, on a private node it starts."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import click
from rich.console import Console

from benchmarks import extras, plan
from benchmarks.broker import BenchBroker
from benchmarks.plan import Block
from benchmarks.report import document, show
from benchmarks.running import Budget, Findings, Say, run_blocks
from craig_mq.testing.rabbitmq import RabbitNode

QUICK_S, FULL_S = 75.0, 15 * 60.0
FILE = click.Path(dir_okay=False, path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)


def only(blocks: list[Block], workload: str | None) -> list[Block]:
    """The blocks with nothing but this workload in them."""
    if workload is None:
        return blocks
    kept = [
        replace(block, series=tuple(one for one in block.series if one.cell.workload == workload))
        for block in blocks
    ]
    return [block for block in kept if block.series]


def beyond_the_head(
    node: RabbitNode, workload: str | None, budget: Budget, findings: Findings, say: Say
) -> None:
    """The rest of the full run, the more telling first."""
    broker = BenchBroker(node)
    with_extras = workload in (None, "core", "extras")
    if workload == "queued":
        extras.queued(broker, (*extras.QUEUED, extras.MOST_QUEUED), budget, findings, say)
        return
    if with_extras:
        extras.run(node, budget, findings, say)
    run_blocks(only(plan.grid(plan.FIRST_GRID), workload), broker, budget, findings, say)
    if with_extras:
        extras.queued(broker, (extras.MOST_QUEUED,), budget, findings, say)
    run_blocks(only(plan.grid(plan.SECOND_GRID), workload), broker, budget, findings, say)


@click.command()
@click.option("--quick", is_flag=True, help="The acceptance line and its neighbours, under 90 seconds.")
@click.option("--minutes", type=float, help="Time budget; what does not fit is left out and named.")
@click.option("--json", "json_file", type=FILE, help="Write the results here.")
@click.option("--plots", type=FOLDER, help="Draw the results here (SVG).")
@click.option("--only", "workload", help="Measure this workload alone: settle, park, …, or extras, queued.")
def main(
    quick: bool, minutes: float | None, json_file: Path | None, plots: Path | None, workload: str | None
) -> None:
    """Measure craig_mq and its peers in one run. Exit status 1 if a client's counts were wrong."""
    if plots is not None and find_spec("matplotlib") is None:
        raise click.UsageError(
            "--plots draws with matplotlib, which is not installed: it is in the group `bench`"
        )
    console = Console(stderr=True)
    seconds = minutes * 60 if minutes else (QUICK_S if quick else FULL_S)
    findings = Findings()
    before = os.getloadavg()[0]

    with RabbitNode() as node:
        budget = Budget(seconds)

        def say(text: str) -> None:
            console.print(f"[dim]{budget.spent:6.1f} s[/]  {text}", highlight=False)

        say(f"RabbitMQ runs; {os.cpu_count()} cores, load {before:.1f}")
        broker = BenchBroker(node)
        run_blocks(only(plan.quick() if quick else plan.head(), workload), broker, budget, findings, say)
        if not quick:
            beyond_the_head(node, workload, budget, findings, say)
        show(findings, Console())
        results = document(
            " ".join(("quick" if quick else "full", *([workload] if workload else []))),
            node,
            findings,
            (before, os.getloadavg()[0]),
        )
    if json_file is not None:
        json_file.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    if plots is not None:
        from benchmarks.plots import draw

        draw(results, plots)
    if findings.failed:
        raise SystemExit(1)


main()
