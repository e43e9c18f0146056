"""Calls the handler once and turns what it does into an event of the delivery's machine (ADR-059 §policy)."""

# flake8: noqa: ASYNC910 - between evidence and settlement there must be no checkpoint (S43)
from __future__ import annotations

import trio

from craig_mq.core.dead_letter import MalformedDelivery
from craig_mq.core.disposition import Disposition, disposition_of, interruption_in
from craig_mq.core.last_error import describe_error
from craig_mq.core.steps import HandlerFailed, HandlerOk
from craig_mq.observe.events import HandlerFinished
from craig_mq.runtime.errors import HandlerTimedOut
from craig_mq.runtime.in_flight import InFlight
from craig_mq.runtime.plan import Plan

_HANDLER_OK = HandlerOk()


class Invoker:
    """Invokes one subscription's handler; whoever calls ``invoke`` cancels it after ``handler_timeout_s``."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._handler = plan.handler
        self._reporter = plan.reporter
        self._tally = plan.tally
        self.handler_timeout_s = plan.options.handler_timeout.total_seconds()

    async def invoke(self, flight: InFlight, attempt: int, began: float) -> None:
        """Call the handler, at ``began`` by Trio's clock, and feed the outcome to the machine.

        Raises only what is no outcome: cancellation and its like (field failure EXG-01). Cancelled: the
        machine still waits for this invocation's outcome.
        """
        subject = flight.subject
        if isinstance(subject, MalformedDelivery):
            raise TypeError("a malformed delivery has no handler")
        if attempt == 1 and flight.delivery.redelivered and subject.token is None:
            self._tally.tokenless_reruns += 1
        self._tally.invocations += 1
        failure: Exception | None = None
        try:
            await self._handler(subject.dead_letter(attempt))
        except Exception as error:  # noqa: BLE001 - whatever a handler raises is an outcome
            failure = error
        except BaseExceptionGroup as group:
            # What was cancelled beside a failure decides nothing; the cancellation goes on alone.
            raise interruption_in(group) or group from None
        if failure is not None:
            self._failed(flight, disposition_of(failure), failure, began)
            return
        flight.effect = flight.settlement.feed(_HANDLER_OK)
        if self._reporter.listening:
            self._report(flight, "ok", began, attempt, None)

    def timed_out(self, flight: InFlight) -> None:
        """Take note that the worker cancelled the handler: TRANSIENT_PARK."""
        seconds = self.handler_timeout_s
        error = HandlerTimedOut(seconds)
        self._failed(flight, Disposition.TRANSIENT_PARK, error, trio.current_time() - seconds)

    def _failed(self, flight: InFlight, disposition: Disposition, error: Exception, began: float) -> None:
        attempt = flight.settlement.attempts
        described = describe_error(error)
        jitter = self._plan.sources.jitter()
        flight.effect = flight.settlement.feed(HandlerFailed(disposition, described, jitter))
        if self._reporter.listening:
            self._report(flight, disposition.value, began, attempt, described.type)

    def _report(
        self, flight: InFlight, disposition: str, began: float, attempt: int, error_type: str | None
    ) -> None:
        seconds = trio.current_time() - began
        self._reporter.emit(
            HandlerFinished(
                self._plan.queue, disposition, seconds, attempt, flight.envelope_id or "", error_type
            )
        )
