"""The task behind a subscription's handle: its first start, its tree, its end (decisions, 18)."""

# flake8: noqa: ASYNC114,ASYNC128,ASYNC910 - task_status travels to the task behind the handle
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Generic, TypeVar

import attrs
import trio

from craig_mq.core.errors import DlqConfigError
from craig_mq.observe.events import SubscriptionEnded
from craig_mq.runtime.errors import (
    StartTimedOut,
    SubscribeError,
    SubscribeErrorKind,
    SubscriptionCancelled,
    crash_of,
)
from craig_mq.runtime.handle import SubscriptionHandle
from craig_mq.runtime.loop_watchdog import WatchingLoop
from craig_mq.runtime.plan import SessionPlan
from supervisors import Supervisor

H = TypeVar("H", bound=SubscriptionHandle)


@attrs.define(slots=True, eq=False)
class SubscriptionTask(Generic[H]):
    """The task behind one handle; ``refused`` is the type of what a refused start raises.

    ``started`` is given the handle once, and forgotten: it holds the nursery of ``nursery.start``.
    """

    plan: SessionPlan
    tree: Supervisor
    handle: H
    refused: type[SubscribeError]
    started: Callable[[H], None] | None
    crash: Exception | None = None
    refusal: SubscribeError | None = None

    async def run(self) -> None:
        """Run the tree; give the handle once every arm consumes; raise what ended it, if anything did."""
        error: Exception | None = SubscriptionCancelled()
        try:
            error = await self._until_ended()
        finally:
            self.handle.note_closed(error)
            self.plan.reporter.emit(
                SubscriptionEnded(self.plan.queue, None if error is None else type(error).__name__)
            )
        if error is not None:
            raise error

    async def _until_ended(self) -> Exception | None:
        """Return what ended the subscription, None for a shutdown. Cancellation passes through."""
        plan = self.plan
        with WatchingLoop(plan.reporter, plan.queue, monotonic=plan.sources.monotonic):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._start)
                await self._run_tree()
        return self.crash or self.refusal

    async def _start(self) -> None:
        """Give the handle, or take the tree down, once the first start is decided; that is all it does."""
        self.refusal = await self._first_start()
        started, self.started = self.started, None
        if self.refusal is None:
            if started is not None:
                started(self.handle)
        elif self.crash is None:
            self.tree.cancel("the subscription was refused")

    async def _run_tree(self) -> None:
        try:
            await self.tree.run()
        except Exception as error:  # noqa: BLE001 - raised by run(), bare, once the nursery is closed
            self.crash = crash_of(error)
        finally:
            self.plan.gate.close()

    async def _first_start(self) -> SubscribeError | None:
        limit = self.plan.options.start_timeout
        seconds = math.inf if limit is None else limit.total_seconds()
        with trio.move_on_after(seconds) as patience:
            await self.plan.gate.wait()
        source = self.plan.gate.refusal
        if source is None and patience.cancelled_caught:
            last = self.plan.gate.last_failure
            source = StartTimedOut(f"not consuming within {seconds:g} s; last failure: {last}")
        if source is None:
            return None
        config = isinstance(source, DlqConfigError)
        return self.refused(SubscribeErrorKind.CONFIG if config else SubscribeErrorKind.AMQP, source)
