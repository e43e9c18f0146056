"""What a refusal for size teaches, and what it does not (decisions, Size)."""

from __future__ import annotations

import pytest

from craig_mq.core.capture_format import MAX_CAPTURE_BYTES
from craig_mq.core.close import ChannelClose, CloseReason, ConnectionClose, ConnectionLoss
from craig_mq.core.size_limit import DIGEST_ONLY, MIN_BODY_LIMIT_BYTES, learned_limit


def _refusal(size: int, limit: int) -> ChannelClose:
    text = f"PRECONDITION_FAILED - message size {size} is larger than configured max size {limit}"
    return ChannelClose(406, text, 60, 40)


def test_a_refusal_teaches_the_brokers_limit() -> None:
    """A 406 for message size lowers the limit to what the broker said."""
    assert learned_limit(MAX_CAPTURE_BYTES, _refusal(2_000_001, 2_000_000)) == 2_000_000


def test_both_wordings_are_understood() -> None:
    """The wording without "is" and "configured" teaches the same."""
    text = "PRECONDITION_FAILED - message size 2000001 larger than max size 2000000"
    assert learned_limit(MAX_CAPTURE_BYTES, ChannelClose(406, text)) == 2_000_000


@pytest.mark.parametrize(
    ("limit", "learned"),
    [(MIN_BODY_LIMIT_BYTES, MIN_BODY_LIMIT_BYTES), (MIN_BODY_LIMIT_BYTES - 1, DIGEST_ONLY), (1, DIGEST_ONLY)],
)
def test_below_the_floor_only_the_digest_is_left(limit: int, learned: int) -> None:
    """A limit below 64 KiB means digest only: no body, so no loop."""
    assert learned_limit(MAX_CAPTURE_BYTES, _refusal(100_000, limit)) == learned


@pytest.mark.parametrize(
    "reason",
    [
        ChannelClose(406, "PRECONDITION_FAILED - unknown delivery tag 5", 60, 80),
        ChannelClose(404, "message size 9 is larger than configured max size 8"),
        ConnectionClose(501, "message size 9 is larger than configured max size 8"),
        ConnectionLoss("reset"),
        _refusal(2**70, 2**69),
    ],
)
def test_other_closes_teach_nothing(reason: CloseReason) -> None:
    """A close for another reason, or a limit above our own, changes nothing."""
    assert learned_limit(MAX_CAPTURE_BYTES, reason) is None


def test_a_limit_is_only_ever_lowered() -> None:
    """A refusal that names a limit not below the one in force teaches nothing new."""
    assert learned_limit(100_000, _refusal(200_000, 100_000)) is None
    assert learned_limit(100_000, _refusal(200_000, 150_000)) is None
    assert learned_limit(100_000, _refusal(99_000, 90_000)) == 90_000
    assert learned_limit(DIGEST_ONLY, _refusal(9_000, 1_000)) is None
