"""One chaos campaign: a producer, the real subscription behind a proxy, troubles one after the other."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from functools import partial
from pathlib import Path

import attrs
import trio

from craig_mq.audit import open_store
from craig_mq.core.config import DlqRetryConfig, QueueType, SubscriptionOptions
from craig_mq.observe.events import Event, SessionDown
from craig_mq.runtime.handle import DlqSubscription
from craig_mq.runtime.statistics import DlqStatistics
from craig_mq.runtime.subscribe import subscribe_dlq
from craig_mq.testing.chaos.account import Account, settle_account
from craig_mq.testing.chaos.trouble import QUEUE, TROUBLES, Stage
from craig_mq.testing.chaos.workload import ROUTING_KEY, Behaving, Producer
from craig_mq.testing.proxy import open_tcp_proxy
from craig_mq.testing.rabbitmq import RabbitNode
from craig_mq.transport.opening import open_broker

CONFIG = DlqRetryConfig(parking_ttl=2, depth_sample_interval=5)
OPTIONS = SubscriptionOptions(
    prefetch=64,
    heartbeat=2,
    connect_timeout=5,
    rpc_timeout=5,
    confirm_timeout=5,
    backoff_base=0.2,
    backoff_cap=2,
    stable_after=2,
    start_timeout=None,
)
PATIENCE_S = 180.0
_LOOK_S = 0.5
_QUIET_LOOKS = 8


@attrs.define(frozen=True, slots=True)
class Campaign:
    """How much: messages to publish, troubles to make, the seed of their order, the queues' type."""

    messages: int
    events: int
    seed: int = 0
    queue_type: QueueType = "classic"


@attrs.define(frozen=True, slots=True)
class Outcome:
    """What a campaign showed. ``troubles`` counts what was made, ``ends`` how sessions ended."""

    version: str
    campaign: Campaign
    account: Account
    troubles: dict[str, int]
    ends: dict[str, int]
    statistics: DlqStatistics
    invocations: int
    repeated_publishes: int
    settled: bool
    seconds: float


async def run_campaign(node: RabbitNode, campaign: Campaign) -> Outcome:
    """Carry it out on a running node of its own. Raises what the harness itself meets."""
    began = trio.current_time()
    ends: Counter[str] = Counter()

    def observe(event: Event) -> None:
        if isinstance(event, SessionDown):
            ends[f"{event.arm}: {event.end}"] += 1

    with tempfile.TemporaryDirectory(prefix="craig-mq-chaos-") as folder:
        ledger = Path(folder) / "audit.db"
        async with open_tcp_proxy("127.0.0.1", node.port) as proxy, open_broker(node.url) as direct:
            producer = Producer(direct, campaign.messages)
            async with open_store(f"sqlite:///{ledger}") as store, open_broker(proxy.url(node.url)) as broker:
                behaving = Behaving(store)
                options = attrs.evolve(OPTIONS, queue_type=campaign.queue_type)
                subscribe = partial(
                    subscribe_dlq,
                    broker,
                    queue=QUEUE,
                    handler=behaving.handler(),
                    config=CONFIG,
                    options=options,
                    binding_keys=(ROUTING_KEY,),
                    observer=observe,
                )
                async with trio.open_nursery() as nursery:
                    subscription: DlqSubscription = await nursery.start(subscribe)
                    stage = Stage(node, proxy, random.Random(campaign.seed).random)  # noqa: S311
                    troubles = await _make_trouble(campaign, stage, producer)
                    settled = await _settle(subscription)
                    subscription.shutdown("the campaign is over")
                    await subscription.wait_closed()
            account = await settle_account(direct, ledger, producer.confirmed)
    return Outcome(
        await _version(node),
        campaign,
        account,
        dict(troubles),
        dict(ends),
        subscription.statistics(),
        behaving.invocations.total(),
        producer.unsure.total(),
        settled,
        trio.current_time() - began,
    )


async def _make_trouble(campaign: Campaign, stage: Stage, producer: Producer) -> Counter[str]:
    """Publish everything while one trouble follows the other; both end before this returns."""
    made: Counter[str] = Counter()
    batches = max(1, campaign.messages // 50)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(producer.run, campaign.events * 1.5 / batches)
        names = list(TROUBLES)
        for number in range(campaign.events):
            name = names[number % len(names)]
            await trio.sleep(0.2 + 0.5 * stage.chance())
            await TROUBLES[name](stage)
            made[name] += 1
    return made


async def _settle(subscription: DlqSubscription) -> bool:
    """Wait until nothing has moved for a while; False if it never came to rest."""
    quiet, before = 0, subscription.statistics()
    with trio.move_on_after(PATIENCE_S) as patience:  # noqa: ASYNC912 - the sleep, taken at least once
        while quiet < _QUIET_LOOKS:
            await trio.sleep(_LOOK_S)
            now = subscription.statistics()
            quiet = quiet + 1 if now == before and now.in_flight == 0 else 0
            before = now
    return not patience.cancelled_caught  # noqa: ASYNC910 - as above


async def _version(node: RabbitNode) -> str:
    printed = await trio.to_thread.run_sync(node.eval, "rabbit_misc:version()")
    return printed.strip('"')
