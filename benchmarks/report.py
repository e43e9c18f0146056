"""The results as a document and as a table with ratios."""

from __future__ import annotations

import datetime as dt
import os
import platform
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.measurement import Measurement
from benchmarks.running import Findings
from benchmarks.targets import Reached
from craig_mq.testing.rabbitmq import RabbitNode

PACKAGES = ("trio", "pamqp", "msgspec", "attrs", "pika", "aio-pika", "uvloop", "amqp", "faststream")
BASE = "pika"
"""The peer every ratio is against, at the same prefetch and body size."""


def document(kind: str, node: RabbitNode, findings: Findings, load: tuple[float, float]) -> dict[str, Any]:
    """Everything a reader needs to judge the figures; ``load`` is the load average before and after."""
    return {
        "kind": kind,
        "at": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "machine": machine(load),
        "versions": {"rabbitmq": node.eval("rabbit_misc:version()").strip().strip('"'), **versions(PACKAGES)},
        "results": [measurement.as_json() for measurement in findings.measurements],
        **findings.details,
        "targets": Reached(findings.measurements, findings.details).rows(),
        "left_out": findings.left_out,
        "failed": findings.failed,
    }


def machine(load: tuple[float, float]) -> dict[str, Any]:
    """What it ran on; ``load`` is the load average before and after."""
    return {
        "cores": os.cpu_count(),
        "processor": _processor(),
        "system": f"{platform.system()} {platform.release()}",
        "memory_mib": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20,
        "load_before": load[0],
        "load_after": load[1],
    }


def versions(packages: Iterable[str]) -> dict[str, str | None]:
    """Python's and each package's; None where one is not installed."""
    return {"python": platform.python_version()} | {name: _version(name) for name in packages}


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def show(findings: Findings, console: Console) -> None:
    """Print one row a measurement, with the ratio to pika's bare loop where there is one."""
    table = Table(title="messages a second (median; extremes), against pika's bare loop")
    for heading in ("workload", "client", "prefetch", "body"):
        table.add_column(heading)
    for heading in ("messages/s", "extremes", "× pika", "CPU µs/message", "rounds"):
        table.add_column(heading, justify="right")
    for one in findings.measurements:
        ratio = ratio_to_base(one, findings.measurements)
        table.add_row(
            one.workload,
            one.client,
            str(one.prefetch),
            str(one.body_bytes),
            f"{one.msgs_per_s:,.0f}",
            f"{one.msgs_per_s_min:,.0f} – {one.msgs_per_s_max:,.0f}",
            "" if ratio is None else f"{ratio:.2f}",
            f"{one.cpu_us_per_msg:,.1f}",
            str(one.rounds),
        )
    console.print(table)
    for text in findings.failed:
        console.print(f"failed: {text}", markup=False)
    for text in findings.left_out:
        console.print(f"left out for want of time: {text}", markup=False)


def ratio_to_base(one: Measurement, among: list[Measurement]) -> float | None:
    """Its rate over pika's park rate at the same prefetch and body size."""
    for other in among:
        if (other.workload, other.client) == ("park", BASE) and (
            (other.prefetch, other.body_bytes) == (one.prefetch, one.body_bytes)
        ):
            return one.msgs_per_s / other.msgs_per_s
    return None
