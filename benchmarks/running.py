"""Carries out a plan within a time budget: interleaved, checked at the broker, nothing left unsaid."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from benchmarks.broker import BenchBroker
from benchmarks.clients import BenchmarkFailed, run_client
from benchmarks.measurement import Cell, Measurement, Sample
from benchmarks.plan import Block

Say = Callable[[str], None]


@dataclass
class Budget:
    """Wall time for the whole run; an extra that takes ``seconds`` begins only if that much is left."""

    seconds: float
    _began: float = field(default_factory=time.monotonic)

    @property
    def spent(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self._began

    def has(self, seconds: float = 0.0) -> bool:
        """Whether ``seconds`` are left."""
        return self.spent + seconds < self.seconds


@dataclass
class Findings:
    """What was measured, what was left out for want of time, what failed."""

    measurements: list[Measurement] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


def run_blocks(
    blocks: list[Block], broker: BenchBroker, budget: Budget, findings: Findings, say: Say
) -> None:
    """Run block after block; what comes after the first measurements begins only within the budget."""
    for block in blocks:
        if findings.measurements and not budget.has():
            findings.left_out.append(f"all of {block.name}")
            continue
        say(block.name)
        samples = _interleaved(block, broker, budget, findings, say)
        findings.measurements += [Measurement.of(cell, found) for cell, found in samples.items()]


def _interleaved(
    block: Block, broker: BenchBroker, budget: Budget, findings: Findings, say: Say
) -> dict[Cell, list[Sample]]:
    samples: dict[Cell, list[Sample]] = {}
    skipped: dict[Cell, int] = {}
    first = not findings.measurements
    for number in range(max(series.rounds for series in block.series)):
        for series in block.series:
            if number >= series.rounds:
                continue
            if (number or not first) and not budget.has():
                skipped[series.cell] = skipped.get(series.cell, 0) + 1
                continue
            try:
                sample = run_client(series.cell, broker, series.count)
            except BenchmarkFailed as failure:
                findings.failed.append(str(failure))
                say(f"  FAILED {failure}")
                continue
            samples.setdefault(series.cell, []).append(sample)
            say(f"  {_line(series.cell, sample)}")
    findings.left_out += [
        f"{rounds} round{'s' if rounds > 1 else ''} of {cell.workload} by {cell.client} at prefetch "
        f"{cell.prefetch} and {cell.body_bytes} bytes"
        for cell, rounds in skipped.items()
    ]
    return samples


def _line(cell: Cell, sample: Sample) -> str:
    rate, cpu = sample.messages / sample.seconds, sample.cpu_seconds / sample.messages * 1e6
    return f"{cell.workload:<10} {cell.client:<18} {rate:>9,.0f}/s {cpu:>8,.0f} µs CPU"
