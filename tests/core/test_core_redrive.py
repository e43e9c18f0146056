"""Sending a quarantined capture back for another round (field failure RET-07)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from craig_mq.core.capture import build_capture
from craig_mq.core.capture_format import MAX_U32, QuarantineReason
from craig_mq.core.dead_letter import Carried, DeadLetterDelivery, build_dead_letter_delivery
from craig_mq.core.delivery import Properties
from craig_mq.core.envelope import decode_envelope
from craig_mq.core.redrive import NotRedrivable, Redriven, redrive

Make = Callable[..., Any]
X_DEATH = [{"queue": "billing", "reason": "rejected", "count": 1, "time": 1_772_000_000}]


def _quarantined(dead: Make, order: Make, carried: Carried) -> tuple[DeadLetterDelivery, bytes]:
    subject = msgspec.structs.replace(
        dead(properties=Properties(headers={"x-death": X_DEATH})), carried=carried
    )
    return subject, build_capture(subject, order(reason=QuarantineReason.PARK_CAP_EXHAUSTED)).body


def test_a_redriven_capture_goes_back_as_it_came(dead: Make, order: Make, deliver: Make) -> None:
    """RET-07: it returns under its ORIGINAL key with token, body and properties; only the counters change."""
    subject, body = _quarantined(dead, order, Carried("c", 12, 30, 1))
    redriven = redrive(decode_envelope(body))
    assert isinstance(redriven, Redriven)
    assert (redriven.routing_key, redriven.queue) == ("dlq.billing.invoice", "billing.dlq")
    assert redriven.redrive_count == 2
    back = build_dead_letter_delivery(deliver(redriven.body), queue="billing.dlq")
    assert isinstance(back, DeadLetterDelivery)
    assert (back.body, back.token, back.death) == (subject.body, subject.token, subject.death)
    assert back.token is not None
    assert (back.carried.park_count, back.carried.total_parks, back.carried.redrive_count) == (0, 30, 2)


def test_a_second_failure_quarantines_again(dead: Make, order: Make, deliver: Make) -> None:
    """RET-07: a redriven message that fails again makes a capture that can be redriven again."""
    _, body = _quarantined(dead, order, Carried("c", 12, 12, MAX_U32))
    redriven = redrive(decode_envelope(body))
    assert isinstance(redriven, Redriven)
    back = build_dead_letter_delivery(deliver(redriven.body), queue="billing.dlq")
    again = build_capture(back, order(reason=QuarantineReason.PERMANENT)).body
    assert json.loads(again)["payload"]["craig_capture"]["redrive_count"] == MAX_U32
    assert isinstance(redrive(decode_envelope(again)), Redriven)


def test_what_no_handler_can_be_given_stays(
    dead: Make, deliver: Make, order: Make, envelope_json: Make
) -> None:
    """A foreign envelope, an invalid wrapper, a malformed and a truncated capture are not redriven."""
    malformed = build_dead_letter_delivery(deliver(b"\xff"), queue="billing.dlq")
    bodies = {
        "it is no capture": envelope_json(),
        "Invalid enum": build_capture(dead(), order()).body.replace(b'"v":1', b'"v":2'),
        "no envelope": build_capture(malformed, order(reason=QuarantineReason.MALFORMED)).body,
        "truncated": build_capture(dead(), order(), limit=0).body,
    }
    for why, body in bodies.items():
        refused = redrive(decode_envelope(body))
        assert isinstance(refused, NotRedrivable)
        with pytest.raises(AttributeError):
            refused.body  # noqa: B018 -- a refusal has nothing to publish
        assert why in refused.why


def test_the_operator_may_keep_the_cycle_count_and_give_a_new_identity(
    dead: Make, order: Make, deliver: Make
) -> None:
    """A kept park count travels on, and a new identity is one token per capture and round."""
    subject, body = _quarantined(dead, order, Carried("c", 12, 30, 1))
    rounds = [redrive(decode_envelope(body), keep_park_count=True, new_identity=True) for _ in range(2)]
    assert rounds[0] == rounds[1]
    assert isinstance(rounds[0], Redriven)
    back = build_dead_letter_delivery(deliver(rounds[0].body), queue="billing.dlq")
    assert isinstance(back, DeadLetterDelivery)
    assert back.carried.park_count == 12
    assert back.token not in {None, subject.token}
