"""Typed errors of the supervisor.

::

    SupervisorError
    ├── SpecError (also ValueError)      a spec that contradicts itself: refused before anything runs
    ├── ClosedError                      an operation on a supervisor that has ended (S6)
    │   └── StoppingError                … or that has accepted a stop request (S59)
    ├── NoSuchChildError · DuplicateChildError · ChildLiveError     a dynamic operation named a wrong child
    ├── IllegalInputError                the model was fed what cannot happen; it changed nothing
    └── raised by ``run()``
        ├── StartError                   the first start of a ``start_failure="fail"`` child failed (S9)
        ├── IntensityError               more ends than the budget allows (S36, S37)
        ├── ChildError                   a child's own error while the supervisor stopped (S14)
        └── StuckError                   a child outlived its stop deadline (S50)

    SettlementError                      raised *by* a body: the raising form of ``SettlementFailed``
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from supervisors.exits import End, EndRecord


class SupervisorError(Exception):
    """Base of everything this package raises on its own account."""


class SpecError(SupervisorError, ValueError):
    """A spec is refused: ``field`` holds ``value``, and ``allowed`` says what it may hold."""

    def __init__(self, field: str, value: object, allowed: str) -> None:
        super().__init__(f"{field}={value!r}: {allowed}")
        self.field = field
        self.value = value
        self.allowed = allowed


class ClosedError(SupervisorError):
    """The supervisor has ended; nothing was started (S6)."""


class StoppingError(ClosedError):
    """The supervisor has accepted a stop request; nothing was started (S59)."""


class NoSuchChildError(SupervisorError):
    """No child has this id."""


class DuplicateChildError(SupervisorError):
    """A child with this id exists already."""


class ChildLiveError(SupervisorError):
    """The operation needs a child that has ended for good; this one has not (terminate it first)."""


class IllegalInputError(SupervisorError):
    """The model refuses an input that cannot happen in its state; nothing was changed."""


class StartError(SupervisorError):
    """The start of ``child`` failed; ``end`` says how. ``__cause__`` is what the body raised, if it did."""

    def __init__(self, child: str, generation: int, end: End) -> None:
        super().__init__(f"child {child!r} failed to start: {end}")
        self.child = child
        self.generation = generation
        self.end = end


class IntensityError(SupervisorError):
    """More than ``max_restarts`` counted ends within ``period_s`` seconds; ``history``: oldest first."""

    def __init__(
        self, owner: str, max_restarts: int, period_s: float, history: tuple[EndRecord, ...]
    ) -> None:
        super().__init__(f"{owner}: more than {max_restarts} restarts within {period_s:g} s")
        self.owner = owner
        self.max_restarts = max_restarts
        self.period_s = period_s
        self.history = history


class ChildError(SupervisorError):
    """A child ended with an error of its own while the supervisor stopped (S14)."""

    def __init__(self, child: str, generation: int, end: End) -> None:
        super().__init__(f"child {child!r} failed while stopping: {end}")
        self.child = child
        self.generation = generation
        self.end = end


class StuckError(SupervisorError):
    """``child`` outlived its stop deadline and ended only after ``reports`` STUCK reports (S50)."""

    def __init__(self, child: str, generation: int, reports: int) -> None:
        super().__init__(f"child {child!r} outlived its stop deadline ({reports} reports)")
        self.child = child
        self.generation = generation
        self.reports = reports


class SettlementError(Exception):
    """Raise this in a body to end its generation as ``SettlementFailed(detail)``, alone or within a group."""

    def __init__(self, detail: object) -> None:
        super().__init__(detail)
        self.detail = detail
