"""What supervision costs: a child's life, restarts, an idle child; beside triotp and OTP.

``python benchmarks/supervisors/bench_supervisors.py`` prints a table; ``--json FILE`` also writes it. Times
are medians of real time, or with ``--clock cpu`` of this thread's CPU time, which a busy machine does not
lengthen. A restart is measured from the instant the body raises to the first line of the next
generation (of the last member, for a group), with a backoff of one microsecond. triotp and OTP are measured
where they are installed (``--triotp-python``), and left out where not.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import shutil
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import trio
import trio.testing

from supervisors import Backoff, ChildContext, ChildSpec, Strategy, Supervisor, SupervisorSpec

QUICK = Backoff(base_s=1e-6, cap_s=1e-6, min_delay_s=1e-6, stable_after_s=0.0)
Row = tuple[str, int, float, str]
clock: Callable[[], float] = time.perf_counter
CLOCKS = {"real": time.perf_counter, "cpu": time.thread_time}


async def idle(context: ChildContext) -> None:
    context.started()
    await context.shutdown.wait()


async def bare_idle(stop: trio.Event) -> None:
    await stop.wait()


async def child_life_us(count: int) -> float:
    """Start, run and drain ``count`` supervised children; microseconds per child."""
    children = tuple(ChildSpec(f"c{n}", idle, backoff=QUICK) for n in range(count))
    handle = Supervisor(SupervisorSpec("top", children, max_restarts=None))
    begun = clock()
    async with trio.open_nursery() as nursery:
        await nursery.start(handle.run)
        await handle.wait_ready()
        handle.shutdown()
    return (clock() - begun) / count * 1e6


async def bare_life_us(count: int) -> float:
    """The same with bare nursery children."""
    stop = trio.Event()
    begun = clock()
    async with trio.open_nursery() as nursery:
        for _ in range(count):
            nursery.start_soon(bare_idle, stop)
        await trio.lowlevel.checkpoint()
        stop.set()
    return (clock() - begun) / count * 1e6


async def restart_us(count: int, strategy: Strategy, repeats: int) -> float:
    """One of ``count`` children raises; microseconds until its group runs again."""
    crash, back = trio.Event(), trio.Event()
    raised_at = 0.0

    async def crashing(context: ChildContext) -> None:
        nonlocal raised_at
        context.started()
        await crash.wait()
        raised_at = clock()
        raise ValueError("crash")

    async def last(context: ChildContext) -> None:
        context.started()
        back.set()
        await context.shutdown.wait()

    async def alone(context: ChildContext) -> None:
        back.set()
        await crashing(context)

    one = strategy is Strategy.ONE_FOR_ONE
    body = alone if one or count == 1 else crashing
    others = tuple(ChildSpec(f"c{n}", idle, backoff=QUICK) for n in range(max(count - (1 if one else 2), 0)))
    lasts = () if one or count == 1 else (ChildSpec("last", last, backoff=QUICK),)
    children = (ChildSpec("crashing", body, backoff=QUICK), *others, *lasts)
    handle = Supervisor(SupervisorSpec("top", children, strategy, max_restarts=None))
    samples = []
    async with trio.open_nursery() as nursery:
        await nursery.start(handle.run)
        await handle.wait_ready()
        for _ in range(repeats):
            before, crash, back = crash, trio.Event(), trio.Event()
            before.set()
            await back.wait()
            samples.append((clock() - raised_at) * 1e6)
            await handle.wait_ready()
        handle.cancel("measured")  # the crashing child hears no drain
    return statistics.median(samples)


async def memory_bytes(count: int, make: Callable[[int], Awaitable[None]]) -> float:
    """Traced bytes per idle child of ``make(count)``."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(make, count)
            for _ in range(3):
                await trio.testing.wait_all_tasks_blocked()
            used = tracemalloc.get_traced_memory()[0] - before
            scope.cancel(reason="measured")
    tracemalloc.stop()
    return used / count


async def supervised_idle(count: int) -> None:
    children = tuple(ChildSpec(f"c{n}", idle) for n in range(count))
    await Supervisor(SupervisorSpec("top", children, max_restarts=None)).run()


async def nursery_idle(count: int) -> None:
    stop = trio.Event()
    async with trio.open_nursery() as nursery:
        for _ in range(count):
            nursery.start_soon(bare_idle, stop)


def triotp_restart_us(python: str, count: int, repeats: int) -> float:
    """The one_for_one restart of triotp, whose retries wait for nothing; it wants an older Trio."""
    script = str(Path(__file__).with_name("triotp_restart.py"))
    done = subprocess.run(
        [python, script, str(count), str(repeats)], check=True, capture_output=True, text=True
    )
    return float(done.stdout)


def otp_restart_us(count: int, strategy: str, repeats: int) -> float:
    """OTP's ``supervisor``, driven by restart_latency.erl."""
    here = Path(__file__).parent
    command = ["escript", str(here / "restart_latency.erl"), strategy, str(count), str(repeats)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def measure_lives() -> Iterator[Row]:
    for count in (1_000, 10_000):
        yield "bare nursery child, whole life", count, trio.run(bare_life_us, count), "us/child"
        yield "supervised child, whole life", count, trio.run(child_life_us, count), "us/child"
    yield "bare nursery child, idle", 10_000, trio.run(memory_bytes, 10_000, nursery_idle), "bytes"
    yield "supervised child, idle", 10_000, trio.run(memory_bytes, 10_000, supervised_idle), "bytes"


def measure_restarts(sizes: tuple[int, ...]) -> Iterator[Row]:
    for strategy in Strategy:
        for count in sizes:
            repeats = 200 if strategy is Strategy.ONE_FOR_ONE else max(3, 500 // count)
            yield f"restart, {strategy.value}", count, trio.run(restart_us, count, strategy, repeats), "us"


def measure_peers(sizes: tuple[int, ...], triotp_python: str | None) -> Iterator[Row]:
    if triotp_python:
        for count in sizes:
            yield "restart, triotp", count, triotp_restart_us(triotp_python, count, 50), "us"
    if shutil.which("escript"):
        for strategy in Strategy:
            for count in sizes:
                repeats = 50 if strategy is Strategy.ONE_FOR_ONE else max(3, 500 // count)
                yield (
                    f"restart, OTP {strategy.value}",
                    count,
                    otp_restart_us(count, strategy.value, repeats),
                    "us",
                )


def main() -> None:
    global clock  # noqa: PLW0603 - one command, one clock
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument(
        "--triotp-python", help="an interpreter that has triotp; the default is this one, if it has"
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[1, 10, 100, 1_000, 10_000])
    parser.add_argument("--clock", choices=tuple(CLOCKS), default="real")
    parser.add_argument("--restarts-only", action="store_true", help="leave out lives, memory and peers")
    options = parser.parse_args()
    if options.triotp_python is None and importlib.util.find_spec("triotp"):
        options.triotp_python = sys.executable
    clock = CLOCKS[options.clock]
    sizes = tuple(options.sizes)
    measured = [measure_restarts(sizes)]
    if not options.restarts_only:
        measured = [measure_lives(), *measured, measure_peers(sizes, options.triotp_python)]
    rows: list[Row] = []
    for row in itertools.chain.from_iterable(measured):
        name, count, value, unit = row
        print(f"{name:36}{count:>8}{value:>14.1f} {unit}", flush=True)
        rows.append(row)
    if options.json:
        keys = ("name", "children", "value", "unit", "clock")
        table: list[dict[str, Any]] = [dict(zip(keys, (*row, options.clock), strict=True)) for row in rows]
        options.json.write_text(json.dumps(table, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
