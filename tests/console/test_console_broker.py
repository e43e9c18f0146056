"""The console on a real RabbitMQ, as a process that a signal ends in the middle of a redrive."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import httpx
import pytest
import trio

from craig_mq.audit import open_store
from craig_mq.core.delivery import PERSISTENT, Properties, Publication
from craig_mq.core.outcome import Acked
from craig_mq.core.topology import topology_for
from craig_mq.operator.connecting import connected
from craig_mq.operator.status import queue_depths
from craig_mq.runtime.declare import Declarer
from craig_mq.testing.captures import quarantined
from craig_mq.transport.opening import open_broker

pytestmark = pytest.mark.broker

QUEUE = "security.dlq"
QUARANTINE = QUEUE + ".quarantine"
ROOT = Path(__file__).parents[2]
MESSAGES = 40


async def fill(url: str, ledger: str) -> None:
    """Declare the subscription's topology and quarantine some messages, each confirmed; make the ledger."""
    now_s = time.time()
    async with (
        open_store(ledger),
        open_broker(url) as broker,
        connected(broker, "filling") as connection,
    ):
        await Declarer(connection, topology_for(QUEUE, ("dlq.#",)), lambda _: None).declare(repairing=False)
        channel = await connection.open_channel(confirms=True)
        for n in range(1, MESSAGES + 1):
            properties = Properties(message_id=f"m{n}", delivery_mode=PERSISTENT)
            body = quarantined(n, now_s - 60, queue=QUEUE)
            assert isinstance(await channel.publish(Publication("", QUARANTINE, body, properties)), Acked)


async def depths(url: str) -> dict[str, int | None]:
    """Ready messages of quarantine and of the queue itself."""
    async with open_broker(url) as broker:
        return {one.queue: one.ready for one in await queue_depths(broker, (QUEUE, QUARANTINE), oldest=False)}


def test_a_signal_ends_a_redrive_between_two_messages(vhost_url, tmp_path) -> None:
    """Read, plan and redrive over the page's API; SIGTERM finishes the message in hand, and the rest stays.

    The command line then carries the same plan out with the exact remainder: each message once.
    """
    ledger = f"sqlite:///{tmp_path}/audit.db"
    trio.run(fill, vhost_url, ledger)
    environment = {
        **os.environ,
        "CRAIG_MQ_AMQP_URL": vhost_url,
        "CRAIG_MQ_QUEUE": QUEUE,
        "CRAIG_MQ_AUDIT_URL": ledger,
        "PYTHONPATH": str(ROOT),
    }
    program = [sys.executable, "-m", "craig_mq"]
    command = [*program, "console", "--port", "0", "--folder", str(tmp_path / "console"), "--allow-redrive"]
    run = partial(
        subprocess.Popen, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    with run(command) as process:
        address, _, token = process.stdout.readline().strip().partition("#t=")
        with httpx.Client(base_url=address, headers={"Sec-Fetch-Site": "same-origin"}, timeout=30) as client:
            ask = lambda name, **body: client.post(f"/api/{name}", json=body).raise_for_status().json()  # noqa: E731
            ask("session", token=token)
            assert ask("read")["reading"]["seen"] == MESSAGES
            assert trio.run(depths, vhost_url)[QUARANTINE] == 0
            plan = ask("plan")
            assert plan["selected"] == MESSAGES
            ask("redrive", plan=plan["sha256"], yes=MESSAGES, reason="fixed", pace="20/s")
            while client.get("/api/state").json()["run"]["left"] > MESSAGES - 5:
                time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
    after = trio.run(depths, vhost_url)
    assert 0 < after[QUARANTINE] < MESSAGES
    assert after[QUEUE] + after[QUARANTINE] == MESSAGES
    redrive = ("quarantine", "redrive", "--plan", plan["file"], "--yes", str(MESSAGES), "--reason", "fixed")
    with run([*program, *redrive, "--rate", "1000/s", "--json"]) as resumed:
        account = json.loads(resumed.communicate(timeout=60)[0])
    assert (account["redriven"], account["remaining"], account["uncertain"]) == (MESSAGES, 0, 0)
    assert trio.run(depths, vhost_url) == {QUEUE: MESSAGES, QUARANTINE: 0}
