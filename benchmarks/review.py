"""The dead-letter review's speed on one core: `python -m benchmarks.review`.

A run here is what one page request computes: simulate, every snapshot, outcome and all captions. The promise
is at most 2 ms in the median; the largest run (six receives, nothing repaired) is printed beside it.
"""

import statistics
import sys
import time
from collections.abc import Callable

from craig_mq.review import Params, Run, caption, export, outcome, simulate

LIMIT_MS = 2.0
ROUNDS = 500


def whole_run(params: Params) -> Run:
    """Simulate and look at everything the page shows."""
    run = simulate(params)
    outcome(run)
    for index in range(len(run.snapshots)):
        caption(run, index)
    return run


def times_ms(work: Callable[[], object]) -> tuple[float, float]:
    """Return the median and the 99th percentile of the CPU time of one call."""
    work()
    taken = []
    for _ in range(ROUNDS):
        began = time.process_time_ns()
        work()
        taken.append((time.process_time_ns() - began) / 1e6)
    return statistics.median(taken), statistics.quantiles(taken, n=100)[-1]


def main() -> int:
    """Print one line per measurement; exit 1 if the default run's median is over its limit."""
    largest = Params(max_receives=6, repair=False, dedup=False)
    run = simulate(Params())
    cases: dict[str, Callable[[], object]] = {
        "simulate, default": lambda: simulate(Params()),
        "whole run, default": lambda: whole_run(Params()),
        "whole run, largest": lambda: whole_run(largest),
        "export, default": lambda: export(run),
    }
    medians = {}
    print(f"{'what':<22} {'median ms':>10} {'p99 ms':>10}   ({ROUNDS} rounds, CPU time, one core)")
    for name, work in cases.items():
        medians[name], p99 = times_ms(work)
        print(f"{name:<22} {medians[name]:>10.3f} {p99:>10.3f}")
    return int(medians["whole run, default"] > LIMIT_MS)


if __name__ == "__main__":
    sys.exit(main())
