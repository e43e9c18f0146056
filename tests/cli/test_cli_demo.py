"""`craig-mq demo`: the main job, and an account that can fail."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from craig_mq.audit import AuditStore, record
from craig_mq.core.dead_letter import DeadLetter
from craig_mq.demo.mix import Kind, plan_mix
from craig_mq.demo.run import Demo, run_demo
from craig_mq.testing import MemoryBroker, Policy

ROOT = Path(__file__).resolve().parent.parent.parent
FIELDS = {
    "published",
    "audited",
    "quarantined",
    "parked",
    "returned",
    "duplicates_absorbed",
    "settlement_failures",
    "lost",
}


def _demo(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "craig_mq", "demo", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        cwd=ROOT,
        env={**os.environ, **environment},
    )


def _check_account(account: dict) -> None:
    assert account.keys() >= FIELDS
    assert account["lost"] == 0
    assert account["parked"] == 0
    assert account["returned"] > 0
    assert account["duplicates_absorbed"] > 0
    reasons = {"permanent", "malformed", "noncanonical_route", "park_cap_exhausted", "oversize"}
    assert account["quarantined"].keys() == reasons


def test_the_embedded_demo_loses_nothing_while_settlements_fail() -> None:
    """On the embedded broker the demo exits 0 with lost 0, after settlement failures of its own making."""
    done = _demo("--json", "--messages", "60", "--seed", "3", CRAIG_MQ_AMQP_URL="")
    assert done.returncode == 0, done.stderr
    account = json.loads(done.stdout)
    _check_account(account)
    assert account["published"] == 60
    assert account["settlement_failures"] > 0


@pytest.mark.broker
def test_the_demo_on_rabbitmq_loses_nothing(vhost_url: str) -> None:
    """The same demo on a real RabbitMQ exits 0 with lost 0."""
    done = _demo("--json", "--messages", "100", CRAIG_MQ_AMQP_URL=vhost_url)
    assert done.returncode == 0, done.stderr
    _check_account(json.loads(done.stdout))


def test_the_live_view_ends_with_the_account() -> None:
    """Without --json the demo prints the account as a table."""
    done = _demo("--messages", "20", CRAIG_MQ_AMQP_URL="")
    assert done.returncode == 0, done.stderr
    assert "Account, by a separate reader" in done.stdout
    assert "supervisor tree" in done.stdout


async def test_a_dropped_copy_and_an_early_ack_are_both_named() -> None:
    """A confirmed copy that the broker destroyed and an ack without a row are each named by id."""
    demo = Demo(messages=30, seed=5, queue="planted.dlq", make_handler=_skipping_one)
    planned = plan_mix(demo.messages, demo.seed, queue=demo.queue, routing_key=demo.routing_key)
    quarantined = [item for item in planned if item.home.value == "quarantine"]
    early = next(item for item in planned if item.kind is Kind.OK)
    _EARLY[:] = [early.envelope_id]
    broker = MemoryBroker()
    # The default overflow destroys the oldest message, and the broker confirms the newest all the same.
    broker.set_policies(full=Policy(r"\.quarantine$", {"max-length": len(quarantined) - 1}))
    result = await run_demo(broker, demo)
    losses = {loss.publication_id: loss.why for loss in result.account.lost}
    assert losses.pop(early.publication_id) == "acked without evidence"
    ((dropped, why),) = losses.items()
    assert dropped in {item.publication_id for item in quarantined}
    assert why == "its confirmed copy is gone"


_EARLY: list[str] = []


def _skipping_one(store: AuditStore):
    recorder = record(store)

    async def handler(dead_letter: DeadLetter) -> None:
        if dead_letter.envelope.id not in _EARLY:
            await recorder(dead_letter)

    return handler


def test_the_help_says_that_a_message_may_count_twice() -> None:
    """The account may add up to more than was published, and the help says why."""
    assert "more than was published" in " ".join(_demo("--help").stdout.split())


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--messages", "3"), "20<=x<=5000"),
        (("--amqp", "amqp://u:s3cr3t@[broken/"), "URL"),
    ],
)
def test_a_users_mistake_is_one_line_and_exit_code_2(arguments: tuple[str, ...], named: str) -> None:
    """Wrong options exit 2, name what is allowed, and show neither traceback nor password."""
    done = _demo(*arguments)
    assert done.returncode == 2
    assert named in done.stderr
    assert "Traceback" not in done.stderr
    assert "s3cr3t" not in done.stderr
