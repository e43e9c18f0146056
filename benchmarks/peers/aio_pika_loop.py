"""aio-pika on asyncio, or on uvloop when the sixth argument says so."""

from __future__ import annotations

import asyncio
import sys

import aio_pika

from benchmarks.peers.stopwatch import Stopwatch, Task


async def move(task: Task) -> None:
    connection = await aio_pika.connect(task.url)
    channel = await connection.channel(publisher_confirms=True, on_return_raises=True)
    await channel.set_qos(prefetch_count=task.prefetch)
    queue = await channel.get_queue(task.source)
    done = asyncio.Event()
    settled = 0

    async def on_message(message) -> None:
        nonlocal settled
        copy = aio_pika.Message(message.body, delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
        await channel.default_exchange.publish(copy, task.target, mandatory=True)
        await message.ack()
        settled += 1
        if settled == task.count:
            done.set()

    watch = Stopwatch()
    await queue.consume(on_message)
    await done.wait()
    watch.report()
    await connection.close()


def main() -> None:
    task = Task.from_arguments()
    if sys.argv[6:] == ["uvloop"]:
        import uvloop

        uvloop.run(move(task))
    else:
        asyncio.run(move(task))


if __name__ == "__main__":
    main()
