"""Control over Trio's one source of scheduling chance: the order of a batch of runnable tasks.

Trio shuffles each batch with ``trio._core._run._r`` and, with ``_ALLOW_DETERMINISTIC_SCHEDULING`` set, sorts
it first. Replacing ``_r`` therefore decides every schedule. Both names are internals: ``require_internals``
refuses to go on where they are missing, and a canary test watches each Trio release (S57).
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Generator, MutableSequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

import trio

from supervisors.testing.virtual_time import economical, trio_run, virtual_clock

T = TypeVar("T")

_INTERNALS = ("_r", "_ALLOW_DETERMINISTIC_SCHEDULING")


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
    before = trio_run._r, trio_run._ALLOW_DETERMINISTIC_SCHEDULING  # noqa: SLF001 - see the module docstring
    trio_run._r, trio_run._ALLOW_DETERMINISTIC_SCHEDULING = shuffler, True  # noqa: SLF001
    try:
        yield
    finally:
        trio_run._r, trio_run._ALLOW_DETERMINISTIC_SCHEDULING = before  # noqa: SLF001


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
    with controlled(_Seeded(seed)), economical():
        return trio.run(main, clock=virtual_clock())
