"""The demo's course: publish the mix, let the runtime settle it, close the runtime, then account."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import attrs
import trio

from craig_mq.audit import AuditStore, open_store, record
from craig_mq.core.config import DlqRetryConfig, SubscriptionOptions
from craig_mq.core.outcome import Acked
from craig_mq.core.topology import Topology, topology_for
from craig_mq.demo.account import Account, Witness, read_copies, read_ledger, settle_account
from craig_mq.demo.behaviour import Handler, Outage, behave
from craig_mq.demo.mix import Planned, plan_mix
from craig_mq.observe.events import Event
from craig_mq.observe.log import log_event
from craig_mq.runtime.handle import DlqSubscription
from craig_mq.runtime.statistics import DlqStatistics
from craig_mq.runtime.subscribe import subscribe_dlq
from craig_mq.service.status import Gauges, Status, status_of
from craig_mq.transport.broker import Broker, Channel, ConnectionOptions

# The shortest valid parking time, and bounds short enough for a fault to be watched healing.
CONFIG = DlqRetryConfig(parking_ttl=1, park_cap=5, depth_sample_interval=1)
OPTIONS = SubscriptionOptions(confirm_timeout=2, backoff_base=0.2)
OUTAGE_S = 4.5
PATIENCE_S = 25.0
_LOOK_S = 0.2
_QUIET_LOOKS = 8


class DemoFailed(Exception):
    """The demo could not be carried out; the text says what to do."""


@attrs.define(frozen=True, slots=True)
class Demo:
    """What to run. ``make_handler`` is replaced where a test plants a defect."""

    messages: int = 200
    seed: int = 0
    queue: str = attrs.field(factory=lambda: f"craig.demo.{uuid.uuid4().hex[:8]}.dlq")
    make_handler: Callable[[AuditStore], Handler] = record

    @property
    def routing_key(self) -> str:
        """The canonical key of this demo's messages alone, so that no other queue gets a copy."""
        return f"dlq.{self.queue}"

    @property
    def topology(self) -> Topology:
        """What the subscription declares."""
        return topology_for(self.queue, (self.routing_key,))


@attrs.define(frozen=True, slots=True)
class DemoResult:
    """The account, and what the runtime counted on its way there."""

    account: Account
    statistics: DlqStatistics
    settled_in_time: bool


async def run_demo(broker: Broker, demo: Demo, show: Callable[[Status], None] = lambda _: None) -> DemoResult:
    """Carry out the demo on ``broker``, calling ``show`` five times a second.

    Bounded by about half a minute. Raises DemoFailed, SubscribeDlqError or a TransportError. The
    queues stay; ``remove_queues`` deletes them.
    """
    planned = plan_mix(demo.messages, demo.seed, queue=demo.queue, routing_key=demo.routing_key)
    witness = Witness()
    with tempfile.TemporaryDirectory(prefix="craig-mq-demo-") as folder:
        ledger = Path(folder) / "audit.db"
        async with open_store(f"sqlite:///{ledger}") as store:
            handler = behave(demo.make_handler(store), Outage(OUTAGE_S))
            statistics, in_time = await _settle(
                broker, demo, planned, handler=handler, witness=witness, show=show
            )
        copies = await read_copies(broker, demo.topology)
        account = settle_account(planned, copies, read_ledger(ledger), witness)
    return DemoResult(account, statistics, in_time)


async def _settle(
    broker: Broker,
    demo: Demo,
    planned: Sequence[Planned],
    *,
    handler: Handler,
    witness: Witness,
    show: Callable[[Status], None],
) -> tuple[DlqStatistics, bool]:
    gauges = Gauges()

    def observe(event: Event) -> None:
        for observer in (witness, gauges, log_event):
            observer(event)

    subscribe = partial(
        subscribe_dlq,
        broker,
        queue=demo.queue,
        handler=handler,
        config=CONFIG,
        options=OPTIONS,
        binding_keys=(demo.routing_key,),
        observer=observe,
    )
    async with trio.open_nursery() as nursery:
        subscription: DlqSubscription = await nursery.start(subscribe)
        await publish_all(broker, planned)
        in_time = await _wait_until_settled(
            subscription, len(planned), lambda: show(status_of(subscription, gauges))
        )
        subscription.shutdown("the demo is over")
        await subscription.wait_closed()
    return subscription.statistics(), in_time


async def publish_all(broker: Broker, planned: Sequence[Planned]) -> None:
    """Publish the mix, each message confirmed before the next. Raises DemoFailed if one is not."""
    async with broker.connect(ConnectionOptions(name="craig_mq demo publisher")) as connection:
        channel = await connection.open_channel(confirms=True)
        for item in planned:
            confirmation = await channel.publish(item.publication)
            if not isinstance(confirmation, Acked):
                raise DemoFailed(f"the broker did not take a message of the mix: {confirmation}")
        await connection.aclose()


async def _wait_until_settled(
    subscription: DlqSubscription, published: int, show: Callable[[], None]
) -> bool:
    """Wait until every message reached its end and nothing moved for a while; False if it took too long."""
    quiet, before = 0, subscription.statistics()
    deadline = trio.current_time() + PATIENCE_S
    while True:
        await trio.sleep(_LOOK_S)
        show()
        now = subscription.statistics()
        ended = now.acked + now.quarantined + now.duplicates_absorbed >= published
        done = ended and now.in_flight == 0 and now.returned >= now.parked
        quiet = quiet + 1 if done and now == before else 0
        before = now
        if quiet == _QUIET_LOOKS or trio.current_time() > deadline:
            return quiet == _QUIET_LOOKS


async def remove_queues(broker: Broker, demo: Demo) -> None:
    """Delete the demo's three queues; the exchange stays, others may use it."""
    async with broker.connect(ConnectionOptions(name="craig_mq demo clean-up")) as connection:
        channel: Channel = await connection.open_channel()
        for spec in demo.topology.queues:
            await channel.delete_queue(spec.name)
        await connection.aclose()
