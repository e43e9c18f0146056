"""What is measured, in which order, and how often: the quick run and the full one."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.clients import OWN, peers_here
from benchmarks.measurement import Cell

KIB = 1024
SMALL = 512
SLOW = ("aio-pika-transport", "aio-pika-asyncio", "aio-pika-uvloop", "faststream")
"""Clients that get fewer messages and rounds: their figures settle soon, and they take long."""


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


def _park(client: str, count: int, rounds: int, prefetch: int = 256, body: int = SMALL) -> Series:
    return Series(Cell("park", client, prefetch, body), count, rounds)


def quick() -> list[Block]:
    """The acceptance line and its neighbours, in under 90 seconds on two idle cores."""
    here = peers_here()
    fast = [_park("native", 8_000, 5), _park("pika", 8_000, 5)]
    if "librabbitmq" in here:
        fast.append(_park("librabbitmq", 8_000, 3))
    slow = [_park("aio-pika-asyncio", 2_000, 1), _park("aio-pika-transport", 800, 1)]
    settle = Series(Cell("settle", "native", 256, SMALL), 8_000, 3)
    return [Block("park, prefetch 256, 512 bytes", (*fast, *slow, settle))]


def full() -> list[Block]:
    """Everything, the most important first: what does not fit the time is left out and named."""
    here = peers_here()
    others = [name for name in here if name not in ("pika", "librabbitmq")]
    head = [_park("native", 8_000, 5), _park("pika", 8_000, 5)]
    if "librabbitmq" in here:
        head.append(_park("librabbitmq", 8_000, 5))
    head.append(Series(Cell("settle", "native", 256, SMALL), 8_000, 5))
    slower = [_park(name, *((2_000, 2) if name in SLOW else (8_000, 3))) for name in others]
    slower.append(_park("aio-pika-transport", 1_000, 2))
    blocks = [
        Block("park and settle, prefetch 256, 512 bytes", tuple(head)),
        Block("park by other clients, prefetch 256, 512 bytes", tuple(slower)),
        _workloads(),
    ]
    blocks += [_prefetch(here, prefetch) for prefetch in (1, 16, 64)]
    blocks += [_body(here, body, count) for body, count in ((16 * KIB, 3_000), (KIB * KIB, 60))]
    return blocks


def _workloads() -> Block:
    native = [
        Series(Cell("quarantine", "native", 256, SMALL), 10_000, 3),
        Series(Cell("audit", "native", 256, SMALL), 10_000, 3),
        Series(Cell("replay", "native", 256, SMALL), 2_000, 3),
    ]
    bridged = [
        Series(Cell(workload, "aio-pika-transport", 256, SMALL), 600, 1)
        for workload in ("settle", "quarantine", "audit", "replay")
    ]
    return Block("settle, quarantine, audit, replay", (*native, *bridged))


def _prefetch(here: list[str], prefetch: int) -> Block:
    count = {1: 1_500, 16: 6_000, 64: 10_000}[prefetch]
    series = [_park(name, count, 3, prefetch) for name in ("native", *here) if name not in SLOW]
    series += [_park(name, 500, 1, prefetch) for name in (*here, *OWN) if name in SLOW]
    series.append(Series(Cell("settle", "native", prefetch, SMALL), count, 2))
    return Block(f"prefetch {prefetch}, 512 bytes", tuple(series))


def _body(here: list[str], body: int, count: int) -> Block:
    series = [_park(name, count, 2, 256, body) for name in ("native", *here) if name not in SLOW]
    series += [_park(name, count // 5, 1, 256, body) for name in ("aio-pika-asyncio", "aio-pika-transport")]
    series.append(Series(Cell("settle", "native", 256, body), count, 2))
    return Block(f"prefetch 256, {body} bytes", tuple(series))
