"""A relay that kills itself with SIGKILL at a named step of its second row; run as a subprocess."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import trio

from craig_mq import open_broker
from craig_mq.outbox import RelayOptions, run_relay
from craig_mq.outbox.table import OutboxTable
from craig_mq.publishing.publisher import Publisher


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def arm(step: str) -> None:
    """Put the kill where ``step`` says."""
    publish, mark, waiting = Publisher.publish_raw, OutboxTable.mark, OutboxTable.waiting
    published = [0]

    async def publish_and_die(self: Publisher, publication: Any) -> Any:
        published[0] += 1
        second = published[0] == 2
        if second and step == "before publish":
            die()
        if second and step == "before confirm":
            async with trio.open_nursery() as nursery:
                nursery.start_soon(publish, self, publication)
                await trio.sleep(0.2)
                die()
        outcome = await publish(self, publication)
        if second and step == "after confirm":
            die()
        return outcome

    def mark_and_die(self: OutboxTable, rows: list[int], at_micros: int) -> None:
        if published[0] >= 2 and step == "before mark":
            die()
        mark(self, rows, at_micros)
        if published[0] >= 2 and step == "after mark":
            die()

    def read_and_die(self: OutboxTable, limit: int) -> Any:
        rows = waiting(self, limit)
        if step == "after read":
            die()
        return rows

    Publisher.publish_raw = publish_and_die  # type: ignore[method-assign]
    OutboxTable.mark = mark_and_die  # type: ignore[method-assign]
    OutboxTable.waiting = read_and_die  # type: ignore[method-assign]


async def main(amqp: str, database: str) -> None:
    async with open_broker(amqp) as broker:
        await run_relay(broker, database, options=RelayOptions(poll_interval=0.02))


if __name__ == "__main__":
    arm(sys.argv[3])
    trio.run(main, sys.argv[1], sys.argv[2])
