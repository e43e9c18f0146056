"""``python -m benchmarks.soak --messages 1000000``: what a day brings, in as little time as it takes.

Settles, parks, replays and quarantines on the native transport and a private node. The queue is topped up
and the quarantine emptied as it goes, so the broker holds little; the subscription's size is sampled.
Exit status 1 if memory, tasks, channels or descriptors grew after the warm-up, or a message is missing.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import click
import pika

from benchmarks.broker import EXCHANGE, PARKING, QUARANTINE, QUEUE, ROUTING_KEY, BenchBroker
from benchmarks.filling import fill
from benchmarks.growth import growth
from craig_mq.testing.rabbitmq import RabbitNode

BATCH, LOW_WATER = 20_000, 10_000
LOOK_S, CENSUSES = 1.0, 100
BODY_BYTES = 512
SIZES = ("resident_kib", "tasks", "descriptors")


class Feeder:
    """Keeps the queue filled and the quarantine empty, and counts channels at the broker."""

    def __init__(self, node: RabbitNode, messages: int, census_s: float) -> None:
        self._node = node
        self._left = messages
        self._connection = pika.BlockingConnection(pika.URLParameters(node.url))
        self._channel = self._connection.channel()
        self.quarantined = 0
        self.census: list[dict[str, float]] = []
        self._census_s = census_s
        self._next_census = 0.0

    def turn(self) -> None:
        """Do what is due."""
        if self._left and self.depth(QUEUE) < LOW_WATER:
            batch = min(BATCH, self._left)
            fill(self._node.url, EXCHANGE, ROUTING_KEY, batch, BODY_BYTES)
            self._left -= batch
        self.quarantined += self._channel.queue_purge(QUARANTINE).method.message_count
        if time.monotonic() >= self._next_census:
            channels = int(self._node.eval("length(rabbit_channel:list())."))
            self.census.append({"channels": channels - 1})
            self._next_census = time.monotonic() + self._census_s

    def depth(self, queue: str) -> int:
        """Ready messages."""
        return self._channel.queue_declare(queue, passive=True).method.message_count

    def close(self) -> dict[str, int]:
        """Purge once more; what is left in the queues."""
        self.turn()
        left = {queue: self.depth(queue) for queue in (QUEUE, PARKING, QUARANTINE)}
        self._connection.close()
        return left


def run(messages: int, minutes: float) -> dict[str, Any]:
    """Soak for at most ``minutes``; the summary."""
    deadline = time.monotonic() + minutes * 60
    with RabbitNode() as node, tempfile.TemporaryDirectory() as folder:
        BenchBroker(node).fill(0, BODY_BYTES)
        feeder = Feeder(node, messages, census_s=minutes * 60 / CENSUSES)
        command = [sys.executable, "-m", "benchmarks.own.soak", node.url, QUEUE, str(messages)]
        output = Path(folder) / "samples.jsonl"
        with output.open("w") as file:
            process = subprocess.Popen(command, stdout=file)
            try:
                while process.poll() is None and time.monotonic() < deadline:
                    feeder.turn()
                    time.sleep(LOOK_S)
            finally:
                process.terminate()
                status = process.wait()
        samples = [json.loads(line) for line in output.read_text().splitlines()]
        complete = status == 0 and samples[-1]["settled"] == messages
        left = feeder.close()
        return {
            "messages": messages,
            "complete": complete,
            "python": platform.python_version(),
            "rabbitmq": node.eval("rabbit_misc:version()").strip().strip('"'),
            "cores": os.cpu_count(),
            **summary(samples, feeder, left),
        }


def summary(samples: list[dict[str, float]], feeder: Feeder, left: dict[str, int]) -> dict[str, Any]:
    """What was done, whether anything grew, whether the broker's counts agree."""
    last = samples[-1]
    return {
        "done": {name: last[name] for name in last if name not in SIZES},
        "left_in_queues": left,
        "accounted_for": not any(left.values()) and last["quarantined"] == feeder.quarantined,
        "growth": {
            **{name: growth(samples, name) for name in SIZES},
            "channels": growth(feeder.census, "channels"),
        },
        "samples": samples,
    }


@click.command()
@click.option("--messages", type=int, default=1_000_000, show_default=True)
@click.option("--minutes", type=float, default=60.0, show_default=True, help="End by then in any case.")
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path))
def main(messages: int, minutes: float, json_file: Path | None) -> None:
    """Soak the native transport; print the summary."""
    found = run(messages, minutes)
    if json_file is not None:
        json_file.write_text(json.dumps(found, indent=1) + "\n")
    click.echo(json.dumps({name: found[name] for name in found if name != "samples"}, indent=1))
    good = found["complete"] and found["accounted_for"]
    if not good or any(one["grew"] for one in found["growth"].values()):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
