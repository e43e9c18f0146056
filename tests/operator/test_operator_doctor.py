"""Every destructive setting, planted on RabbitMQ and found."""

import socket
from collections.abc import Iterator

import pytest
import trio

from craig_mq.core.topology import topology_for
from craig_mq.operator.connecting import connected
from craig_mq.operator.doctor.examination import Examination
from craig_mq.operator.doctor.findings import Finding, Level
from craig_mq.operator.doctor.management import ManagementApi
from craig_mq.runtime.declare import Declarer
from craig_mq.testing.rabbitmq import RabbitNode
from craig_mq.transport.opening import open_broker

pytestmark = pytest.mark.broker

QUEUE = "security.dlq"
QUARANTINE = QUEUE + ".quarantine"


@pytest.fixture(scope="module")
def managed() -> Iterator[tuple[RabbitNode, str]]:
    """A node with the management plugin, and its API's URL."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    node = RabbitNode(config=f"management.tcp.ip = 127.0.0.1\nmanagement.tcp.port = {port}\n")
    (node._folder / "enabled_plugins").write_text("[rabbitmq_management].\n")
    with node:
        yield node, f"http://guest:guest@127.0.0.1:{port}"


async def _examine(node: RabbitNode, vhost: str, management: str | None) -> list[Finding]:
    api = None if management is None else ManagementApi(management, vhost)
    async with open_broker(node.vhost_url(vhost)) as broker:
        return await Examination(QUEUE, management=api).run(broker)


def _failures(found: list[Finding]) -> list[tuple[str, str, str]]:
    return [(one.check, one.subject, one.text.partition(" ")[0]) for one in found if one.level is Level.FAIL]


async def _shows(node: RabbitNode, vhost: str, api: str, failure: tuple[str, str, str]) -> None:
    """The broker applies policies, and its API shows them, a little after rabbitmqctl returned."""
    with trio.fail_after(30):
        while failure not in _failures(await _examine(node, vhost, api)):  # noqa: ASYNC110 - the broker says nothing
            await trio.sleep(0.5)


async def _declare(url: str, arguments: dict[str, object] | None = None) -> None:
    async with open_broker(url) as broker, connected(broker, "setting up") as connection:
        topology = topology_for(QUEUE, ("dlq.#",))
        channel = await connection.open_channel()
        await channel.delete_queue(QUARANTINE)
        await Declarer(connection, topology, lambda _: None).declare(repairing=False)
        if arguments is not None:
            [spec] = [one for one in topology.queues if one.name == QUARANTINE]
            await channel.delete_queue(QUARANTINE)
            changed = type(spec)(QUARANTINE, arguments={**spec.arguments, **arguments})
            await channel.declare_queue(changed)
        await channel.aclose()


async def test_each_planted_setting_is_found_and_a_clean_broker_has_none(managed) -> None:
    """Arguments are found over AMQP alone, policies over the API, and nothing on a clean broker."""
    node, api = managed
    vhost = await trio.to_thread.run_sync(node.add_vhost)
    url = node.vhost_url(vhost)

    async def policy(definition: str, *apply_to: str) -> None:
        await trio.to_thread.run_sync(
            lambda: node.ctl("set_policy", "-p", vhost, "harm", "^(craig|security)", definition, *apply_to)
        )

    await _declare(url)
    assert _failures(await _examine(node, vhost, None)) == []
    assert _failures(await _examine(node, vhost, api)) == []

    await policy('{"message-ttl":9000000,"expires":9000000,"max-length":99,"overflow":"drop-head"}')
    for name in ("message-ttl", "expires", "max-length", "overflow"):
        await _shows(node, vhost, api, ("destructive setting", QUARANTINE, name))
    await policy('{"alternate-exchange":"amq.fanout"}', "--apply-to", "exchanges")
    await _shows(node, vhost, api, ("alternate exchange", "craig.dlx", "amq.fanout:"))
    await trio.to_thread.run_sync(lambda: node.ctl("clear_policy", "-p", vhost, "harm"))

    for name, value in (("message-ttl", 60_000), ("max-length", 10), ("expires", 9_000_000)):
        await _declare(url, {f"x-{name}": value})
        assert ("destructive setting", QUARANTINE, name) in _failures(await _examine(node, vhost, None))
    await _declare(url, {"x-queue-type": "quorum", "x-delivery-limit": 20})
    assert ("delivery limit", QUARANTINE, "20;") in _failures(await _examine(node, vhost, None))
