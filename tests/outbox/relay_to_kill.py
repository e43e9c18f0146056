"""Kills a relay at each of the given points and says what became of its rows; run as a subprocess.

A point is the name of a step of the second row, or a number n: before the n-th step of any Trio task
once the relay has its rows; ``every N`` stands for N, 2N, 3N … until a relay ends before it. One
process forks for every run, so that nothing is imported twice; the parent itself never runs Trio.
Prints one JSON line per point.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import sys
import traceback
import uuid
from collections.abc import Awaitable, Callable, Iterable
from itertools import count
from typing import Any

import trio

from craig_mq import EventEnvelope, open_broker
from craig_mq.core.topology import BindingSpec, ExchangeSpec, QueueSpec
from craig_mq.outbox import RelayOptions, create_outbox, enqueue, run_relay
from craig_mq.outbox.table import OutboxTable
from craig_mq.publishing.publisher import Publisher
from craig_mq.transport.broker import ConnectionOptions

QUICK = RelayOptions(poll_interval=0.01, backoff_cap=0.05)
ROWS = 4


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Killer(trio.abc.Instrument):
    """Dies before the n-th step after the relay has read its rows."""

    def __init__(self, at_step: int) -> None:
        self.left = at_step
        self.counting = False

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if self.counting:
            self.left -= 1
            if self.left == 0:
                die()


def arm(point: str) -> Killer:
    """Put the kill where ``point`` says."""
    publish, mark, waiting = Publisher.publish_raw, OutboxTable.mark, OutboxTable.waiting
    published = [0]
    killer = Killer(int(point) if point.isdigit() else 0)

    async def publish_and_die(self: Publisher, publication: Any) -> Any:
        published[0] += 1
        second = published[0] == 2
        if second and point == "before publish":
            die()
        if second and point == "before confirm":
            async with trio.open_nursery() as nursery:
                nursery.start_soon(publish, self, publication)
                await trio.sleep(0.2)
                die()
        outcome = await publish(self, publication)
        if second and point == "after confirm":
            die()
        return outcome

    def mark_and_die(self: OutboxTable, rows: list[int], at_micros: int) -> None:
        if published[0] >= 2 and point == "before mark":
            die()
        mark(self, rows, at_micros)
        if published[0] >= 2 and point == "after mark":
            die()

    def read_and_die(self: OutboxTable, limit: int) -> Any:
        rows = waiting(self, limit)
        if point == "after read":
            die()
        killer.counting = True
        return rows

    Publisher.publish_raw = publish_and_die  # type: ignore[method-assign]
    OutboxTable.mark = mark_and_die  # type: ignore[method-assign]
    OutboxTable.waiting = read_and_die  # type: ignore[method-assign]
    return killer


class Scene:
    """A queue and an outbox with a few rows of one key."""

    def __init__(self, amqp: str, database: str) -> None:
        self.amqp, self.database = amqp, database

    def connect(self) -> Any:
        if self.database.startswith("sqlite"):
            return sqlite3.connect(self.database.removeprefix("sqlite:///"))
        import psycopg

        return psycopg.connect(self.database)

    def write(self) -> None:
        connection = self.connect()
        for n in range(ROWS):
            payload = json.dumps(n).encode()
            event = EventEnvelope(str(uuid.uuid4()), "shop", "order.placed", "2026-11-30T10:00:00Z", payload)
            enqueue(connection, event, ordering_key="one")
        connection.commit()
        connection.close()

    def waiting(self) -> list[int]:
        """The numbers of the rows that are not marked."""
        connection = self.connect()
        rows = connection.execute(
            "SELECT body FROM craig_outbox WHERE published_at IS NULL ORDER BY seq"
        ).fetchall()
        connection.close()
        return [json.loads(bytes(body))["payload"] for (body,) in rows]

    async def prepare(self) -> None:
        await create_outbox(self.database)
        async with open_broker(self.amqp) as broker, broker.connect(ConnectionOptions("t")) as connection:
            channel = await connection.open_channel()
            await channel.declare_exchange(ExchangeSpec("craig.events"))
            await channel.declare_queue(QueueSpec("orders", arguments={"x-queue-type": "classic"}))
            await channel.bind_queue(BindingSpec("craig.events", "orders", "#"))
            await connection.aclose()

    async def relay_until_empty(self) -> list[int]:
        """Relay what waits; return what came to the queue over all runs, in order."""
        seen: list[int] = []
        async with open_broker(self.amqp) as broker, trio.open_nursery() as nursery:
            relay = await nursery.start(lambda **kw: run_relay(broker, self.database, options=QUICK, **kw))
            with trio.fail_after(20):
                while await trio.to_thread.run_sync(self.waiting):
                    await trio.sleep(0.01)
            relay.shutdown()
            async with broker.connect(ConnectionOptions("t")) as connection:
                channel = await connection.open_channel()
                while (delivery := await channel.get("orders")) is not None:
                    seen.append(json.loads(delivery.body)["payload"])
                    channel.ack_nowait(delivery.delivery_tag)
                await connection.aclose()
        return seen

    async def relay_until_idle(self, killer: Killer) -> None:
        """Relay with a kill armed; ends by itself only where the kill never came."""
        trio.lowlevel.add_instrument(killer)
        async with open_broker(self.amqp) as broker, trio.open_nursery() as nursery:
            relay = await nursery.start(lambda **kw: run_relay(broker, self.database, options=QUICK, **kw))
            while await trio.to_thread.run_sync(self.waiting):
                await trio.sleep(0.01)
            relay.shutdown()


def forked(work: Callable[[], Awaitable[Any]]) -> tuple[int, Any]:
    """Run Trio in a child; its wait status, and what it returned."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write, json.dumps(trio.run(work)).encode())
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        told = pipe.read()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), json.loads(told or b"null")


def main(amqp: str, database: str, points: Iterable[str]) -> None:
    scene = Scene(amqp, database)
    assert forked(scene.prepare)[0] == 0
    for point in points:
        scene.write()
        ended, _ = forked(lambda point=point: scene.relay_until_idle(arm(point)))
        left = scene.waiting()
        code, seen = forked(scene.relay_until_empty)
        print(json.dumps({"point": point, "ended": ended, "left": left, "code": code, "seen": seen}))  # noqa: T201
        if point.isdigit() and ended == 0:
            return  # it ended before its n-th step


if __name__ == "__main__":
    given: Iterable[str] = sys.argv[3:]
    if sys.argv[3] == "every":
        given = map(str, count(int(sys.argv[4]), int(sys.argv[4])))
    main(sys.argv[1], sys.argv[2], given)
