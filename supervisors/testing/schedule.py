"""Control over Trio's one source of scheduling chance: the order of a batch of runnable tasks.

Trio shuffles each batch with ``trio._core._run._r`` and, with ``_ALLOW_DETERMINISTIC_SCHEDULING`` set, sorts
it first. Replacing ``_r`` therefore decides every schedule. Both names are internals: ``require_internals``
refuses to go on where they are missing, and a canary test watches each Trio release (S57).
"""

from __future__ import annotations

import importlib
import random
from collections.abc import Awaitable, Callable, Generator, MutableSequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol, TypeVar

import trio
import trio.testing

T = TypeVar("T")

trio_run: Any = importlib.import_module("trio._core._run")  # private: hence by name, hence Any


class Shuffler(Protocol):
    """What Trio asks for: reorder a batch in place. The last task of the list runs first."""

    def shuffle(self, batch: list[Any], /) -> None:
        """Reorder ``batch``."""
        ...


class MissingInternalsError(RuntimeError):
    """This Trio release has no such internals; nothing can be said about schedules here."""


def require_internals() -> None:
    """Raise ``MissingInternalsError`` unless Trio has the two internals this module sets."""
    for name in ("_r", "_ALLOW_DETERMINISTIC_SCHEDULING"):
        if not hasattr(trio_run, name):
            raise MissingInternalsError(f"trio {trio.__version__} has no _core._run.{name}")


@contextmanager
def controlled(shuffler: Shuffler) -> Generator[None]:
    """Let ``shuffler`` decide every batch of the Trio runs started inside. Not reentrant, not thread-safe."""
    require_internals()
    before = trio_run._r, trio_run._ALLOW_DETERMINISTIC_SCHEDULING  # noqa: SLF001 - see the module docstring
    trio_run._r, trio_run._ALLOW_DETERMINISTIC_SCHEDULING = shuffler, True  # noqa: SLF001
    try:
        yield
    finally:
        trio_run._r, trio_run._ALLOW_DETERMINISTIC_SCHEDULING = before  # noqa: SLF001


class _Seeded(random.Random):
    """Shuffles as its base does; most batches are of one task, and cost nothing."""

    def shuffle(self, x: MutableSequence[Any]) -> None:
        """Reorder a batch of two or more."""
        if len(x) > 1:
            super().shuffle(x)


def run_seeded(main: Callable[[], Awaitable[T]], *, seed: int) -> T:
    """``trio.run(main)`` in virtual time, every schedule drawn from ``seed``. Same seed, same run."""
    with controlled(_Seeded(seed)):
        return trio.run(main, clock=virtual_clock())


def virtual_clock() -> trio.testing.MockClock:
    """A clock that starts at 0 and jumps to the next deadline whenever nothing can run. Its rate stays 0."""
    clock = trio.testing.MockClock(autojump_threshold=0)
    # A run asks for the time a thousand times, and one that only jumps need not ask the machine for it. The
    # attribute is another internal: where it is missing the first look at the clock fails.
    vars(clock)["current_time"] = partial(getattr, clock, "_virtual_base")
    return clock
