"""From a delivery to a dead letter: unwrap, read, name the occurrence (ADR-059 §unwrap)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from craig_mq.core.capture import CaptureOrder, build_capture
from craig_mq.core.dead_letter import (
    DeadLetter,
    DeadLetterDelivery,
    MalformedDelivery,
    build_dead_letter_delivery,
)
from craig_mq.core.death import Death
from craig_mq.core.delivery import Delivery, Properties
from craig_mq.core.envelope import decode_envelope
from craig_mq.core.token import broker_token, is_token

Make = Callable[..., Any]

TOKEN = "occ1:inbox:0192f0c123457abc8def0123456789ab"
X_DEATH_ENTRY = {
    "count": 1,
    "exchange": "events",
    "queue": "billing",
    "reason": "rejected",
    "routing-keys": ["invoice.created"],
    "time": 1_772_000_000,
}
DIALECT_3 = {
    "x-death": [X_DEATH_ENTRY, {**X_DEATH_ENTRY, "queue": "older"}],
    "x-first-death-exchange": "events",
    "x-first-death-queue": "billing",
    "x-first-death-reason": "rejected",
}
DIALECT_4 = {
    **{name: DIALECT_3[name] for name in reversed(DIALECT_3)},
    "x-last-death-exchange": "events",
    "x-last-death-queue": "billing",
    "x-last-death-reason": "rejected",
}


def _headers(**headers: Any) -> Properties:
    return Properties(headers={name.replace("_", "-"): value for name, value in headers.items()})


def test_a_handler_gets_the_whole_dead_letter(dead: Make, envelope_json: Make) -> None:
    """A dead letter carries envelope, token, names, counters, the original bytes and its death."""
    subject = dead(redelivered=True, properties=Properties(headers=DIALECT_3))
    assert subject.dead_letter(2) == DeadLetter(
        envelope=decode_envelope(envelope_json()),
        token=broker_token("0192f0c1-2345-7abc-8def-0123456789ab", "billing", "rejected", 1, 1_772_000_000),
        queue="billing.dlq",
        routing_key="dlq.billing.invoice",
        park_count=0,
        attempt=2,
        redelivered=True,
        body=envelope_json(),
        death=Death("billing", "rejected", "2026-02-25T06:13:20.000000Z", None, 1),
    )


def test_both_dialects_of_x_death_give_one_token(dead: Make) -> None:
    """PROP-05: the histories of brokers 3.x and 4.x name the same occurrence alike."""
    assert (
        dead(properties=Properties(headers=DIALECT_3)).token
        == dead(properties=Properties(headers=DIALECT_4)).token
    )


def test_the_producers_token_comes_first(dead: Make, envelope_json: Make) -> None:
    """A valid _dlx.token travels verbatim and wins over x-death; so do the producer's words."""
    dlx = {"token": TOKEN, "queue": "inbox", "reason": "gave_up", "failed_at": "yesterday", "error": "boom"}
    subject = dead(envelope_json(_dlx=dlx), properties=Properties(headers=DIALECT_3))
    assert subject.token == TOKEN
    assert subject.death == Death("inbox", "gave_up", "yesterday", "boom", None)


@pytest.mark.parametrize("token", [TOKEN.upper(), TOKEN + "\n", TOKEN.replace("inbox", "other"), "", None])
def test_an_invalid_producer_token_is_none(dead: Make, envelope_json: Make, token: str | None) -> None:
    """UUID-01: another spelling of a token is no token: derived from x-death instead, else tokenless."""
    body = envelope_json(_dlx={"token": token})
    assert dead(body).token is None
    derived = dead(body, properties=Properties(headers=DIALECT_3)).token
    assert derived is not None
    assert derived.startswith("occ1:broker:")


def test_a_top_level_token_is_never_trusted(dead: Make, envelope_json: Make) -> None:
    """A token member beside the envelope's own means nothing."""
    assert dead(envelope_json(token=TOKEN, occurrence_token=TOKEN)).token is None


@pytest.mark.parametrize(
    "history",
    [
        "abc",
        None,
        5,
        True,
        {},
        [],
        [1, 2, 3],
        ["x"],
        [None],
        [[]],
        [{}],
        [{"queue": "q"}],
        [{**X_DEATH_ENTRY, "count": "3"}],
        [{**X_DEATH_ENTRY, "count": True}],
        [{**X_DEATH_ENTRY, "count": -1}],
        [{**X_DEATH_ENTRY, "count": 2**63}],
        [{**X_DEATH_ENTRY, "count": 1.0}],
        [{**X_DEATH_ENTRY, "count": None}],
        [{**X_DEATH_ENTRY, "queue": b"\xff"}],
        [{**X_DEATH_ENTRY, "queue": 1}],
        [{**X_DEATH_ENTRY, "reason": []}],
        [{**X_DEATH_ENTRY, "time": "now"}],
        [{**X_DEATH_ENTRY, "time": None}],
        [{**X_DEATH_ENTRY, "time": -1}],
    ],
)
def test_a_hostile_history_leaves_the_delivery_tokenless(dead: Make, history: object) -> None:
    """PROP-05: an x-death of another shape gives no token and no death, and changes nothing else."""
    subject = dead(properties=_headers(x_death=history))
    assert (subject.token, subject.death, subject.carried.park_count) == (None, None, 0)


@pytest.mark.parametrize(("count", "time"), [(2**40, 1), (0, 0), (1, 2**63 - 1), (1, 253_402_300_800)])
def test_extreme_but_valid_histories_name_the_occurrence(dead: Make, count: int, time: int) -> None:
    """PROP-05: a count of 2**40, and times no calendar has, still give a token, and never an error."""
    subject = dead(properties=_headers(x_death=[{**X_DEATH_ENTRY, "count": count, "time": time}]))
    assert subject.token is not None
    assert is_token(subject.token)
    assert subject.death is not None
    assert subject.death.count == count
    assert (subject.death.failed_at is None) == (time > 253_402_300_799)


@pytest.mark.parametrize(
    "body",
    [b"", b"\xff\xfe\x00", b"hello", b"{", b"null", b"[]", b'"x"', b"123", b"\0" * 2**20],
    ids=lambda body: repr(body[:4]),
)
def test_an_unreadable_body_is_a_malformed_delivery(deliver: Make, body: bytes) -> None:
    """BODY-01: a body no handler can be given keeps its bytes and says why without quoting them."""
    subject = build_dead_letter_delivery(deliver(body), queue="billing.dlq")
    assert isinstance(subject, MalformedDelivery)
    assert (subject.body, subject.routing_key, subject.queue) == (body, "dlq.billing.invoice", "billing.dlq")
    assert subject.detail
    assert "hello" not in subject.detail


def test_undecodable_properties_make_a_malformed_delivery(deliver: Make, envelope_json: Make) -> None:
    """PROP-01: a delivery whose header could not be read is malformed though its body is good."""
    subject = build_dead_letter_delivery(deliver(envelope_json(), undecodable=b"\0\xff"), queue="billing.dlq")
    assert isinstance(subject, MalformedDelivery)
    assert json.loads(subject.original_properties()) == {"$raw_header": {"$bytes": "AP8="}}


@pytest.mark.parametrize("timestamp", [0, 1_772_000_000_000, 2**64 - 1])
def test_an_absurd_timestamp_is_just_a_number(dead: Make, timestamp: int) -> None:
    """PROP-01: a millisecond epoch, zero and the largest timestamp are handled."""
    subject = dead(properties=Properties(timestamp=timestamp))
    assert json.loads(subject.original_properties()) == {"timestamp": timestamp}


def test_a_parked_return_brings_everything_back(dead: Make, deliver: Make, order: Make) -> None:
    """After a park the dead letter is the same but for its park count, whatever the new properties say."""
    first = dead(properties=Properties(message_id="m", headers=DIALECT_3), routing_key="dlq.billing.x")
    parked = build_capture(first, order()).body
    forged = Properties(headers={"x-death": [{**X_DEATH_ENTRY, "queue": "forged"}]})
    back = build_dead_letter_delivery(
        deliver(parked, routing_key="dlq.other", properties=forged), queue="billing.dlq"
    )
    assert isinstance(back, DeadLetterDelivery)
    assert (back.token, back.death, back.routing_key, back.body) == (
        first.token,
        first.death,
        "dlq.billing.x",
        first.body,
    )
    assert (back.carried.park_count, back.carried.total_parks, back.carried.redrive_count) == (1, 1, 0)
    assert back.original_properties() == first.original_properties()
    assert back.wrapper_fault is None
    assert back.dead_letter(1).park_count == 1


def test_a_tokenless_delivery_stays_tokenless_when_parked(dead: Make, deliver: Make, order: Make) -> None:
    """A delivery without a token gains none by the wrapper, nor from the return leg's headers."""
    parked = build_capture(dead(), order()).body
    returned = deliver(parked, properties=Properties(headers=DIALECT_3))
    back = build_dead_letter_delivery(returned, queue="billing.dlq")
    assert isinstance(back, DeadLetterDelivery)
    assert back.token is None
    assert back.death is None


def test_an_invalid_wrapper_is_recorded_as_the_wrapper_envelope(
    dead: Make, deliver: Make, order: Make
) -> None:
    """A wrapper for another queue falls through: its own envelope, bytes and x-death are the dead letter."""
    parked = build_capture(dead(), order()).body
    wrapped = deliver(parked, properties=Properties(headers=DIALECT_3))
    fallen = build_dead_letter_delivery(wrapped, queue="other.dlq")
    assert isinstance(fallen, DeadLetterDelivery)
    assert fallen.wrapper_fault == "original_queue is another queue"
    assert fallen.body == parked
    assert fallen.envelope == decode_envelope(parked)
    assert fallen.token is not None
    assert (fallen.carried.capture_id, fallen.carried.park_count) == (None, 0)


def test_a_fallen_through_wrapper_can_be_parked_itself(dead: Make, deliver: Make, order: Make) -> None:
    """A refused wrapper is embedded like any envelope, and unwrapping takes off one layer only."""
    parked = build_capture(dead(), order()).body
    fallen = build_dead_letter_delivery(deliver(parked), queue="other.dlq")
    twice = build_capture(fallen, order()).body
    back = build_dead_letter_delivery(deliver(twice), queue="other.dlq")
    assert isinstance(back, DeadLetterDelivery)
    assert back.body == parked
    assert back.wrapper_fault is None


def test_a_truncated_capture_is_not_handed_to_a_handler(dead: Make, deliver: Make, order: Make) -> None:
    """A capture whose body was cut, put back into the dead-letter queue, is recorded as the wrapper."""
    cut = build_capture(dead(), order(), limit=0)
    assert cut.truncated
    fallen = build_dead_letter_delivery(deliver(cut.body), queue="billing.dlq")
    assert isinstance(fallen, DeadLetterDelivery)
    assert fallen.wrapper_fault == "the embedded body is truncated"
    assert fallen.body == cut.body


@given(
    body=st.binary(max_size=300),
    headers=st.dictionaries(
        st.sampled_from(["x-death", "x"]),
        st.recursive(
            st.none() | st.integers() | st.text(max_size=4) | st.binary(max_size=4),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(st.sampled_from(["queue", "reason", "count", "time"]), inner, max_size=4)
            ),
        ),
    ),
)
def test_no_delivery_crashes_the_reader(
    deliver: Make,
    envelope_json: Make,
    order: Callable[..., CaptureOrder],
    body: bytes,
    headers: dict[str, Any],
) -> None:
    """Any body under any headers becomes a subject that can be captured."""
    for content in (body, envelope_json()):
        delivery: Delivery = deliver(content, properties=Properties(headers=headers))
        subject = build_dead_letter_delivery(delivery, queue="billing.dlq")
        assert subject.body == content
        assert decode_envelope(build_capture(subject, order()).body)
