"""The outbox on the embedded broker: written with the caller's commit, relayed at least once, in order."""

from __future__ import annotations

import json
import sqlite3
import uuid
from functools import partial
from typing import Any

import attrs
import pytest
import trio

from craig_mq import EventEnvelope
from craig_mq.core.envelope import encode_envelope
from craig_mq.outbox import RelayOptions, RowSetAside, create_outbox, enqueue, prune_outbox, run_relay
from craig_mq.publishing.options import PublisherOptions
from craig_mq.runtime.sources import Sources
from craig_mq.testing import Drop, Fault, FaultPlan, MemoryBroker, Nack, trace

QUICK = RelayOptions(poll_interval=0.02, backoff_cap=0.05)
BRIEF = PublisherOptions(confirm_timeout=0.1, patience=0.5, backoff_base=0.01, backoff_cap=0.02)


def event(n: int = 0) -> EventEnvelope:
    payload = json.dumps(n).encode()
    return EventEnvelope(str(uuid.uuid4()), "shop", "order.placed", "2026-11-30T10:00:00Z", payload)


@attrs.define
class Service:
    """A service's database, and the queue its events go to."""

    url: str
    broker: MemoryBroker

    def connect(self) -> Any:
        if self.url.startswith("sqlite"):
            return sqlite3.connect(self.url.removeprefix("sqlite:///"))
        import psycopg

        return psycopg.connect(self.url)

    def write(self, *events: EventEnvelope, commit: bool = True, **arguments: Any) -> None:
        connection = self.connect()
        for one in events:
            enqueue(connection, one, **arguments)
        if commit:
            connection.commit()
        connection.close()

    def waiting(self) -> int:
        connection = self.connect()
        query = "SELECT count(*) FROM craig_outbox WHERE published_at IS NULL"
        count = int(connection.execute(query).fetchone()[0])
        connection.close()
        return count

    def payloads(self) -> list[int]:
        return [json.loads(body)["payload"] for body in self.broker.queue("orders").bodies]

    async def drained(self) -> None:
        """Wait, in real time, until every row is marked."""
        with trio.fail_after(20):
            while self.waiting():
                await trio.sleep(0.01)

    def relay(self, **arguments: Any) -> Any:
        arguments = {"options": QUICK, "publisher": BRIEF} | arguments
        return partial(run_relay, self.broker, self.url, **arguments)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
async def service(request: pytest.FixtureRequest, tmp_path) -> Service:
    """A service on each kind of database."""
    sqlite = request.param == "sqlite"
    url = f"sqlite:///{tmp_path}/service.db" if sqlite else request.getfixturevalue("database_url")
    broker = MemoryBroker(trace=True)
    broker.declare_exchange("craig.events", "topic")
    broker.declare_queue("orders")
    broker.bind("craig.events", "orders", "order.#")
    await create_outbox(url)
    return Service(url, broker)


async def test_an_event_goes_out_if_and_only_if_its_transaction_commits(service):
    """A committed row is published once and marked; one that was rolled back never existed."""
    service.write(event(1))
    service.write(event(2), commit=False)
    async with trio.open_nursery() as nursery:
        relay = await nursery.start(service.relay())
        await service.drained()
        relay.shutdown()
    assert service.payloads() == [1]
    assert relay.statistics().published == 1


async def test_rows_of_one_key_go_in_order(service):
    """Thirty rows of three keys arrive, each key in the order it was written."""
    for n in range(30):
        service.write(event(n), ordering_key=f"k{n % 3}")
    async with trio.open_nursery() as nursery:
        relay = await nursery.start(service.relay(options=RelayOptions(poll_interval=0.02, batch=10)))
        await service.drained()
        relay.shutdown()
    for key in range(3):
        assert [n for n in service.payloads() if n % 3 == key] == list(range(key, 30, 3))
    assert len(service.payloads()) == 30


def foreign_row(service: Service, key: str | None) -> str:
    """Write a row past ``enqueue`` that can't be published, and return why not."""
    sqlite = service.url.startswith("sqlite")
    connection = service.connect()
    mark = "?" if sqlite else "%s"
    connection.execute(
        f"INSERT INTO craig_outbox (ordering_key, routing_key, body) VALUES ({mark}, {mark}, {mark})",
        (key, "order.placed", '{"payload":2}') if sqlite else (key, "o" * 256, b"{}"),
    )
    connection.commit()
    connection.close()
    return "its body is no bytes" if sqlite else "its routing_key is longer than 255 bytes"


async def test_an_unreadable_row_is_set_aside_and_holds_its_key_only(service, caplog):
    """A row that is no event is told and noted once; its key waits behind it until it is deleted."""
    told: list[RowSetAside] = []
    service.write(event(1), ordering_key="a")
    why = foreign_row(service, "a")
    foreign_row(service, None)
    service.write(event(3), ordering_key="a")
    service.write(event(4), ordering_key="b")
    service.write(event(5))
    async with trio.open_nursery() as nursery:
        relay = await nursery.start(service.relay(on_set_aside=told.append))
        with trio.fail_after(20):
            while relay.statistics().published < 3:
                await trio.sleep(0.01)
        service.write(event(6), ordering_key="b")
        with trio.fail_after(20):
            while relay.statistics().published < 4:
                await trio.sleep(0.01)
        assert sorted(service.payloads()) == [1, 4, 5, 6]
        assert told == [RowSetAside(2, "a", why), RowSetAside(3, None, why)]
        assert relay.statistics().set_aside == 2
        connection = service.connect()
        connection.execute("DELETE FROM craig_outbox WHERE seq IN (2, 3)")
        connection.commit()
        connection.close()
        await service.drained()
        relay.shutdown()
    assert sorted(service.payloads()) == [1, 3, 4, 5, 6]
    assert [record.levelname for record in caplog.records if "set aside" in record.message] == ["ERROR"] * 2


async def test_a_repaired_row_goes_out_before_what_waited_for_it(service):
    """Repaired and its line deleted, a row that was set aside goes out, and then the rest of its key."""
    foreign_row(service, "a")
    service.write(event(2), ordering_key="a")
    async with trio.open_nursery() as nursery:
        relay = await nursery.start(service.relay())
        with trio.fail_after(20):
            while relay.statistics().set_aside < 1:
                await trio.sleep(0.01)
        connection = service.connect()
        mark = "?" if service.url.startswith("sqlite") else "%s"
        repaired = encode_envelope(event(1))
        connection.execute(
            f"UPDATE craig_outbox SET routing_key = 'order.placed', body = {mark} WHERE seq = 1",
            (repaired,),
        )
        connection.execute("DELETE FROM craig_outbox_set_aside")
        connection.commit()
        connection.close()
        await service.drained()
        relay.shutdown()
    assert service.payloads() == [1, 2]


async def test_a_refused_row_stops_its_key_and_no_other(service):
    """While the broker refuses a row, what follows it in its key waits; other keys go on."""
    service.broker.inject(
        FaultPlan((Fault("publish", Nack(), where=lambda o: b'"payload":1}' in o.subject.body, times=20),))
    )
    service.write(event(1), event(2), ordering_key="a")
    service.write(event(3), ordering_key="b")
    async with trio.open_nursery() as nursery:
        relay = await nursery.start(service.relay())
        with trio.fail_after(10):
            while relay.statistics().nacked < 3:
                await trio.sleep(0.01)
        assert service.payloads() == [3]
        await service.drained()
        relay.shutdown()
    assert service.payloads() == [3, 1, 2]


async def test_an_unroutable_row_stays(service):
    """A row that routes nowhere is not marked: it goes out once a queue is bound."""
    service.broker.unbind("craig.events", "orders", "order.#")
    service.write(event(1))
    async with trio.open_nursery() as nursery:
        relay = await nursery.start(service.relay())
        with trio.fail_after(10):
            while relay.statistics().returned < 2:
                await trio.sleep(0.01)
        assert service.waiting() == 1
        service.broker.bind("craig.events", "orders", "order.#")
        await service.drained()
        relay.shutdown()
    assert service.payloads() == [1]


async def test_duplicates_only_after_an_unknown_outcome(service):
    """A row whose confirm is lost goes out again; rows with a clean confirm go out once."""
    lost = Fault("confirm", Drop(), where=lambda o: b'"payload":1}' in o.subject.body)
    service.broker.inject(FaultPlan((lost,)))
    service.write(event(0), ordering_key="a")
    service.write(event(1), ordering_key="a")
    service.write(event(2), ordering_key="a")
    async with trio.open_nursery() as nursery:
        relay = await nursery.start(service.relay())
        await service.drained()
        relay.shutdown()
    assert service.payloads() == [0, 1, 1, 2]
    assert (relay.statistics().unknown, relay.statistics().published) == (1, 3)


async def test_an_outage_of_the_broker_is_ridden_out(service):
    """Rows written while the broker is away are published once it is back."""
    service.broker.stop()
    service.write(*(event(n) for n in range(20)))
    async with trio.open_nursery() as nursery:
        relay = await nursery.start(service.relay())
        await trio.sleep(0.7)
        service.broker.restart()
        await service.drained()
        relay.shutdown()
    assert sorted(service.payloads()) == list(range(20))


async def test_one_relay_at_a_time(service):
    """A second relay of one outbox publishes nothing while the first lives, and takes over after it."""
    async with trio.open_nursery() as nursery:
        first = await nursery.start(service.relay())
        service.write(event(0))
        await service.drained()
        second = await nursery.start(service.relay())
        for n in range(1, 6):
            service.write(event(n))
        await service.drained()
        assert second.statistics().published == 0
        first.shutdown()
        service.write(event(6))
        await service.drained()
        second.shutdown()
    assert first.statistics().published + second.statistics().published == 7
    assert sorted(service.payloads()) == list(range(7))


async def test_a_wake_up_spares_the_poll(service):
    """A relay that is told of a commit publishes at once, however long its poll interval is."""
    async with trio.open_nursery() as nursery:
        relay = await nursery.start(service.relay(options=RelayOptions(poll_interval=3_600)))
        await trio.sleep(0.1)
        service.write(event(1))
        relay.wake()
        await service.drained()
        relay.shutdown()
    assert service.payloads() == [1]


async def test_published_rows_can_be_pruned(service):
    """Pruning deletes rows published before an instant, and no row that still waits."""
    now = [1_000.0]
    sources = Sources(now=lambda: now[0])
    service.write(event(1))
    async with trio.open_nursery() as nursery:
        relay = await nursery.start(service.relay(sources=sources))
        await service.drained()
        relay.shutdown()
    service.write(event(2))
    assert await prune_outbox(service.url, 60, sources=sources) == 0
    now[0] += 61
    assert await prune_outbox(service.url, 60, sources=sources) == 1
    assert service.waiting() == 1
    published = [record for record in service.broker.trace if isinstance(record, trace.MessagePublished)]
    assert len(published) == 1
