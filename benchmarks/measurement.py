"""One figure and its spread, as written to the results file."""

from __future__ import annotations

import platform
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Sample:
    """What one process measured for ``messages`` messages."""

    messages: int
    seconds: float
    cpu_seconds: float
    peak_kib: int = 0


@dataclass(frozen=True)
class Cell:
    """What is measured: a workload done by a client at a prefetch and a body size."""

    workload: str
    client: str
    prefetch: int
    body_bytes: int


@dataclass(frozen=True)
class Measurement:
    """The median of a cell's samples, with the extremes of the rate."""

    workload: str
    client: str
    prefetch: int
    body_bytes: int
    msgs_per_s: float
    cpu_us_per_msg: float
    rounds: int
    msgs_per_s_min: float
    msgs_per_s_max: float
    python: str

    @classmethod
    def of(cls, cell: Cell, samples: Sequence[Sample]) -> Measurement:
        """Summarise ``samples`` (at least one)."""
        rates = [sample.messages / sample.seconds for sample in samples]
        cpu = [sample.cpu_seconds / sample.messages * 1e6 for sample in samples]
        return cls(
            workload=cell.workload,
            client=cell.client,
            prefetch=cell.prefetch,
            body_bytes=cell.body_bytes,
            msgs_per_s=round(statistics.median(rates), 1),
            cpu_us_per_msg=round(statistics.median(cpu), 1),
            rounds=len(samples),
            msgs_per_s_min=round(min(rates), 1),
            msgs_per_s_max=round(max(rates), 1),
            python=platform.python_version(),
        )

    def as_json(self) -> dict[str, Any]:
        """Plain data for the results file."""
        return asdict(self)
