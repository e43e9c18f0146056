"""The builders for handler authors build what the runtime would."""

from __future__ import annotations

import json

import pytest

from craig_mq.core.dead_letter import DeadLetterDelivery, build_dead_letter_delivery
from craig_mq.core.errors import MalformedBody
from craig_mq.testing import MemoryBroker, dead_letter, died, envelope, seed
from craig_mq.transport.broker import ConnectionOptions


def test_an_envelope_holds_what_it_was_given():
    """Every field can be chosen, unknown ones too; ids are fresh."""
    body = envelope({"n": 1}, event_type="t", note="é")
    fields = json.loads(body)
    assert (fields["payload"], fields["event_type"], fields["note"]) == ({"n": 1}, "t", "é")
    assert json.loads(envelope())["id"] != json.loads(envelope())["id"]


def test_a_dead_letter_is_what_a_handler_gets():
    """A built dead letter carries its body and the envelope decoded from it."""
    body = envelope([1, 2], source_service="billing")
    letter = dead_letter(body, token="occ1:inbox:" + "0" * 32, park_count=2)
    assert (letter.body, letter.envelope.source_service, letter.envelope.payload) == (
        body,
        "billing",
        b"[1,2]",
    )
    assert (letter.park_count, letter.attempt, letter.redelivered, letter.death) == (2, 1, False, None)


def test_a_malformed_body_never_reaches_a_handler():
    """A body that the runtime would quarantine cannot become a dead letter for a handler."""
    with pytest.raises(MalformedBody):
        dead_letter(b"{}")


async def test_seeded_messages_derive_a_token(autojump_clock):
    """Messages seeded into a queue are read as the broker's dead letters, each with a token."""
    broker = MemoryBroker()
    seed(broker, "orders.dlq", envelope(), envelope())
    seed(broker, "orders.dlq", envelope(), properties=died("other", reason="expired"))
    async with broker.connect(ConnectionOptions("c")) as connection:
        channel = await connection.open_channel()
        tokens = set()
        for _ in range(3):
            read = build_dead_letter_delivery(await channel.get("orders.dlq"), queue="orders.dlq")
            assert isinstance(read, DeadLetterDelivery)
            assert read.death is not None
            tokens.add(read.token)
        assert None not in tokens
        assert len(tokens) == 3
