"""``subscribe_dlq``: the whole of ADR-059's path for one dead-letter queue, as one task."""

# flake8: noqa: ASYNC114,ASYNC128,ASYNC910 - task_status travels to the task behind the handle
from __future__ import annotations

from collections.abc import Sequence

import trio

from craig_mq.core.config import (
    DlqRetryConfig,
    ReturnRoute,
    SubscriptionOptions,
    validate_kinds,
    validate_names,
)
from craig_mq.core.errors import DlqConfigError
from craig_mq.core.handler_kind import validate_handler
from craig_mq.core.route import is_canonical
from craig_mq.core.topology import topology_for
from craig_mq.observe.events import Observer
from craig_mq.runtime.arm_memory import ArmMemory
from craig_mq.runtime.errors import SubscribeDlqError, SubscribeErrorKind
from craig_mq.runtime.handle import DlqSubscription
from craig_mq.runtime.plan import Handler, Plan
from craig_mq.runtime.reporting import Reporter
from craig_mq.runtime.sources import SYSTEM_SOURCES, Sources
from craig_mq.runtime.start_gate import StartGate
from craig_mq.runtime.statistics import Tally
from craig_mq.runtime.subscription_task import SubscriptionTask
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
        validate_handler(handler)
        validate_kinds(config=(config, DlqRetryConfig), options=(options, SubscriptionOptions))
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
        _CanonicalRoutes(tuple(binding_keys), options.return_route),
    )
    main, parking = ArmMemory("main"), ArmMemory("parking")
    tree = Supervisor(subscription_tree(plan, parking, main), observer=BackoffReports(plan))
    handle = DlqSubscription(queue, tree, main, parking, plan.tally)
    task = SubscriptionTask(plan, tree, handle, SubscribeDlqError, task_status.started)
    del task_status  # See ``SubscriptionTask``.
    await task.run()


class _CanonicalRoutes:
    """Remembers answers: it is asked once a delivery, about few distinct keys."""

    __slots__ = ("_answers", "_binding_keys", "_return_route")

    def __init__(self, binding_keys: tuple[str, ...], return_route: ReturnRoute) -> None:
        self._binding_keys = binding_keys
        self._return_route: ReturnRoute = return_route
        self._answers: dict[str, bool] = {}

    def __call__(self, routing_key: str) -> bool:
        answer = self._answers.get(routing_key)
        if answer is None:
            if len(self._answers) >= _REMEMBERED_ROUTES:
                self._answers.clear()
            answer = is_canonical(routing_key, self._binding_keys, self._return_route)
            self._answers[routing_key] = answer
        return answer
