"""What is measured, in which order, and how often: the quick run and the full one."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.clients import IN_MEMORY, OWN, peers_here
from benchmarks.measurement import Cell

KIB = 1024
SMALL, MEDIUM, LARGE = 512, 16 * KIB, KIB * KIB
SLOW = ("aio-pika-transport", "aio-pika-asyncio", "aio-pika-uvloop", "faststream")
"""Clients that get fewer messages and rounds: their figures settle soon, and they take long."""

WORKLOADS = ("settle", "park", "quarantine", "audit", "replay")
FIRST_GRID = ((256, SMALL), (1, SMALL), (256, MEDIUM), (256, LARGE), (16, SMALL), (64, SMALL))
SECOND_GRID = tuple((prefetch, body) for body in (MEDIUM, LARGE) for prefetch in (1, 16, 64))


@dataclass(frozen=True)
class Series:
    """One cell with its number of messages and of rounds."""

    cell: Cell
    count: int
    rounds: int


@dataclass(frozen=True)
class Block:
    """Series measured interleaved: round by round, each client once a round."""

    name: str
    series: tuple[Series, ...]


def _park(client: str, count: int, rounds: int) -> Series:
    return Series(Cell("park", client, 256, SMALL), count, rounds)


def quick() -> list[Block]:
    """The acceptance line and its neighbours, in under 90 seconds on two idle cores."""
    here = peers_here()
    fast = [_park("native", 8_000, 5), _park("pika", 8_000, 5)]
    if "librabbitmq" in here:
        fast.append(_park("librabbitmq", 8_000, 3))
    slow = [_park("aio-pika-asyncio", 2_000, 1), _park("aio-pika-transport", 800, 1)]
    settle = Series(Cell("settle", "native", 256, SMALL), 8_000, 3)
    return [Block("park, prefetch 256, 512 bytes", (*fast, *slow, settle))]


def head() -> list[Block]:
    """The acceptance line with all its rounds."""
    fast = [name for name in ("native", "pika", "librabbitmq") if name in ("native", *peers_here())]
    series = [_park(name, 8_000, 5) for name in fast]
    series.append(Series(Cell("settle", "native", 256, SMALL), 8_000, 5))
    series += [_park(name, 1_500, 2) for name in ("aio-pika-asyncio", "aio-pika-transport")]
    return [Block("park and settle, prefetch 256, 512 bytes", tuple(series))]


def grid(points: tuple[tuple[int, int], ...]) -> list[Block]:
    """Each workload by each of our clients, and each peer's park, at each prefetch and body size."""
    measured = {series.cell for block in head() for series in block.series}
    return [_point(prefetch, body, measured) for prefetch, body in points]


def _point(prefetch: int, body: int, measured: set[Cell]) -> Block:
    cells = [
        Cell(workload, client, prefetch, body) for workload in WORKLOADS for client in (*OWN, *IN_MEMORY)
    ]
    cells += [Cell("park", peer, prefetch, body) for peer in peers_here()]
    rounds = 3 if (prefetch, body) == (1, SMALL) else 1
    series = [
        Series(cell, _count(cell), rounds if _is_compared(cell) else 1)
        for cell in cells
        if cell not in measured
    ]
    return Block(f"prefetch {prefetch}, {body} bytes", tuple(series))


def _is_compared(cell: Cell) -> bool:
    """What the latency and the replay target are about."""
    return (cell.workload, cell.client) == ("replay", "native") or (
        cell.workload == "park" and cell.client not in (*SLOW, *IN_MEMORY)
    )


def _count(cell: Cell) -> int:
    """So many messages that a cell takes about a second on two idle cores."""
    count = {1: 600, 16: 2_000, 64: 3_000, 256: 4_000}[cell.prefetch]
    if cell.workload == "replay":
        count = 600
    if cell.body_bytes == LARGE:
        count = 20
    elif cell.body_bytes == MEDIUM:
        count //= 2
    return max(10, count // 6) if cell.client in SLOW else count
