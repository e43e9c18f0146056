"""A random tree with random faults, as a function of one seed: shapes, bodies, requests and schedule."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable

import trio

from supervisors.backoff import Backoff
from supervisors.context import ChildContext
from supervisors.entry import supervised
from supervisors.errors import (
    ChildError,
    ChildLiveError,
    ClosedError,
    IntensityError,
    NoSuchChildError,
    StartError,
    StuckError,
)
from supervisors.events import Event
from supervisors.exits import Failed, SettlementFailed
from supervisors.shutdown import Shutdown
from supervisors.spec import Body, ChildSpec, RestartType, Strategy, SupervisorSpec
from supervisors.supervisor import Supervisor
from supervisors.testing.monitor import Monitor
from supervisors.testing.schedule import run_seeded
from supervisors.testing.trace import TraceChecker

_LIMIT_S = 100_000.0
_MAX_CHILDREN = 4


class FaultError(Exception):
    """What a random body raises."""


class FatalFault(BaseException):
    """What a random body raises to be fatal (S17)."""


class RandomTree:
    """One tree, drawn from ``seed``; ``run`` raises for a broken law, a report the model denies, a hang."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)  # noqa: S311 - a scenario, not a secret
        self._names = 0
        self.monitor = Monitor()
        self.checker = TraceChecker()
        self.events: list[Event] = []
        self.spec = self._supervisor(depth=2)
        self.handle = Supervisor(self.spec, observer=self._observe)

    async def run(self) -> None:
        """Live through the tree's whole life, whatever it is."""
        scope = trio.CancelScope()
        with trio.fail_after(_LIMIT_S), scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._run_tree)
                await self._meddle(scope)
        self.monitor.finish()
        self.checker.finish()
        if self.handle.last_observer_error is not None:
            raise self.handle.last_observer_error

    async def _run_tree(self) -> None:  # noqa: ASYNC910 - giving up is a checkpoint too
        error: BaseException | None = None
        try:
            try:
                await self.handle.run()
            except BaseException as raised:
                error = raised
                raise
            finally:
                self.monitor.ended(self.handle.path, error)
        except* (IntensityError, StartError, ChildError, StuckError, FaultError, FatalFault):
            pass  # giving up is a legal end of a random tree

    async def _meddle(self, scope: trio.CancelScope) -> None:  # noqa: ASYNC910 - it may do nothing
        requests: list[Callable[[], Awaitable[object]]] = [
            lambda: self.handle.start_child(self._child(depth=0)),
            lambda: self.handle.terminate_child(self._some_child()),
            lambda: self.handle.restart_child(self._some_child()),
            lambda: self.handle.delete_child(self._some_child()),
        ]
        for _ in range(self._draw.randrange(6)):
            await trio.sleep(self._draw.choice((0, 0.1, 1, 5, 20)))
            with trio.move_on_after(self._draw.choice((0, 10, 100))):
                await _tolerant(self._draw.choice(requests))
        if not self.handle.closed and self._draw.random() < 0.9:  # noqa: PLR2004
            self.handle.shutdown()
            await trio.sleep(self._draw.choice((0, 0.5, 3, 100)))
        scope.cancel(reason="random cancel")

    def _some_child(self) -> str:
        known = [child.id for child in self.handle.which_children()]
        return self._draw.choice([*known, "nobody"])

    def _observe(self, event: Event) -> None:
        self.events.append(event)
        self.checker(event)
        self.monitor(event)

    def _supervisor(self, depth: int) -> SupervisorSpec:
        draw = self._draw
        children = tuple(self._child(depth) for _ in range(draw.randrange(_MAX_CHILDREN + 1)))
        permanent = any(child.significant and child.restart is RestartType.PERMANENT for child in children)
        return SupervisorSpec(
            self._name("sup"),
            children,
            draw.choice(list(Strategy)),
            max_restarts=draw.choice((None, 0, 1, 3)),
            period_s=100,
            auto_shutdown="never" if permanent else draw.choice(("never", "any", "all")),
            seed=draw.randrange(100),
        )

    def _child(self, depth: int) -> ChildSpec:
        draw = self._draw
        nested = depth > 1 and draw.random() < 0.3  # noqa: PLR2004
        body = supervised(self._supervisor(depth - 1)) if nested else self._body()
        restart = draw.choice(list(RestartType))
        return ChildSpec(
            self._name("child"),
            self.monitor.watch(body),
            restart,
            Backoff(base_s=draw.choice((0.1, 1)), jitter=draw.choice((0, 0.5))),
            start_timeout_s=draw.choice((None, 1, 3)),
            drain_timeout_s=draw.choice((0, 1, 5)),
            stop_timeout_s=draw.choice((0.5, 2)),
            start_failure=draw.choice(("fail", "retry", "retry")),
            significant=draw.random() < 0.3 and restart is not RestartType.PERMANENT,  # noqa: PLR2004
            max_restarts=draw.choice((None, None, 2)),
            on_stuck=draw.choice(("wait", "abort")),
        )

    def _name(self, kind: str) -> str:
        self._names += 1
        return f"{kind}{self._names}"

    def _body(self) -> Body:
        draw = self._draw
        before_s, run_s = draw.choice((0, 0, 0.5, 2)), draw.choice((0, 1, 7, 30))
        reports, deaf, slow_s = draw.random() < 0.85, draw.random() < 0.2, draw.choice((0, 0, 0.2, 4))  # noqa: PLR2004
        end = draw.choice((None, None, "return", "settlement", "failed", "raise", "group", "fatal"))

        async def body(context: ChildContext) -> object:
            try:
                await trio.sleep(before_s)
                if reports:
                    context.started()
                with trio.move_on_after(run_s if end else 1_000):
                    await (Shutdown() if deaf else context.shutdown).wait()
                return _finish(end)
            finally:
                with trio.CancelScope(shield=True, deadline=trio.current_time() + slow_s):
                    await trio.sleep_forever()

        return body


def _finish(end: str | None) -> object:
    if end == "raise":
        raise FaultError(end)
    if end == "fatal":
        raise FatalFault(end)
    if end == "group":
        raise ExceptionGroup("several", [FaultError("one"), FaultError("two")])
    return {"settlement": SettlementFailed(end), "failed": Failed(end)}.get(end or "")


async def _tolerant(request: Callable[[], Awaitable[object]]) -> None:
    try:
        await request()
    except (ClosedError, StartError, NoSuchChildError, ChildLiveError):
        await trio.lowlevel.checkpoint()


def run_random_tree(seed: int) -> list[Event]:
    """Run the tree of ``seed`` under the schedule of ``seed``; its log. The error's notes name the seed."""
    tree = RandomTree(seed)
    try:
        run_seeded(tree.run, seed=seed)
    except BaseException as error:
        error.add_note(f"seed {seed}: run_random_tree({seed}) repeats this run")
        raise
    return tree.events
