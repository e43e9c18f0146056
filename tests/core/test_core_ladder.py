"""Ordinary queues: two strikes, then a dead letter (decisions, 19)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Literal

import pytest

from craig_mq.core.dead_letter import DeadLetterDelivery, MalformedDelivery, build_dead_letter_delivery
from craig_mq.core.delivery import Properties
from craig_mq.core.ladder import (
    DeadLetterByBroker,
    DeadLetterByClient,
    Requeue,
    Strike,
    client_dead_letter,
    strike,
)
from craig_mq.core.last_error import describe_error

Make = Callable[..., Any]
MESSAGE_ID = "0192f0c1-0000-7000-8000-000000000009"
ERROR = describe_error(ValueError("boom"))


@pytest.mark.parametrize(
    ("redelivered", "malformed", "dead_letter_by", "expected"),
    [
        (False, False, "client", Requeue()),
        (False, False, "broker", Requeue()),
        (True, False, "client", DeadLetterByClient()),
        (True, False, "broker", DeadLetterByBroker()),
        (False, True, "client", DeadLetterByClient()),
        (False, True, "broker", DeadLetterByBroker()),
    ],
)
def test_the_second_strike_is_out(
    redelivered: bool, malformed: bool, dead_letter_by: Literal["client", "broker"], expected: Strike
) -> None:
    """A first failure is requeued, a redelivered or unreadable one is dead-lettered as configured."""
    assert strike(redelivered=redelivered, malformed=malformed, dead_letter_by=dead_letter_by) == expected


def test_a_client_dead_letter_is_a_dead_letter_with_a_token(deliver: Make, envelope_json: Make) -> None:
    """The dead letter keeps all members and gains _dlx, under dlq., its queue and its event type."""
    body = envelope_json(extra={"n": 1}, payload=[1, 2]).replace(b"[1,2]", b"[1.0, 2e400]")
    foreign = Properties(
        expiration="60000", user_id="other", priority=9, message_id="theirs", delivery_mode=1
    )
    publication = client_dead_letter(
        deliver(body, routing_key="billing.invoice", properties=foreign),
        "billing",
        ERROR,
        message_id=MESSAGE_ID,
        at_s=1_772_000_000.5,
    )
    assert (publication.exchange, publication.routing_key) == ("craig.dlx", "dlq.billing.invoice.created")
    assert publication.properties == Properties(
        content_type="application/json",
        delivery_mode=2,
        message_id=MESSAGE_ID,
        timestamp=1_772_000_000,
        app_id="craig_mq",
    )
    subject = build_dead_letter_delivery(deliver(publication.body), queue="billing.dlq")
    assert isinstance(subject, DeadLetterDelivery)
    assert subject.envelope.payload == b"[1.0, 2e400]"
    assert json.loads(publication.body)["extra"] == {"n": 1}
    assert subject.token is not None
    assert subject.token.startswith("occ1:inbox:")
    assert subject.death is not None
    assert (subject.death.queue, subject.death.reason, subject.death.error) == (
        "billing",
        "handler_failed",
        "boom",
    )
    assert subject.death.failed_at == "2026-02-25T06:13:20.500000Z"


def test_a_second_death_replaces_the_first(deliver: Make, envelope_json: Make) -> None:
    """A message that died before gets the new _dlx in place of the old, never two of them."""
    body = envelope_json(_dlx={"queue": "older"})
    publication = client_dead_letter(deliver(body), "billing", ERROR, message_id=MESSAGE_ID, at_s=1.0)
    assert publication.body.count(b'"_dlx"') == 1
    assert json.loads(publication.body)["_dlx"]["queue"] == "billing"


@pytest.mark.parametrize("fields", [{"body": b"\xff\x00"}, {"undecodable": b"\x01"}])
def test_an_unreadable_message_is_dead_lettered_byte_for_byte(
    deliver: Make, envelope_json: Make, fields: dict[str, Any]
) -> None:
    """Undeserializable bytes go out unchanged under dlq.<queue>.malformed, tokenless."""
    delivery = deliver(**{"body": envelope_json(), **fields})
    publication = client_dead_letter(delivery, "billing", ERROR, message_id=MESSAGE_ID, at_s=1.0)
    assert publication.body == delivery.body
    assert publication.routing_key == "dlq.billing.malformed"
    assert publication.properties.content_type is None
    subject = build_dead_letter_delivery(deliver(publication.body), queue="billing.dlq")
    assert isinstance(subject, MalformedDelivery) or subject.token is None


def test_long_routing_keys_are_cut_at_a_character(deliver: Make, envelope_json: Make) -> None:
    """A key that would pass 255 bytes with its prefix is cut at a UTF-8 boundary."""
    delivery = deliver(envelope_json(event_type="\u00e9" * 127))
    key = client_dead_letter(delivery, "bill", ERROR, message_id=MESSAGE_ID, at_s=1.0).routing_key
    assert key == "dlq.bill." + "\u00e9" * 123
    malformed = client_dead_letter(
        deliver(b""), "q" * 255, ERROR, message_id=MESSAGE_ID, at_s=1.0
    ).routing_key
    assert malformed == "dlq." + "q" * 251
