"""``subscribe_dlq``: the whole of ADR-059's path for one dead-letter queue, as one task."""

# flake8: noqa: ASYNC114,ASYNC128,ASYNC910 - task_status travels to the task behind the handle
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

import attrs
import trio

from craig_mq.core.config import DlqRetryConfig, ReturnRoute, SubscriptionOptions, validate_names
from craig_mq.core.errors import DlqConfigError
from craig_mq.core.route import is_canonical
from craig_mq.core.topology import topology_for
from craig_mq.observe.events import Observer, SubscriptionEnded
from craig_mq.runtime.arm_memory import ArmMemory
from craig_mq.runtime.errors import (
    StartTimedOut,
    SubscribeDlqError,
    SubscribeErrorKind,
    SubscriptionCancelled,
    crash_of,
)
from craig_mq.runtime.handle import DlqSubscription
from craig_mq.runtime.loop_watchdog import watching_loop
from craig_mq.runtime.plan import Handler, Plan
from craig_mq.runtime.reporting import Reporter
from craig_mq.runtime.sources import SYSTEM_SOURCES, Sources
from craig_mq.runtime.start_gate import StartGate
from craig_mq.runtime.statistics import Tally
from craig_mq.runtime.tree import BackoffReports, subscription_tree
from craig_mq.transport.broker import Broker
from supervisors import Supervisor

_REMEMBERED_ROUTES = 1_024

DEFAULT_CONFIG = DlqRetryConfig()
DEFAULT_OPTIONS = SubscriptionOptions()


async def subscribe_dlq(
    broker: Broker,
    *,
    queue: str,
    handler: Handler,
    config: DlqRetryConfig = DEFAULT_CONFIG,
    options: SubscriptionOptions = DEFAULT_OPTIONS,
    binding_keys: Sequence[str] = ("dlq.#",),
    observer: Observer | None = None,
    sources: Sources = SYSTEM_SOURCES,
    task_status: trio.TaskStatus[DlqSubscription] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Settle the dead letters of ``queue`` until shut down; the handle goes to ``nursery.start``.

    The queue, its ``.parking`` and ``.quarantine`` siblings, ``craig.dlx`` and the bindings are declared.
    ``observer`` hears every event, synchronously; ``sources`` are for simulations.

    Raises SubscribeDlqError before the handle is given, with nothing left running: CONFIG for names
    and values that cannot be, AMQP for what the broker refuses, or if both arms do not consume within
    ``start_timeout``. Afterwards it returns on a graceful shutdown and raises SubscriptionCrashed, with
    every cause, on an error nobody foresaw (ADR-059 §parking: the death of an arm is visible).
    Cancelled: both arms are cancelled, main first, each within settle_timeout + abort_grace.
    """
    try:
        validate_names(queue, binding_keys, options.return_route)
    except DlqConfigError as error:
        raise SubscribeDlqError(SubscribeErrorKind.CONFIG, error) from error
    plan = Plan(
        broker,
        queue,
        tuple(binding_keys),
        handler,
        config,
        options,
        topology_for(queue, binding_keys, options.queue_type),
        sources,
        Reporter(observer),
        StartGate(),
        Tally(),
        _routes(tuple(binding_keys), options.return_route),
    )
    main, parking = ArmMemory("main"), ArmMemory("parking")
    tree = Supervisor(subscription_tree(plan, parking, main), observer=BackoffReports(plan))
    handle = DlqSubscription(queue, tree, main, parking, plan.tally)
    await _Subscription(plan, tree, handle).run(task_status)


def _routes(binding_keys: tuple[str, ...], return_route: ReturnRoute) -> Callable[[str], bool]:
    """Remember answers: it is asked once a delivery, about few distinct keys."""

    @lru_cache(_REMEMBERED_ROUTES)
    def canonical(routing_key: str) -> bool:
        return is_canonical(routing_key, binding_keys, return_route)

    return canonical


@attrs.define(slots=True, eq=False)
class _Subscription:
    """The task behind one handle."""

    plan: Plan
    tree: Supervisor
    handle: DlqSubscription
    crash: Exception | None = None

    async def run(self, task_status: trio.TaskStatus[DlqSubscription]) -> None:
        error: Exception | None = SubscriptionCancelled()
        try:
            error = await self._until_ended(task_status)
        finally:
            self.handle.note_closed(error)
            self.plan.reporter.emit(
                SubscriptionEnded(self.plan.queue, None if error is None else type(error).__name__)
            )
        if error is not None:
            raise error

    async def _until_ended(self, task_status: trio.TaskStatus[DlqSubscription]) -> Exception | None:
        """Return what ended the subscription, None for a shutdown. Cancellation passes through."""
        refused: SubscribeDlqError | None = None
        with watching_loop(self.plan.reporter, self.plan.queue):
            async with trio.open_nursery() as nursery:
                await nursery.start(self._run_tree)
                refused = await self._first_start()
                if refused is None:
                    task_status.started(self.handle)
                elif self.crash is None:
                    self.tree.cancel("the subscription was refused")
                await self.tree.wait_closed()
        return self.crash or refused

    async def _run_tree(self, *, task_status: trio.TaskStatus[Supervisor]) -> None:
        try:
            await self.tree.run(task_status=task_status)
        except Exception as error:  # noqa: BLE001 - raised by run(), bare, once the nursery is closed
            self.crash = crash_of(error)
        finally:
            self.plan.gate.close()

    async def _first_start(self) -> SubscribeDlqError | None:
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
        return SubscribeDlqError(SubscribeErrorKind.CONFIG if config else SubscribeErrorKind.AMQP, source)
