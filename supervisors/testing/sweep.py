"""A fault at every checkpoint: each body is driven step by step, and at one checkpoint something goes wrong.

The scenario is run once without a fault, to count the checkpoints its bodies pass, then once per checkpoint
and fault. The bodies need no preparation: every suspension of the body's own task counts.
"""

from __future__ import annotations

import enum
import types
from collections.abc import Awaitable, Callable, Generator
from typing import Any, assert_never

import attrs
import trio

from supervisors.context import ChildContext
from supervisors.spec import Body
from supervisors.testing.schedule import run_seeded


class Fault(enum.Enum):
    """What happens at the chosen checkpoint."""

    RAISE = "raise"  # the checkpoint raises InjectedError
    CANCEL = "cancel"  # the scenario's scope is cancelled from the outside
    HANG = "hang"  # the checkpoint never returns, but can be cancelled
    LATE_SUCCESS = "late success"  # it ignores cancellation for a while, then succeeds


class InjectedError(Exception):
    """The fault of ``Fault.RAISE``."""


@attrs.define
class FaultPlan:
    """Where (the n-th checkpoint, from 0) and what; ``at=None`` only counts. ``passed`` is the count."""

    at: int | None = None
    fault: Fault = Fault.RAISE
    late_s: float = 60.0
    passed: int = 0
    scope: trio.CancelScope = attrs.Factory(trio.CancelScope)

    def wrap(self, body: Body) -> Body:
        """The body, with its checkpoints counted and the fault put in."""

        async def faulty(context: ChildContext) -> object:
            return await _drive(body(context), self)

        return faulty

    async def strike(self) -> None:  # noqa: ASYNC910 - it stands beside a checkpoint
        """Pass one checkpoint; if it is the chosen one, do the fault."""
        index = self.passed
        self.passed += 1
        if index != self.at:
            return  # noqa: ASYNC910 - as above
        match self.fault:
            case Fault.RAISE:
                raise InjectedError(f"checkpoint {index}")
            case Fault.CANCEL:
                self.scope.cancel(reason=f"injected at checkpoint {index}")
            case Fault.HANG:
                await trio.sleep_forever()
            case Fault.LATE_SUCCESS:
                with trio.CancelScope(shield=True, deadline=trio.current_time() + self.late_s):
                    await trio.sleep_forever()
            case _:
                assert_never(self.fault)


@types.coroutine
def _drive(inner: Awaitable[object], plan: FaultPlan) -> Generator[Any, Any, object]:
    """Run ``inner`` to its end; after each of its suspensions, ``plan.strike()`` before it goes on."""
    steps = inner.__await__()
    resume: Callable[[], Any] = lambda: next(steps)  # noqa: E731 - rebound below
    while True:
        try:
            trap = resume()
        except StopIteration as stop:
            return stop.value
        try:
            sent = yield trap
            yield from plan.strike().__await__()
        except BaseException as error:  # noqa: BLE001, ASYNC103 - thrown into the body, where it belongs
            resume = _thrower(steps, error)
        else:
            resume = _sender(steps, sent)


def _thrower(steps: Generator[Any, Any, object], error: BaseException) -> Callable[[], Any]:
    return lambda: steps.throw(error)


def _sender(steps: Generator[Any, Any, object], value: object) -> Callable[[], Any]:
    return lambda: steps.send(value)


@attrs.frozen
class Sweep:
    """The result: how many checkpoints there were, how many runs were made, and what went wrong."""

    checkpoints: int
    runs: int
    failures: tuple[tuple[int, Fault, BaseException], ...]


def sweep(
    scenario: Callable[[FaultPlan], Awaitable[None]],
    *,
    faults: tuple[Fault, ...] = tuple(Fault),
    seed: int = 0,
    limit_s: float = 10_000.0,
) -> Sweep:
    """Run ``scenario(plan)`` with each fault at each checkpoint.

    The scenario wraps its bodies with ``plan.wrap``, runs the tree inside ``plan.scope``, and raises if a law
    is broken. A run longer than ``limit_s`` of virtual time is a hang, and a failure.
    """
    counting = FaultPlan()
    run_seeded(lambda: _bounded(scenario, counting, limit_s), seed=seed)
    failures: list[tuple[int, Fault, BaseException]] = []
    for at in range(counting.passed):
        for fault in faults:
            plan = FaultPlan(at, fault)
            try:
                run_seeded(lambda plan=plan: _bounded(scenario, plan, limit_s), seed=seed)  # type: ignore[misc]
            except BaseException as error:  # noqa: BLE001, ASYNC103 - collected
                failures.append((at, fault, error))
    return Sweep(counting.passed, counting.passed * len(faults), tuple(failures))


async def _bounded(scenario: Callable[[FaultPlan], Awaitable[None]], plan: FaultPlan, limit_s: float) -> None:
    with trio.fail_after(limit_s):
        await scenario(plan)
