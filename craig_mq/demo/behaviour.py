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


class Outage:
    """Something downstream that is down for ``seconds`` from the first time it is needed, then heals."""

    def __init__(self, seconds: float) -> None:
        """Not yet needed, hence not yet down."""
        self._seconds = seconds
        self._heals_at: float | None = None

    def is_down(self) -> bool:
        """Whether it is down now, on Trio's clock."""
        now = trio.current_time()
        if self._heals_at is None:
            self._heals_at = now + self._seconds
        return now < self._heals_at


def behave(record: Handler, outage: Outage) -> Handler:
    """Wrap ``record`` so that each message fails as its kind says before it is recorded."""

    async def handler(dead_letter: DeadLetter) -> None:
        kind = Kind(dead_letter.envelope.event_type.removeprefix("demo."))
        disposition = _disposition(kind, dead_letter.attempt, outage)
        if disposition is not None:
            failure = DemoFailure(f"made to fail: {kind.value}")
            raise DlqError(disposition, source=failure) from failure
        await record(dead_letter)

    return handler


def _disposition(kind: Kind, attempt: int, outage: Outage) -> Disposition | None:
    match kind:
        case Kind.FLAKY if attempt <= FLAKY_FAILURES:
            return Disposition.TRANSIENT_RETRY
        case Kind.OUTAGE if outage.is_down():
            return Disposition.TRANSIENT_PARK
        case Kind.PERMANENT:
            return Disposition.PERMANENT
        case Kind.CAPPED | Kind.NONCANONICAL | Kind.OVERSIZE:
            return Disposition.TRANSIENT_PARK
        case _:
            return None
