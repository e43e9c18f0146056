"""A publisher used before, beside or after its block, or with what cannot be: refused at once, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio

from craig_mq import DlqConfigError, EventEnvelope, Publisher
from craig_mq.publishing.options import PublisherOptions
from craig_mq.testing import Delay, Fault, FaultPlan, MemoryBroker

Event = Callable[..., EventEnvelope]


async def test_whoever_waits_for_a_slot_hears_that_the_block_was_left(
    broker: MemoryBroker, event: Event, autojump_clock: trio.testing.MockClock
) -> None:
    """Submits that wait for the only slot while the block is left end, each with an outcome or an error."""
    broker.inject(FaultPlan((Fault("confirm", Delay(5.0)),)))
    ends: list[str] = []

    async def submit(publisher: Publisher) -> None:
        try:
            pending = await publisher.submit(event())
        except RuntimeError:
            ends.append("refused")
        else:
            ends.append(type(await pending.wait()).__name__)

    one_slot = PublisherOptions(max_in_flight=1)
    with trio.fail_after(300):
        async with trio.open_nursery() as nursery, Publisher(broker, options=one_slot) as publisher:
            for _ in range(4):
                nursery.start_soon(submit, publisher)
            await trio.sleep(1)
    assert len(ends) == 4
    assert set(ends) <= {"Acked", "refused"}
    assert "Acked" in ends


async def test_publishing_after_a_cancelled_block_is_refused_at_once(
    broker: MemoryBroker, event: Event, autojump_clock: trio.testing.MockClock
) -> None:
    """A publisher whose block was cancelled refuses instead of waiting its patience for no connection."""
    with trio.CancelScope() as scope:
        async with Publisher(broker) as publisher:
            scope.cancel(reason="the test leaves")
            await trio.sleep_forever()
    began = trio.current_time()
    with pytest.raises(RuntimeError, match="block"):
        await publisher.publish(event())
    assert trio.current_time() == began


@pytest.mark.parametrize("exchange", [None, 5, "e" * 256, "e\ud800"])
def test_an_exchange_that_cannot_be_is_refused(broker: MemoryBroker, exchange: Any) -> None:
    """An exchange's name of another kind or length is refused before anything is dialled."""
    with pytest.raises(DlqConfigError) as caught:
        Publisher(broker, exchange=exchange)
    assert caught.value.field == "exchange"
    assert broker.connections == ()
