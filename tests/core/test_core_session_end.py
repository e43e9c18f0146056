"""How a session ended (decisions, 16)."""

from __future__ import annotations

import pytest

from craig_mq.core.close import (
    ChannelClose,
    CloseReason,
    ConnectionClose,
    ConnectionLoss,
    ConsumerCancel,
    LocalClose,
)
from craig_mq.core.session_end import SessionEnd, classify_end

TIMEOUT = (
    "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. Timeout value used: 60000 ms."
)
QUIET: list[tuple[CloseReason, SessionEnd]] = [
    (ConnectionLoss("reset by peer"), SessionEnd.CONNECTION_LOST),
    (ConnectionClose(320, "CONNECTION_FORCED - shutdown"), SessionEnd.CONNECTION_LOST),
    (ConnectionClose(504, "CHANNEL_ERROR - expected 'channel.open'", 60, 20), SessionEnd.CONNECTION_LOST),
    (ConnectionClose(530, "NOT_ALLOWED - duplicate consumer tag", 60, 80), SessionEnd.CONNECTION_LOST),
    (ConsumerCancel("billing.dlq"), SessionEnd.CONSUMER_CANCELLED),
    (ChannelClose(406, TIMEOUT), SessionEnd.CONSUMER_TIMED_OUT),
    (ChannelClose(406, TIMEOUT, 50, 10), SessionEnd.CHANNEL_CLOSED),
    (ChannelClose(403, TIMEOUT), SessionEnd.CHANNEL_CLOSED),
    (ChannelClose(406, "PRECONDITION_FAILED - something timed out"), SessionEnd.CHANNEL_CLOSED),
    (ChannelClose(406, "PRECONDITION_FAILED - delivery acknowledgement"), SessionEnd.CHANNEL_CLOSED),
    (ChannelClose(404, "NOT_FOUND - no queue", 60, 20), SessionEnd.CHANNEL_CLOSED),
    (ChannelClose(541, "INTERNAL_ERROR", 50, 80), SessionEnd.CHANNEL_CLOSED),
    (LocalClose(aborted=False), SessionEnd.SHUTDOWN),
    (LocalClose(aborted=True), SessionEnd.CANCELLED),
]
SETTLEMENTS: list[CloseReason] = [
    ChannelClose(406, "PRECONDITION_FAILED - unknown delivery tag 999", 60, 80),
    ChannelClose(406, "PRECONDITION_FAILED - unknown delivery tag 999", 60, 90),
    ChannelClose(406, "PRECONDITION_FAILED - unknown delivery tag 999", 60, 120),
    ChannelClose(404, "NOT_FOUND - no exchange 'craig.dlx'", 60, 40),
    ChannelClose(403, "ACCESS_REFUSED", 60, 40),
    ConnectionClose(504, "CHANNEL_ERROR", 60, 80),
    ConnectionClose(504, "CHANNEL_ERROR", 60, 90),
    ConnectionClose(504, "CHANNEL_ERROR", 60, 120),
]


@pytest.mark.parametrize(("reason", "end"), QUIET)
def test_a_close_with_nothing_in_flight_has_its_own_name(reason: CloseReason, end: SessionEnd) -> None:
    """With nothing in flight a close is named by its kind, a consumer timeout by 406, 0/0 and its text."""
    assert classify_end(reason, in_flight=False) is end


@pytest.mark.parametrize("reason", [reason for reason, _ in QUIET] + SETTLEMENTS)
def test_a_close_that_fails_something_in_flight_is_a_settlement_failure(reason: CloseReason) -> None:
    """A close during a publish, confirm or settlement is SETTLEMENT_FAILED whatever its code."""
    assert classify_end(reason, in_flight=True) is SessionEnd.SETTLEMENT_FAILED


@pytest.mark.parametrize("reason", SETTLEMENTS)
def test_a_close_that_names_a_settlement_is_one_even_afterwards(reason: CloseReason) -> None:
    """A close naming publish, ack, reject or nack is SETTLEMENT_FAILED though the call had returned."""
    assert classify_end(reason, in_flight=False) is SessionEnd.SETTLEMENT_FAILED
