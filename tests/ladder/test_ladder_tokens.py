"""Which dead letters of one event carry one token, on the embedded broker."""

from __future__ import annotations

from typing import Any

import trio

from craig_mq import SubscriptionConfig
from craig_mq.audit import open_store, record
from craig_mq.core.first_failure import SAME_FAILURE_WITHIN_S
from craig_mq.testing import Drop, Fault, FaultPlan, Raise

PUBLISHING = "craig_mq orders main publishing"


def always(_: object) -> ValueError:
    return ValueError("boom")


async def rows(url: str, dead: list[Any]) -> list[str]:
    """Record dead letters as the ledger's handler does; return what each row came to."""
    async with open_store(url) as store:
        for letter in dead:
            await record(store)(letter.dead_letter(1))
        return sorted(str(row.divergent) for row in await store.find())


async def test_a_dead_letter_of_unknown_outcome_keeps_its_token(ladder, tmp_path, autojump_clock):
    """A dead letter whose confirm was lost is published again with the same token: one row in the ledger."""
    ladder.broker.inject(FaultPlan((Fault("confirm", Drop(), connection=PUBLISHING),)))
    async with ladder.subscribed(ladder.handler(always)):
        ladder.publish()
        await trio.sleep(60)
    first, second = ladder.dead_letters()
    assert first.token is not None
    assert (first.token, first.body) == (second.token, second.body)
    assert sum(ladder.calls.values()) == 3
    assert await rows(f"sqlite:///{tmp_path}/audit.db", [first, second]) == ["False"]


async def test_two_copies_of_one_event_are_one_failure(ladder, tmp_path, autojump_clock):
    """An event published twice after an unknown outcome fails twice under one token: one row."""
    body = b'{"id":"7f3c1f0e-8f53-4d0e-9b1b-0d6f3b1f7a10","source_service":"shop","event_type":"order.placed"'
    body += b',"occurred_at":"2026-11-30T10:00:00Z","payload":{}}'
    async with ladder.subscribed(ladder.handler(always)):
        ladder.publish(body=body)
        await trio.sleep(5)
        ladder.publish(body=body)
        await trio.sleep(5)
        first, second = ladder.dead_letters()
        await trio.sleep(SAME_FAILURE_WITHIN_S)
        ladder.publish(body=body)
        await trio.sleep(5)
    third = ladder.dead_letters()[2]
    assert first.token == second.token != third.token
    assert await rows(f"sqlite:///{tmp_path}/audit.db", [first, second, third]) == ["False", "False"]


async def test_another_process_mints_another_token(ladder, tmp_path, autojump_clock):
    """The bound, named: a crash between the dead letter and its ack leaves two rows for one failure."""
    ladder.broker.inject(FaultPlan((Fault("ack", Raise(), name="orders"),)))
    async with trio.open_nursery() as nursery:
        await nursery.start(ladder.subscribe(ladder.handler(always)))
        ladder.publish()
        await trio.sleep(0.5)
        nursery.cancel_scope.cancel(reason="the process dies with what it remembers")
    async with ladder.subscribed(ladder.handler(always)):
        await trio.sleep(5)
    first, second = ladder.dead_letters()
    assert first.envelope.id == second.envelope.id
    assert first.token != second.token
    assert await rows(f"sqlite:///{tmp_path}/audit.db", [first, second]) == ["False", "False"]


async def test_both_producers_mint_two_tokens(ladder, tmp_path, autojump_clock):
    """The bound, named: a client's and the broker's dead letter of one failure are two rows (§bounds)."""
    ladder.broker.inject(FaultPlan((Fault("ack", Raise(), name="orders"),)))
    by_broker = SubscriptionConfig(dead_letter_by="broker")
    async with ladder.subscribed(config=by_broker):
        await trio.sleep(1)  # the queue has the broker's dead-lettering from here on
    async with trio.open_nursery() as nursery:
        await nursery.start(ladder.subscribe(ladder.handler(always)))
        ladder.publish()
        await trio.sleep(0.5)
        nursery.cancel_scope.cancel(reason="the client's producer dies after its confirm")
    async with ladder.subscribed(ladder.handler(always), config=by_broker):
        await trio.sleep(5)
    first, second = ladder.dead_letters()
    assert first.envelope.id == second.envelope.id
    producers = [str(letter.token).split(":")[1] for letter in (first, second)]
    assert producers == ["inbox", "broker"]
    assert await rows(f"sqlite:///{tmp_path}/audit.db", [first, second]) == ["False", "False"]
