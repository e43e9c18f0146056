"""Every client as a command line; each measurement runs in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

from benchmarks.broker import PARKING, QUARANTINE, QUEUE, TARGET, BenchBroker
from benchmarks.measurement import Cell, Sample
from benchmarks.peers import librabbitmq_loop

PEERS: dict[str, list[str]] = {
    "librabbitmq": ["benchmarks.peers.librabbitmq_loop"],
    "pika": ["benchmarks.peers.pika_loop"],
    "py-amqp": ["benchmarks.peers.py_amqp_loop"],
    "aio-pika-asyncio": ["benchmarks.peers.aio_pika_loop"],
    "aio-pika-uvloop": ["benchmarks.peers.aio_pika_loop", "uvloop"],
    "faststream": ["benchmarks.peers.faststream_loop"],
}
IN_MEMORY = ("memory",)
"""The embedded broker: client and broker in one process, nothing to fill or to count outside it."""

OWN: dict[str, str] = {"native": "native", "aio-pika-transport": "aio-pika"}
LIMIT_S = 300


class BenchmarkFailed(Exception):
    """A client died, or the broker's counts afterwards are not what they must be."""


def peers_here() -> list[str]:
    """The peers that can run on this machine."""
    return [name for name in PEERS if name != "librabbitmq" or librabbitmq_loop.available()]


def _command(cell: Cell, url: str, count: int) -> list[str]:
    numbers = [str(count), str(cell.prefetch)]
    if cell.client in OWN:
        return ["benchmarks.own.loop", url, QUEUE, *numbers, OWN[cell.client], cell.workload]
    module, *extra = PEERS[cell.client]
    return [module, url, QUEUE, TARGET, *numbers, *extra]


def run_client(cell: Cell, broker: BenchBroker, count: int) -> Sample:
    """Fill the queue, let the client work, and check at the broker that it did all of it."""
    if cell.client in IN_MEMORY:
        return run_in_memory(cell, count)
    broker.fill(count, cell.body_bytes)
    if cell.workload == "replay":
        _run(replace(cell, workload="park"), broker, count)
    return _run(cell, broker, count)


def run_in_memory(cell: Cell, count: int) -> Sample:
    """Let a process of its own fill an embedded broker and work on it."""
    numbers = [str(count), str(cell.body_bytes), "1", str(cell.prefetch)]
    return _sample(cell, ["benchmarks.own.core", cell.workload, *numbers], count)


def _run(cell: Cell, broker: BenchBroker, count: int) -> Sample:
    sample = _sample(cell, _command(cell, broker.url, count), count)
    expected = _expected(cell, count)
    found = broker.depths(expected)
    if {queue: depth for queue, depth in found.items() if depth} != expected:
        raise BenchmarkFailed(f"{cell.client} on {cell.workload}: the broker holds {found}, not {expected}")
    return sample


def _sample(cell: Cell, module_and_arguments: list[str], count: int) -> Sample:
    command = [sys.executable, "-m", *module_and_arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    except subprocess.TimeoutExpired as error:
        raise BenchmarkFailed(f"{cell.client} on {cell.workload}: not done in {LIMIT_S} s") from error
    if done.returncode != 0:
        raise BenchmarkFailed(f"{cell.client} failed on {cell.workload}: {done.stderr[-2000:]}")
    measured = {name: value for line in done.stdout.splitlines() for name, value in json.loads(line).items()}
    return Sample(count, measured["seconds"], measured["cpu_seconds"], measured.get("peak_kib", 0))


def _expected(cell: Cell, count: int) -> dict[str, int]:
    """What the broker must hold afterwards; every other queue is empty."""
    match cell.workload:
        case "park":
            return {PARKING if cell.client in OWN else TARGET: count}
        case "quarantine":
            return {QUARANTINE: count}
        case _:
            return {}
