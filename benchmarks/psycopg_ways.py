"""``python -m benchmarks.psycopg_ways``: psycopg in worker threads, or asynchronously through the bridge.

The same transactions (look the tokens up, insert the group, commit), on as many connections, against
one private PostgreSQL; the two ways take turns. And how long a cancelled wait for a frozen statement
takes to come back, with the connection cut as the ledger cuts it.
"""

from __future__ import annotations

import socket
import statistics
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, closing
from functools import partial
from typing import Any

import attrs
import trio

# First: psycopg binds asyncio.get_running_loop when it is imported, and the bridge replaces it.
from craig_mq.transport.aio_pika.bridge import Bridge, DetachedTasks, open_bridge  # isort: skip
import psycopg
from psycopg import AsyncConnection

from craig_mq.testing.postgres import PostgresServer

CONNECTIONS = 2
ROUNDS = 5
SECONDS = 1.5
BODY = b"x" * 500
LOOK = "SELECT token FROM rows WHERE token = ANY(%b::text[])"
INSERT = "INSERT INTO rows SELECT * FROM unnest(%b::text[], %b::bytea[]) ON CONFLICT DO NOTHING"

Group = tuple[list[str], list[bytes]]
Transaction = Callable[[Group], Awaitable[None]]


@attrs.define
class Figures:
    """What one way came to over its rounds."""

    rows_per_s: list[float] = attrs.field(factory=list[float])
    cpu_us_per_row: list[float] = attrs.field(factory=list[float])

    def __str__(self) -> str:
        low, high = min(self.rows_per_s), max(self.rows_per_s)
        rate, cpu = statistics.median(self.rows_per_s), statistics.median(self.cpu_us_per_row)
        return f"{rate:9.0f} rows/s ({low:.0f} to {high:.0f}), {cpu:6.1f} us of CPU a row"


def connect(url: str) -> psycopg.Connection[Any]:
    return psycopg.connect(url, autocommit=True)


def in_thread(connection: psycopg.Connection[Any], threads: trio.CapacityLimiter) -> Transaction:
    """One group a call of a worker thread, as the ledger does."""

    def commit(group: Group) -> None:
        with connection.transaction():
            connection.execute(LOOK, group[:1], binary=True).fetchall()
            connection.execute(INSERT, group)

    async def run(group: Group) -> None:
        await trio.to_thread.run_sync(commit, group, limiter=threads)

    return run


def through_bridge(connection: AsyncConnection[Any], bridge: Bridge) -> Transaction:
    """One group a detached asyncio task."""
    tasks = DetachedTasks(bridge)

    async def commit(group: Group) -> None:
        async with connection.transaction():
            await (await connection.execute(LOOK, group[:1], binary=True)).fetchall()
            await connection.execute(INSERT, group)

    async def run(group: Group) -> None:
        await tasks.detach(commit(group)).wait()

    return run


async def measure(transactions: list[Transaction], size: int, figures: Figures, start: int) -> int:
    """Commit groups on every connection for a while; return the next free number."""
    number, rows = start, 0

    async def work(commit: Transaction) -> None:
        nonlocal number, rows
        while time.perf_counter() < until:
            first, number = number, number + size
            await commit(([f"occ1:broker:{n:032x}" for n in range(first, first + size)], [BODY] * size))
            rows += size

    began, cpu = time.perf_counter(), time.process_time()
    until = began + SECONDS
    async with trio.open_nursery() as nursery:
        for commit in transactions:
            nursery.start_soon(work, commit)
    figures.rows_per_s.append(rows / (time.perf_counter() - began))
    figures.cpu_us_per_row.append((time.process_time() - cpu) / rows * 1e6)
    return number


async def cut_after(wait: Callable[[], Awaitable[object]], fileno: int) -> float:
    """Seconds from cutting a connection whose statement sleeps to the end of the wait for it."""
    cut_at = 0.0
    async with trio.open_nursery() as nursery:

        async def waiting() -> None:
            try:
                await wait()
            except psycopg.Error:
                return

        nursery.start_soon(waiting)
        await trio.sleep(0.3)
        cut_at = time.perf_counter()
        with socket.socket(fileno=fileno) as end:
            end.shutdown(socket.SHUT_RDWR)
            end.detach()
    return time.perf_counter() - cut_at


async def close(tasks: DetachedTasks, connection: AsyncConnection[Any]) -> None:
    await tasks.detach(connection.close()).wait()


async def compare(url: str) -> None:
    """Measure both ways, in turns, and print the figures."""
    async with open_bridge() as bridge, AsyncExitStack() as open_ones:
        tasks, threads = DetachedTasks(bridge), trio.CapacityLimiter(CONNECTIONS)
        ways: dict[str, list[Transaction]] = {"threads": [], "bridge": []}
        for _ in range(CONNECTIONS):
            ways["threads"].append(in_thread(open_ones.enter_context(closing(connect(url))), threads))
            other = await tasks.detach(AsyncConnection.connect(url, autocommit=True)).wait()
            ways["bridge"].append(through_bridge(other, bridge))
            open_ones.push_async_callback(close, tasks, other)
        number = 0
        for size in (1, 20, 200):
            figures = {name: Figures() for name in ways}
            for _ in range(ROUNDS):
                for name, transactions in ways.items():
                    number = await measure(transactions, size, figures[name], number)
            for name, found in figures.items():
                print(f"groups of {size:>3}  {name:>8} {found}")
        slow = connect(url)

        def sleep_in_thread() -> None:
            slow.execute("SELECT pg_sleep(5)")

        async def sleep_through_bridge() -> None:
            await tasks.detach(other.execute("SELECT pg_sleep(5)")).wait()

        cut = await cut_after(partial(trio.to_thread.run_sync, sleep_in_thread), slow.fileno())
        print(f"a cut connection ends the wait in a thread after {cut * 1000:.1f} ms")
        other = await tasks.detach(AsyncConnection.connect(url, autocommit=True)).wait()
        cut = await cut_after(sleep_through_bridge, other.fileno())
        print(f"a cut connection ends the wait through the bridge after {cut * 1000:.1f} ms")


def main() -> None:
    """Run on a private server."""
    with PostgresServer() as server:
        url = server.url(database=server.add_database())
        with connect(url) as connection:
            connection.execute("CREATE TABLE rows (token text PRIMARY KEY, body bytea NOT NULL)")
        trio.run(compare, url)


if __name__ == "__main__":
    main()
