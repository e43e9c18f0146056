"""Calls a handler once and turns what it does into an event of the delivery's machine (ADR-059 §policy)."""

# flake8: noqa: ASYNC910 - between evidence and settlement there must be no checkpoint (S43)
from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar

import trio

from craig_mq.core.disposition import Disposition, disposition_of
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

    def original_properties(self) -> bytes:
        """The original message's properties as JSON."""
        ...

    def feed(self, event: HandlerOk | HandlerFailed) -> None:
        """Take one event; the effect that is due next follows from it."""
        ...


I_contra = TypeVar("I_contra", bound=Invoked, contravariant=True)


class Invoker(Generic[I_contra]):
    """Invokes one subscription's handler, by ``call``, which hands it what it needs.

    Whoever awaits what ``call`` returns cancels it after ``handler_timeout_s``, and reports what came of
    it: ``returned`` or ``failed`` where it is an outcome, nothing where it is none (field failure EXG-01).
    """

    __slots__ = ("_handler_of", "_jitter", "_plan", "_reporter", "_tally", "handler_timeout_s")

    def __init__(self, plan: SessionPlan, call: Callable[[I_contra, int], Awaitable[None]]) -> None:
        self._plan = plan
        self._handler_of = call
        self._reporter = plan.reporter
        self._tally = plan.tally
        self._jitter = plan.sources.jitter
        self.handler_timeout_s = plan.options.handler_timeout.total_seconds()

    def call(self, flight: I_contra, attempt: int) -> Awaitable[None]:
        """Call the handler for the ``attempt``-th time; what it returns is to be awaited."""
        self._tally.invocations += 1
        return self._handler_of(flight, attempt)

    def returned(self, flight: I_contra, attempt: int, began: float) -> None:
        """Feed success to the machine; it was called at ``began`` by Trio's clock."""
        flight.feed(_HANDLER_OK)
        if self._reporter.listening:
            self._report(flight, "ok", began, attempt, None)

    def failed(self, flight: I_contra, error: Exception, began: float) -> None:
        """Feed a failure to the machine; it was called at ``began`` by Trio's clock."""
        self._failed(flight, disposition_of(error), error, began)

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
                self._plan.queue,
                disposition,
                seconds,
                attempt,
                flight.envelope_id or "",
                error_type,
                flight.original_properties,
            )
        )
