"""The private broker of one benchmark run: filling queues and counting what is in them."""

from __future__ import annotations

import time

import pika

from benchmarks.filling import fill
from craig_mq.testing.rabbitmq import RabbitNode

QUEUE = "bench.dlq"
TARGET = "bench.target"
EXCHANGE = "craig.dlx"
ROUTING_KEY = "dlq.bench"
PARKING = f"{QUEUE}.parking"
QUARANTINE = f"{QUEUE}.quarantine"
QUEUES = (QUEUE, TARGET, PARKING, QUARANTINE)
SETTLE_S = 10.0


class BenchBroker:
    """Plain blocking calls to the node under test, outside every measured interval."""

    def __init__(self, node: RabbitNode) -> None:
        """Use ``node``, which is running."""
        self.url = node.url

    def _channel(self):
        connection = pika.BlockingConnection(pika.URLParameters(self.url))
        return connection, connection.channel()

    def fill(self, count: int, body_bytes: int) -> None:
        """Leave exactly ``count`` messages in the dead-letter queue and none in any other."""
        connection, channel = self._channel()
        channel.exchange_declare(EXCHANGE, "topic", durable=True)
        for queue in QUEUES:
            channel.queue_declare(queue, durable=True, arguments={"x-queue-type": "classic"})
            channel.queue_purge(queue)
        channel.queue_bind(QUEUE, EXCHANGE, "dlq.#")
        connection.close()
        fill(self.url, EXCHANGE, ROUTING_KEY, count, body_bytes)

    def depths(self, expected: dict[str, int]) -> dict[str, int]:
        """Ready messages of every queue once they are as ``expected``, twice in a row, or after a while."""
        connection, channel = self._channel()
        agreed = 0
        deadline = time.monotonic() + SETTLE_S
        while True:
            now = {queue: channel.queue_declare(queue, passive=True).method.message_count for queue in QUEUES}
            agreed = agreed + 1 if now == {**dict.fromkeys(QUEUES, 0), **expected} else 0
            if agreed > 1 or time.monotonic() > deadline:
                connection.close()
                return now
            time.sleep(0.1)
