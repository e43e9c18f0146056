"""Control over Trio's one source of scheduling chance: the order of a batch of runnable tasks.

Trio shuffles each batch with ``trio._core._run._r`` and, with ``_ALLOW_DETERMINISTIC_SCHEDULING`` set, sorts
it first. Replacing ``_r`` therefore decides every schedule. A run in virtual time waits for nothing outside,
so ``TheIOManager`` is told to look outside only now and then. These names are internals:
``require_internals`` refuses to go on where they are missing, and a canary test watches each Trio release
(S57).
"""

from __future__ import annotations

import importlib
import itertools
import math
import random
from collections.abc import Awaitable, Callable, Generator, MutableSequence
from contextlib import contextmanager
from functools import cache, partial
from typing import Any, Protocol, TypeVar

import trio
import trio.testing

T = TypeVar("T")

trio_run: Any = importlib.import_module("trio._core._run")  # private: hence by name, hence Any


_INTERNALS = ("_r", "_ALLOW_DETERMINISTIC_SCHEDULING", "TheIOManager")
_PASSES = 32  # scheduling passes per look at sockets, other threads and signals


class Shuffler(Protocol):
    """What Trio asks for: reorder a batch in place. The last task of the list runs first."""

    def shuffle(self, batch: list[Any], /) -> None:
        """Reorder ``batch``."""
        ...


class MissingInternalsError(RuntimeError):
    """This Trio release has no such internals; nothing can be said about schedules here."""


def require_internals() -> None:
    """Raise ``MissingInternalsError`` unless Trio has the two internals this module sets."""
    for name in _INTERNALS:
        if not hasattr(trio_run, name):
            raise MissingInternalsError(f"trio {trio.__version__} has no _core._run.{name}")


@contextmanager
def controlled(shuffler: Shuffler) -> Generator[None]:
    """Let ``shuffler`` decide every batch of the Trio runs started inside. Not reentrant, not thread-safe."""
    require_internals()
    before = [getattr(trio_run, name) for name in _INTERNALS]
    for name, value in zip(_INTERNALS, (shuffler, True, _looking_rarely(before[-1])), strict=True):
        setattr(trio_run, name, value)
    try:
        yield
    finally:
        for name, value in zip(_INTERNALS, before, strict=True):
            setattr(trio_run, name, value)


@cache
def _looking_rarely(manager: Any) -> Any:
    """Derive an I/O manager that asks the operating system for news once in ``_PASSES`` passes.

    It asks at once where nothing inside can happen any more.
    """
    passes = itertools.cycle(range(_PASSES))

    def get_events(self: Any, timeout: float) -> object:
        if timeout <= 0 and next(passes):
            runner = trio_run.GLOBAL_RUN_CONTEXT.runner
            if runner.runq or runner.deadlines.next_deadline() < math.inf:
                return ()
        return manager.get_events(self, timeout)

    return type("LookingRarely", (manager,), {"get_events": get_events, "__slots__": ()})


class _Seeded(random.Random):
    """Shuffles a batch; most are of one task, and cost nothing."""

    def shuffle(self, x: MutableSequence[Any]) -> None:
        """Reorder a batch; how evenly matters here as little as for any jitter, hence the product."""
        draw = self.random
        for last in range(len(x) - 1, 0, -1):
            other = int(draw() * (last + 1))
            x[last], x[other] = x[other], x[last]


def run_seeded(main: Callable[[], Awaitable[T]], *, seed: int) -> T:
    """``trio.run(main)`` in virtual time, every schedule drawn from ``seed``. Same seed, same run."""
    with controlled(_Seeded(seed)):
        return trio.run(main, clock=virtual_clock())


def virtual_clock() -> trio.testing.MockClock:
    """A clock that starts at 0 and jumps to the next deadline whenever nothing can run. Its rate stays 0."""
    clock = trio.testing.MockClock(autojump_threshold=0)
    # A run asks for the time a thousand times, and one that only jumps need not ask the machine for it. The
    # attributes are internals, too: where one is missing the first look at the clock fails.
    vars(clock)["current_time"] = partial(getattr, clock, "_virtual_base")
    vars(clock)["_autojump"] = partial(_jump, clock)
    return clock


def _jump(clock: trio.testing.MockClock) -> None:
    """Jump to the next deadline exactly, and without the statistics that the clock itself finds it by."""
    deadline = trio_run.GLOBAL_RUN_CONTEXT.runner.deadlines.next_deadline()
    if deadline < math.inf:
        vars(clock)["_virtual_base"] = max(clock.current_time(), deadline)
