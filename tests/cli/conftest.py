"""The operator's commands on an embedded broker that outlives each of them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from click.testing import CliRunner, Result

from craig_mq.audit import open_store
from craig_mq.cli import main
from craig_mq.core.capture import CaptureOrder, build_capture
from craig_mq.core.capture_format import QuarantineReason, uuid7
from craig_mq.core.dead_letter import build_dead_letter_delivery
from craig_mq.core.delivery import Delivery
from craig_mq.core.last_error import LastError
from craig_mq.testing import MemoryBroker, envelope

AT_S = 1_750_000_000.0


class Bench:
    """An embedded broker, captures to put into its queues, and the command line."""

    queue, quarantine, parking = "security.dlq", "security.dlq.quarantine", "security.dlq.parking"

    def __init__(self, broker: MemoryBroker) -> None:
        self.broker = broker
        self.built = 0

    def capture(
        self,
        *,
        body: bytes | None = None,
        reason: QuarantineReason | None = QuarantineReason.PERMANENT,
        error: str = "column too long",
        at_s: float = AT_S,
        key: str = "dlq.svc.a",
    ) -> bytes:
        """Return one capture's body; ``reason`` None parks it."""
        self.built += 1
        token = f"occ1:inbox:{self.built:032x}"
        original = envelope({"n": self.built}, id=str(uuid.UUID(int=self.built)), _dlx={"token": token})
        subject = build_dead_letter_delivery(
            Delivery(1, "craig.dlx", key, False, original if body is None else body), queue=self.queue
        )
        order = CaptureOrder(
            capture_id=uuid7(int(at_s * 1_000), self.built),
            fresh_id=str(uuid.UUID(int=1 << 100 | self.built)),
            at_s=at_s,
            reason=reason,
            last_error=LastError("ValueError", error, "0" * 64),
        )
        return build_capture(subject, order).body

    def fill(self, *bodies: bytes, queue: str = quarantine) -> tuple[bytes, ...]:
        """Put bodies into a queue."""
        for body in bodies:
            self.broker.publish("", queue, body)
        return bodies

    def bodies(self, queue: str = quarantine) -> tuple[bytes, ...]:
        """What is ready in a queue, head first."""
        return self.broker.queue(queue).bodies

    def run(self, *arguments: object, exit_code: int = 0) -> Result:
        """Run ``craig-mq`` and expect its exit code."""
        environment = {
            "CRAIG_MQ_AMQP_URL": "amqp://nobody:secret@nowhere",
            "CRAIG_MQ_QUEUE": self.queue,
            "COLUMNS": "300",
        }
        result = CliRunner().invoke(main, [str(one) for one in arguments], env=environment)
        assert result.exit_code == exit_code, (result.output, result.exception)
        assert "secret" not in result.output
        return result

    def json(self, *arguments: object, exit_code: int = 0) -> Any:
        """Run ``craig-mq … --json`` and read its stdout."""
        return json.loads(self.run(*arguments, "--json", exit_code=exit_code).stdout)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A broker with the subscription's topology, behind every command of the test."""
    broker = MemoryBroker()
    broker.declare_exchange("craig.dlx")
    for name in (Bench.queue, Bench.quarantine, Bench.parking):
        broker.declare_queue(name, {"x-queue-type": "classic"})
    broker.bind("craig.dlx", Bench.queue, "dlq.#")

    @asynccontextmanager
    async def opened(url: str):
        yield broker

    opener: Callable[..., Any] = opened
    monkeypatch.setattr("craig_mq.cli.target.open_broker", opener)
    return Bench(broker)


@pytest.fixture
def ledger(tmp_path: Path) -> str:
    """The URL of an empty ledger that stands."""
    url = f"sqlite:///{tmp_path / 'audit.db'}"

    async def make() -> None:
        async with open_store(url):
            pass

    trio.run(make)
    return url
