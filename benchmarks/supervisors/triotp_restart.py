"""``python triotp_restart.py CHILDREN REPEATS``: the median microseconds of one restart under triotp."""

from __future__ import annotations

import logging
import statistics
import sys
import time

import logbook
import trio
from triotp import supervisor


async def restart_us(count: int, repeats: int) -> float:
    state = {"crash": trio.Event(), "back": trio.Event(), "raised_at": 0.0}

    async def crashing() -> None:
        state["back"].set()
        await state["crash"].wait()
        state["raised_at"] = time.perf_counter()
        raise ValueError("crash")

    specs = [supervisor.child_spec(f"c{n}", trio.sleep_forever, []) for n in range(count - 1)]
    specs.append(supervisor.child_spec("crashing", crashing, []))
    samples = []
    async with trio.open_nursery() as nursery:
        await nursery.start(supervisor.start, specs, supervisor.options(10**9, 1))
        await state["back"].wait()
        for _ in range(repeats):
            before, state["crash"], state["back"] = state["crash"], trio.Event(), trio.Event()
            before.set()
            await state["back"].wait()
            samples.append((time.perf_counter() - state["raised_at"]) * 1e6)
        nursery.cancel_scope.cancel()
    return statistics.median(samples)


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    with logbook.NullHandler().applicationbound():
        print(trio.run(restart_us, int(sys.argv[1]), int(sys.argv[2])))
