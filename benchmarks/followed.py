"""Latency at half load, and recovery after a broker restart, seen from outside the subscription."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pika

from benchmarks.broker import EXCHANGE, QUEUE, ROUTING_KEY, BenchBroker
from craig_mq.testing.rabbitmq import RabbitNode

PERSISTENT = pika.BasicProperties(delivery_mode=2, content_type="application/json")


@contextmanager
def follower(url: str) -> Iterator[subprocess.Popen[str]]:
    """A subscription in a process of its own, consuming."""
    command = [sys.executable, "-m", "benchmarks.own.follow", url, QUEUE]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        if process.stdout.readline().strip() != "ready":
            raise RuntimeError("the subscription did not start")
        yield process
    finally:
        process.kill()
        process.wait()


def stamped() -> bytes:
    """An envelope that says when it was made."""
    return json.dumps(
        {
            "id": str(uuid.uuid4()),
            "source_service": "bench",
            "event_type": "bench.event",
            "occurred_at": "2026-01-01T00:00:00Z",
            "payload": {"at": time.monotonic(), "text": "x" * 350},
        }
    ).encode()


def latency(broker: BenchBroker, per_second: float, seconds: float) -> dict[str, float]:
    """Publish at an even pace; percentiles, in ms, from before the publish to the end of the handler."""
    broker.fill(0, 512)
    with follower(broker.url) as process, ThreadPoolExecutor(1) as reading:
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))
        channel = connection.channel()
        count, began = int(per_second * seconds), time.monotonic()
        # Read while publishing: a pipe that is full would hold the follower up.
        lines = reading.submit(lambda: [process.stdout.readline() for _ in range(count)])
        for number in range(count):
            due = began + number / per_second
            while (left := due - time.monotonic()) > 0:
                time.sleep(min(left, 0.001))
            channel.basic_publish(EXCHANGE, ROUTING_KEY, stamped(), PERSISTENT)
        connection.close()
        took = time.monotonic() - began
        seen = sorted(float(line.split()[2]) * 1e3 for line in lines.result())
    cuts = statistics.quantiles(seen, n=1000)
    return {
        "offered_per_s": round(count / took, 1),
        "messages": count,
        "p50_ms": round(cuts[499], 2),
        "p90_ms": round(cuts[899], 2),
        "p99_ms": round(cuts[989], 2),
        "p999_ms": round(cuts[998], 2),
    }


def recovery(node: RabbitNode) -> dict[str, float]:
    """Restart the broker; seconds from its answering again to the first message settled after that."""
    broker = BenchBroker(node)
    broker.fill(0, 512)
    with follower(node.url) as process:
        node.kill()
        down = time.monotonic()
        node.start()
        up = time.monotonic()
        connection = pika.BlockingConnection(pika.URLParameters(node.url))
        connection.channel().basic_publish(EXCHANGE, ROUTING_KEY, stamped(), PERSISTENT)
        connection.close()
        settled = float(process.stdout.readline().split()[1])
    return {"outage_s": round(up - down, 2), "first_settled_after_s": round(settled - up, 2)}
