"""What many runs add up to: counts, coverage, failures; printable as tables."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator

import attrs

from craig_mq.testing.simulate.cells import CELLS, LIFECYCLES, Cell, cell_named, reason_for
from craig_mq.testing.simulate.evidence import Violation
from craig_mq.testing.simulate.scenario import ROLES
from craig_mq.testing.simulate.summary import Broken, Summary
from craig_mq.transport.memory import Operation


@attrs.define(slots=True)
class Totals:
    """Sums over runs. ``faults`` counts planned faults that struck and acts of operators that were done.

    ``failures`` holds the violations of each run that had any, ``broken`` what became of each run that
    came to no result, by seed.
    """

    runs: int = 0
    letters: int = 0
    faults: int = 0
    virtual_s: float = 0.0
    hits: Counter[Cell] = attrs.Factory(Counter[Cell])
    acts: Counter[str] = attrs.Factory(Counter[str])
    failures: dict[int, list[Violation]] = attrs.Factory(dict[int, list[Violation]])
    broken: dict[int, str] = attrs.Factory(dict[int, str])

    def add(self, run: Summary | Broken) -> None:
        """Count one run."""
        self.runs += 1
        if isinstance(run, Broken):
            self.broken[run.seed] = run.why
            return
        self.letters += run.letters
        self.faults += len(run.hits) + len(run.acts)
        self.virtual_s += run.virtual_s
        self.acts.update(run.acts)
        self.hits.update(itertools.starmap(cell_named, run.hits))
        if run.violations:
            self.failures[run.seed] = list(itertools.starmap(Violation, run.violations))

    @property
    def never_hit(self) -> list[Cell]:
        """Reachable cells that no run has hit."""
        return [cell for cell in CELLS if not self.hits[cell] and reason_for(cell) is None]

    @property
    def wrongly_unreachable(self) -> list[Cell]:
        """Cells called unreachable that some run has hit."""
        return [cell for cell in self.hits if reason_for(cell) is not None]


def coverage_table(totals: Totals) -> Iterator[str]:
    """Yield one line per operation: hit / reachable actions by role and part of life, ``-`` where none is."""
    heads = [f"{role} {lifecycle}" for role in ROLES for lifecycle in LIFECYCLES]
    yield f"| operation | {' | '.join(heads)} |"
    yield f"|---{'|---' * len(heads)}|"
    for operation in Operation:
        cells = [_cell_text(totals, operation, role, lifecycle) for role in ROLES for lifecycle in LIFECYCLES]
        yield f"| {operation.value} | {' | '.join(cells)} |"


def _cell_text(totals: Totals, operation: Operation, role: str, lifecycle: str) -> str:
    here = [
        cell
        for cell in CELLS
        if (cell.operation, cell.role, cell.lifecycle) == (operation, role, lifecycle)
        and reason_for(cell) is None
    ]
    return f"{sum(totals.hits[cell] > 0 for cell in here)}/{len(here)}" if here else "-"
