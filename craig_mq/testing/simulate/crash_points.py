"""A cancellation at every await: each step of every task of a subscription is a place to die.

A run without faults is counted step by step; then it is repeated once per step, and at that step the
subscription is cancelled. Whatever supervises processes starts it again, and the checkers judge.
"""

from __future__ import annotations

from typing import Final

import trio

from craig_mq.core.config import DlqRetryConfig, SubscriptionOptions
from craig_mq.testing.simulate.checking import check
from craig_mq.testing.simulate.evidence import Violation
from craig_mq.testing.simulate.scenario import Letter, Replica, Scenario
from craig_mq.testing.simulate.world import World
from craig_mq.transport.memory import FaultPlan
from supervisors.testing import run_seeded

PATHS: Final[dict[str, Letter]] = {
    "ok": Letter(0.1),
    "retry": Letter(0.1, behaviours=("retry",)),
    "park and replay": Letter(0.1, behaviours=("park",)),
    "quarantine": Letter(0.1, behaviours=("permanent",)),
    "malformed": Letter(0.1, "malformed"),
}

_REPLICA = Replica(
    0.0,
    DlqRetryConfig(parking_ttl=1, park_cap=2, handler_attempts=2, depth_sample_interval=600),
    SubscriptionOptions(prefetch=1, concurrency=1, backoff_base=0.1, backoff_cap=0.1, parking_hold_limit=5),
)


def scenario_for(path: str) -> Scenario:
    """Return a run without any fault in which one letter takes a path."""
    return Scenario(1, "3.10", (_REPLICA,), (PATHS[path],), (), FaultPlan(), calm_after=2.0)


class _Steps(trio.abc.Instrument):
    """Counts the steps of all tasks; at step ``at`` it cancels the subscription."""

    def __init__(self, world: World, at: int | None) -> None:
        self._world = world
        self._at = at
        self.count = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:  # noqa: ARG002 - Trio's own signature
        """Count one step, and strike if it is the one."""
        if self._world.calm:
            return
        if self.count == self._at:
            self._world.subscribers[0].cancel()
        self.count += 1


def _run(path: str, at: int | None) -> tuple[int, list[Violation]]:
    world = World(scenario_for(path))
    steps = _Steps(world, at)

    async def watched() -> list[Violation]:
        trio.lowlevel.add_instrument(steps)
        return check(await world.run())

    violations = run_seeded(watched, seed=1)
    return steps.count, violations


def steps_of(path: str) -> int:
    """Return how many steps a path takes without a cancellation. Raises AssertionError if it goes wrong."""
    count, violations = _run(path, None)
    if violations:
        raise AssertionError(violations)
    return count


def cancelled_at(path: str, step: int) -> list[Violation]:
    """Take a path, cancel the subscription at one step, let it start again; return what was violated."""
    return _run(path, step)[1]
