"""Fault plans: which operation meets which fault. Seeded, printable, replayable."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any, cast

import attrs

from craig_mq.core.delivery import Delivery, Publication
from craig_mq.transport.memory.fault_actions import POSSIBLE, Action, Operation


@attrs.define(frozen=True, slots=True)
class Occurrence:
    """One operation about to happen. ``index`` counts those of its kind at this broker, from 0.

    ``name`` is what it is about: the queue of a declare, consume, delivery, get, cancel, ack or nack;
    the exchange's name, or for the default exchange the routing key, of a publish, confirm or return;
    the connection's name of a connect, open_channel, flush or close.
    """

    operation: Operation
    index: int
    connection: str
    name: str
    subject: Delivery | Publication | None = None


Predicate = Callable[[Occurrence], bool]


def _operation(value: Operation | str) -> Operation:
    return Operation(value)


def _from_zero(_: object, field: attrs.Attribute[Any], value: Any) -> None:
    if value is not None and value < 0:
        raise ValueError(f"{field.name} must be from 0, not {value}")


@attrs.define(frozen=True, slots=True)
class Fault:
    """One action, and when: every given condition must hold; ``times`` bounds how often (None: always).

    Raises ValueError where the operation cannot meet the action, or a number is out of range.
    """

    on: Operation = attrs.field(converter=_operation)
    action: Action
    name: str | None = None
    index: int | None = attrs.field(default=None, validator=_from_zero)
    connection: str | None = None
    probability: float = attrs.field(
        default=1.0, validator=[attrs.validators.ge(0.0), attrs.validators.le(1.0)]
    )
    where: Predicate | None = None
    times: int | None = attrs.field(default=1, validator=_from_zero)

    def __attrs_post_init__(self) -> None:
        if type(self.action) not in POSSIBLE[self.on]:
            raise ValueError(f"{self.on.value} cannot meet {type(self.action).__name__}")

    def __repr__(self) -> str:
        """Print as Python; a predicate by its qualified name."""
        parts = [repr(self.on.value), repr(self.action)]
        for field in attrs.fields(Fault)[2:]:
            value = getattr(self, field.name)
            if value == field.default:
                continue
            shown = f"{value.__module__}.{value.__qualname__}" if field.name == "where" else repr(value)
            parts.append(f"{field.name}={shown}")
        return f"Fault({', '.join(parts)})"

    def fits(self, occurrence: Occurrence) -> bool:
        """Tell whether every condition but chance and ``times`` holds."""
        return (
            self.on is occurrence.operation
            and self.index in {None, occurrence.index}
            and self.name in {None, occurrence.name}
            and self.connection in {None, occurrence.connection}
            and (self.where is None or self.where(occurrence))
        )


@attrs.define(frozen=True, slots=True)
class FaultPlan:
    """Faults and the seed of their chances. The first fault that fits strikes; the others wait.

    ``repr`` is Python that rebuilds the plan. Each fault draws from a generator of its own, so taking
    one away does not change what the others do. Raises ValueError for what is no fault.
    """

    faults: tuple[Fault, ...] = attrs.field(default=(), converter=tuple[Fault, ...])
    seed: int = 0

    def __attrs_post_init__(self) -> None:
        given = cast("tuple[object, ...]", self.faults)
        if not all(isinstance(one, Fault) for one in given):
            raise ValueError(f"the faults of a plan must be of class Fault: {given!r}")


@attrs.define(frozen=True, slots=True)
class Strike:
    """A fault that struck, as ``FaultRun.strikes`` remembers it."""

    occurrence: Occurrence
    action: Action


class FaultRun:
    """A plan being carried out against one broker."""

    def __init__(self, plan: FaultPlan) -> None:
        """Start with nothing counted."""
        self.plan = plan
        self.strikes: list[Strike] = []
        self._met = {on: itertools.count() for on in Operation}
        self._left = [fault.times for fault in plan.faults]
        self._at: dict[Operation, list[int]] = {
            on: [at for at, fault in enumerate(plan.faults) if fault.on is on] for on in Operation
        }
        self._chances = [
            random.Random(f"{plan.seed}/{fault!r}/{plan.faults[:at].count(fault)}")  # noqa: S311 - reproducible
            for at, fault in enumerate(plan.faults)
        ]

    def meet(
        self, operation: Operation, connection: str, name: str, subject: Delivery | Publication | None = None
    ) -> Action | None:
        """Count one operation and return the action that strikes it, if one does."""
        index = next(self._met[operation])
        watching = self._at[operation]
        if not watching:
            return None
        occurrence = Occurrence(operation, index, connection, name, subject)
        for at in watching:
            fault = self.plan.faults[at]
            left = self._left[at]
            if left == 0 or not fault.fits(occurrence):
                continue
            if fault.probability < 1.0 and self._chances[at].random() >= fault.probability:
                continue
            self._left[at] = None if left is None else left - 1
            self.strikes.append(Strike(occurrence, fault.action))
            return fault.action
        return None

    def pinned(self) -> FaultPlan:
        """Return a plan of exactly the strikes seen, by index: no chance and no predicate is left in it."""
        return FaultPlan(
            tuple(
                Fault(strike.occurrence.operation, strike.action, index=strike.occurrence.index)
                for strike in self.strikes
            ),
            seed=self.plan.seed,
        )
