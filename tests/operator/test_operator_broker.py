"""Redrives on RabbitMQ, by the program itself: killed, interrupted, resumed."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import trio

from craig_mq import DeadLetter, subscribe_dlq
from craig_mq.audit import AuditStore, RowFilter, open_store
from craig_mq.audit.handler import row_of
from craig_mq.core.delivery import PERSISTENT, Properties, Publication
from craig_mq.core.outcome import Acked
from craig_mq.core.topology import topology_for
from craig_mq.operator.connecting import connected
from craig_mq.operator.lease import lease_queue
from craig_mq.runtime.declare import Declarer
from craig_mq.testing.proxy import open_tcp_proxy
from craig_mq.transport.opening import open_broker

pytestmark = [pytest.mark.broker, pytest.mark.timeout(2_400)]


def _ignore(event: object) -> None:
    del event


async def _fill(url: str, queue: str, bodies: list[bytes]) -> None:
    """Declare the topology and put captures into quarantine, each confirmed."""
    async with open_broker(url) as broker, connected(broker, "filling") as connection:
        await Declarer(connection, topology_for(queue, ("dlq.#",)), _ignore).declare(repairing=False)
        channel = await connection.open_channel(confirms=True)
        for n, body in enumerate(bodies):
            properties = Properties(message_id=f"m{n}", delivery_mode=PERSISTENT)
            publication = Publication("", f"{queue}.quarantine", body, properties)
            assert isinstance(await channel.publish(publication), Acked)


async def _drain(url: str, queue: str) -> list[bytes]:
    """What is in a queue, head first, left there."""
    async with open_broker(url) as broker, lease_queue(broker, queue) as lease:
        found = []
        while (delivery := await lease.receive()) is not None:
            found.append(delivery.body)
        assert lease.complete
        return found


@asynccontextmanager
async def _recording(url: str, ledger: Path) -> AsyncGenerator[tuple[AuditStore, Counter[str]]]:
    """Run a service that records what comes to the dead-letter queue, counting what each row came to."""
    outcomes: Counter[str] = Counter()
    async with (
        open_store(f"sqlite:///{ledger}") as store,
        open_broker(url) as broker,
        trio.open_nursery() as nursery,
    ):

        async def record(dead_letter: DeadLetter) -> None:
            outcome = await store.record(row_of(dead_letter))
            outcomes[type(outcome).__name__] += 1

        service = await nursery.start(partial(subscribe_dlq, broker, queue="security.dlq", handler=record))
        yield store, outcomes
        service.shutdown()


class Program:
    """``craig-mq quarantine`` for one vhost."""

    def __init__(self, url: str, queue: str, folder: Path) -> None:
        self.queue, self.folder = queue, folder
        self.environment = {**os.environ, "CRAIG_MQ_AMQP_URL": url, "CRAIG_MQ_QUEUE": queue}

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start the program."""
        return subprocess.Popen(
            [sys.executable, "-m", "craig_mq", "quarantine", *arguments],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def finish(self, *arguments: str) -> tuple[int, str, str]:
        """Run the program to its end; while the broker still holds a dead run's lease, try again."""
        for _ in range(20):
            process = self.start(*arguments)
            out, err = process.communicate(timeout=120)
            if "is in use" not in err:
                return process.returncode, out, err
            time.sleep(0.2)
        raise AssertionError(err)

    def plan(self, *where: str) -> int:
        """Write plan.json; return how many it selects."""
        conditions = [part for one in where for part in ("--where", one)]
        out = str(self.folder / "plan.json")
        code, text, err = self.finish("plan", *conditions, "--out", out, "--hot-window", "9999d", "--json")
        assert code == 0, err
        return int(json.loads(text)["selected"])

    def redrive(self, yes: int, rate: str = "2000/s") -> list[str]:
        """The arguments that redrive plan.json."""
        plan = str(self.folder / "plan.json")
        return ["redrive", "--plan", plan, "--yes", str(yes), "--rate", rate, "--reason", "test", "--json"]

    def journal_lines(self) -> int:
        """How many lines the journal has."""
        path = self.folder / "plan.json.journal"
        return path.read_bytes().count(b"\n") if path.exists() else 0

    def wait_for_lines(self, count: int, process: subprocess.Popen[str]) -> None:
        """Return once the journal has so many lines, or the process has ended."""
        deadline = time.monotonic() + 300
        while self.journal_lines() < count and process.poll() is None:
            assert time.monotonic() < deadline, "the program does not get on"
            time.sleep(0.005)


@pytest.mark.parametrize(
    ("messages", "wanted", "kills"),
    [(200, 49, 2), pytest.param(5_000, 1_234, 20, marks=pytest.mark.soak)],
)
async def test_a_plan_survives_kills(vhost_url, tmp_path, ward, messages, wanted, kills) -> None:
    """Killed with -9 at random points and resumed, exactly the plan is redriven and nothing else moves.

    Twice only where the kill fell between publish and journaled confirm, counted as uncertain; the
    recording service has exactly one row of each, under the capture's token.
    """
    queue, chance = "security.dlq", random.Random(messages)
    matching = set(chance.sample(range(messages), wanted))
    bodies = [
        ward.capture(error=f"{'locked' if n in matching else 'broken'} row {n}") for n in range(messages)
    ]
    await _fill(vhost_url, queue, bodies)
    program = Program(vhost_url, queue, tmp_path)
    assert await trio.to_thread.run_sync(program.plan, "error~LOCKED") == wanted

    def killed_and_resumed() -> dict[str, Any]:
        for n in range(kills):
            process = program.start(*program.redrive(wanted))
            program.wait_for_lines(3 + (n + 1) * (3 * wanted) // (kills + 1), process)
            time.sleep(chance.random() * 0.01)
            process.kill()
            process.communicate()
        code, out, err = program.finish(*program.redrive(wanted))
        assert code == 0, err
        return dict(json.loads(out))

    async with _recording(vhost_url, tmp_path / "audit.db") as (store, rows):
        found = await trio.to_thread.run_sync(killed_and_resumed)
        with trio.fail_after(60):
            while rows["Recorded"] < wanted:
                await trio.sleep(0.05)
    copies = rows["Phantom"] + len(await _drain(vhost_url, queue))
    left = await _drain(vhost_url, f"{queue}.quarantine")
    print(f"\n{found}\nrows: {dict(rows)}, left in quarantine: {len(left)}")  # noqa: T201 - the account
    assert (found["plan"], found["redriven"], found["remaining"]) == (wanted, wanted, 0)
    assert found["skipped"] == {}
    async with open_store(f"sqlite:///{tmp_path}/audit.db") as store:
        recorded = [row.token for row in await store.find(RowFilter(), limit=2 * wanted)]
    assert Counter(recorded) == Counter(ward.read(bodies[n]).occurrence_token for n in matching)
    assert rows.keys() <= {"Recorded", "Phantom"}
    assert copies <= found["uncertain"] <= kills
    assert left == [body for n, body in enumerate(bodies) if n not in matching]


@pytest.mark.parametrize(
    ("messages", "after", "signals"),
    [
        (40, 12, [signal.SIGTERM]),
        pytest.param(1_000, 300, [signal.SIGTERM], marks=pytest.mark.soak),
        pytest.param(1_000, 300, [signal.SIGINT], marks=pytest.mark.soak),
        pytest.param(1_000, 300, [signal.SIGHUP], marks=pytest.mark.soak),
        pytest.param(1_000, 300, [signal.SIGTERM] * 2, marks=pytest.mark.soak),
    ],
)
async def test_a_signal_comes_between_two_messages(
    vhost_url, tmp_path, ward, messages, after, signals
) -> None:
    """CLI-01: a signal lets the current message finish, prints the account and exits 128 + its number."""
    queue = "security.dlq"
    await _fill(vhost_url, queue, [ward.capture() for _ in range(messages)])
    parts = urlsplit(vhost_url)
    async with open_tcp_proxy(parts.hostname, parts.port) as proxy:
        program = Program(proxy.url(vhost_url), queue, tmp_path)
        assert await trio.to_thread.run_sync(program.plan) == messages
        proxy.delay(0.02)

        def interrupted() -> tuple[int, str, str]:
            process = program.start(*program.redrive(messages))
            program.wait_for_lines(2 + 3 * after, process)
            for number in signals:
                process.send_signal(number)
                time.sleep(0.005)
            out, err = process.communicate(timeout=30)
            return process.returncode, out, err

        code, out, err = await trio.to_thread.run_sync(interrupted)
    assert code == 128 + signals[0], err
    moved, left = await _drain(vhost_url, queue), await _drain(vhost_url, f"{queue}.quarantine")
    assert len(moved) + len(left) - messages <= (1 if len(signals) > 1 else 0)
    assert len(moved) >= after
    if len(signals) == 1:
        found = json.loads(out)
        assert found["redriven"] + found["remaining"] == messages
        assert (found["redriven"], found["remaining"]) == (len(moved), len(left))
        assert "asked to stop" in err
