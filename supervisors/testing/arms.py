"""A scenario to explore: a sampler, a parking arm and a main arm, each arm a supervisor over one session.

The first sessions of both arms end with a settlement failure, at the same instant or apart; a later one runs
until the drain. A phase of a body (start, run, clean up) has at most four checkpoints. ``python -m
supervisors.testing.arms`` explores every schedule of it and prints the counts.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import attrs
import trio

from supervisors.context import ChildContext
from supervisors.entry import supervised
from supervisors.events import Event
from supervisors.exits import SettlementFailed
from supervisors.shutdown import sleep_or_shutdown
from supervisors.spec import Body, ChildSpec, RestartType, SupervisorSpec
from supervisors.supervisor import Supervisor
from supervisors.testing.explore import Exploration, explore
from supervisors.testing.monitor import Monitor
from supervisors.testing.trace import TraceChecker

_LONGER_THAN_ANY_RUN_S = 1_000.0
_CLEANUP_BOUND_S = 5.0


@attrs.frozen
class ArmsPlan:
    """``ends_s``: how long the failing sessions of parking and main run; ``generations``: sessions per arm.

    ``requests`` are the injections: any of ``"drain"`` and ``"cancel"``.
    """

    ends_s: tuple[float, float] = (5.0, 7.0)
    generations: int = 3
    requests: tuple[str, ...] = ("drain", "cancel")
    sampler: bool = True


class Arms:
    """One run of the scenario; a ``Scenario`` for ``explore``."""

    def __init__(self, plan: ArmsPlan) -> None:
        self.plan = plan
        self.monitor = Monitor()
        self.checker = TraceChecker()
        self._scope = trio.CancelScope()
        self._abandoned = False
        arms = [self._arm(name, run_s) for name, run_s in zip(("parking", "main"), plan.ends_s, strict=True)]
        sampler = [ChildSpec("sampler", self.monitor.watch(_sampler))] if plan.sampler else []
        self.handle = Supervisor(SupervisorSpec("subscription", (*sampler, *arms)), observer=self._observe)
        offered = {"drain": self._drain, "cancel": self._cancel}
        self.injections: dict[str, Callable[[], None]] = {name: offered[name] for name in plan.requests}

    def __fingerprint__(self) -> object:
        return self.monitor, self.checker, self.handle, self._scope

    async def run(self) -> None:
        """Bring the tree up, let it live, drain it; raise for any broken law, lost report, or hang."""
        with trio.fail_after(_LONGER_THAN_ANY_RUN_S), self._scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.handle.run)
                await trio.sleep(_LONGER_THAN_ANY_RUN_S / 10)
                self._drain()
        if self._abandoned:
            return
        self.monitor.finish()
        self.checker.finish()
        if self.handle.last_observer_error is not None:
            raise self.handle.last_observer_error

    def abandon(self) -> None:
        """Cancel everything, and stop watching: the run that was here before saw what follows."""
        self._abandoned = True
        self._scope.cancel(reason="abandoned")

    def _arm(self, name: str, run_s: float) -> ChildSpec:
        session = ChildSpec(
            "session",
            self.monitor.watch(_session(run_s, self.plan.generations)),
            start_failure="retry",
            significant=True,
        )
        inner = SupervisorSpec(name, (session,), max_restarts=None)
        return ChildSpec(name, supervised(inner), RestartType.TRANSIENT, max_restarts=0, significant=True)

    def _observe(self, event: Event) -> None:
        if not self._abandoned:
            self.checker(event)
            self.monitor(event)

    def _drain(self) -> None:
        if not self.handle.closed:
            self.handle.shutdown("injected")

    def _cancel(self) -> None:
        self._scope.cancel(reason="injected")


async def _sampler(context: ChildContext) -> None:
    context.started()
    await context.shutdown.wait()


def _session(run_s: float, generations: int) -> Body:
    async def session(context: ChildContext) -> SettlementFailed | None:
        await trio.lowlevel.checkpoint()
        context.started()
        try:
            if context.generation < generations:
                await sleep_or_shutdown(run_s, context.shutdown)
                return SettlementFailed("unconfirmed")
            await context.shutdown.wait()
        finally:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + _CLEANUP_BOUND_S):
                await trio.lowlevel.checkpoint()
        return None

    return session


FULL = (
    ArmsPlan((5.0, 5.0), 3, ("drain", "cancel")),
    ArmsPlan((5.0, 7.0), 3, ("drain", "cancel")),
    ArmsPlan((7.0, 5.0), 3, ("drain", "cancel")),
)
QUICK = (ArmsPlan((5.0, 5.0), 2, ("drain",)),)


def explore_arms(plan: ArmsPlan) -> Exploration:
    """Every schedule of one plan."""
    return explore(lambda: Arms(plan))


def explore_all(plans: tuple[ArmsPlan, ...] = FULL, workers: int = 2) -> list[Exploration]:
    """Every schedule of every plan; with two workers or more, each plan in a process of its own."""
    if workers == 1:
        return [explore_arms(plan) for plan in plans]
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        return list(pool.map(explore_arms, plans))


def main(arguments: list[str]) -> int:
    """Explore the full plans, or with ``--quick`` one small plan; print the counts.

    0 iff each exploration is complete and without violation.
    """
    plans, workers = (QUICK, 1) if "--quick" in arguments else (FULL, 2)
    begun = time.monotonic()
    explored = explore_all(plans, workers)
    for plan, seen in zip(plans, explored, strict=True):
        sys.stdout.write(
            f"{plan}\n  runs {seen.runs}, states {seen.states}, merged {seen.merged}, "
            f"complete {seen.complete}, violations {len(seen.violations)}\n"
        )
    total = sum(seen.runs for seen in explored)
    sys.stdout.write(f"{total} runs in {time.monotonic() - begun:.0f} s\n")
    return 0 if all(seen.complete and not seen.violations for seen in explored) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
