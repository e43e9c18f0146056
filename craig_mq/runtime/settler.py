"""The one writer of a session's settlements (ADR-059 §settlement; rules S39 to S44).

A settlement is *accepted* synchronously, behind a gate that is tested immediately before, so that
no task switch lies between the evidence (a committed row, a clean confirm) and the settlement. One
flusher then hands everything accepted to the operating system, under one shielded scope per flush:
shutdown never cuts a settlement, and the clock always does.
"""

# flake8: noqa: ASYNC910,ASYNC912 - between evidence and settlement there must be no checkpoint (S43)
from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import trio

from craig_mq.core.outcome import (
    ACK_NOT_SENT,
    ACK_TIMED_OUT,
    ACK_WRITTEN,
    AckFailed,
    AckWritten,
    SettlementOutcome,
)
from craig_mq.runtime.on_demand import nobody
from craig_mq.transport.broker import Channel
from craig_mq.transport.errors import TransportError
from supervisors.flag import Flag

Settled: TypeAlias = Callable[[SettlementOutcome], None]
"""Called exactly once per settlement, synchronously, with what became of it."""


class Settler:
    """Accepts acks and nacks on one channel and flushes them in batches.

    ``settle_timeout`` bounds a settlement from acceptance to the write, in seconds; ``abort_grace``
    later a flush that ignores its cancellation loses its transport through ``abort`` (S42). ``flushed``
    is called after each flush, once its outcomes were told. The
    first outcome other than ``AckWritten`` closes the gate for every settlement not yet begun (S43).
    """

    def __init__(
        self, channel: Channel, *, settle_timeout: float, abort_grace: float, abort: Callable[[], None]
    ) -> None:
        self._channel = channel
        self._settle_timeout = settle_timeout
        self._abort_grace = abort_grace
        self._abort = abort
        self._gate_open = True
        self._accepted: list[Settled] = []
        self._oldest_accepted_at = 0.0
        self._wake = Flag()
        self._flush_deadline: float | None = None
        self._flush_done = Flag()
        self._unguarded: trio.CancelScope | None = None
        self.unknown = False
        self.flushed: Callable[[], None] = nobody
        self.wanted: Callable[[], None] = nobody

    @property
    def in_flight(self) -> bool:
        """Whether a settlement was accepted and its outcome is not yet known."""
        return bool(self._accepted) or self._flush_deadline is not None

    def close_gate(self) -> None:
        """Let no further settlement begin; those already begun keep their bound and true outcome."""
        self._gate_open = False

    def ack(self, delivery_tag: int, settled: Settled) -> None:
        """Accept an ack. ``settled`` hears AckNotSent or AckFailed at once where none was accepted.

        It hears AckWritten at once where the ack left within this call, as with a prefetch of one.
        """
        if not self._gate_open:
            settled(ACK_NOT_SENT)
            return
        try:
            written = self._channel.ack_nowait(delivery_tag)
        except TransportError as error:
            self._refuse(error, settled)
        else:
            if written and not self.in_flight:  # Else its turn is behind those accepted before it.
                settled(ACK_WRITTEN)
                self.flushed()
            else:
                self._accept(settled)

    def requeue(self, delivery_tag: int, settled: Settled) -> None:
        """Accept a nack with requeue, reported as ``ack`` reports."""
        self._nack(delivery_tag, settled, requeue=True)

    def reject(self, delivery_tag: int, settled: Settled) -> None:
        """Accept a nack without requeue, reported as ``ack`` reports: the broker dead-letters, or drops."""
        self._nack(delivery_tag, settled, requeue=False)

    def _nack(self, delivery_tag: int, settled: Settled, *, requeue: bool) -> None:
        if not self._gate_open:
            settled(ACK_NOT_SENT)
            return
        try:
            self._channel.nack_nowait(delivery_tag, requeue=requeue)
        except TransportError as error:
            self._refuse(error, settled)
        else:
            self._accept(settled)

    def _refuse(self, error: TransportError, settled: Settled) -> None:
        self._gate_open = False
        settled(AckFailed(error))

    def _accept(self, settled: Settled) -> None:
        if not self._accepted:
            self._oldest_accepted_at = trio.current_time()
            self._wake.set()
            self.wanted()
        self._accepted.append(settled)

    async def run(self) -> None:
        """Flush whatever is accepted, until cancelled.

        Cancelled: a flush already begun, and what was accepted meanwhile, is finished within its
        bound first. Settlements accepted after that wait for ``finish``.
        """
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._guard)
            while True:
                while self._accepted:
                    await self._flush()
                self._wake = Flag()
                await self._wake.wait()

    async def finish(self) -> None:
        """Flush what no ``run`` is left to flush, unraced against cancellation, within the bound."""
        while self._accepted:
            bound = self._oldest_accepted_at + self._settle_timeout + self._abort_grace
            with trio.CancelScope(shield=True, deadline=bound + self._abort_grace):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._abort_stuck_flush)
                    await self._flush()

    async def _flush(self) -> None:
        batch, self._accepted = self._accepted, []
        deadline = self._oldest_accepted_at + self._settle_timeout
        self._flush_deadline = deadline
        if self._unguarded is not None:
            self._unguarded.deadline = deadline
            self._unguarded = None
        outcome: SettlementOutcome = ACK_TIMED_OUT
        with trio.CancelScope(shield=True, deadline=deadline) as scope:
            try:
                await self._channel.flush()
            except TransportError as error:
                outcome = AckFailed(error)
            else:
                # S41: a call that succeeds after its bound is still unknown, and only a look from
                # inside the scope, directly after the await, can tell.
                outcome = ACK_TIMED_OUT if scope.cancel_called else ACK_WRITTEN
        self._flush_deadline = None
        self._flush_done.set()
        if not isinstance(outcome, AckWritten):
            self._gate_open = False
            self.unknown = True
        for settled in batch:
            settled(outcome)
        self.flushed()

    async def _guard(self) -> None:
        """See each flush before it can be overdue: once per bound while there are flushes, else never."""
        try:
            while True:
                if self._flush_deadline is None:
                    with trio.CancelScope() as self._unguarded:
                        await trio.sleep_forever()
                else:
                    await trio.sleep_until(self._flush_deadline)
                await self._abort_stuck_flush()
        finally:
            self._unguarded = None
            while self._flush_deadline is not None:  # What was accepted meanwhile is flushed next.
                with trio.CancelScope(shield=True) as scope:
                    scope.deadline = trio.current_time() + self._settle_timeout + 2 * self._abort_grace
                    await self._abort_stuck_flush()

    async def _abort_stuck_flush(self) -> None:
        """Return once the flush under way is over; past its bound and the grace abort the transport (S42)."""
        if self._flush_deadline is None:
            return
        self._flush_done = Flag()
        with trio.move_on_at(self._flush_deadline + self._abort_grace):
            await self._flush_done.wait()
            return
        self._abort()
        await self._flush_done.wait()
