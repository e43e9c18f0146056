"""The whole audit path: from a dead letter in RabbitMQ to a committed row and its ack, on private servers.

    python -m benchmarks.audit_path [--store sqlite|postgres] [--messages N] [--rounds N] [--json]

One subscription on the native transport with ``record(store)`` as its handler; every commit is fsynced.
Each message has an ``x-death`` header and so a token of its own, as a dead letter has. A round fills the
queue, then measures from the call of ``subscribe_dlq`` to the last written ack, and checks that the
ledger holds every message once. CPU is told apart for this process, the database and the broker: on a
busy machine the wall clock says little, and what two cores can do is what the CPU times add up to.
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import click
import pika
import trio

from benchmarks.broker import EXCHANGE, QUEUE, ROUTING_KEY, BenchBroker
from benchmarks.filling import envelope
from craig_mq.audit import GroupLimits, LedgerOptions, open_store, record
from craig_mq.core.config import DlqRetryConfig, SubscriptionOptions
from craig_mq.runtime.subscribe import subscribe_dlq
from craig_mq.testing.postgres import PostgresServer
from craig_mq.testing.rabbitmq import RabbitNode
from craig_mq.transport.opening import open_broker

POLL_S = 0.005
TICKS = os.sysconf("SC_CLK_TCK")
CPU_FIELDS = slice(11, 15)  # utime, stime, cutime, cstime of /proc/PID/stat, after the name


@attrs.define(frozen=True)
class Round:
    """What one round took: wall seconds, and CPU seconds of each party."""

    seconds: float
    cpu: dict[str, float]


def processor_seconds() -> Counter[str]:
    """CPU seconds so far: of this process as ``client``, of the servers among its descendants by name."""
    own = os.times()
    spent = Counter({"client": own.user + own.system})
    stats: dict[int, tuple[int, str, float]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = path.read_text().partition("(")[2].rpartition(")")
        except OSError:
            continue  # it ended meanwhile
        fields = rest.split()
        stats[int(path.parent.name)] = (int(fields[1]), name, sum(map(int, fields[CPU_FIELDS])) / TICKS)
    for parent, name, seconds in stats.values():
        while parent in stats and parent != os.getpid():
            parent = stats[parent][0]  # noqa: PLW2901 - climbing towards the root
        if parent == os.getpid():
            spent["postgres" if name == "postgres" else "broker"] += seconds
    return spent


def fill(broker: BenchBroker, count: int, body_bytes: int) -> None:
    """Leave ``count`` dead letters with tokens of their own in the queue."""
    broker.fill(0, body_bytes)
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    channel = connection.channel()
    death = {"count": 1, "exchange": "", "queue": "billing", "reason": "rejected", "time": int(time.time())}
    headers = {"x-death": [death | {"routing-keys": ["billing"]}], "x-first-death-queue": "billing"}
    properties = pika.BasicProperties(delivery_mode=2, content_type="application/json", headers=headers)
    for _ in range(count):
        channel.basic_publish(EXCHANGE, ROUTING_KEY, envelope(body_bytes), properties)
    while channel.queue_declare(QUEUE, passive=True).method.message_count < count:
        time.sleep(0.05)
    connection.close()


async def run(broker_url: str, store_url: str, count: int, concurrency: int) -> Round:
    """One subscription until every message is acked; raises unless every one has its row."""
    # Twice as many as are being handled: a worker whose commit is done finds its next delivery waiting.
    options = SubscriptionOptions(prefetch=2 * concurrency, concurrency=concurrency)
    ledger = LedgerOptions(limits=GroupLimits(rows=concurrency))
    async with (
        open_store(store_url, ledger) as store,
        open_broker(broker_url) as broker,
        trio.open_nursery() as nursery,
    ):
        gc.collect()
        gc.freeze()  # as the service does once it has started
        before, began = processor_seconds(), time.perf_counter()
        subscription = await nursery.start(
            partial(
                subscribe_dlq,
                broker,
                queue=QUEUE,
                handler=record(store),
                config=DlqRetryConfig(),
                options=options,
                binding_keys=("dlq.#",),
            )
        )
        while subscription.statistics().acked < count:  # noqa: ASYNC110 - counters have no event to wait for
            await trio.sleep(POLL_S)
        seconds, after = time.perf_counter() - began, processor_seconds()
        subscription.shutdown()
        await subscription.wait_closed()
        stats = await store.stats()
        if (stats.hot, stats.tokenless) != (count, 0):
            raise RuntimeError(f"{count} messages were acked, the ledger holds {stats.hot} rows")
    return Round(seconds, {name: after[name] - before[name] for name in after})


@contextmanager
def fresh_stores(kind: str) -> Iterator[Iterator[str]]:
    """URLs of empty ledgers, one after the other."""
    if kind == "sqlite":
        with tempfile.TemporaryDirectory(prefix="craig-mq-bench-") as folder:
            yield (f"sqlite:///{folder}/audit{number}.db" for number in range(1_000_000))
    else:
        with PostgresServer() as server:
            yield (server.url(database=server.add_database()) for _ in range(1_000_000))


def summary(rounds: list[Round], count: int) -> dict[str, Any]:
    """Messages a second with the extremes, and the median CPU a message of each party, in microseconds."""
    rates = [count / one.seconds for one in rounds]
    cpu = {
        name: round(statistics.median(one.cpu[name] for one in rounds) / count * 1e6, 1)
        for name in rounds[0].cpu
    }
    total = sum(cpu.values())
    return {
        "msgs_per_s": round(statistics.median(rates)),
        "min": round(min(rates)),
        "max": round(max(rates)),
        "cpu_us_per_msg": cpu | {"total": round(total, 1)},
        "msgs_per_s_if_cpu_bound": round(min(2e6 / total, 1e6 / cpu["client"])),
    }


def measured(kind: str, *, messages: int, rounds: int, concurrency: int, body_bytes: int) -> dict[str, Any]:
    """Settings and figures of that many rounds on private servers."""
    with RabbitNode() as node, fresh_stores(kind) as urls:
        broker = BenchBroker(node)
        done: list[Round] = []
        for _ in range(rounds):
            fill(broker, messages, body_bytes)
            done.append(trio.run(run, node.url, next(urls), messages, concurrency))
    report = {"store": kind, "messages": messages, "rounds": rounds, "concurrency": concurrency}
    return report | {
        "body_bytes": body_bytes,
        "load": round(os.getloadavg()[0], 1),
        **summary(done, messages),
    }


@click.command()
@click.option(
    "--store", "kind", default="postgres", show_default=True, type=click.Choice(["sqlite", "postgres"])
)
@click.option("--messages", default=10_000, show_default=True, type=click.IntRange(min=1))
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(min=1))
@click.option("--concurrency", default=256, show_default=True, type=click.IntRange(1, 32_767))
@click.option("--body-bytes", default=500, show_default=True, type=click.IntRange(min=256))
@click.option("--json", "as_json", is_flag=True)
def main(kind: str, *, messages: int, rounds: int, concurrency: int, body_bytes: int, as_json: bool) -> None:
    """Measure the audit path and print the median with its extremes."""
    report = measured(kind, messages=messages, rounds=rounds, concurrency=concurrency, body_bytes=body_bytes)
    print(
        json.dumps(report, indent=2)
        if as_json
        else "  ".join(f"{name} {value}" for name, value in report.items())
    )


if __name__ == "__main__":
    main()
