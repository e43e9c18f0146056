"""The cells of coverage: which fault can meet which part of a subscription, and why others cannot."""

from __future__ import annotations

import random
from typing import Final, get_args

import attrs

from craig_mq.testing.simulate.faulting import PAIRS, make
from craig_mq.testing.simulate.scenario import QUEUE, ROLES, Lifecycle, Target
from craig_mq.transport.memory import Fault, Operation
from craig_mq.transport.memory.fault_actions import Action

LIFECYCLES: Final[tuple[Lifecycle, ...]] = get_args(Lifecycle)
_CONSUMING = ("main", "parking")
_PUBLISHING = ("main publishing", "parking publishing")


@attrs.define(frozen=True, slots=True)
class Cell:
    """One action at one operation, on a connection of one role, in one part of a subscription's life."""

    operation: Operation
    action: type[Action]
    role: str
    lifecycle: Lifecycle


@attrs.define(frozen=True, slots=True)
class Unreachable:
    """Operations that never happen there, and why: a cell that is hit all the same fails a test."""

    reason: str
    operations: frozenset[Operation]
    roles: tuple[str, ...] = ROLES
    lifecycles: tuple[Lifecycle, ...] = LIFECYCLES
    actions: frozenset[type[Action]] | None = None

    def covers(self, cell: Cell) -> bool:
        """Whether this rule is about that cell."""
        return (
            cell.operation in self.operations
            and cell.role in self.roles
            and cell.lifecycle in self.lifecycles
            and (self.actions is None or cell.action in self.actions)
        )


_ALL = frozenset(Operation)
_PUBLISHES = frozenset({Operation.PUBLISH, Operation.CONFIRM, Operation.RETURN})
_DIALS = frozenset({Operation.CONNECT, Operation.OPEN_CHANNEL})

UNREACHABLE: Final[tuple[Unreachable, ...]] = (
    Unreachable("the runtime consumes; it never uses basic.get", frozenset({Operation.GET})),
    Unreachable(
        "the depth sampler only looks, and its connection is reset",
        _ALL - _DIALS - {Operation.DECLARE},
        ("depth",),
    ),
    Unreachable("publishing has a connection of its own (decisions, 9)", _PUBLISHES, _CONSUMING),
    Unreachable(
        "a publishing connection declares, consumes and settles nothing (decisions, 9)",
        _ALL - _DIALS - _PUBLISHES - {Operation.CLOSE},
        _PUBLISHING,
    ),
)

CELLS: Final[tuple[Cell, ...]] = tuple(
    Cell(operation, action, role, lifecycle)
    for operation, action in PAIRS
    for role in ROLES
    for lifecycle in LIFECYCLES
)


def reason_for(cell: Cell) -> str | None:
    """Return why a cell cannot be reached, None if it can."""
    return next((rule.reason for rule in UNREACHABLE if rule.covers(cell)), None)


REACHABLE: Final[tuple[Cell, ...]] = tuple(cell for cell in CELLS if reason_for(cell) is None)


_STRIDE = 7_919  # a prime: neighbouring seeds try cells far apart


def target_of(seed: int) -> Target:
    """Return the fault that the run of this seed must try to meet: seed by seed, every reachable cell."""
    cell = REACHABLE[seed * _STRIDE % len(REACHABLE)]
    action = make(random.Random(seed), cell.operation, cell.action)  # noqa: S311 - reproducible
    connection = f"craig_mq {QUEUE} {cell.role}"
    return Target(Fault(cell.operation, action, connection=connection), cell.role, cell.lifecycle)
