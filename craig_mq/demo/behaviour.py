"""The demo's handler: it fails as each message's kind says, and records the rest in the ledger."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from craig_mq.core.dead_letter import DeadLetter
from craig_mq.core.disposition import Disposition, DlqError
from craig_mq.demo.mix import Kind

FLAKY_FAILURES = 2

Handler = Callable[[DeadLetter], Awaitable[None]]


class DemoFailure(Exception):
    """The failure a message of the demo was made for."""


def behave(record: Handler, outage_s: float) -> Handler:
    """Wrap ``record``: an outage of ``outage_s`` seconds begins now and heals by itself."""
    heals_at = trio.current_time() + outage_s

    async def handler(dead_letter: DeadLetter) -> None:
        kind = Kind(dead_letter.envelope.event_type.removeprefix("demo."))
        disposition = _disposition(kind, dead_letter.attempt, down=trio.current_time() < heals_at)
        if disposition is not None:
            failure = DemoFailure(f"made to fail: {kind.value}")
            raise DlqError(disposition, source=failure) from failure
        await record(dead_letter)

    return handler


def _disposition(kind: Kind, attempt: int, *, down: bool) -> Disposition | None:
    match kind:
        case Kind.FLAKY if attempt <= FLAKY_FAILURES:
            return Disposition.TRANSIENT_RETRY
        case Kind.OUTAGE if down:
            return Disposition.TRANSIENT_PARK
        case Kind.PERMANENT:
            return Disposition.PERMANENT
        case Kind.CAPPED | Kind.NONCANONICAL | Kind.OVERSIZE:
            return Disposition.TRANSIENT_PARK
        case _:
            return None
