"""Occurrence tokens and UUIDs: one spelling only (field failure UUID-01)."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from craig_mq.core.capture_format import is_capture_id, uuid7
from craig_mq.core.envelope import is_uuid
from craig_mq.core.token import broker_token, inbox_token, is_token

HEX = "0192f0c123457abc8def0123456789ab"
CANONICAL = "0192f0c1-2345-7abc-8def-0123456789ab"
FULL_WIDTH = CANONICAL.replace("0", "\uff10")
SPELLINGS = [
    "{" + CANONICAL + "}",
    "urn:uuid:" + CANONICAL,
    HEX,
    "1-2345678-" + HEX[8:],
    FULL_WIDTH,
    CANONICAL + "\n",
    " " + CANONICAL,
    "",
]


@pytest.mark.parametrize("text", SPELLINGS)
def test_other_spellings_of_a_uuid_are_no_envelope_id_and_no_capture_id(text: str) -> None:
    """UUID-01: braces, urn:uuid:, misplaced hyphens, full-width digits, newlines are refused."""
    assert not is_uuid(text)
    assert not is_capture_id(text)


def test_an_envelope_id_may_be_any_uuid_in_any_case() -> None:
    """UUID-01: upper case, the nil UUID and version 4 are envelope ids; a capture id is a lower-case v7."""
    for text in (
        CANONICAL.upper(),
        "00000000-0000-0000-0000-000000000000",
        "9b2ec9ab-2d5c-4a68-9c1f-0a6a3a6f4c11",
    ):
        assert is_uuid(text)
        assert not is_capture_id(text)
    assert is_capture_id(CANONICAL)


@pytest.mark.parametrize(
    "text",
    [
        f"occ1:broker:{HEX.upper()}",
        f"occ1:broker:{CANONICAL}",
        f"occ1:other:{HEX}",
        f"occ2:broker:{HEX}",
        f"OCC1:broker:{HEX}",
        f"occ1:broker:{HEX}\n",
        f" occ1:broker:{HEX}",
        f"occ1:broker:{HEX[:-1]}",
        f"occ1:broker:{HEX}0",
        f"occ1:broker:{HEX[:-1]}\uff11",
        "",
    ],
)
def test_only_the_exact_grammar_is_a_token(text: str) -> None:
    """UUID-01: any other spelling of a token is none."""
    assert not is_token(text)


@pytest.mark.parametrize("producer", ["broker", "inbox"])
def test_both_producers_mint_tokens(producer: str) -> None:
    """occ1, a known producer and 32 lower-case hex digits are a token."""
    assert is_token(f"occ1:{producer}:{HEX}")


def test_a_derived_token_is_stable_and_tells_occurrences_apart() -> None:
    """The same occurrence gives the same token; any other queue, reason, count, second or id another."""
    base = (CANONICAL, "billing", "rejected", 1, 1_772_000_000)
    token = broker_token(*base)
    assert is_token(token)
    assert token == broker_token(*base) == broker_token(CANONICAL.upper(), *base[1:])
    others = [
        ("1192f0c1-2345-7abc-8def-0123456789ab", *base[1:]),
        (base[0], "billing2", *base[2:]),
        (*base[:2], "expired", *base[3:]),
        (*base[:3], 2, base[4]),
        (*base[:4], 1_772_000_001),
    ]
    assert len({token, *(broker_token(*other) for other in others)}) == 6


def test_an_inbox_token_names_its_producer() -> None:
    """A client-made dead letter's token is an inbox token that depends on the moment of failure."""
    token = inbox_token(CANONICAL, "billing", "2026-01-01T00:00:00.000000Z")
    assert is_token(token)
    assert token.startswith("occ1:inbox:")
    assert token != inbox_token(CANONICAL, "billing", "2026-01-01T00:00:00.000001Z")


@given(st.text(), st.text(), st.text(), st.text())
def test_parts_cannot_be_shifted_between_each_other(
    queue: str, reason: str, queue2: str, reason2: str
) -> None:
    """Two different (queue, reason) pairs never derive one token, whatever separators they contain."""
    same = broker_token(CANONICAL, queue, reason, 1, 1) == broker_token(CANONICAL, queue2, reason2, 1, 1)
    assert same == ((queue, reason) == (queue2, reason2))


@given(st.integers(0, 2**48 - 1), st.integers(0, 2**74 - 1))
def test_a_uuid7_is_canonical_and_ordered_by_time(unix_ms: int, random_bits: int) -> None:
    """A formatted UUIDv7 has version 7, variant 2, and starts with its milliseconds."""
    text = uuid7(unix_ms, random_bits)
    assert is_capture_id(text)
    assert int(text.replace("-", "")[:12], 16) == unix_ms
    assert re.fullmatch("7...", text.split("-")[2])
    bits = int(text.replace("-", ""), 16)
    assert (bits >> 64 & 0xFFF) << 62 | bits & (1 << 62) - 1 == random_bits
