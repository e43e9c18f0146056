"""What the handler of an ordinary queue gets."""

from __future__ import annotations

import msgspec

from craig_mq.core.envelope import EventEnvelope


class ReceivedEvent(msgspec.Struct, frozen=True, gc=False):
    """One event of ``queue``, as it was published: ``body`` is its bytes, ``envelope`` what they say.

    ``attempt`` is the 1-based invocation in this session. ``redelivered`` means that the broker has
    handed this message out before: its first strike is used, and this attempt may not be the first.
    """

    envelope: EventEnvelope
    queue: str
    routing_key: str
    attempt: int
    redelivered: bool
    body: bytes
