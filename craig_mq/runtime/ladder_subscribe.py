"""``subscribe``: ordinary queues with a two-strike ladder (decisions, 19)."""

# flake8: noqa: ASYNC114,ASYNC128,ASYNC910 - task_status travels to the task behind the handle
from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs
import trio

from craig_mq.core.config import (
    SubscriptionConfig,
    SubscriptionOptions,
    validate_exchange,
    validate_kinds,
    validate_queue,
)
from craig_mq.core.delivery import Delivery
from craig_mq.core.errors import DlqConfigError
from craig_mq.core.handler_kind import validate_handler
from craig_mq.core.topology import DEAD_LETTER_EXCHANGE, EVENTS_EXCHANGE, event_topology
from craig_mq.observe.events import Observer
from craig_mq.runtime.arm_memory import ArmMemory
from craig_mq.runtime.errors import SubscribeError, SubscribeErrorKind
from craig_mq.runtime.handle import ArmSnapshot, SubscriptionHandle, look
from craig_mq.runtime.intake import Intake
from craig_mq.runtime.ladder_intake import KeyedIntake
from craig_mq.runtime.ladder_performer import EventInFlight, LadderPerformer, read_event
from craig_mq.runtime.ladder_plan import EventHandler, EventStatistics, EventTally, LadderPlan, OrderingKey
from craig_mq.runtime.live_session import LiveSession
from craig_mq.runtime.queue_consumer import QueueConsumer
from craig_mq.runtime.reporting import Reporter
from craig_mq.runtime.session import Session
from craig_mq.runtime.sources import SYSTEM_SOURCES, Sources
from craig_mq.runtime.start_gate import StartGate
from craig_mq.runtime.subscription_task import SubscriptionTask
from craig_mq.runtime.tree import ROOT, BackoffReports, arm_spec
from craig_mq.transport.broker import Broker
from supervisors import Supervisor, SupervisorSnapshot, SupervisorSpec

DEFAULT_CONFIG = SubscriptionConfig()
DEFAULT_OPTIONS = SubscriptionOptions()


@attrs.define(frozen=True, slots=True)
class EventSubscriptionSnapshot:
    """A consistent look at a subscription. ``error`` names what ended it, if anything did."""

    queue: str
    closed: bool
    error: str | None
    main: ArmSnapshot
    tree: SupervisorSnapshot


class EventSubscription(SubscriptionHandle):
    """The handle of ``subscribe``."""

    def __init__(self, queue: str, tree: Supervisor, main: ArmMemory, tally: EventTally) -> None:
        super().__init__(tree)
        self._queue = queue
        self._main = main
        self._tally = tally

    def snapshot(self) -> EventSubscriptionSnapshot:
        """Look at the session and the tree. Legal after the end, too."""
        return EventSubscriptionSnapshot(
            self._queue, self._closed.is_set(), self.error_name, look(self._main), self._tree.snapshot()
        )

    def statistics(self) -> EventStatistics:
        """Return the counters so far."""
        return self._tally.frozen()


async def subscribe(
    broker: Broker,
    *,
    queue: str,
    handler: EventHandler,
    binding_keys: Sequence[str] = (),
    exchange: str = EVENTS_EXCHANGE,
    config: SubscriptionConfig = DEFAULT_CONFIG,
    options: SubscriptionOptions = DEFAULT_OPTIONS,
    ordering_key: OrderingKey | None = None,
    observer: Observer | None = None,
    sources: Sources = SYSTEM_SOURCES,
    task_status: trio.TaskStatus[EventSubscription] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Handle the events of ``queue`` until shut down; the handle goes to ``nursery.start``.

    The queue, ``exchange``, ``craig.dlx`` and the bindings are declared. The ladder: a handler that
    raises or takes longer than ``handler_timeout`` has its first strike, and the delivery is requeued;
    a failure of a redelivered one is dead-lettered to craig.dlx, under ``dlq.<queue>.<event_type>``.
    A body that is no envelope is dead-lettered at once, unchanged, under ``dlq.<queue>.malformed``.
    Redeliveries after a teardown or a broker's crash have used their first strike; statistics count
    them. With ``ordering_key`` one event per key is in flight at a time.

    Raises SubscribeError before the handle is given, with nothing left running: CONFIG for names and
    values that cannot be, AMQP for what the broker refuses, or if it does not consume within
    ``start_timeout``. Afterwards it returns on a graceful shutdown and raises SubscriptionCrashed on an
    error nobody foresaw. Cancelled: handlers are cancelled; settlements already begun are written,
    within settle_timeout + abort_grace; the rest stays with the broker.
    """
    try:
        validate_handler(handler)
        validate_kinds(config=(config, SubscriptionConfig), options=(options, SubscriptionOptions))
        validate_queue(queue, binding_keys)
        validate_exchange(exchange)
    except DlqConfigError as error:
        raise SubscribeError(SubscribeErrorKind.CONFIG, error) from error
    plan = LadderPlan(
        broker,
        queue,
        handler,
        ordering_key,
        config,
        options,
        event_topology(queue, binding_keys, exchange, options.queue_type, config.dead_letter_by),
        sources,
        Reporter(observer),
        StartGate(("main",)),
        EventTally(),
    )
    main = ArmMemory("main")
    publishes_to = (DEAD_LETTER_EXCHANGE,) if config.dead_letter_by == "client" else ()
    spec = SupervisorSpec(
        name=ROOT,
        children=(
            arm_spec(plan, "main", Session(plan, main, lambda live: _work(plan, live), publishes_to).run),
        ),
        max_restarts=None,
    )
    tree = Supervisor(spec, observer=BackoffReports(plan))
    handle = EventSubscription(queue, tree, main, plan.tally)
    task = SubscriptionTask(plan, tree, handle, SubscribeError, task_status.started)
    del task_status  # See ``SubscriptionTask``.
    await task.run()


def _work(plan: LadderPlan, live: LiveSession) -> QueueConsumer[EventInFlight]:
    key_of = plan.ordering_key
    if key_of is None:
        return QueueConsumer(live, LadderPerformer(plan, live, _hold_nothing), Intake[EventInFlight]())
    intake = KeyedIntake[EventInFlight](_reading(key_of))
    return QueueConsumer(live, LadderPerformer(plan, live, intake.release), intake)


def _reading(key_of: OrderingKey) -> Callable[[Delivery], str | None]:
    """Key deliveries by their envelope. What has no envelope or no key goes as it comes."""

    def key(delivery: Delivery) -> str | None:
        envelope = read_event(delivery)
        if isinstance(envelope, str):
            return None
        try:
            return key_of(envelope)
        except Exception:  # noqa: BLE001 - the invocation meets the same error, and it counts there
            return None

    return key


def _hold_nothing(_: Delivery) -> None:
    """Without an order nothing waits for a delivery."""
