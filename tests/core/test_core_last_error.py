"""The last error in a capture is bounded, valid and provable (field failure BODY-09)."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from craig_mq.core.disposition import Disposition, DlqError
from craig_mq.core.last_error import MAX_ERROR_TEXT_BYTES, cut_routing_key, describe_error

E_ACUTE = "\u00e9"
EMOJI = "\U0001f600"


class _Spiteful(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text for you")


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (E_ACUTE * (5 * 2**19), 2_048),
        ("a" + E_ACUTE * (5 * 2**19), 2_047),
        ("x" * 2_048, 2_048),
        ("x" * 2_049, 2_048),
        ("x" * 2_045 + EMOJI, 2_045),
        ("x" * 2_044 + EMOJI, 2_048),
        ("", 0),
    ],
    ids=["5MiB", "5MiB-odd", "2048", "2049", "split", "whole", "empty"],
)
def test_the_text_is_cut_at_a_character_and_hashed_in_full(text: str, kept: int) -> None:
    """BODY-09: at most 2,048 bytes of valid UTF-8 are kept, and the sha256 is that of the full text."""
    described = describe_error(DlqError(Disposition.PERMANENT, source=ValueError(text)))
    assert len(described.text.encode()) == kept
    assert text.startswith(described.text)
    assert described.sha256 == hashlib.sha256(text.encode()).hexdigest()
    assert described.type == "ValueError"


@given(st.text(st.characters(), max_size=3_000))
def test_any_text_becomes_valid_utf8_within_its_bound(text: str) -> None:
    """Truncated text is valid UTF-8 of at most 2 KiB, lone surrogates spelled out."""
    described = describe_error(ValueError(text))
    assert len(described.text.encode()) <= MAX_ERROR_TEXT_BYTES
    full = text.encode("utf-8", "backslashreplace")
    assert full.startswith(described.text.encode())
    assert (
        len(full) - len(described.text.encode()) < 4
        or len(described.text.encode()) > MAX_ERROR_TEXT_BYTES - 4
    )
    assert described.sha256 == hashlib.sha256(full).hexdigest()


def test_the_source_is_described_not_its_envelope() -> None:
    """Of a DlqError, however often wrapped, the type and text are the innermost source's."""
    inner = DlqError(Disposition.PERMANENT, source=_Spiteful())
    described = describe_error(DlqError(Disposition.TRANSIENT_PARK, source=inner))
    assert described.type.endswith("._Spiteful")
    assert described.text == "<str() of _Spiteful raised RuntimeError>"
    assert describe_error(DlqError(Disposition.PERMANENT, source="just words")).text == "just words"


def test_the_type_name_is_bounded_too() -> None:
    """A type with an absurd name is cut to 256 bytes."""
    huge = type(E_ACUTE * 400, (Exception,), {"__module__": "builtins"})
    assert describe_error(huge("x")).type == E_ACUTE * 128


@given(st.text(st.characters(), max_size=300))
def test_a_routing_key_is_cut_at_a_character(key: str) -> None:
    """A routing key is cut to at most 255 bytes of valid UTF-8, and a short one not at all."""
    cut = cut_routing_key(key)
    assert len(cut.encode()) <= 255
    whole = key.encode("utf-8", "backslashreplace")
    assert whole.startswith(cut.encode())
    assert len(whole) > 255 or cut.encode() == whole
