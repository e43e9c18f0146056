"""Runs many seeds, in as many processes as asked for, and adds up what they showed."""

from __future__ import annotations

import gc
import multiprocessing
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor

from craig_mq.testing.simulate.cells import target_of
from craig_mq.testing.simulate.checking import check
from craig_mq.testing.simulate.drawing import draw
from craig_mq.testing.simulate.evidence import Evidence, Violation
from craig_mq.testing.simulate.running import run_scenario
from craig_mq.testing.simulate.scenario import Scenario
from craig_mq.testing.simulate.totals import Totals

_CHUNK = 250


def scenario_of(seed: int) -> Scenario:
    """Return what the run of a seed consists of, its target included."""
    return draw(seed, target_of(seed))


def judge(scenario: Scenario) -> tuple[Evidence, list[Violation]]:
    """Run a scenario and check every invariant."""
    evidence = run_scenario(scenario)
    return evidence, check(evidence)


def run_seeds(seeds: Iterable[int]) -> Totals:
    """Run these seeds one after the other, in this thread."""
    totals = Totals()
    gc.freeze()
    for seed in seeds:
        totals.add(*judge(scenario_of(seed)))
    gc.unfreeze()
    return totals


def run_many(runs: int, seed: int, jobs: int = 1) -> Totals:
    """Run ``runs`` seeds from ``seed`` on; more than one job means processes of their own."""
    seeds = range(seed, seed + runs)
    chunks = [seeds[at : at + _CHUNK] for at in range(0, runs, _CHUNK)]
    totals = Totals()
    if jobs == 1:
        for chunk in chunks:
            totals.merge(run_seeds(chunk))
        return totals
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        for part in pool.map(run_seeds, chunks):
            totals.merge(part)
    return totals
