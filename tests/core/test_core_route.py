"""Which routing keys can come back (decisions, 2)."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from craig_mq.core.route import is_canonical, matches

WORDS = st.lists(st.sampled_from(["", "a", "b", "dlq"]), max_size=5).map(".".join)
PATTERNS = st.lists(st.sampled_from(["", "a", "b", "*", "#"]), max_size=6).map(".".join)


def _reference(pattern: list[str], words: list[str]) -> bool:
    if not pattern:
        return not words
    if pattern[0] == "#":
        return any(_reference(pattern[1:], words[start:]) for start in range(len(words) + 1))
    return bool(words) and pattern[0] in ("*", words[0]) and _reference(pattern[1:], words[1:])


def test_a_key_that_no_frame_carries_cannot_come_back() -> None:
    """A key of over 255 bytes of UTF-8 is not canonical through the exchange, and does not matter past it."""
    fits, long = "dlq." + "x" * 251, "dlq." + "é" * 126
    assert is_canonical(fits, ("dlq.#",), "exchange")
    assert not is_canonical(long, ("dlq.#",), "exchange")
    assert not is_canonical("dlq." + "\ud800" * 60, ("dlq.#",), "exchange")
    assert is_canonical(long, ("dlq.#",), "queue")


@given(PATTERNS, WORDS)
def test_patterns_match_as_a_topic_exchange_does(pattern: str, key: str) -> None:
    """A star is exactly one word and a hash any number of words, in every combination."""
    split = pattern.split(".") if pattern else []
    assert matches(pattern, key) == _reference(split, key.split(".") if key else [])


def test_a_pattern_of_many_hashes_is_cheap() -> None:
    """A hostile key against a pattern of many hashes takes no exponential time."""
    assert not matches(".".join(["#", "a"] * 40), ".".join(["a"] * 39 + ["b"]))


@pytest.mark.parametrize(
    ("key", "keys", "canonical"),
    [
        ("dlq.billing.x", ("dlq.#",), True),
        ("dlq.", ("dlq.#",), True),
        ("dlq", ("dlq.#",), False),
        ("dlqx.billing", ("#",), False),
        ("billing.x", ("#",), False),
        ("DLQ.billing", ("#",), False),
        ("dlq.billing.x", ("dlq.billing.*", "dlq.other.*"), True),
        ("dlq.audit.x", ("dlq.billing.*", "dlq.other.*"), False),
        ("dlq.x", (), False),
        ("", ("#",), False),
    ],
)
def test_a_canonical_key_has_the_prefix_and_a_binding(
    key: str, keys: tuple[str, ...], canonical: bool
) -> None:
    """A key is canonical when it starts with dlq. and one of the subscription's own bindings takes it."""
    assert is_canonical(key, keys, "exchange") is canonical


@pytest.mark.parametrize("key", ["", "anything", "dlq.x", re.escape("weird key")])
def test_past_the_exchange_every_key_is_canonical(key: str) -> None:
    """With return_route "queue" any key may park."""
    assert is_canonical(key, (), "queue")
