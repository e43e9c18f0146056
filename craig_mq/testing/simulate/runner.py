"""Runs many seeds, in as many processes as asked for, and adds up what they showed."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from typing import Final

from craig_mq.testing.simulate.cells import aimed_at, target_of
from craig_mq.testing.simulate.checking import check
from craig_mq.testing.simulate.drawing import draw
from craig_mq.testing.simulate.evidence import Evidence, Violation
from craig_mq.testing.simulate.running import run_scenario
from craig_mq.testing.simulate.scenario import Scenario
from craig_mq.testing.simulate.summary import Summary, summary_of
from craig_mq.testing.simulate.totals import Totals
from craig_mq.testing.simulate.workers import PATIENCE_S, in_processes

TRIES: Final = 20


def scenario_of(seed: int) -> Scenario:
    """Return what the run of a seed consists of, its target included."""
    return draw(seed, target_of(seed))


def judge(scenario: Scenario) -> tuple[Evidence, list[Violation]]:
    """Run a scenario and check every invariant."""
    evidence = run_scenario(scenario)
    return evidence, check(evidence)


def run_seed(seed: int) -> Summary:
    """Run one seed, in this thread, and check every invariant."""
    return summary_of(*judge(scenario_of(seed)))


def run_seeds(seeds: Iterable[int]) -> Totals:
    """Run these seeds one after the other, in this thread."""
    totals = Totals()
    for seed in seeds:
        totals.add(run_seed(seed))
    return totals


def aim_at_missed(
    totals: Totals, after: int, jobs: int = 1, *, at_most_s: float = math.inf, patience_s: float = PATIENCE_S
) -> None:
    """Go on with seeds from ``after`` on that are aimed at cells ``totals`` has not hit, until all are.

    Each such cell gets up to ``TRIES`` runs. What they show is added to ``totals``.
    """
    until = time.monotonic() + at_most_s
    tried = dict.fromkeys(totals.never_hit, after)
    for _ in range(TRIES):
        seeds = [aimed_at(cell, tried[cell]) for cell in totals.never_hit]
        tried |= {cell: seed + 1 for cell, seed in zip(totals.never_hit, seeds, strict=True)}
        for run in in_processes(run_seed, seeds, jobs, until=until, patience_s=patience_s):
            totals.add(run)


def run_many(
    runs: int, seed: int, jobs: int = 1, *, at_most_s: float = math.inf, patience_s: float = PATIENCE_S
) -> Totals:
    """Run ``runs`` seeds from ``seed`` on, in ``jobs`` processes forked from this one.

    A run that raises, kills its process or takes longer than ``patience_s`` of real time is in
    ``Totals.broken``. Nothing goes on ``at_most_s`` seconds after the start: ``Totals.runs`` says how far
    it came.
    """
    totals = Totals()
    until = time.monotonic() + at_most_s
    for run in in_processes(run_seed, range(seed, seed + runs), jobs, until=until, patience_s=patience_s):
        totals.add(run)
    return totals
