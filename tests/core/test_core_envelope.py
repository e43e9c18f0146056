"""The body rules: what is an envelope, byte for byte (field failures BODY-01, -03, -05, -06, -08)."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from craig_mq.core.envelope import EventEnvelope, ExplicitDeadLetter, decode_envelope, encode_envelope
from craig_mq.core.errors import EnvelopeNotSerializable, MalformedBody
from craig_mq.core.json_text import MAX_NESTING

Write = Callable[..., bytes]

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


def _with_payload(envelope_json: Write, payload: bytes) -> bytes:
    return envelope_json(payload="@").replace(b'"@"', payload)


def test_an_envelope_is_read_verbatim(envelope_json: Write) -> None:
    """Every member comes out as it was written: id in its case, nine digits of seconds, payload bytes."""
    upper = "0192F0C1-2345-7ABC-8DEF-0123456789AB"
    body = _with_payload(envelope_json, b'{ "n" : 1.0e0 ,"n":2 }').replace(
        b"0192f0c1-2345-7abc-8def-0123456789ab", upper.encode()
    )
    assert decode_envelope(body) == EventEnvelope(
        id=upper,
        source_service="billing",
        event_type="invoice.created",
        occurred_at="2026-01-01T00:00:00.123456789+01:00",
        payload=b'{ "n" : 1.0e0 ,"n":2 }',
        dlx=None,
    )


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff\xfe\x00",
        b"hello",
        b"{",
        b"null",
        b"[]",
        b'"x"',
        b"123",
        b"{}",
        b"\0" * 2**20,
        b"[" * 100_000,
    ],
    ids=lambda body: repr(body[:8]),
)
def test_what_is_no_json_object_is_malformed(body: bytes) -> None:
    """BODY-01: empty, binary, broken and non-object bodies are malformed, whatever they hold."""
    with pytest.raises(MalformedBody):
        decode_envelope(body)


@pytest.mark.parametrize("payload", [b"NaN", b"Infinity", b"-Infinity", b'{"x":NaN}', b"[-Infinity]"])
def test_a_token_json_does_not_have_is_malformed(envelope_json: Write, payload: bytes) -> None:
    """BODY-03: NaN and Infinity are malformed, so no capture can ever hold them."""
    with pytest.raises(MalformedBody):
        decode_envelope(_with_payload(envelope_json, payload))


@pytest.mark.parametrize(
    "payload",
    [
        b"1e400",
        b"-1E-9999",
        b"1" + b"0" * 4_300,
        b"0." + b"3" * 500,
        b"12345678901234567890",
        b"-0",
        b"1.0",
        b'"\\ud83d\\ude00"',
        b'"\\\\ud800"',
        b'{"a":1,"a":2}',
        b'"\x7f"',
        '"\u2028"'.encode(),
    ],
)
def test_what_a_reader_need_not_convert_is_kept(envelope_json: Write, payload: bytes) -> None:
    """BODY-05: huge, long and nested-repeated values are valid and come out as the same bytes."""
    assert decode_envelope(_with_payload(envelope_json, payload)).payload == payload


@pytest.mark.parametrize(
    "payload",
    [
        b'"\\ud800"',
        b'"\\udc00"',
        b'"\\ud800\\u0041"',
        b'{"\\ud800":1}',
        b'"\xed\xa0\x80"',
        b'"\xff"',
        b'"a\nb"',
        b'"\\x"',
        b"01",
        b"1.",
        b".5",
        b"+1",
        b"[1,]",
        b'{"a":1,}',
        b"",
        b"1 2",
        b"'a'",
        b"/**/1",
        b"True",
    ],
)
def test_what_is_not_json_inside_the_payload_is_malformed(envelope_json: Write, payload: bytes) -> None:
    """Lone surrogates, invalid UTF-8, bad escapes and bad numbers are malformed however deep they lie."""
    for wrapped in (payload, b"[" + payload + b"]", b'{"k":' + payload + b"}"):
        if wrapped != b"[]":
            with pytest.raises(MalformedBody):
                decode_envelope(_with_payload(envelope_json, wrapped))


@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"k":', b"}")])
def test_the_verdict_on_nesting_is_one_number(envelope_json: Write, opening: bytes, closing: bytes) -> None:
    """BODY-06: up to 512 levels in all a body is read, one more is malformed, on any call stack."""

    def nested(levels: int) -> bytes:
        inner = levels - 1  # the envelope itself is one
        return _with_payload(envelope_json, opening * inner + b"1" + closing * inner)

    assert len(decode_envelope(nested(MAX_NESTING)).payload) > MAX_NESTING

    def deep_in_the_stack(frames: int) -> EventEnvelope:
        return deep_in_the_stack(frames - 1) if frames else decode_envelope(nested(MAX_NESTING))

    assert deep_in_the_stack(200) == decode_envelope(nested(MAX_NESTING))
    for levels in (MAX_NESTING + 1, 900, 980, 990, 994, 1_000, 5_000, 100_000):
        with pytest.raises(MalformedBody, match="nested deeper"):
            decode_envelope(nested(levels))


def test_many_shallow_brackets_are_no_nesting(envelope_json: Write) -> None:
    """BODY-06: thousands of siblings, or brackets inside strings, are not depth."""
    siblings = b"[" + b",".join([b"[{}]"] * 2_000) + b"]"
    text = b'"' + b"[" * 2_000 + b'\\"[{"'
    for payload in (siblings, text):
        assert decode_envelope(_with_payload(envelope_json, payload)).payload == payload


def test_a_stack_that_is_nearly_full_makes_a_malformed_body_not_a_crash(envelope_json: Write) -> None:
    """BODY-06: where even an allowed depth does not fit the caller's stack, the body is malformed."""
    body = _with_payload(envelope_json, b"[" * 500 + b"]" * 500)

    def verdict(frames: int) -> str:
        if frames:
            return verdict(frames - 1)
        try:
            return decode_envelope(body).id
        except MalformedBody as refused:
            return str(refused)

    # Python 3.11 has one limit for Python and C frames; later versions may read it here too.
    expected = "recursion" if sys.version_info < (3, 12) else ""
    assert expected in verdict(560)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_only_utf8_without_bom_is_read(envelope_json: Write, encoding: str) -> None:
    """BODY-08: a BOM, UTF-16 and UTF-32 are malformed."""
    with pytest.raises(MalformedBody):
        decode_envelope(envelope_json().decode().encode(encoding))


def test_exactly_one_document_with_any_whitespace_around_is_read(envelope_json: Write) -> None:
    """BODY-08: surrounding whitespace is fine, a second document is malformed."""
    body = envelope_json()
    assert decode_envelope(b" \r\n\t" + body + b"\n") == decode_envelope(body)
    for tail in (body, b"\n" + body, b"x", b"\0", b"\x0b"):
        with pytest.raises(MalformedBody):
            decode_envelope(body + tail)


@pytest.mark.parametrize("member", ["id", "source_service", "event_type", "occurred_at", "payload"])
def test_each_member_is_needed_and_typed(envelope_json: Write, member: str) -> None:
    """A missing member, and a member of another type, is malformed: nothing is coerced."""
    with pytest.raises(MalformedBody):
        decode_envelope(envelope_json(**{member: ...}))
    if member != "payload":
        for wrong in (None, 1, True, 1.0, [], {}):
            with pytest.raises(MalformedBody):
                decode_envelope(envelope_json(**{member: wrong}))


@pytest.mark.parametrize("name", ["id", "payload", "unknown", "_dlx"])
@pytest.mark.parametrize("spelling", ["plain", "escaped", "spaced"])
def test_a_repeated_name_at_the_top_is_malformed(envelope_json: Write, name: str, spelling: str) -> None:
    """A name twice at the top level is malformed, also when spelled with an escape or with whitespace."""
    body = envelope_json(unknown=1, _dlx={})
    key = json.dumps(name) if spelling != "escaped" else f'"\\u{ord(name[0]):04x}{name[1:]}"'
    value = json.dumps(json.loads(body)[name])
    space = " \n" if spelling == "spaced" else ""
    repeated = b"{" + f"{space}{key}{space}:{space}{value}{space},".encode() + body[1:]
    with pytest.raises(MalformedBody, match="repeated"):
        decode_envelope(repeated)


def test_names_may_repeat_below_the_top(envelope_json: Write) -> None:
    """The same names inside values are nobody's business, whatever whitespace surrounds the members."""
    payload = {"id": "id", "payload": ["id", "payload", ':"id"'], "source_service": {"id": 1}}
    pretty = json.dumps(
        json.loads(envelope_json(payload=payload, **{"unknown \u00e9\n": [1]})), indent=2
    ).encode()
    assert json.loads(decode_envelope(pretty).payload) == payload


def test_an_escaped_name_that_does_not_repeat_is_fine(envelope_json: Write) -> None:
    """A name spelled with an escape is the name it stands for."""
    body = envelope_json().replace(b'"id"', b'"\\u0069d"')
    assert decode_envelope(body) == decode_envelope(envelope_json())


@given(
    st.dictionaries(st.text(max_size=4).filter(lambda name: name != "_dlx"), JSON_VALUES, max_size=4),
    st.sampled_from([None, 0, 2]),
    st.booleans(),
)
@example({"a\\": '"'}, 2, True)
@example({"": ""}, None, False)
def test_unknown_members_never_look_repeated(
    envelope_json: Write, extra: dict[str, Any], indent: int | None, ascii_only: bool
) -> None:
    """Any set of unknown members, in any spelling a writer chooses, is accepted; doubling one is not."""
    known = json.loads(envelope_json())
    members = {**extra, **known}
    body = json.dumps(members, indent=indent, ensure_ascii=ascii_only).encode()
    assert decode_envelope(body).id == known["id"]
    name = next(iter(members))
    doubled = b"{" + json.dumps(name, ensure_ascii=not ascii_only).encode() + b":null," + body.lstrip()[1:]
    with pytest.raises(MalformedBody):
        decode_envelope(doubled)


@given(st.binary(max_size=200))
def test_no_bytes_crash_the_reader(body: bytes) -> None:
    """Any bytes at all are an envelope or MalformedBody."""
    with pytest.raises(MalformedBody):
        decode_envelope(body)


@given(JSON_VALUES, st.text(max_size=8), st.booleans())
def test_a_valid_body_is_never_refused(
    envelope_json: Write, payload: Any, service: str, ascii_only: bool
) -> None:
    """Whatever the payload and texts, the verdict is valid and the payload is the written bytes."""
    raw = json.dumps(payload, ensure_ascii=ascii_only).encode()
    body = _with_payload(lambda **members: envelope_json(source_service=service, **members), raw)
    envelope = decode_envelope(body)
    assert envelope.source_service == service
    assert envelope.payload == raw


@pytest.mark.parametrize(
    "text", ["2026-01-01T00:00:00", "2026-W01-1", "2026-01-01", "2026-01-01T23:59:60Z", "1767225600", ""]
)
def test_an_event_happened_at_an_instant(envelope_json: Write, text: str) -> None:
    """CLK-03: a naive or impossible occurred_at makes the body malformed."""
    with pytest.raises(MalformedBody, match="occurred_at"):
        decode_envelope(envelope_json(occurred_at=text))


@pytest.mark.parametrize(
    "text", ["9999-12-31T23:59:59Z", "0001-01-01T00:00:00+14:00", "2026-01-01T00:00:00-07:28"]
)
def test_occurred_at_travels_as_it_is(envelope_json: Write, text: str) -> None:
    """CLK-03: an occurred_at at either end of the calendar is kept byte for byte."""
    assert decode_envelope(envelope_json(occurred_at=text)).occurred_at == text


@pytest.mark.parametrize(
    "text", ["{0192f0c1-2345-7abc-8def-0123456789ab}", "0192f0c123457abc8def0123456789ab", ""]
)
def test_an_id_is_a_hyphenated_uuid(envelope_json: Write, text: str) -> None:
    """UUID-01: an id in another spelling makes the body malformed."""
    with pytest.raises(MalformedBody, match="UUID"):
        decode_envelope(envelope_json(id=text))


def test_the_explicit_producers_words_are_read(envelope_json: Write) -> None:
    """The members of _dlx are optional texts; null is an absent one."""
    dlx = {"token": "t", "queue": "q", "reason": "r", "failed_at": "f", "error": "e", "extra": 1}
    assert decode_envelope(envelope_json(_dlx=dlx)).dlx == ExplicitDeadLetter("t", "q", "r", "f", "e")
    assert decode_envelope(envelope_json(_dlx={"token": None})).dlx == ExplicitDeadLetter()
    assert decode_envelope(envelope_json(_dlx=None)).dlx is None


@pytest.mark.parametrize("dlx", [1, "text", [], True, {"token": 1}, {"queue": []}])
def test_a_mistyped_dlx_is_malformed(envelope_json: Write, dlx: object) -> None:
    """A _dlx of another type, or with a member of another type, makes the body malformed."""
    with pytest.raises(MalformedBody, match="_dlx"):
        decode_envelope(envelope_json(_dlx=dlx))


def test_writing_an_envelope_reads_back_the_same(envelope_json: Write) -> None:
    """An envelope that is written is an envelope that is read, _dlx included, payload verbatim."""
    for members in ({}, {"_dlx": {"token": "t", "error": None}}, {"source_service": "\u00e9\n"}):
        envelope = decode_envelope(envelope_json(**members))
        assert decode_envelope(encode_envelope(envelope)) == envelope


@pytest.mark.parametrize(
    "change",
    [{"id": "x"}, {"payload": b"NaN"}, {"payload": b""}, {"event_type": "\ud800"}, {"source_service": 1}],
)
def test_an_envelope_that_cannot_be_written_says_so(envelope_json: Write, change: dict[str, Any]) -> None:
    """An envelope the body rules do not allow raises EnvelopeNotSerializable."""
    with pytest.raises(EnvelopeNotSerializable):
        encode_envelope(msgspec.structs.replace(decode_envelope(envelope_json()), **change))
