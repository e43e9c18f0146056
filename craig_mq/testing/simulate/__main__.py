"""``python -m craig_mq.testing.simulate --runs N --seed S [--jobs K]``."""

from __future__ import annotations

import math
import os
import sys
import time

import click

from craig_mq.testing.simulate.cells import Cell
from craig_mq.testing.simulate.runner import aim_at_missed, run_many, scenario_of
from craig_mq.testing.simulate.script import script_of, smaller
from craig_mq.testing.simulate.summary import Broken
from craig_mq.testing.simulate.totals import Totals, coverage_table
from craig_mq.testing.simulate.workers import in_processes

_LISTED = 20
_SHRINKING_S = 300.0  # real time


@click.command()
@click.option("--runs", default=1_000, show_default=True, help="How many seeds to run.")
@click.option("--seed", default=0, show_default=True, help="The first seed.")
@click.option("--jobs", default=os.cpu_count() or 1, show_default=True, help="How many processes.")
@click.option("--at-most", default=math.inf, help="Break off after so many seconds.")
@click.option("--coverage/--no-coverage", default=True, help="Print the table of faults by state.")
@click.option(
    "--every-cell", is_flag=True, help="Go on until every reachable cell is hit; fail where one is not."
)
def main(runs: int, seed: int, jobs: int, at_most: float, *, coverage: bool, every_cell: bool) -> None:
    """Simulate: the real runtime, random workloads, faults and operators, every invariant checked."""
    began = time.monotonic()
    totals = run_many(runs, seed, jobs, at_most_s=at_most)
    missing = runs - totals.runs
    if every_cell:
        aim_at_missed(totals, seed + runs, jobs, at_most_s=at_most - (time.monotonic() - began))
    _report(totals, time.monotonic() - began, coverage=coverage)
    if missing:
        click.echo(f"{missing} runs came to no end in time")
    if totals.failures:
        first = min(totals.failures)
        click.echo(_shrunk(first, totals.failures[first][0].invariant))
    missed = every_cell and (missing or totals.never_hit)
    if totals.failures or totals.broken or totals.wrongly_unreachable or missed:
        sys.exit(1)


def _shrunk(seed: int, invariant: str) -> str:
    """Return a small script that shows the failure, or say why there is none."""

    def script(seed: int) -> str:
        return script_of(smaller(scenario_of(seed), invariant))

    shrinking = in_processes(script, range(seed, seed + 1), 1, until=math.inf, patience_s=_SHRINKING_S)
    result = next(shrinking)
    if isinstance(result, Broken):
        return f"\nseed {seed} could not be shrunk for “{invariant}”: {result.why}"
    return f"\nseed {seed}, shrunk for “{invariant}”:\n\n{result}"


def _report(totals: Totals, seconds: float, *, coverage: bool) -> None:
    runs = totals.runs or 1
    click.echo(
        f"{totals.runs} runs in {seconds:.1f} s ({runs / seconds:.1f} a second), {totals.letters} messages"
        f" ({totals.letters / runs:.1f} a run), {totals.faults} faults ({totals.faults / runs:.1f} a run),"
        f" {totals.virtual_s / 3600:.1f} h of virtual time,"
        f" {len(totals.failures) + len(totals.broken)} failing seeds"
    )
    for seed, violations in sorted(totals.failures.items())[:_LISTED]:
        click.echo(f"  seed {seed}: {violations[0].invariant}: {violations[0].text}")
    for seed, why in sorted(totals.broken.items())[:_LISTED]:
        click.echo(f"  seed {seed} came to no result: {why}")
    if coverage:
        click.echo("\n".join(coverage_table(totals)))
        _list("reachable cells never hit", totals.never_hit)
        _list("cells hit that are listed as unreachable", totals.wrongly_unreachable)
        acts = ", ".join(f"{kind} {count}" for kind, count in sorted(totals.acts.items()))
        click.echo(f"acts: {acts}")


def _list(title: str, cells: list[Cell]) -> None:
    click.echo(f"{title}: {len(cells)}")
    for cell in cells[:_LISTED]:
        click.echo(f"  {cell.operation.value} x {cell.action.__name__}: {cell.role}, {cell.lifecycle}")


main()
