"""A long-lived worker of the main session: takes a delivery, has it handled, settles it, takes the next.

Where all goes well a delivery costs no task, no nursery and no cancel scope: one scope serves many
deliveries. It is renewed only after it was cancelled, be it by the handler's timeout, which one task
watches for all workers, by the session's end, or because a retry is due for an idle worker.
"""

# flake8: noqa: ASYNC910 - between evidence and settlement there must be no checkpoint (S43)
from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar

import trio

from craig_mq.core.delivery import Delivery
from craig_mq.core.disposition import interruption_in
from craig_mq.core.steps import AckDelivery, Invoke, Publish, Sleep
from craig_mq.runtime.copies import Copies, Copy
from craig_mq.runtime.deadlines import Deadlines
from craig_mq.runtime.ending import Ending
from craig_mq.runtime.intake import Intake
from craig_mq.runtime.invocation import Invoked, Invoker
from craig_mq.transport.errors import TransportError

TAKEN_IN_ONE_GO = 32
"""So many deliveries a worker finishes without a pause: then what was accepted leaves, what came is read."""


class Flight(Invoked, Protocol):
    """A delivery between its arrival and its settlement."""

    @property
    def effect(self) -> object:
        """What is due next: an effect of its settlement machine."""
        ...


F = TypeVar("F", bound=Flight)
F_contra = TypeVar("F_contra", bound=Flight, contravariant=True)


class Performs(Protocol[F]):
    """Carries out the effects of one kind of queue's deliveries."""

    def begin(self, delivery: Delivery) -> F:
        """Read a delivery and decide its first effect."""
        ...

    def call(self, flight: F, attempt: int) -> Awaitable[None]:
        """Call the handler; what it returns is to be awaited."""
        ...

    def copy(self, flight: F) -> Copy:
        """Make the copy of it that its effect orders to be published."""
        ...

    def slept(self, flight: F) -> None:
        """A retry's delay has passed."""
        ...

    def act(self, flight: F) -> None:
        """Perform an effect that needs no waiting."""
        ...

    def interrupt(self, flight: F, why: str) -> None:
        """Leave a delivery unsettled."""
        ...

    def report_in_flight(self) -> None:
        """Say how many deliveries are in flight, if anybody listens."""
        ...

    def leave(self) -> None:
        """Account for every delivery that stays unacked."""
        ...


class Foreman(Protocol[F_contra]):
    """What a worker asks of the session it works for."""

    def retry_later(self, flight: F_contra, seconds: float) -> None:
        """Let a delivery sleep in a task of its own; it comes back through the intake."""
        ...

    def receive_failed(self, error: TransportError) -> None:
        """The consumer, its channel or its connection has ended."""
        ...


class Worker(Generic[F]):
    """One of ``concurrency`` workers; ``ending`` closes the way to handlers, ``bounds`` bounds them."""

    def __init__(
        self,
        foreman: Foreman[F],
        ending: Ending,
        intake: Intake[F],
        invoker: Invoker[F],
        performer: Performs[F],
        *,
        copies: Copies[F],
        bounds: Deadlines,
    ) -> None:
        self._foreman = foreman
        self._ending = ending
        self._intake = intake
        self._invoker = invoker
        self._performer = performer
        self._copies = copies
        self._bounds = bounds
        self._scope = trio.CancelScope()
        self._flight: F | None = None
        self._interrupted = False
        self.publishing = False

    def interrupt(self, reason: str) -> None:
        """Cancel a handler under way, or a wait for a delivery; a publish under way goes on."""
        self._interrupted = True
        if not self.publishing:
            self._scope.cancel(reason=reason)

    async def run(self, ended: Callable[[], None]) -> None:
        """Work until the intake stops or the session ends; ``ended`` is called on the way out.

        Cancelled: the delivery in hand stays unacked.
        """
        try:
            self._take_first()
            while not self._ending.noted and (self._flight or await self._intake.opened()):
                with trio.CancelScope() as self._scope:
                    await self._handle_many()
                self._copies.leave()
                await self._settle_outside_scope()
        except TransportError as error:
            self._foreman.receive_failed(error)
        finally:
            self._copies.leave()
            ended()

    async def _handle_many(self) -> None:
        """Go on from delivery to delivery until the scope is cancelled or the session ends."""
        scope, ending, performer = self._scope, self._ending, self._performer
        taken = 0
        while not (self._interrupted or ending.noted):
            taken += 1
            if taken > TAKEN_IN_ONE_GO:
                taken = 1
                self._copies.flush()
                await trio.lowlevel.checkpoint()
            flight = self._flight or self._take()
            if flight is None:
                self._copies.flush()
                flight = await self._wait(scope)
            if flight is None:
                return
            self._flight = flight
            if isinstance(flight.effect, Invoke):
                await self._invoke(flight, flight.effect.attempt, scope)
                if scope.cancel_called:
                    return
            if isinstance(flight.effect, Publish):
                if self._copies.owe(flight):
                    self._flight = None
                    continue
                await self._publish(flight, scope)
                return  # Its bound may have met the confirm, and a spent scope must not reach a handler.
            if not isinstance(flight.effect, AckDelivery):
                return
            performer.act(flight)
            self._flight = None

    async def _invoke(self, flight: F, attempt: int, scope: trio.CancelScope) -> None:
        """Await the handler within its bound; raises only what is no outcome of it.

        Cancelled: the machine still waits for this invocation's outcome.
        """
        began = trio.current_time()
        self._bounds.begin(scope, began)
        self._copies.leave()
        try:
            await self._invoker.call(flight, attempt)
        except Exception as error:  # noqa: BLE001 - whatever a handler raises is an outcome
            # Dealt with in here: kept in a variable, it would form a cycle with its own traceback.
            self._invoker.failed(flight, error, began)
        except BaseExceptionGroup as group:
            # What was cancelled beside a failure decides nothing; the cancellation goes on alone.
            raise interruption_in(group) or group from None
        else:
            self._invoker.returned(flight, attempt, began)
        finally:
            self._bounds.end(scope)

    def _take_first(self) -> None:
        """Take what this worker was started for, if it is still there."""
        if not (self._interrupted or self._ending.noted):
            self._flight = self._take()
            if self._flight is not None:
                self._performer.report_in_flight()

    def _take(self) -> F | None:
        """Take a retry that is due, or else a delivery that has come."""
        due = self._intake.due_nowait()
        if due is not None:
            return due
        delivery = self._intake.take_nowait()
        return None if delivery is None else self._begin(delivery)

    def _begin(self, delivery: Delivery) -> F:
        """Begin a delivery; where it leaves no worker waiting, another is started, up to ``concurrency``."""
        if self._intake.reinforce is not None:
            self._intake.reinforce()
        return self._performer.begin(delivery)

    async def _wait(self, scope: trio.CancelScope) -> F | None:
        """Wait for the next delivery; None where ``opened`` must be asked again, or in a new scope."""
        delivery = await self._intake.take(scope)
        if delivery is not None:
            self._flight = self._begin(delivery)
            self._performer.report_in_flight()
        # A wake-up may have met the delivery: then the scope is spent, and the next one handles it.
        return None if scope.cancel_called else self._flight

    async def _publish(self, flight: F, scope: trio.CancelScope) -> None:
        self.publishing = True
        self._copies.leave()
        try:
            await self._performer.copy(flight).publish(scope)
        finally:
            self.publishing = False

    async def _settle_outside_scope(self) -> None:
        """Do with the delivery in hand what is left to do, or keep it for the next scope."""
        flight = self._flight
        if flight is None:
            return
        if isinstance(flight.effect, Invoke):
            if self._interrupted or self._ending.noted:
                self._performer.interrupt(flight, "the session is ending")
            elif self._scope.cancelled_caught:
                self._invoker.timed_out(flight)
            else:
                return
        if isinstance(flight.effect, Publish):
            if self._copies.owe(flight):
                self._copies.leave()
                self._flight = None
                return
            with trio.CancelScope() as scope:
                await self._publish(flight, scope)
        self._flight = None
        if isinstance(flight.effect, Sleep):
            self._foreman.retry_later(flight, flight.effect.seconds)
        else:
            self._performer.act(flight)
