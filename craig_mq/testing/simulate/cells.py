"""The cells of coverage: which fault can meet which part of a subscription, and why others cannot."""

from __future__ import annotations

import math
import random
import tomllib
from collections.abc import Iterator, Mapping
from importlib.resources import files
from types import MappingProxyType
from typing import Final, get_args

import attrs

from craig_mq.testing.simulate.faulting import PAIRS, make
from craig_mq.testing.simulate.scenario import ROLES, Lifecycle, Target, connection_name
from craig_mq.transport.memory import Fault, Operation
from craig_mq.transport.memory.fault_actions import Action

LIFECYCLES: Final[tuple[Lifecycle, ...]] = get_args(Lifecycle)


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
    roles: tuple[str, ...]
    lifecycles: tuple[str, ...]

    def covers(self, cell: Cell) -> bool:
        """Whether this rule is about that cell."""
        return (
            cell.operation in self.operations
            and cell.role in self.roles
            and cell.lifecycle in self.lifecycles
        )


def _unreachable() -> Iterator[Unreachable]:
    text = files("craig_mq.testing.simulate").joinpath("unreachable.toml").read_text("utf-8")
    for rule in tomllib.loads(text)["rule"]:
        yield Unreachable(
            rule["reason"],
            frozenset(map(Operation, rule["operations"])),
            tuple(rule.get("roles", ROLES)),
            tuple(rule.get("lifecycles", LIFECYCLES)),
        )


UNREACHABLE: Final[tuple[Unreachable, ...]] = tuple(_unreachable())
CELLS: Final[tuple[Cell, ...]] = tuple(
    Cell(operation, action, role, lifecycle)
    for operation, action in PAIRS
    for role in ROLES
    for lifecycle in LIFECYCLES
)


_BY_NAME: Final[Mapping[tuple[str, ...], Cell]] = MappingProxyType(
    {(cell.operation.value, cell.action.__name__, cell.role, cell.lifecycle): cell for cell in CELLS}
)


def cell_named(operation: str, action: str, role: str, lifecycle: str) -> Cell:
    """Return the cell of these names."""
    return _BY_NAME[operation, action, role, lifecycle]


def reason_for(cell: Cell) -> str | None:
    """Return why a cell cannot be reached, None if it can."""
    return next((rule.reason for rule in UNREACHABLE if rule.covers(cell)), None)


REACHABLE: Final[tuple[Cell, ...]] = tuple(cell for cell in CELLS if reason_for(cell) is None)


_STRIDE: Final = 7_919  # a prime: neighbouring targets are far apart
_EVERY: Final = 12  # of so many runs one has a target; what the others meet is chance


def target_of(seed: int) -> Target | None:
    """Return the fault that the run of this seed must try to meet: cell by cell, every reachable one."""
    turn, rest = divmod(seed, _EVERY)
    if rest:
        return None
    cell = REACHABLE[turn * _STRIDE % len(REACHABLE)]
    action = make(random.Random(seed), cell.operation, cell.action)  # noqa: S311 - reproducible
    connection = connection_name(cell.role)
    return Target(Fault(cell.operation, action, connection=connection), cell.role, cell.lifecycle)


def aimed_at(cell: Cell, after: int) -> int:
    """Return the first seed from ``after`` on whose run has this cell for its target."""
    count = len(REACHABLE)
    turn = REACHABLE.index(cell) * pow(_STRIDE, -1, count) % count
    period = _EVERY * count
    return turn * _EVERY + math.ceil(max(0, after - turn * _EVERY) / period) * period
