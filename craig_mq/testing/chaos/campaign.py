"""One chaos campaign: a producer, the real subscription behind a proxy, troubles one after the other."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Final

import attrs
import trio

from craig_mq.audit import open_store
from craig_mq.core.config import DlqRetryConfig, SubscriptionOptions
from craig_mq.observe.events import Event, TopologyRepaired
from craig_mq.runtime.handle import DlqSubscription
from craig_mq.runtime.subscribe import subscribe_dlq
from craig_mq.testing.chaos.account import Account, Expected, settle_account
from craig_mq.testing.chaos.catalogue import troubles_of
from craig_mq.testing.chaos.outcome import Campaign, Outcome
from craig_mq.testing.chaos.stage import HEARTBEAT_S, PARKING, QUARANTINE, QUEUE, Stage
from craig_mq.testing.chaos.trail import UNEXPLAINED, Reason, Trail
from craig_mq.testing.chaos.trouble import Place, Trouble
from craig_mq.testing.chaos.workload import ROUTING_KEY, Behaving, Producer
from craig_mq.testing.proxy import TcpProxy, open_tcp_proxy
from craig_mq.testing.rabbitmq import RabbitNode
from craig_mq.transport.opening import open_broker

CONFIG: Final = DlqRetryConfig(parking_ttl=2, depth_sample_interval=5)
OPTIONS: Final = SubscriptionOptions(
    prefetch=64,
    heartbeat=HEARTBEAT_S,
    connect_timeout=5,
    rpc_timeout=5,
    confirm_timeout=5,
    backoff_base=0.2,
    backoff_cap=2,
    stable_after=2,
    start_timeout=None,
)
PATIENCE_S: Final = 240.0
_LOOK_S: Final = 0.5
_NOTICE_S: Final = 0.2
"""In which both arms notice that their connection is gone, so that its end counts for the right trouble."""
_QUIET_LOOKS: Final = 10


async def run_campaign(nodes: tuple[RabbitNode, ...], campaign: Campaign) -> Outcome:
    """Carry it out on running nodes of its own. Raises what the harness itself meets."""
    with tempfile.TemporaryDirectory(prefix="craig-mq-chaos-") as folder:
        ports = [node.port for node in nodes]
        async with open_tcp_proxy("127.0.0.1", *ports) as proxy, open_tcp_proxy("127.0.0.1", *ports) as calm:
            return await _Run(nodes, campaign, Path(folder) / "audit.db", proxy, calm).carry_out()


@attrs.define(slots=True)
class _Run:
    """``proxy`` is what the subscription goes through, ``calm`` a way that no trouble touches."""

    nodes: tuple[RabbitNode, ...]
    campaign: Campaign
    ledger: Path
    proxy: TcpProxy
    calm: TcpProxy
    trail: Trail = attrs.Factory(Trail)
    made: Counter[str] = attrs.Factory(Counter[str])
    bites: Counter[str] = attrs.Factory(Counter[str])
    stage: Stage | None = None

    async def carry_out(self) -> Outcome:
        began = trio.current_time()
        url = self.nodes[0].url
        async with open_broker(self.calm.url(url)) as direct:
            producer = Producer(direct, self.campaign.messages)
            async with (
                open_store(f"sqlite:///{self.ledger}") as store,
                open_broker(self.proxy.url(url)) as broker,
            ):
                behaving = Behaving(store, self.trail)
                async with trio.open_nursery() as nursery:
                    subscription: DlqSubscription = await nursery.start(
                        partial(
                            subscribe_dlq,
                            broker,
                            queue=QUEUE,
                            handler=behaving.handler(),
                            config=CONFIG,
                            options=attrs.evolve(OPTIONS, queue_type=self.campaign.queue_type),
                            binding_keys=(ROUTING_KEY,),
                            observer=self._observe,
                        )
                    )
                    stage = self.stage = Stage(
                        self.nodes,
                        self.proxy,
                        direct,
                        producer,
                        behaving,
                        subscription,
                        random.Random(self.campaign.seed),  # noqa: S311 - of troubles
                        outages=self.trail.outages,
                    )
                    await self._make_trouble(stage)
                    settled = await _settle(subscription)
                    subscription.shutdown("the campaign is over")
                    await subscription.wait_closed()
            await trio.sleep(1)  # the broker learns that the connections are gone
            account = await settle_account(
                direct,
                self.ledger,
                Expected(producer.confirmed, stage.destroyed),
                (QUEUE, PARKING, QUARANTINE),
                partial(_count, stage),
            )
            return self._outcome(stage, account, await _version(stage), settled, trio.current_time() - began)

    def _observe(self, event: Event) -> None:
        self.trail.observe(event)
        if isinstance(event, TopologyRepaired) and self.stage is not None:
            self.stage.declared_at = trio.current_time()

    async def _make_trouble(self, stage: Stage) -> None:
        """Publish a share of the messages into each trouble; everything is published when this returns."""
        campaign, producer = self.campaign, stage.producer
        place: Place = "node" if len(self.nodes) == 1 else "cluster"
        troubles = troubles_of(place)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(producer.run)
            for number in range(campaign.events):
                trouble = troubles[(number + campaign.seed) % len(troubles)]
                producer.grant(campaign.messages * (number + 1) // campaign.events)
                await trio.sleep(stage.moment() / 2)
                ended = self.trail.ends.total()
                await _make(trouble, stage)
                await trio.sleep(_NOTICE_S)
                await stage.until_consuming()
                self.made[trouble.name] += 1
                self.bites[trouble.name] += self.trail.ends.total() - ended

    def _outcome(
        self, stage: Stage, account: Account, version: str, settled: bool, seconds: float
    ) -> Outcome:
        repeated = stage.producer.repeated
        reasons = self.trail.explain(repeated)
        copies: Counter[str] = Counter()
        for number, times in account.copies.items():
            known: list[Reason] = reasons.get(number, [])[: times - 1]
            copies.update(known + [UNEXPLAINED] * (times - 1 - len(known)))
        return Outcome(
            version,
            "node" if len(self.nodes) == 1 else "cluster",
            self.campaign,
            account,
            dict(self.made),
            dict(self.bites),
            dict(self.trail.ends),
            dict(Counter(reason for found in reasons.values() for reason in found)),
            dict(copies),
            tuple(self.trail.tell(number) for number in reasons if UNEXPLAINED in reasons[number]),
            stage.subscription.statistics(),
            self.trail.invocations,
            repeated.total(),
            settled,
            seconds,
        )


async def _make(trouble: Trouble, stage: Stage) -> None:
    try:
        await trouble.make(stage)
    except Exception as error:
        error.add_note(f"while making trouble: {trouble.name}")
        raise


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


async def _count(stage: Stage, queue: str) -> int:
    """Ask the broker, not a client, how many messages are ready in a queue."""
    name = f'rabbit_misc:r(<<"/">>, queue, <<"{queue}">>)'
    return int(
        await stage.eval(
            f"case rabbit_amqqueue:lookup({name}) of"
            " {ok, Q} -> element(2, rabbit_amqqueue:stat(Q)); _ -> 0 end"
        )
    )


async def _version(stage: Stage) -> str:
    printed = await stage.eval("rabbit_misc:version()")
    return printed.strip('"')
