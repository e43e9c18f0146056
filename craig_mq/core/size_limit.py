"""How large a capture may be, and what a broker's refusal teaches (decisions, Size).

A 406 for message size closes the channel instead of nacking; the arm keeps what it learned over its
sessions, so that one body cannot loop for ever.
"""

from __future__ import annotations

import re

from craig_mq.core.capture_format import MAX_CAPTURE_BYTES
from craig_mq.core.close import ChannelClose, CloseReason

MIN_BODY_LIMIT_BYTES = 64 * 1024
DIGEST_ONLY = 0

# "PRECONDITION_FAILED - message size 13 is larger than configured max size 12"
_TOO_LARGE = re.compile(r"message size (\d{1,20}) (?:is )?larger than (?:configured )?max size (\d{1,20})")


def learned_limit(current: int, reason: CloseReason) -> int | None:
    """Return the lower limit a close teaches, in bytes of the serialised capture, or None.

    Below 64 KiB the answer is DIGEST_ONLY: the capture carries no body, only its length and sha256.
    None means the close says nothing about size, or nothing new.
    """
    if not isinstance(reason, ChannelClose) or reason.code != 406:  # noqa: PLR2004 -- AMQP precondition-failed
        return None
    match = _TOO_LARGE.search(reason.text)
    if match is None:
        return None
    allowed = min(int(match[2]), MAX_CAPTURE_BYTES)
    learned = allowed if allowed >= MIN_BODY_LIMIT_BYTES else DIGEST_ONLY
    return learned if learned < current else None
