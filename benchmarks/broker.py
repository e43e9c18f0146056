"""The private broker of one benchmark run: filling queues and counting what is in them."""

from __future__ import annotations

import json
import time
import uuid

import pika

from craig_mq.testing.rabbitmq import RabbitNode

QUEUE = "bench.dlq"
TARGET = "bench.target"
EXCHANGE = "craig.dlx"
ROUTING_KEY = "dlq.bench"
ENTER_TIMEOUT_S = 120.0


def envelope(body_bytes: int) -> bytes:
    """One valid event envelope of exactly ``body_bytes`` bytes (at least 256), tokenless."""
    document = {
        "id": str(uuid.uuid4()),
        "source_service": "bench",
        "event_type": "bench.event",
        "occurred_at": "2026-01-01T00:00:00Z",
        "payload": {"text": ""},
    }
    padding = body_bytes - len(json.dumps(document))
    document["payload"] = {"text": "x" * padding}
    return json.dumps(document).encode()


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
        for queue in (QUEUE, TARGET, f"{QUEUE}.parking", f"{QUEUE}.quarantine"):
            channel.queue_declare(queue, durable=True, arguments={"x-queue-type": "classic"})
            channel.queue_purge(queue)
        channel.queue_bind(QUEUE, EXCHANGE, "dlq.#")
        properties = pika.BasicProperties(delivery_mode=2, content_type="application/json")
        for _ in range(count):
            channel.basic_publish(EXCHANGE, ROUTING_KEY, envelope(body_bytes), properties)
        self._wait_for(channel, QUEUE, count)
        connection.close()

    def depths(self) -> dict[str, int]:
        """Ready messages of every queue of the benchmark, once nothing moves any more."""
        connection, channel = self._channel()
        queues = (QUEUE, TARGET, f"{QUEUE}.parking", f"{QUEUE}.quarantine")
        before: dict[str, int] = {}
        for _ in range(50):
            now = {queue: channel.queue_declare(queue, passive=True).method.message_count for queue in queues}
            if now == before:
                break
            before = now
            time.sleep(0.2)
        connection.close()
        return before

    @staticmethod
    def _wait_for(channel, queue: str, count: int) -> None:
        deadline = time.monotonic() + ENTER_TIMEOUT_S
        while channel.queue_declare(queue, passive=True).method.message_count < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the broker did not take {count} messages within {ENTER_TIMEOUT_S:.0f} s")
            time.sleep(0.05)
