"""A long-lived worker of the main session: takes a dead letter, has it handled, settles it, takes the next.

Where all goes well a delivery costs no task, no nursery and no cancel scope: one scope serves many
deliveries. Its deadline is moved for each invocation, and it is renewed only after it was cancelled,
be it by the handler's timeout, by the session's end, or because a retry is due for an idle worker.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

import trio

from craig_mq.core.steps import AckDelivery, Invoke, Publish, Sleep
from craig_mq.runtime.in_flight import InFlight
from craig_mq.runtime.intake import Intake
from craig_mq.runtime.perform import Performer
from craig_mq.transport.errors import TransportError


class Foreman(Protocol):
    """What a worker asks of the session it works for."""

    @property
    def ending(self) -> bool:
        """Whether no further handler may be invoked."""
        ...

    def retry_later(self, flight: InFlight, seconds: float) -> None:
        """Let a delivery sleep in a task of its own; it comes back through the intake."""
        ...

    def receive_failed(self, error: TransportError) -> None:
        """The consumer, its channel or its connection has ended."""
        ...


class Worker:
    """One of ``concurrency`` workers; ``handler_timeout`` in seconds."""

    def __init__(
        self, foreman: Foreman, intake: Intake[InFlight], performer: Performer, handler_timeout: float
    ) -> None:
        self._foreman = foreman
        self._intake = intake
        self._performer = performer
        self._handler_timeout = handler_timeout
        self._scope = trio.CancelScope()
        self._flight: InFlight | None = None
        self._interrupted = False

    def interrupt(self, reason: str) -> None:
        """Cancel a handler under way, or a wait for a delivery; a publish under way goes on."""
        self._interrupted = True
        self._scope.cancel(reason=reason)

    async def run(self, ended: Callable[[], None]) -> None:
        """Work until the intake stops or the session ends; ``ended`` is called on the way out.

        Cancelled: the delivery in hand stays unacked.
        """
        try:
            while not self._foreman.ending and (self._flight or await self._intake.opened()):
                with trio.CancelScope() as self._scope:
                    await self._handle_many()
                await self._settle_outside_scope()
        except TransportError as error:
            self._foreman.receive_failed(error)
        finally:
            ended()

    async def _handle_many(self) -> None:
        """Go on while deliveries need nothing but their handler and their ack."""
        scope, foreman, performer = self._scope, self._foreman, self._performer
        while not scope.cancel_called and not foreman.ending:
            flight = self._flight
            if flight is None:
                self._flight = await self._next(scope)
                if self._flight is None:
                    return
            elif isinstance(flight.effect, Invoke):
                scope.deadline = trio.current_time() + self._handler_timeout
                await performer.invoke(flight, flight.effect.attempt)
            elif isinstance(flight.effect, AckDelivery):
                performer.act(flight)
                self._flight = None
            else:
                return

    async def _next(self, scope: trio.CancelScope) -> InFlight | None:
        intake = self._intake
        due = intake.due_nowait()
        if due is not None:
            return due
        delivery = intake.take_nowait()
        if delivery is None:
            scope.deadline = math.inf
            delivery = await intake.take(scope)
        return None if delivery is None else self._performer.begin(delivery)

    async def _settle_outside_scope(self) -> None:
        """Do with the delivery in hand what the worker's scope must not cut."""
        flight = self._flight
        if flight is None:
            return
        if isinstance(flight.effect, Invoke):
            if self._interrupted or self._foreman.ending:
                self._performer.interrupt(flight, "the session is ending")
            elif self._scope.cancelled_caught:
                self._performer.handler_timed_out(flight)
            else:
                return  # It was taken just when the scope was cancelled: handled in the next one.
        if isinstance(flight.effect, Publish):
            await self._performer.publish(flight, flight.effect)
        self._flight = None
        if isinstance(flight.effect, Sleep):
            self._foreman.retry_later(flight, flight.effect.seconds)
        else:
            self._performer.act(flight)
