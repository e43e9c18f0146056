"""Runs many seeds, in as many processes as asked for, and adds up what they showed."""

from __future__ import annotations

import gc
import math
import multiprocessing
import time
from collections.abc import Generator, Iterable
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager

from craig_mq.testing.simulate.cells import target_of
from craig_mq.testing.simulate.checking import check
from craig_mq.testing.simulate.drawing import draw
from craig_mq.testing.simulate.evidence import Evidence, Violation
from craig_mq.testing.simulate.running import run_scenario
from craig_mq.testing.simulate.scenario import Scenario
from craig_mq.testing.simulate.totals import Totals

_CHUNK = 125
_COLLECT_EVERY = 25


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
    with _collecting_seldom():
        for done, seed in enumerate(seeds, start=1):
            totals.add(*judge(scenario_of(seed)))
            if done % _COLLECT_EVERY == 0:
                gc.collect()
    return totals


@contextmanager
def _collecting_seldom() -> Generator[None, None, None]:
    """Look for cycles between runs only, and never among what outlives them."""
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


def run_many(runs: int, seed: int, jobs: int = 1, *, at_most_s: float = math.inf) -> Totals:
    """Run ``runs`` seeds from ``seed`` on, in ``jobs`` processes of their own if that is more than one.

    Nothing is begun ``at_most_s`` seconds after the start: ``Totals.runs`` says how far it came.
    """
    seeds = range(seed, seed + runs)
    chunks = [seeds[at : at + _CHUNK] for at in range(0, runs, _CHUNK)]
    totals = Totals()
    until = time.monotonic() + at_most_s
    if jobs == 1:
        for chunk in chunks:
            if time.monotonic() < until:
                totals.merge(run_seeds(chunk))
        return totals
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        parts = [pool.submit(run_seeds, chunk) for chunk in chunks]
        for part in parts:
            if time.monotonic() < until or not part.cancel():
                totals.merge(part.result())
    return totals
