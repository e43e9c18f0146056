"""The whole road on a real RabbitMQ: publisher, queues, inbox, ladder, dead letters, audit, restarts."""

from __future__ import annotations

import sqlite3
import uuid
from collections import Counter
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from craig_mq import (
    Acked,
    DlqRetryConfig,
    EventEnvelope,
    Publisher,
    ReceivedEvent,
    SubscriptionOptions,
    open_broker,
    subscribe,
    subscribe_dlq,
)
from craig_mq.audit import open_store, record
from craig_mq.inbox import Inbox, open_inbox
from craig_mq.publishing.options import PublisherOptions
from craig_mq.testing.rabbitmq import RabbitNode

pytestmark = [pytest.mark.broker, pytest.mark.timeout(3_600)]

QUEUES = ("orders", "mails", "stock")
ONE_IN = 100
QUICK = SubscriptionOptions(backoff_base=0.1, backoff_cap=1, connect_timeout=3)
PUBLISHER = PublisherOptions(backoff_base=0.1, backoff_cap=1, connect_timeout=3, max_in_flight=64)
PUBLISHING_TASKS = 64


@attrs.define
class Account:
    """What became of every event: ``lost``, ``both`` and ``effects_repeated`` must be 0."""

    published: int
    published_again: int
    effects: int
    effects_repeated: int
    audited: int
    audit_rows: int
    lost: int
    both: int
    restarts: int
    dead_lettered: int
    strikes_spent_elsewhere: int
    settlement_failures: int
    seconds: float

    def __str__(self) -> str:
        return "\n".join(f"{name:>24} {value}" for name, value in attrs.asdict(self).items())


class Road:
    """The program: everything it learns is read from its two databases at the end."""

    def __init__(self, url: str, count: int, folder: Path) -> None:
        self.url = url
        self.events = [
            EventEnvelope(str(uuid.uuid4()), "shop", f"work.{n % 3}", "2026-11-30T10:00:00Z", b"%d" % n)
            for n in range(count)
        ]
        self.doomed = {event.id for n, event in enumerate(self.events) if n % ONE_IN == 7}
        self.database = folder / "service.db"
        self.ledger = folder / "audit.db"
        self.again: Counter[str] = Counter()
        self.next = iter(self.events)
        self.acked = 0

    async def publish(self, publisher: Publisher) -> None:
        """Publish events until there are none left; one whose outcome is unknown goes out again."""
        for event in self.next:
            while await publisher.publish(event) != Acked():
                self.again[event.id] += 1
            self.acked += 1

    def handler(self, inbox: Inbox) -> Any:
        """Handle once in effect; one in a hundred fails whenever it comes."""

        def effect(connection: sqlite3.Connection, event: ReceivedEvent) -> None:
            if event.envelope.id in self.doomed:
                raise ValueError("this one never succeeds")
            connection.execute("INSERT INTO effect VALUES (?)", (event.envelope.id,))

        return inbox.once(effect)

    def effects(self) -> Counter[str]:
        """How often each event had its effect."""
        with closing(sqlite3.connect(self.database)) as connection, connection:
            return Counter(row[0] for row in connection.execute("SELECT id FROM effect"))

    def audited(self) -> Counter[str]:
        """How many rows the ledger has of each event."""
        with closing(sqlite3.connect(self.ledger)) as connection, connection:
            return Counter(row[0] for row in connection.execute("SELECT envelope_id FROM occurrence"))

    def done(self) -> bool:
        """Whether every event was published and has come to its end."""
        reached = self.effects().keys() | self.audited().keys()
        return self.acked == len(self.events) and len(reached) == len(self.events)

    async def run(self, rabbit: RabbitNode, restarts: int) -> Account:
        """Run until every event has come to its end, restarting the broker on the way."""
        began = trio.current_time()
        with closing(sqlite3.connect(self.database)) as connection, connection:
            connection.execute("CREATE TABLE effect (id text)")
        async with (
            open_broker(self.url) as broker,
            open_inbox(f"sqlite:///{self.database}") as inbox,
            open_store(f"sqlite:///{self.ledger}") as store,
            trio.open_nursery() as nursery,
        ):
            dlq = await nursery.start(
                partial(
                    subscribe_dlq,
                    broker,
                    queue="security.dlq",
                    handler=record(store),
                    config=DlqRetryConfig(parking_ttl=2),
                    options=QUICK,
                )
            )
            subscriptions = [
                await nursery.start(
                    partial(
                        subscribe,
                        broker,
                        queue=queue,
                        handler=self.handler(inbox),
                        binding_keys=[f"work.{n}"],
                        options=QUICK,
                    )
                )
                for n, queue in enumerate(QUEUES)
            ]
            async with Publisher(broker, options=PUBLISHER) as publisher, trio.open_nursery() as publishing:
                for _ in range(PUBLISHING_TASKS):
                    publishing.start_soon(self.publish, publisher)
                for part in range(1, restarts + 1):
                    while self.acked < len(self.events) * part // (restarts + 1):
                        await trio.sleep(0.02)
                    await trio.to_thread.run_sync(rabbit.restart)
            while not await trio.to_thread.run_sync(self.done):
                await trio.sleep(0.2)
            for subscription in (*subscriptions, dlq):
                subscription.shutdown()
        statistics = [subscription.statistics() for subscription in subscriptions]
        effects, audited = self.effects(), self.audited()
        return Account(
            published=self.acked,
            published_again=self.again.total(),
            effects=effects.total(),
            effects_repeated=effects.total() - len(effects),
            audited=len(audited),
            audit_rows=audited.total(),
            lost=len(self.events) - len(effects.keys() | audited.keys()),
            both=len(effects.keys() & audited.keys()),
            restarts=restarts,
            dead_lettered=sum(one.dead_lettered for one in statistics),
            strikes_spent_elsewhere=sum(one.strikes_spent_elsewhere for one in statistics),
            settlement_failures=sum(one.settlement_failures for one in statistics),
            seconds=round(trio.current_time() - began, 1),
        )


@pytest.mark.parametrize("count", [400, pytest.param(50_000, marks=pytest.mark.soak)])
async def test_every_event_comes_to_exactly_one_end(rabbit, vhost_url, tmp_path, count: int):
    """With the broker restarted twice every event has one effect or one row in the ledger, never both."""
    road = Road(vhost_url, count, tmp_path)
    account = await road.run(rabbit, restarts=2)
    print(f"\n{account}")  # noqa: T201 - the account is what this program is for
    assert (account.published, account.lost, account.both) == (count, 0, 0)
    assert (account.effects, account.effects_repeated) == (count - len(road.doomed), 0)
    assert road.audited().keys() == road.doomed
    assert account.audit_rows == account.audited
