"""Unwrapping judges: version 1 exactly, or the wrapper is recorded as itself (ADR-059 §unwrap)."""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from craig_mq.core.capture import build_capture
from craig_mq.core.capture_format import MAX_U32, CaptureKind, QuarantineReason
from craig_mq.core.dead_letter import DeadLetterDelivery, build_dead_letter_delivery
from craig_mq.core.disposition import Disposition
from craig_mq.core.envelope import decode_envelope
from craig_mq.core.last_error import LastError
from craig_mq.core.unwrap import (
    Capture,
    InvalidWrapper,
    open_body,
    original_bytes,
    read_capture,
    unwrap_capture,
)

Make = Callable[..., Any]
TOKEN = "occ1:broker:0192f0c123457abc8def0123456789ab"
MIB = 2**20


@pytest.fixture
def wrapper(dead: Make, order: Make) -> Callable[..., bytes]:
    """A function writing a good wrapper whose members are overridden, added, or dropped by ``...``."""

    def write(**members: Any) -> bytes:
        outer = json.loads(build_capture(dead(), order()).body)
        inner = {**outer["payload"]["craig_capture"], **members}
        outer["payload"]["craig_capture"] = {name: value for name, value in inner.items() if value is not ...}
        return json.dumps(outer, separators=(",", ":")).encode()

    return write


def _judge(body: bytes, queue: str = "billing.dlq") -> Capture | InvalidWrapper | None:
    return unwrap_capture(decode_envelope(body), queue)


def _verdict(deliver: Make, body: bytes) -> str | None:
    """Judge a body the way a session does: the fault of its wrapper, None where it is valid."""
    subject = build_dead_letter_delivery(deliver(body), queue="billing.dlq")
    assert isinstance(subject, DeadLetterDelivery)
    assert (subject.wrapper_fault is None) or subject.body == body
    return subject.wrapper_fault


def test_a_capture_is_read_back_whole(dead: Make, order: Make) -> None:
    """Everything a capture says is read back, typed."""
    error = LastError("ValueError", "boom", hashlib.sha256(b"boom").hexdigest())
    built = build_capture(
        dead(),
        order(reason=QuarantineReason.PERMANENT, disposition=Disposition.PERMANENT, last_error=error),
    )
    assert _judge(built.body) == Capture(
        kind=CaptureKind.QUARANTINED,
        capture_id=built.capture_id,
        original_queue="billing.dlq",
        original_routing_key="dlq.billing.invoice",
        occurrence_token=None,
        park_count=0,
        total_parks=0,
        redrive_count=0,
        attempts=3,
        at="2026-02-25T06:13:20.500000Z",
        disposition=Disposition.PERMANENT,
        reason=QuarantineReason.PERMANENT,
        last_error=error,
        original_properties=b"{}",
        envelope_json=dead().body,
        body_b64=None,
        body_zlib_b64=None,
        truncated=False,
        body_bytes=None,
        body_sha256=None,
    )


@pytest.mark.parametrize(
    "payload",
    [
        None,
        1,
        [],
        {},
        "craig_capture",
        ["craig_capture"],
        {"x": {"craig_capture": {}}},
        {"x": '"craig_capture"'},
    ],
)
def test_an_ordinary_payload_claims_nothing(envelope_json: Make, payload: object) -> None:
    """A payload that is no object with a craig_capture member is no capture, wherever the word occurs."""
    assert read_capture(decode_envelope(envelope_json(payload=payload))) is None


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({"v": 2}, "v"),
        ({"v": True}, "v"),
        ({"v": "1"}, "v"),
        ({"v": ...}, "v"),
        ({"kind": "other"}, "kind"),
        ({"kind": "quarantined"}, "quarantined without"),
        ({"capture_id": "9b2ec9ab-2d5c-4a68-9c1f-0a6a3a6f4c11"}, "UUIDv7"),
        ({"capture_id": "0192F0C1-0000-7000-8000-000000000001"}, "UUIDv7"),
        ({"original_queue": "other.dlq"}, "another queue"),
        ({"original_queue": None}, "original_queue"),
        ({"original_routing_key": 1}, "original_routing_key"),
        ({"occurrence_token": TOKEN.upper()}, "grammar"),
        ({"occurrence_token": None}, "occurrence_token"),
        ({"parked_at": ...}, "parked without"),
        ({"parked_at": "2026-01-01T00:00:00"}, "parked without"),
        ({"parked_at": 1_767_225_600}, "parked_at"),
        ({"parked_at": None}, "parked_at"),
        ({"quarantined_at": "2026-01-01T00:00:00Z"}, "other kind"),
        ({"original_envelope": ...}, "exactly one"),
        ({"original_body_b64": ""}, "exactly one"),
        ({"original_properties": []}, "no object"),
        ({"original_properties": ...}, "original_properties"),
        ({"disposition": "PERMANENT"}, "disposition"),
        ({"reason": "because"}, "reason"),
        ({"last_error": {"type": "t", "text": "x"}}, "sha256"),
        ({"last_error": {"type": "t", "text": "x", "sha256": "0"}}, "sha256"),
        ({"truncated": False}, "truncated"),
        ({"truncated": True, "body_bytes": 1}, "truncated without"),
        ({"unknown": 1}, "unknown"),
        ({"attempts": -1}, "attempts"),
        ({"redrive_count": 1.5}, "redrive_count"),
        ({"total_parks": ...}, "total_parks"),
        ({"body_bytes": 2**27 + 1}, "body_bytes"),
        ({"original_envelope": {}}, "no envelope"),
        ({"original_envelope": None}, "no envelope"),
    ],
)
def test_anything_but_version_one_is_an_invalid_wrapper(
    deliver: Make, wrapper: Callable[..., bytes], members: dict[str, Any], said: str
) -> None:
    """A wrapper with a missing, mistyped, unknown or contradictory member falls through, and says why."""
    fault = _verdict(deliver, wrapper(**members))
    assert fault is not None
    assert said in fault


@pytest.mark.parametrize("count", [0, 1, 12, 13, 100, 2**31, MAX_U32])
def test_any_u32_is_a_valid_park_count(wrapper: Callable[..., bytes], count: int) -> None:
    """BODY-05: park_count is judged as u32 only; the cap is policy, never validity."""
    capture = _judge(wrapper(park_count=count))
    assert isinstance(capture, Capture)
    assert capture.park_count == count


@pytest.mark.parametrize(
    "literal",
    [
        "4294967296",
        "9223372036854775808",
        "18446744073709551616",
        "-1",
        "1.0",
        "1e1",
        "true",
        '"3"',
        "null",
        "[]",
        "1" + "0" * 5_000,
    ],
)
def test_no_other_park_count_is_valid(wrapper: Callable[..., bytes], literal: str) -> None:
    """BODY-05: 2**32 and beyond, 5,000 digits, -1, 1.0, true and "3" make an invalid wrapper, no crash."""
    body = wrapper().replace(b'"park_count":1,', f'"park_count":{literal},'.encode())
    assert isinstance(_judge(body), InvalidWrapper)


@pytest.mark.parametrize("name", ["park_count", "v", "original_envelope"])
def test_a_repeated_name_in_the_capture_is_invalid(wrapper: Callable[..., bytes], name: str) -> None:
    """A name twice inside the capture, or craig_capture twice in the payload, is an invalid wrapper."""
    body = wrapper()
    value = json.dumps(json.loads(body)["payload"]["craig_capture"][name], separators=(",", ":"))
    assert _judge(body.replace(b'{"v":1,', f'{{"{name}":{value},"v":1,'.encode())) == InvalidWrapper(
        "a name is repeated in the capture"
    )
    twice = body.replace(b'"payload":{', b'"payload":{"craig_capture":{},')
    assert _judge(twice) == InvalidWrapper("a name is repeated in the capture")


def test_spelling_makes_no_difference(wrapper: Callable[..., bytes]) -> None:
    """A wrapper written with whitespace and another order of members is as valid."""
    outer = json.loads(wrapper())
    inner = outer["payload"]["craig_capture"]
    outer["payload"] = {"craig_capture": dict(reversed(inner.items()))}
    assert isinstance(_judge(json.dumps(outer, indent=2).encode()), Capture)


@pytest.mark.parametrize("beside", [b'"payload":{"x":1,', b'"payload":{"":null,'])
def test_a_capture_has_its_payload_to_itself(wrapper: Callable[..., bytes], beside: bytes) -> None:
    """A second member beside craig_capture makes an invalid wrapper."""
    assert isinstance(_judge(wrapper().replace(b'"payload":{', beside)), InvalidWrapper)


@pytest.mark.parametrize(
    "text", ["9999-12-31T23:59:59Z", "0001-01-01T00:00:00+14:00", "2026-01-01T00:00:00.123456789-07:28"]
)
def test_a_parked_at_anywhere_in_the_calendar_is_valid(wrapper: Callable[..., bytes], text: str) -> None:
    """CLK-03: parked_at at either end of the calendar is valid and kept verbatim."""
    capture = _judge(wrapper(parked_at=text))
    assert isinstance(capture, Capture)
    assert capture.at == text


def _zlib(body: bytes) -> str:
    return base64.b64encode(zlib.compress(body)).decode()


def test_a_compressed_body_is_inflated_within_its_declared_length(
    wrapper: Callable[..., bytes], envelope_json: Make
) -> None:
    """A compressed body comes back whole; a sha256 beside it is checked."""
    body = envelope_json()
    good = {"original_envelope": ..., "original_body_zlib_b64": _zlib(body), "body_bytes": len(body)}
    for more in ({}, {"body_sha256": hashlib.sha256(body).hexdigest()}):
        capture = _judge(wrapper(**good, **more))
        assert isinstance(capture, Capture)
        assert open_body(capture) == (decode_envelope(body), body)
    wrong = _judge(wrapper(**good, body_sha256="0" * 64))
    assert isinstance(wrong, Capture)
    assert open_body(wrong) == InvalidWrapper("the embedded body does not match its sha256")


@pytest.mark.parametrize(
    "members",
    [
        {"original_body_zlib_b64": _zlib(b"x" * 100), "body_bytes": 99},
        {"original_body_zlib_b64": _zlib(b"\0" * (64 * MIB)), "body_bytes": 10},
        {"original_body_zlib_b64": _zlib(b"x" * 100)[:-8], "body_bytes": 100},
        {"original_body_zlib_b64": base64.b64encode(zlib.compress(b"x") + b"junk").decode(), "body_bytes": 1},
        {"original_body_zlib_b64": "AAAA", "body_bytes": 1},
        {"original_body_zlib_b64": "*", "body_bytes": 1},
        {"original_body_b64": "*"},
        {"original_body_b64": "\u00e9"},
    ],
    ids=["longer", "bomb", "cut", "trailing", "no-zlib", "no-base64", "plain-no-base64", "non-ascii"],
)
def test_a_body_that_does_not_open_is_an_invalid_wrapper(
    deliver: Make, wrapper: Callable[..., bytes], members: dict[str, Any]
) -> None:
    """A bomb, a cut or forged stream, or bad base64 falls through, never inflated past its length."""
    fault = _verdict(deliver, wrapper(original_envelope=..., **members))
    assert fault is not None
    assert "embedded body cannot be read" in fault


def test_a_compressed_body_must_declare_its_length(wrapper: Callable[..., bytes]) -> None:
    """A compressed body without body_bytes is an invalid wrapper."""
    assert _judge(wrapper(original_envelope=..., original_body_zlib_b64=_zlib(b"x"))) == InvalidWrapper(
        "body_bytes is missing"
    )


def test_a_prefix_is_readable_for_an_operator(wrapper: Callable[..., bytes]) -> None:
    """The prefix of a truncated body can be read, but is never handed to a handler."""
    capture = _judge(
        wrapper(
            original_envelope=...,
            original_body_b64=base64.b64encode(b"pre").decode(),
            truncated=True,
            body_bytes=100,
            body_sha256="0" * 64,
        )
    )
    assert isinstance(capture, Capture)
    assert original_bytes(capture) == b"pre"
    assert open_body(capture) == InvalidWrapper("the embedded body is truncated")


@given(
    st.dictionaries(
        st.sampled_from(
            [
                "v",
                "kind",
                "capture_id",
                "park_count",
                "original_envelope",
                "original_properties",
                "parked_at",
                "original_body_b64",
                "original_body_zlib_b64",
                "body_bytes",
                "truncated",
                "occurrence_token",
                "x",
            ]
        ),
        st.none()
        | st.booleans()
        | st.integers()
        | st.text(max_size=5)
        | st.just({})
        | st.just([])
        | st.just(...),
        max_size=4,
    )
)
def test_a_forged_wrapper_is_valid_or_recorded_as_itself(
    dead: Make, order: Make, deliver: Make, members: dict[str, Any]
) -> None:
    """Whatever is forged, the result is the embedded original, or the wrapper envelope byte for byte."""
    outer = json.loads(build_capture(dead(), order()).body)
    inner = {**outer["payload"]["craig_capture"], **members}
    outer["payload"]["craig_capture"] = {name: value for name, value in inner.items() if value is not ...}
    body = json.dumps(outer, separators=(",", ":")).encode()
    subject = build_dead_letter_delivery(deliver(body), queue="billing.dlq")
    assert isinstance(subject, DeadLetterDelivery)
    if subject.wrapper_fault is None:
        assert subject.body == dead().body
    else:
        assert (subject.body, subject.envelope, subject.token) == (body, decode_envelope(body), None)
        assert subject.carried.park_count == 0
