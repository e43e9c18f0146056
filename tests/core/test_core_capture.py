"""Captures: always publishable, never losing a byte (ADR-059 §capture, §size safety; BODY-10)."""

from __future__ import annotations

import base64
import hashlib
import json
import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from craig_mq.core.capture import MAX_MIRRORED_BYTES, build_capture
from craig_mq.core.capture_format import (
    MAX_CAPTURE_BYTES,
    MAX_U32,
    UNSET,
    CaptureKind,
    CaptureWire,
    OuterWire,
    QuarantineReason,
)
from craig_mq.core.dead_letter import Carried, MalformedDelivery, build_dead_letter_delivery
from craig_mq.core.delivery import Properties
from craig_mq.core.disposition import Disposition
from craig_mq.core.envelope import decode_envelope
from craig_mq.core.last_error import describe_error
from craig_mq.core.size_limit import DIGEST_ONLY, MIN_BODY_LIMIT_BYTES
from craig_mq.core.unwrap import Capture, original_bytes, unwrap_capture

Make = Callable[..., Any]
MIB = 2**20


def _strict(body: bytes) -> dict[str, Any]:
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    outer: dict[str, Any] = json.loads(body, parse_constant=refuse)
    assert list(outer) == ["id", "source_service", "event_type", "occurred_at", "payload"]
    assert list(outer["payload"]) == ["craig_capture"]
    inner: dict[str, Any] = outer["payload"]["craig_capture"]
    return inner


def _unwrap(body: bytes, queue: str = "billing.dlq") -> Capture:
    capture = unwrap_capture(decode_envelope(body), queue)
    assert isinstance(capture, Capture)
    return capture


def _malformed(deliver: Make, body: bytes) -> MalformedDelivery:
    subject = build_dead_letter_delivery(deliver(body), queue="billing.dlq")
    assert isinstance(subject, MalformedDelivery)
    return subject


def test_a_parked_capture_has_exactly_its_members(dead: Make, order: Make) -> None:
    """A parked capture mirrors the original outside and says everything of the format inside."""
    error = describe_error(ValueError("boom"))
    built = build_capture(dead(), order(disposition=Disposition.TRANSIENT_PARK, last_error=error))
    outer = json.loads(built.body)
    assert outer["id"] == "0192f0c1-2345-7abc-8def-0123456789ab"
    assert (outer["source_service"], outer["event_type"]) == ("billing", "invoice.created")
    assert outer["occurred_at"] == "2026-01-01T00:00:00.123456789+01:00"
    assert _strict(built.body) == {
        "v": 1,
        "kind": "parked",
        "capture_id": "0192f0c1-0000-7000-8000-000000000001",
        "original_queue": "billing.dlq",
        "original_routing_key": "dlq.billing.invoice",
        "park_count": 1,
        "total_parks": 1,
        "redrive_count": 0,
        "attempts": 3,
        "original_properties": {},
        "parked_at": "2026-02-25T06:13:20.500000Z",
        "disposition": "transient_park",
        "last_error": {"type": "ValueError", "text": "boom", "sha256": hashlib.sha256(b"boom").hexdigest()},
        "original_envelope": json.loads(dead().body),
    }
    assert (built.kind, built.reason, built.park_count) == (CaptureKind.PARKED, None, 1)
    assert (built.envelope_id, built.truncated) == (outer["id"], False)


def test_a_quarantined_capture_keeps_the_counts_and_says_why(dead: Make, order: Make) -> None:
    """A quarantined capture has quarantined_at and reason, and the park counts as they came."""
    subject = msgspec.structs.replace(dead(), carried=Carried("c", 12, 40, 2))
    built = build_capture(subject, order(reason=QuarantineReason.PARK_CAP_EXHAUSTED))
    capture = _strict(built.body)
    assert (capture["kind"], capture["reason"]) == ("quarantined", "park_cap_exhausted")
    assert (capture["park_count"], capture["total_parks"], capture["redrive_count"]) == (12, 40, 2)
    assert "parked_at" not in capture
    assert capture["quarantined_at"] == "2026-02-25T06:13:20.500000Z"


def test_a_malformed_capture_has_its_own_envelope(deliver: Make, order: Make) -> None:
    """A malformed capture has a fresh id, the queue as its service and dlq.malformed as its type."""
    built = build_capture(
        _malformed(deliver, b"\xff\0"), order(reason=QuarantineReason.MALFORMED, attempts=0)
    )
    outer = json.loads(built.body)
    assert outer["id"] == built.envelope_id == "0192f0c1-0000-7000-8000-000000000002"
    assert (outer["source_service"], outer["event_type"]) == ("billing.dlq", "dlq.malformed")
    capture = _strict(built.body)
    assert base64.b64decode(capture["original_body_b64"]) == b"\xff\0"
    assert "original_envelope" not in capture
    assert "occurrence_token" not in capture


@pytest.mark.parametrize(
    "body",
    [b"", b"\xff\xfe\x00", b"hello", b"{", b"null", b"[]", b'"x"', b"123", b"\0" * MIB],
    ids=lambda body: repr(body[:4]),
)
def test_a_malformed_body_is_kept_exactly(deliver: Make, order: Make, body: bytes) -> None:
    """BODY-01: the base64 in the capture decodes to the exact input bytes, also to none at all."""
    built = build_capture(_malformed(deliver, body), order(reason=QuarantineReason.MALFORMED))
    assert base64.b64decode(_strict(built.body)["original_body_b64"], validate=True) == body
    assert original_bytes(_unwrap(built.body)) == body


@given(
    payload=st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    ),
    before=st.text(" \t\r\n", max_size=3),
    after=st.text(" \t\r\n", max_size=3),
    indent=st.sampled_from([None, 1]),
)
def test_parking_and_returning_is_the_identity_on_bytes(
    *,
    dead: Make,
    deliver: Make,
    order: Make,
    envelope_json: Make,
    payload: Any,
    before: str,
    after: str,
    indent: int | None,
) -> None:
    """Whatever a valid body looks like, after any number of parks it comes back byte for byte."""
    body = (before + json.dumps(json.loads(envelope_json(payload=payload)), indent=indent) + after).encode()
    subject = dead(body)
    for parks in (1, 2, 3):
        capture = _unwrap(built.body) if (built := build_capture(subject, order())) else None
        assert capture is not None
        assert capture.park_count == capture.total_parks == parks
        subject = build_dead_letter_delivery(deliver(built.body), queue="billing.dlq")
        assert subject.body == body
        assert json.loads(built.body)["payload"]["craig_capture"]["park_count"] == parks


@pytest.mark.parametrize(
    "payload",
    [b"1e400", b"1" + b"0" * 5_000, b"[" * 510 + b"]" * 510, b'{"a":1,"a":2}'],
    ids=["1e400", "5001-digits", "510-deep", "repeated"],
)
def test_what_a_reader_cannot_convert_still_comes_back(
    dead: Make, deliver: Make, order: Make, envelope_json: Make, payload: bytes
) -> None:
    """BODY-05, BODY-06: huge numbers and the deepest readable nesting park and return unchanged."""
    body = envelope_json(payload="@").replace(b'"@"', payload)
    parked = build_capture(dead(body), order()).body
    assert build_dead_letter_delivery(deliver(parked), queue="billing.dlq").body == body


def test_whitespace_around_a_body_costs_base64(dead: Make, order: Make, envelope_json: Make) -> None:
    """BODY-08: a trailing newline is kept by embedding base64, which a raw JSON value would lose."""
    body = envelope_json() + b"\n"
    capture = _strict(build_capture(dead(body), order()).body)
    assert base64.b64decode(capture["original_body_b64"]) == body
    assert "original_envelope" not in capture


@pytest.mark.parametrize(
    ("size_mib", "compressed"), [(8, False), (8.9, False), (9, True), (9.1, True), (12, True), (16, True)]
)
def test_the_size_that_counts_is_the_serialised_one(
    deliver: Make, order: Make, size_mib: float, compressed: bool
) -> None:
    """BODY-10: base64's third is counted: from 9 MiB on a malformed body is compressed, and then whole."""
    body = b"\0" + b"malformed " * int(size_mib * MIB / 10)
    built = build_capture(_malformed(deliver, body), order(reason=QuarantineReason.MALFORMED))
    assert len(built.body) <= MAX_CAPTURE_BYTES
    assert (built.truncated, built.reason) == (False, QuarantineReason.MALFORMED)
    capture = _unwrap(built.body)
    assert (capture.body_zlib_b64 is not None) == compressed
    assert original_bytes(capture) == body


@pytest.mark.parametrize("size_mib", [9, 16])
def test_only_what_cannot_be_compressed_is_cut(deliver: Make, order: Make, size_mib: int) -> None:
    """BODY-10: random bytes beyond the limit are cut to a prefix with length and sha256 of the whole."""
    body = b"\xff" + random.Random(size_mib).randbytes(size_mib * MIB)
    built = build_capture(_malformed(deliver, body), order(reason=QuarantineReason.MALFORMED))
    assert MAX_CAPTURE_BYTES - 8 < len(built.body) <= MAX_CAPTURE_BYTES
    assert (built.truncated, built.reason) == (True, QuarantineReason.MALFORMED)
    capture = _strict(built.body)
    prefix = base64.b64decode(capture["original_body_b64"], validate=True)
    assert body.startswith(prefix)
    assert len(prefix) > 8.9 * MIB
    assert (capture["truncated"], capture["body_bytes"]) == (True, len(body))
    assert capture["body_sha256"] == hashlib.sha256(body).hexdigest()


@pytest.mark.parametrize("unit", ["\\u0000", "\u00e9"], ids=["escapes", "non-ascii"])
def test_escapes_do_not_expand_again(dead: Make, order: Make, envelope_json: Make, unit: str) -> None:
    """BODY-10: a 2.1 MiB envelope of escapes or non-ASCII text is embedded as it is, not escaped again."""
    text = (unit * int(2.1 * MIB / len(unit.encode()))).encode()
    body = envelope_json(payload="@").replace(b"@", text)
    built = build_capture(dead(body), order())
    assert len(built.body) - len(body) < 1_024
    assert _unwrap(built.body).envelope_json == body


def test_a_body_too_large_to_park_whole_is_quarantined_as_oversize(
    dead: Make, order: Make, envelope_json: Make
) -> None:
    """A park whose body must be cut becomes a quarantine, reason oversize, with the counts unchanged."""
    noise = base64.b64encode(random.Random(1).randbytes(12 * MIB)).decode()
    built = build_capture(dead(envelope_json(payload=noise)), order(disposition=Disposition.TRANSIENT_PARK))
    assert (built.kind, built.reason, built.truncated) == (
        CaptureKind.QUARANTINED,
        QuarantineReason.OVERSIZE,
        True,
    )
    capture = _strict(built.body)
    assert (capture["park_count"], capture["reason"], capture["kind"]) == (0, "oversize", "quarantined")
    assert (capture["disposition"], "parked_at" in capture) == ("transient_park", False)
    assert len(built.body) <= MAX_CAPTURE_BYTES


def test_a_large_body_that_compresses_is_parked(
    dead: Make, deliver: Make, order: Make, envelope_json: Make
) -> None:
    """A body over the limit that compresses under it parks and comes back byte for byte."""
    body = envelope_json(payload="x" * (13 * MIB))
    built = build_capture(dead(body), order())
    assert (built.kind, built.truncated) == (CaptureKind.PARKED, False)
    assert build_dead_letter_delivery(deliver(built.body), queue="billing.dlq").body == body


@settings(max_examples=60)
@given(
    limit=st.integers(MIN_BODY_LIMIT_BYTES, 2 * MIN_BODY_LIMIT_BYTES),
    noise=st.integers(0, 200_000),
    readable=st.booleans(),
    type_size=st.sampled_from([1, 2_000, 300_000]),
    header_size=st.sampled_from([0, 2_000, 120_000]),
    key=st.text(st.characters(), max_size=60),
    error=st.text(st.characters(), max_size=3_000),
    reason=st.sampled_from([None, QuarantineReason.PERMANENT]),
)
def test_no_capture_exceeds_its_limit(
    *,
    deliver: Make,
    order: Make,
    envelope_json: Make,
    limit: int,
    noise: int,
    readable: bool,
    type_size: int,
    header_size: int,
    key: str,
    error: str,
    reason: QuarantineReason | None,
) -> None:
    """Whatever body, headers, names and error, the serialised capture is within any limit from 64 KiB."""
    random_bytes = random.Random(noise).randbytes(noise)
    body = random_bytes
    if readable:
        body = envelope_json(payload=base64.b64encode(random_bytes).decode(), event_type="\x01" * type_size)
    properties = Properties(headers={"h": "\x02" * header_size})
    subject = build_dead_letter_delivery(
        deliver(body, properties=properties, routing_key=key), queue="billing.dlq"
    )
    built = build_capture(
        subject, order(last_error=describe_error(ValueError(error)), reason=reason), limit=limit
    )
    assert len(built.body) <= limit
    capture = _unwrap(built.body)
    content = original_bytes(capture)
    assert isinstance(content, bytes)
    assert body.startswith(content)
    assert (
        built.truncated
        == (capture.truncated)
        == (capture.reason is QuarantineReason.OVERSIZE or (reason is not None and capture.truncated))
    )
    assert (content == body) or built.truncated
    assert capture.last_error is not None
    assert len(capture.last_error.text.encode()) <= 2_048


def test_below_the_floor_a_capture_carries_no_body(dead: Make, order: Make, envelope_json: Make) -> None:
    """Under DIGEST_ONLY the capture has no body but its length and sha256, and is small whatever came."""
    body = envelope_json(payload="x" * MIB, event_type="t" * 5_000)
    subject = dead(body, properties=Properties(headers={"h": "v" * 100_000}))
    built = build_capture(
        subject, order(last_error=describe_error(ValueError("e" * 9_000))), limit=DIGEST_ONLY
    )
    capture = _strict(built.body)
    assert (capture["original_body_b64"], capture["truncated"], capture["reason"]) == ("", True, "oversize")
    assert (capture["body_bytes"], capture["body_sha256"]) == (len(body), hashlib.sha256(body).hexdigest())
    assert len(built.body) < 8_192
    properties = subject.original_properties()
    assert capture["original_properties"] == {
        "$omitted": {"bytes": len(properties), "sha256": hashlib.sha256(properties).hexdigest()}
    }
    assert json.loads(built.body)["event_type"] == "t" * MAX_MIRRORED_BYTES


def test_the_counts_saturate(dead: Make, order: Make) -> None:
    """A park at the top of u32 stays a valid capture."""
    subject = msgspec.structs.replace(dead(), carried=Carried("c", MAX_U32, MAX_U32, MAX_U32))
    capture = _unwrap(build_capture(subject, order()).body)
    assert (capture.park_count, capture.total_parks, capture.redrive_count) == (MAX_U32, MAX_U32, MAX_U32)


@pytest.mark.parametrize("size", [255, 126 * 2])
def test_a_routing_key_of_255_bytes_is_kept(dead: Make, order: Make, size: int) -> None:
    """NAME-01: a routing key of up to 255 bytes travels whole."""
    key = "dlq." + ("k" * (size - 4) if size == 255 else "\u00e9" * 125)
    assert len(key.encode()) in (255, 254)
    assert _unwrap(build_capture(dead(routing_key=key), order()).body).original_routing_key == key


def test_a_routing_key_that_is_no_text_is_spelled_out(deliver: Make, order: Make) -> None:
    """PROP-02: bytes of a routing key that are no UTF-8 are spelled out, so the capture stays JSON."""
    subject = build_dead_letter_delivery(deliver(b"", routing_key="dlq.\udcff\udcfe"), queue="billing.dlq")
    capture = _strict(build_capture(subject, order(reason=QuarantineReason.MALFORMED)).body)
    assert capture["original_routing_key"] == "dlq.\\udcff\\udcfe"


@given(
    service=st.text(max_size=300),
    key=st.text(st.characters(exclude_categories=()), max_size=40),
    token=st.sampled_from([None, "occ1:inbox:" + "0f" * 16]),
    headers=st.dictionaries(
        st.text(max_size=5), st.one_of(st.text(max_size=5), st.integers(0, 9)), max_size=2
    ),
    carried=st.sampled_from([Carried(), Carried("c", 3, 40, 2), Carried("c", MAX_U32, MAX_U32, 0)]),
    reason=st.sampled_from([None, QuarantineReason.PERMANENT, QuarantineReason.PARK_CAP_EXHAUSTED]),
    disposition=st.sampled_from([None, *Disposition]),
    error=st.sampled_from([None, ValueError('bo"om \u20ac'), OSError()]),
)
def test_the_common_capture_is_what_the_records_encode_to(
    dead: Make, order: Make, envelope_json: Make, **drawn: Any
) -> None:
    """The capture joined from pieces has the very bytes that its records are encoded to."""
    token, error = drawn["token"], drawn["error"]
    body = envelope_json(source_service=drawn["service"], _dlx=... if token is None else {"token": token})
    subject = dead(body, routing_key=drawn["key"], properties=Properties(headers=drawn["headers"], type="t"))
    subject = msgspec.structs.replace(subject, carried=drawn["carried"])
    asked = order(
        reason=drawn["reason"],
        disposition=drawn["disposition"],
        last_error=None if error is None else describe_error(error),
    )
    built = build_capture(subject, asked).body
    outer = msgspec.json.decode(built, type=OuterWire)
    wire = msgspec.json.decode(outer.payload.craig_capture, type=CaptureWire)
    assert (wire.original_envelope, wire.occurrence_token is UNSET) == (msgspec.Raw(body), token is None)
    outer.payload.craig_capture = msgspec.Raw(msgspec.json.encode(wire))
    assert msgspec.json.encode(outer) == built
