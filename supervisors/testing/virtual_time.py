"""What a run in virtual time can do without: the machine's clock, most looks outside, a costly idiom.

None of it changes what a program inside can see, and a test compares. Like ``schedule`` this sets internals
of Trio by name; where a release has lost one of the last two, the run is as it is without, and slower.
"""

# ruff: noqa: SLF001 - a cancel scope of Trio is asked for what only Trio asks it for: see above
from __future__ import annotations

import importlib
import itertools
import math
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import trio
import trio.testing

trio_run: Any = importlib.import_module("trio._core._run")  # private: hence by name, hence Any

_PASSES = 32  # scheduling passes per look at sockets, other threads and signals


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


@contextmanager
def economical() -> Generator[None]:
    """Let the Trio runs started inside, all of them in virtual time, cost less. Not thread-safe."""
    cheaper = (
        (trio_run, "TheIOManager", _looking_rarely),
        (trio_run.CancelScope, "_might_change_registered_deadline", _registering),
    )
    there = [
        (owner, name, getattr(owner, name), instead)
        for owner, name, instead in cheaper
        if hasattr(owner, name)
    ]
    for owner, name, own, instead in there:
        setattr(owner, name, instead(own))
    try:
        yield
    finally:
        for owner, name, own, _ in there:
            setattr(owner, name, own)


@cache
def _looking_rarely(manager: Any) -> Any:
    """Derive an I/O manager that asks the operating system for news once in ``_PASSES`` passes.

    It asks at once where nothing inside can happen any more.
    """
    passes = itertools.cycle(range(_PASSES))

    def get_events(self: Any, timeout: float) -> object:
        if timeout <= 0 and next(passes):
            runner = trio_run.GLOBAL_RUN_CONTEXT.runner
            if runner.runq:
                return ()
            if runner.deadlines.next_deadline() < math.inf:
                if not runner.waiting_for_idle:
                    runner.clock._autojump()  # as the run would do behind this, at the cost of another pass
                return ()
        return manager.get_events(self, timeout)

    return type("LookingRarely", (manager,), {"get_events": get_events, "__slots__": ()})


class _Registering:
    """Registers the deadline a cancel scope has at the block's end, as Trio's own does outside guest mode.

    Trio's is a generator made into a context manager; every scope goes through it at least twice, which made
    it an eighth of a simulated run.
    """

    __slots__ = ("_scope",)

    def __init__(self, scope: Any) -> None:
        self._scope = scope

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        scope = self._scope
        before = scope._registered_deadline
        after = math.inf if scope._cancel_status is None or scope._cancel_called else scope._deadline
        if before != after:
            scope._registered_deadline = after
            deadlines = trio_run.GLOBAL_RUN_CONTEXT.runner.deadlines
            if before != math.inf:
                deadlines.remove(before, scope)
            if after != math.inf:
                deadlines.add(after, scope)


def _registering(_: Any) -> Any:
    def register(scope: Any) -> _Registering:
        return _Registering(scope)

    return register
