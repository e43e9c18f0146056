"""`craig-mq topology`: data in, declared once, differences told field by field."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import trio
from click.testing import CliRunner, Result

from craig_mq.cli import main
from craig_mq.core.topology import ExchangeSpec, QueueSpec, event_topology, topology_for
from craig_mq.runtime.topology_diff import compare
from craig_mq.testing import MemoryBroker
from craig_mq.transport.broker import ConnectionOptions
from craig_mq.transport.opening import open_broker

FILE = """
[[queue]]
queue = "orders"
binding_keys = ["order.#"]

[[queue]]
queue = "mails"
binding_keys = ["mail.*"]
dead_letter_by = "broker"

[[dead_letter_queue]]
queue = "security.dlq"
queue_type = "quorum"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A topology file of two ordinary queues and a quorum dead-letter queue."""
    path = tmp_path / "topology.toml"
    path.write_text(FILE, encoding="utf-8")
    return path


def run(*arguments: object, url: str = "") -> Result:
    return CliRunner().invoke(main, ["topology", *map(str, arguments)], env={"CRAIG_MQ_AMQP_URL": url})


def test_show_asks_no_broker(file: Path) -> None:
    """Show prints every exchange, queue and binding of the file, and of the defaults without one."""
    shown = run("--config", file, "show").output.splitlines()
    assert "queue mails x-queue-type=classic x-dead-letter-exchange=craig.dlx" in " ".join(shown)
    assert "binding craig.events -> orders order.#" in shown
    assert "queue security.dlq.parking x-queue-type=quorum x-delivery-limit=2147483647" in shown
    document = json.loads(run("show", "--json").output)
    assert [queue["name"] for queue in document["queues"]] == [
        "craig.dlq",
        "craig.dlq.parking",
        "craig.dlq.quarantine",
    ]


def test_the_queue_comes_from_the_variable_as_everywhere(file: Path, monkeypatch) -> None:
    """CRAIG_MQ_QUEUE names the dead-letter queue, --queue wins over it, and a file over both."""
    monkeypatch.setenv("CRAIG_MQ_QUEUE", "security.dlq")
    assert "queue security.dlq.parking " in run("show").output
    assert "queue billing.dlq.parking " in run("--queue", "billing.dlq", "show").output
    assert "queue orders " in run("--config", file, "show").output
    refused = run("--queue", "", "show")
    assert (refused.exit_code, "--queue: " in refused.output) == (2, True)


@pytest.mark.parametrize("group", ["quarantine", "parking"])
def test_an_option_behind_its_subcommand_is_told_its_place(group: str) -> None:
    """A group's option behind the subcommand is refused with the line to type; an unknown one as ever."""
    done = CliRunner().invoke(main, [group, "list", "--queue", "x"])
    assert done.exit_code == 2
    assert f"Error: --queue goes before the subcommand: main {group} --queue … list …" in done.output
    assert "No such option" in CliRunner().invoke(main, [group, "list", "--nothing"]).output


@pytest.mark.parametrize("command", [("topology", "check"), ("status",), ("quarantine", "list"), ("doctor",)])
def test_an_operator_is_not_advised_to_embed_a_broker(command: tuple[str, ...]) -> None:
    """A URL that is none is refused without the advice to use an embedded broker, which is empty."""
    environment = {"CRAIG_MQ_AMQP_URL": "http://broker", "CRAIG_MQ_QUEUE": "security.dlq"}
    done = CliRunner().invoke(main, command, env=environment)
    assert (done.exit_code, "amqp://" in done.output, "memory://" in done.output) == (2, True, False)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("[[queue]]\nname = 'x'", "name"),
        ("[[queue]]\nbinding_keys = ['x']", "needs a queue"),
        ("[[queue]]\nqueue = 'x'\nqueue_type = 'stream'", "queue_type"),
        ("[[queue]]\nqueue = 'x'\ndead_letter_by = 'luck'", "dead_letter_by"),
        ("[[queues]]\nqueue = 'x'", "queues"),
        ("queue = 5", "queue"),
        ("", "nothing"),
        ("[[", "TOML"),
    ],
)
def test_a_bad_file_is_refused_by_name(tmp_path: Path, text: str, word: str) -> None:
    """A file that cannot be used is one line that names the key, and exit code 2."""
    path = tmp_path / "topology.toml"
    path.write_text(text, encoding="utf-8")
    done = run("--config", path, "show")
    assert done.exit_code == 2
    assert word in done.output
    assert run("--config", tmp_path / "none.toml", "show").exit_code == 2


async def test_every_field_that_differs_is_found(autojump_clock) -> None:
    """On the embedded broker what differs in several fields is told field by field, and kept."""
    broker = MemoryBroker()
    broker.declare_exchange("craig.events", "direct")
    arguments = {"x-queue-type": "classic", "x-message-ttl": 60_000, "x-dead-letter-exchange": "other"}
    broker.declare_queue("orders", arguments)
    topology = event_topology("orders", ["order.#"], dead_letter_by="broker")
    async with broker.connect(ConnectionOptions("test")) as connection:
        events, dlx, orders = await compare(connection, topology)
        assert [field for field, _, _ in events.differences] == ["type"]
        assert dlx.missing
        assert {field for field, _, _ in orders.differences} == {
            "x-message-ttl",
            "x-dead-letter-exchange",
            "x-dead-letter-routing-key",
        }
    assert broker.queues == ("orders",)


@pytest.mark.broker
async def test_declare_check_and_diff_on_rabbitmq(vhost_url: str, file: Path, tmp_path: Path) -> None:
    """Missing parts are declared once and again; then check and diff agree, and a second file differs."""

    def topology(*arguments: object, path: Path = file) -> Result:
        return run("--config", path, *arguments, url=vhost_url)

    missing = await trio.to_thread.run_sync(topology, "check")
    assert missing.exit_code == 1
    assert missing.output.count("missing") == 7
    for word in ("declared", "stands already"):
        declared = await trio.to_thread.run_sync(topology, "declare")
        assert declared.exit_code == 0, declared.output
        assert declared.output.count(word) == 7
    assert (await trio.to_thread.run_sync(topology, "check")).output.count("ok ") == 7
    same = await trio.to_thread.run_sync(topology, "diff")
    assert (same.exit_code, same.output) == (0, "")
    other = tmp_path / "other.toml"
    other.write_text(FILE.replace('"broker"', '"client"').replace('"quorum"', '"classic"'), encoding="utf-8")
    for command in ("diff", "declare"):
        done = await trio.to_thread.run_sync(lambda word=command: topology(word, path=other))
        assert done.exit_code == 1
        assert "queue mails: x-dead-letter-exchange: ours none, the broker's" in done.output
        assert "queue security.dlq: x-queue-type: ours" in done.output
        assert "queue orders" not in done.output


@pytest.mark.broker
async def test_differences_on_rabbitmq_change_nothing(vhost_url: str) -> None:
    """RabbitMQ's refusals are followed field by field to the end; what stands is as it was."""
    stands = QueueSpec(
        "security.dlq",
        durable=False,
        arguments={"x-queue-type": "classic", "x-max-length": 5, "x-overflow": "reject-publish"},
    )
    async with open_broker(vhost_url) as broker, broker.connect(ConnectionOptions("test")) as connection:
        channel = await connection.open_channel()
        await channel.declare_exchange(ExchangeSpec("craig.dlx", kind="fanout"))
        await channel.declare_queue(stands)
        exchange, queue, *siblings = await compare(connection, topology_for("security.dlq", ["dlq.#"]))
        assert [field for field, _, _ in exchange.differences] == ["type"]
        assert {field for field, _, _ in queue.differences} >= {"durable", "x-max-length", "x-overflow"}
        assert queue.refused is None
        assert all(sibling.missing for sibling in siblings)
        await channel.declare_queue(stands)
