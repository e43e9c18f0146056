"""Notices a handler that blocks the thread: heartbeats stop with it (field failure HB-01)."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

import trio

from craig_mq.observe.events import LoopBlocked
from craig_mq.runtime.reporting import Reporter

TOLERATED_S = 1.0


class _LoopWatch(trio.abc.Instrument):
    """Times each pass of the loop over its ready tasks, in real seconds."""

    def __init__(self, blocked: Callable[[float], None], monotonic: Callable[[], float]) -> None:
        self._blocked = blocked
        self._monotonic = monotonic
        self._running_since = monotonic()

    def after_io_wait(self, timeout: float) -> None:  # noqa: ARG002 - Trio's own signature
        """Tasks run from here on."""
        self._running_since = self._monotonic()

    def before_io_wait(self, timeout: float) -> None:  # noqa: ARG002 - Trio's own signature
        """Every ready task has had its step."""
        seconds = self._monotonic() - self._running_since
        if seconds > TOLERATED_S:
            self._blocked(seconds)


@contextmanager
def watching_loop(
    reporter: Reporter, queue: str, *, monotonic: Callable[[], float] | None = time.monotonic
) -> Generator[None, None, None]:
    """Report each pass of Trio's loop that took over a second of real time, while the block runs.

    Without a ``monotonic`` clock (in seconds) nothing is watched.
    """
    if monotonic is None:
        yield
        return
    watch = _LoopWatch(lambda seconds: reporter.emit(LoopBlocked(queue, seconds)), monotonic)
    trio.lowlevel.add_instrument(watch)
    try:
        yield
    finally:
        trio.lowlevel.remove_instrument(watch)
