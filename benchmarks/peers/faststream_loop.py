"""FastStream: the framework's own subscriber and publisher, manual acks, confirms on."""

from __future__ import annotations

import asyncio
import logging

from faststream import AckPolicy
from faststream.rabbit import Channel, RabbitBroker, RabbitMessage, RabbitQueue

from benchmarks.peers.stopwatch import Stopwatch, Task


async def move(task: Task) -> None:
    broker = RabbitBroker(
        task.url,
        logger=logging.getLogger("silent"),
        log_level=logging.CRITICAL,
        default_channel=Channel(prefetch_count=task.prefetch, publisher_confirms=True),
    )
    done = asyncio.Event()
    settled = 0

    @broker.subscriber(RabbitQueue(task.source, durable=True), ack_policy=AckPolicy.MANUAL)
    async def on_message(message: RabbitMessage) -> None:
        nonlocal settled
        await broker.publish(message.body, task.target, mandatory=True, persist=True)
        await message.ack()
        settled += 1
        if settled == task.count:
            done.set()

    await broker.connect()
    watch = Stopwatch()
    await broker.start()
    await done.wait()
    watch.report()
    await broker.stop()


def main() -> None:
    asyncio.run(move(Task.from_arguments()))


if __name__ == "__main__":
    main()
