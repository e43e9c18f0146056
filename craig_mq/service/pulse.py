"""Proof, readable from any thread, that Trio's loop still runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Generic, TypeVar

import trio

T = TypeVar("T")

BEAT_S = 1.0
FRESH_S = 5.0


class Pulse(Generic[T]):
    """A value that the loop renews once a second; stale when the loop did not run for five.

    The reader is a web server in another thread: it must never wait for a loop that may be stuck.
    """

    def __init__(self, observe: Callable[[], T], clock: Callable[[], float] = time.monotonic) -> None:
        """Keep ``observe``, called on the loop, and ``clock``, called on both sides."""
        self._observe = observe
        self._clock = clock
        self._beat: tuple[float, T] | None = None

    async def run(self) -> None:
        """Beat until cancelled; afterwards the pulse is stale at once."""
        try:
            while True:
                self._beat = (self._clock(), self._observe())
                await trio.sleep(BEAT_S)
        finally:
            self._beat = None

    def read(self) -> T | None:
        """Return the latest value, or None when the loop has not beaten within five seconds."""
        beat = self._beat
        if beat is None or self._clock() - beat[0] > FRESH_S:
            return None
        return beat[1]
