"""Notices a handler that blocks the thread: heartbeats stop with it (field failure HB-01)."""

from __future__ import annotations

import time
from collections.abc import Callable

import trio

from craig_mq.observe.events import LoopBlocked
from craig_mq.runtime.reporting import Reporter

LOOK_INTERVAL_S = 2.0
TOLERATED_S = 1.0


async def watch_loop(
    reporter: Reporter, queue: str, *, monotonic: Callable[[], float] = time.monotonic
) -> None:
    """Report each time Trio's loop stood still for over a second of real time; runs until cancelled."""
    while True:
        before = monotonic()
        await trio.sleep(LOOK_INTERVAL_S)
        stood_still = monotonic() - before - LOOK_INTERVAL_S
        if stood_still > TOLERATED_S:
            reporter.emit(LoopBlocked(queue, stood_still))
