"""A publish that waits for a blocked connection, and the end of that connection."""

from __future__ import annotations

import pytest
import trio

from craig_mq.core.delivery import NO_PROPERTIES, Publication
from craig_mq.core.outcome import ACKED, Unconfirmed
from craig_mq.runtime.blockage import Blockage
from craig_mq.runtime.publishing import Publishing
from craig_mq.testing import MemoryBroker
from craig_mq.transport.broker import ConnectionOptions

STEPS = 200  # many more than the way to an outcome takes; a spin takes them all


class NoMemory:
    """An arm with nothing to remember."""

    publish_alone_first = False

    def publish_resolved(self, confirmation):
        pass

    def size_refused(self, reason):
        pass


def close_by_broker(broker):
    broker.close_connection("publishing")


def die(broker):
    broker.crash()


@pytest.mark.parametrize("end", [close_by_broker, die])
async def test_a_connection_that_ends_while_blocked_is_not_waited_for_again(end, autojump_clock):
    """A publish held by a block ends unconfirmed, in a few steps, once its connection is closed."""
    broker, lost, outcomes = MemoryBroker(), [], []
    broker.declare_queue("q")
    publishing = Publishing(
        broker,
        ConnectionOptions("publishing"),
        NoMemory(),
        confirm_timeout=5,
        blockage=Blockage(lambda _: None),
        on_lost=lost.append,
    )

    async def publish():
        outcomes.append(await publishing.publish(Publication("", "q", b"", NO_PROPERTIES)))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(publishing.run)
        publishing.open()
        await trio.testing.wait_all_tasks_blocked()
        await publish()
        assert outcomes == [ACKED]
        broker.alarm(on=True)
        nursery.start_soon(publish)  # it goes out, and is what blocks the connection
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(publish)  # it waits for the block to end
        await trio.testing.wait_all_tasks_blocked()
        end(broker)
        for _ in range(STEPS):
            await trio.lowlevel.checkpoint()
        unconfirmed = [outcome for outcome in outcomes if isinstance(outcome, Unconfirmed)]
        assert (len(unconfirmed), len(lost)) == (2, 1)
        nursery.cancel_scope.cancel(reason="enough seen")
