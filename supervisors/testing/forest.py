"""Many random trees: ``python -m supervisors.testing.forest [COUNT]`` runs the first seeds, by default 5,000.

Each seed is a tree, its faults, its requests and its schedule. A law that breaks ends the command with the
error, whose notes name the seed.
"""

from __future__ import annotations

import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from supervisors.testing.random_trees import run_random_tree

COUNT = 5_000
_SEEDS_PER_JOB = 50


def count_events(seeds: range) -> int:
    """Run the tree of every seed; how many events their logs hold. Raises what a broken law raises."""
    return sum(len(run_random_tree(seed)) for seed in seeds)


def run_forest(count: int, workers: int = 2) -> int:
    """The first ``count`` seeds, in ``workers`` processes (few: in this one); how many events they logged."""
    jobs = [range(first, min(first + _SEEDS_PER_JOB, count)) for first in range(0, count, _SEEDS_PER_JOB)]
    if len(jobs) == 1:
        return count_events(jobs[0])
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        return sum(pool.map(count_events, jobs))


def main(arguments: list[str]) -> None:
    """Run them, and print the counts."""
    count = int(arguments[0]) if arguments else COUNT
    begun = time.monotonic()
    events = run_forest(count)
    sys.stdout.write(
        f"{count} random trees, {events} events, no violation, {time.monotonic() - begun:.0f} s\n"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
