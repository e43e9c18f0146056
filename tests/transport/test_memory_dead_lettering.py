"""The embedded broker's own dead-lettering."""

from __future__ import annotations

import pytest

from craig_mq.core.delivery import Properties
from craig_mq.testing import MemoryBroker
from craig_mq.transport.broker import ConnectionOptions

OPTIONS = ConnectionOptions("test")
TO_DEAD = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}


async def reject_head(broker: MemoryBroker, queue: str) -> None:
    async with broker.connect(OPTIONS) as connection:
        channel = await connection.open_channel()
        channel.nack_nowait((await channel.get(queue)).delivery_tag, requeue=False)


async def test_a_repeated_death_counts_up(autojump_clock):
    """A second death of one kind in one queue raises its count; another queue's death comes first."""
    broker = MemoryBroker(wall_clock=lambda: 7.0)
    broker.declare_queue("q", TO_DEAD)
    broker.declare_queue("dead", {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"})
    broker.publish("", "q", b"body", Properties(headers={"mine": True}))
    for queue in ("q", "dead", "q"):
        await reject_head(broker, queue)
    [message] = broker.queue("dead").messages
    headers = message.properties.headers
    deaths = [(death["queue"], death["reason"], death["count"]) for death in headers["x-death"]]
    assert deaths == [("q", "rejected", 2), ("dead", "rejected", 1)]
    assert (headers["x-first-death-queue"], headers["x-first-death-reason"], headers["mine"]) == (
        "q",
        "rejected",
        True,
    )


@pytest.mark.parametrize(("version", "deaths"), [("3.10", 2), ("4.0", 1)])
async def test_a_client_sent_x_death_is_merged_or_replaced(version, deaths, autojump_clock):
    """On dead-lettering 3.10 keeps an ``x-death`` that a client sent, 4.0 replaces it (fact 18)."""
    broker = MemoryBroker(version)
    broker.declare_queue("dead")
    broker.declare_queue("q", TO_DEAD)
    forged = {"queue": "elsewhere", "reason": "expired", "count": 3}
    broker.publish("", "q", b"", Properties(headers={"x-death": [forged]}))
    await reject_head(broker, "q")
    [message] = broker.queue("dead").messages
    assert len(message.properties.headers["x-death"]) == deaths


@pytest.mark.parametrize(
    "forged",
    ["abc", [1, 2], {"queue": "q"}, None, [{"queue": "q", "reason": "rejected", "count": "3"}]],
    ids=repr,
)
async def test_a_malformed_x_death_reaches_consumers_and_harms_nothing(forged, autojump_clock):
    """A malformed ``x-death`` passes a direct publish and is left out on dead-lettering (PROP-05)."""
    broker = MemoryBroker()
    broker.declare_queue("dead")
    broker.declare_queue("q", TO_DEAD)
    broker.publish("", "q", b"", Properties(headers={"x-death": forged}))
    assert broker.queue("q").messages[0].properties.headers["x-death"] == forged
    await reject_head(broker, "q")
    [message] = broker.queue("dead").messages
    [death] = message.properties.headers["x-death"]
    assert death["queue"] == "q"


async def test_a_missing_dead_letter_exchange_drops_silently(autojump_clock):
    """A dead-letter exchange that does not exist loses the message (fact 19)."""
    broker = MemoryBroker(trace=True)
    broker.declare_queue("q", {"x-dead-letter-exchange": "never.declared"})
    broker.publish("", "q", b"")
    await reject_head(broker, "q")
    assert broker.queue("q").ready == 0
    assert broker.trace[-2].why == "rejected"


async def test_a_cycle_without_rejection_is_cut(autojump_clock):
    """A message that only ever expires its way round to a queue again is dropped there."""
    broker = MemoryBroker()
    own = {"x-message-ttl": 0, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"}
    broker.declare_queue("q", own)
    broker.publish("", "q", b"round and round")
    assert broker.queue("q").ready == 0


async def test_cc_and_bcc_route_again(autojump_clock):
    """CC and BCC keys route too, BCC is taken out of the headers (fact 10)."""
    broker = MemoryBroker()
    for name in ("a", "b", "c"):
        broker.declare_queue(name)
    broker.publish("", "a", b"", Properties(headers={"CC": ["b", "a"], "BCC": ["c"]}))
    assert [broker.queue(name).ready for name in ("a", "b", "c")] == [1, 1, 1]
    assert dict(broker.queue("c").messages[0].properties.headers) == {"CC": ["b", "a"]}
