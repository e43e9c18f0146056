"""What the full run measures beside rates: the core alone, scaling, sizes, latency, recovery, memory."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.broker import BenchBroker
from benchmarks.clients import LIMIT_S, BenchmarkFailed, run_client
from benchmarks.followed import latency, recovery
from benchmarks.measurement import Cell, Measurement, Sample
from benchmarks.own.allocations import build
from benchmarks.running import Budget, Findings, Say
from craig_mq.testing.rabbitmq import RabbitNode

CORE = ("settle", "park", "quarantine", "bare_settle", "bare_park")
CORE_COUNT, CORE_ROUNDS = 10_000, 5
SUBSCRIPTIONS = (1, 10, 100, 500)
QUEUED, MOST_QUEUED = (1, 1_000, 10_000, 100_000), 1_000_000
DISPOSITIONS = ("settle", "park", "quarantine")
COUNTED = 1_000
SPREAD = 20_000


def run(node: RabbitNode, budget: Budget, findings: Findings, say: Say) -> None:
    """Measure each as long as there is time for it."""
    broker = BenchBroker(node)
    steps = (
        ("core", 40, lambda: _core(findings, say)),
        ("allocations", 10, _allocations),
        ("steps", 15, lambda: _own("steps")),
        ("capture_size", 15, lambda: _own("capture")),
        ("subscriptions", 30, lambda: [_subscriptions(number, say) for number in SUBSCRIPTIONS]),
        ("idle", 15, lambda: _own("idle", node.url, "60", "native")),
        ("latency", 20, lambda: latency(broker, _half_load(findings), 10)),
        ("recovery", 30, lambda: recovery(node)),
    )
    for name, seconds, measure in steps:
        if not budget.has(seconds):
            findings.left_out.append(name)
            continue
        say(name)
        try:
            found = measure()
        except (RuntimeError, subprocess.SubprocessError, ValueError) as failure:
            findings.failed.append(f"{name}: {failure}")
            continue
        if found is not None:
            findings.details[name] = found
            say(f"  {json.dumps(found)}")
    queued(broker, QUEUED, budget, findings, say)


def _own(module: str, *arguments: str) -> Any:
    """The last JSON line a measuring process of ours prints, its lines before merged into it."""
    command = [sys.executable, "-m", f"benchmarks.own.{module}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    documents = [json.loads(line) for line in done.stdout.splitlines()]
    return documents[0] if len(documents) == 1 else {k: v for one in documents for k, v in one.items()}


def _core(findings: Findings, say: Say) -> None:
    """Interleaved, so that what the embedded broker itself costs is seen under the same load."""
    samples: dict[str, list[Sample]] = {workload: [] for workload in CORE}
    for _ in range(CORE_ROUNDS):
        for workload in CORE:
            found = _own("core", workload, str(CORE_COUNT), "512", "1", "256")
            samples[workload].append(Sample(found["messages"], found["seconds"], found["cpu_seconds"]))
    for workload, seen in samples.items():
        one = Measurement.of(Cell(f"core_{workload}", "memory", 256, 512), seen)
        findings.measurements.append(one)
        say(f"  {one.workload:<18} {one.msgs_per_s:>9,.0f}/s {one.cpu_us_per_msg:>8,.1f} µs CPU")


def _allocations() -> list[dict[str, Any]] | None:
    """Allocations a delivery, by disposition: those of the second half of a run, so that no start counts."""
    with tempfile.TemporaryDirectory() as folder:
        library = build(Path(folder))
        if library is None:
            return None
        rows: list[dict[str, Any]] = []
        for workload in DISPOSITIONS:
            few, many = (
                _own("core", workload, str(count), "512", "1", "256", str(library))["allocations"]
                for count in (COUNTED, 2 * COUNTED)
            )
            rows.append({"workload": workload, "allocations_per_delivery": round((many - few) / COUNTED)})
        return rows


def _subscriptions(number: int, say: Say) -> dict[str, float]:
    """What a message costs with so many subscriptions, and what starting one does: a run with none tells."""
    started, found = (
        _own("core", "settle", count, "512", str(number), "256") for count in ("0", str(SPREAD))
    )
    counted_s = started["cpu_seconds"] if number > 1 else 0.0
    row = {
        "subscriptions": number,
        "cpu_us_per_msg": round((found["cpu_seconds"] - counted_s) / found["messages"] * 1e6, 1),
        "start_cpu_ms_each": round(started["cpu_seconds"] / number * 1e3, 1),
        "peak_kib": found["peak_kib"],
    }
    say(f"  {row}")
    return row


def _half_load(findings: Findings) -> float:
    """Half of what this run's native settle rate was, at most what a blocking publisher manages."""
    rates = [one.msgs_per_s for one in findings.measurements if (one.workload, one.client) == HALF_OF]
    return min(2_000.0, (rates[0] if rates else 1_000.0) / 2)


HALF_OF = ("park", "native")


def queued(
    broker: BenchBroker, counts: tuple[int, ...], budget: Budget, findings: Findings, say: Say
) -> None:
    """Settle ever longer queues: the client's peak memory must not depend on what is queued."""
    rows = findings.details.setdefault("queued", [])
    for count in counts:
        # The longest so far tells what this one will take; filling takes twice as long as settling.
        seconds = max((3 * count / row["msgs_per_s"] for row in rows[-1:]), default=0.0)
        if not budget.has(seconds):
            findings.left_out.append(f"settling {count} queued messages")
            continue
        before = budget.spent
        try:
            sample = run_client(Cell("settle", "native", 256, 512), broker, count)
        except BenchmarkFailed as failure:
            findings.failed.append(f"{count} queued: {failure}")
            continue
        took_s = round(budget.spent - before, 1)
        rate = round(count / sample.seconds, 1)
        rows.append({"queued": count, "msgs_per_s": rate, "peak_kib": sample.peak_kib, "took_s": took_s})
        say(f"  {rows[-1]}")
