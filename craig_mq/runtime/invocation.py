"""Calls a handler once and turns what it does into an event of the delivery's machine (ADR-059 §policy)."""

# flake8: noqa: ASYNC910 - between evidence and settlement there must be no checkpoint (S43)
from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar

import trio

from craig_mq.core.disposition import Disposition, disposition_of, interruption_in
from craig_mq.core.last_error import describe_error
from craig_mq.core.steps import HandlerFailed, HandlerOk
from craig_mq.observe.events import HandlerFinished
from craig_mq.runtime.errors import HandlerTimedOut
from craig_mq.runtime.plan import SessionPlan

_HANDLER_OK = HandlerOk()


class Invoked(Protocol):
    """A delivery whose handler is invoked."""

    @property
    def attempts(self) -> int:
        """Invocations so far."""
        ...

    @property
    def envelope_id(self) -> str | None:
        """Its envelope's id."""
        ...

    def feed(self, event: HandlerOk | HandlerFailed) -> None:
        """Take one event; the effect that is due next follows from it."""
        ...


I_contra = TypeVar("I_contra", bound=Invoked, contravariant=True)


class Invoker(Generic[I_contra]):
    """Invokes one subscription's handler, by ``call``, which hands it what it needs.

    Whoever calls ``invoke`` cancels it after ``handler_timeout_s``.
    """

    def __init__(self, plan: SessionPlan, call: Callable[[I_contra, int], Awaitable[None]]) -> None:
        self._plan = plan
        self._call = call
        self._reporter = plan.reporter
        self._tally = plan.tally
        self._jitter = plan.sources.jitter
        self.handler_timeout_s = plan.options.handler_timeout.total_seconds()

    async def invoke(self, flight: I_contra, attempt: int, began: float) -> None:
        """Call the handler, at ``began`` by Trio's clock, and feed the outcome to the machine.

        Raises only what is no outcome: cancellation and its like (field failure EXG-01). Cancelled: the
        machine still waits for this invocation's outcome.
        """
        self._tally.invocations += 1
        try:
            await self._call(flight, attempt)
        except Exception as error:  # noqa: BLE001 - whatever a handler raises is an outcome
            # Dealt with in here: kept in a variable, it would form a cycle with its own traceback.
            self._failed(flight, disposition_of(error), error, began)
            return
        except BaseExceptionGroup as group:
            # What was cancelled beside a failure decides nothing; the cancellation goes on alone.
            raise interruption_in(group) or group from None
        flight.feed(_HANDLER_OK)
        if self._reporter.listening:
            self._report(flight, "ok", began, attempt, None)

    def timed_out(self, flight: I_contra) -> None:
        """Take note that the worker cancelled the handler: TRANSIENT_PARK."""
        seconds = self.handler_timeout_s
        error = HandlerTimedOut(seconds)
        self._failed(flight, Disposition.TRANSIENT_PARK, error, trio.current_time() - seconds)

    def _failed(self, flight: I_contra, disposition: Disposition, error: Exception, began: float) -> None:
        attempt = flight.attempts
        described = describe_error(error)
        flight.feed(HandlerFailed(disposition, described, self._jitter()))
        if self._reporter.listening:
            self._report(flight, disposition.value, began, attempt, described.type)

    def _report(
        self, flight: I_contra, disposition: str, began: float, attempt: int, error_type: str | None
    ) -> None:
        seconds = trio.current_time() - began
        self._reporter.emit(
            HandlerFinished(
                self._plan.queue, disposition, seconds, attempt, flight.envelope_id or "", error_type
            )
        )
