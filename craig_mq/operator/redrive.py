"""Redriving exactly a plan: windows over the queue, pace, stopping, and the account of it.

What returns to quarantine meanwhile has another capture_id, so a run can't chase its own output (field
failure CLI-04).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

import attrs
import trio

from craig_mq.core.delivery import Delivery
from craig_mq.core.envelope import decode_envelope
from craig_mq.core.topology import DEAD_LETTER_EXCHANGE
from craig_mq.core.unwrap import Capture, read_capture
from craig_mq.observe.events import Observer, Redriven
from craig_mq.operator.account import REDRIVEN, RETURNED, Account
from craig_mq.operator.journal import Journal, Step
from craig_mq.operator.lease import MAX_SCAN, WINDOW_S, Lease, lease_queue
from craig_mq.operator.pace import Pace
from craig_mq.operator.plan import Plan, PlanEntry
from craig_mq.operator.publisher import open_publisher
from craig_mq.operator.row import Row, read_row
from craig_mq.operator.sender import Attempt, Became, Prepare, Sender, next_round
from craig_mq.operator.trail import Act, open_trail
from craig_mq.runtime.sources import SYSTEM_SOURCES, Sources
from craig_mq.transport.broker import Broker
from craig_mq.transport.errors import TransportError
from supervisors.shutdown import Shutdown, sleep_or_shutdown

LOGGER: Final = logging.getLogger("craig_mq.operator")

MIN_ATTEMPTS: Final = 10
"""From so many attempts on ``stop_if_returned`` is judged: one of one is not a hundred percent."""

GONE: Final = "no longer in the queue"
ELSEWHERE: Final = "redriven before by another plan"
CHANGED: Final = "its content is not what was planned"


@attrs.define(frozen=True, slots=True)
class RedriveOptions:
    """``stop_if_returned`` is a percentage; None stops at the first message that is not confirmed.

    ``patience_s``: how long to ask for a queue that somebody else consumes.

    ``who`` and ``reason`` go into the journal, and into the ledger at ``audit_url`` where there is one.
    ``observer`` hears of each message that is redriven; what it raises is logged and changes nothing.
    """

    pace: Pace = attrs.field(factory=Pace)
    stop_if_returned: float | None = None
    window_s: float = WINDOW_S
    limit: int = MAX_SCAN
    accept_delivery_count: bool = False
    patience_s: float = 0.0
    sources: Sources = SYSTEM_SOURCES
    who: str = ""
    reason: str = ""
    audit_url: str | None = attrs.field(default=None, repr=False)
    plan_sha256: str = ""
    action: str = "redrive"
    observer: Observer | None = None


def ignore_account(account: Account) -> None:
    """Tell nobody."""
    del account


async def redrive_plan(
    broker: Broker,
    plan: Plan,
    journal: Journal,
    options: RedriveOptions,
    *,
    stop: Shutdown,
    on_progress: Callable[[Account], None] = ignore_account,
    prepare: Prepare = next_round,
) -> Account:
    """Redrive what ``plan`` selects and ``journal`` does not know as done; return the account.

    ``stop`` ends the run between two messages, never inside one (field failure CLI-01). Raises as
    ``lease_queue``, and OSError when the journal can't be written. Cancelled: the message in hand may be
    published without a line that says so, and is published again by the next run (*uncertain*).
    """
    act = Act(options.action, plan.source, options.who, options.reason, options.plan_sha256)
    async with (
        open_trail(options.audit_url, act) as trail,
        open_publisher(broker, f"redrive to {DEAD_LETTER_EXCHANGE}") as publisher,
    ):
        sender = Sender(plan, journal, publisher, options.sources, trail, prepare)
        run = _Run(broker, options, sender, stop=stop, on_progress=on_progress)
        await run.through()
        trail.outcome = run.account.document()
    return run.account


class _Run:
    def __init__(
        self,
        broker: Broker,
        options: RedriveOptions,
        sender: Sender,
        *,
        stop: Shutdown,
        on_progress: Callable[[Account], None],
    ) -> None:
        self._broker = broker
        plan, self._journal = sender.plan, sender.journal
        self._source = plan.source
        self._options = options
        self._sender = sender
        self._stop = stop
        self._on_progress = on_progress
        self._entries = {entry.key: entry for entry in plan.selected}
        self.account = Account.of(self._entries)
        for key in self._journal.acked & self._entries.keys():
            self.account.note(key, REDRIVEN)
        self._wanted = self.account.remaining()
        self._attempts = self._failures = 0
        self._began = trio.current_time()

    async def through(self) -> None:
        """Go through the queue in windows until all was met once, or it must stop."""
        for key in await self._sender.trail.redriven_elsewhere(self._wanted):
            self.account.note(key, ELSEWHERE)
            self._wanted.discard(key)
        self._journal.write(Step.RUN, who=self._options.who, reason=self._options.reason)
        more = True
        while more and self._wanted and self.account.stopped is None:
            wanted = len(self._wanted)
            try:
                more = not await self._window() and len(self._wanted) < wanted
            except TransportError as error:
                self.account.stopped = f"the broker ended the lease: {error}"
        self.account.uncertain = len(self._journal.uncertain & self._entries.keys())
        self._journal.write(Step.END, **self.account.document())

    async def _window(self) -> bool:
        """Hold the queue once, for less than ten minutes; return whether all of it was seen.

        What is not the plan's goes back in its place.
        """
        options = self._options
        async with lease_queue(
            self._broker,
            self._source,
            limit=options.limit,
            seconds=options.window_s,
            accept_delivery_count=options.accept_delivery_count,
            patience_s=options.patience_s,
        ) as lease:
            while self._wanted and self.account.stopped is None:
                if self._stop.requested:
                    self._asked_to_stop()
                    break
                delivery = await lease.receive()
                if delivery is None:
                    break
                await self._met(lease, delivery)
            if lease.complete and self.account.stopped is None:
                self._gone()
            return lease.complete

    async def _met(self, lease: Lease, delivery: Delivery) -> None:
        row = read_row(delivery, lease.received - 1)
        if row.key not in self._wanted:
            await trio.lowlevel.checkpoint()
            return
        entry = self._entries[row.key]
        redriven = False
        if row.sha256 != entry.sha256:
            self._journal.write(Step.SKIPPED, entry.key, why=CHANGED)
            self.account.note(entry.key, CHANGED)
            await trio.lowlevel.checkpoint()
        elif await self._may_go(entry):
            attempt = await self._sender.attempt(lease, delivery, entry)
            self._judge(entry, attempt)
            redriven = attempt.became is Became.REDRIVEN
        else:
            return
        self._wanted.discard(entry.key)
        if redriven:
            self._tell(row, delivery)
        self._on_progress(self.account)

    def _tell(self, row: Row, delivery: Delivery) -> None:
        """Tell the observer, whose failure must not end the run: the message is redriven and acked."""
        if self._options.observer is None:
            return
        try:
            self._options.observer(_redriven(self._source, row, delivery))
        except Exception:
            LOGGER.exception("the observer failed for a redriven message; the run goes on")

    async def _may_go(self, entry: PlanEntry) -> bool:
        """Wait for the message's turn. What is already confirmed has no turn: it is only acked."""
        if entry.key in self._journal.confirmed:
            await trio.lowlevel.checkpoint()
            return True
        due = self._began + self._options.pace.due(self._attempts)
        if await sleep_or_shutdown(max(0.0, due - trio.current_time()), self._stop):
            return True
        self._asked_to_stop()
        return False

    def _judge(self, entry: PlanEntry, attempt: Attempt) -> None:
        """Note the outcome, and stop where going on could do harm."""
        self._attempts += attempt.went_out
        match attempt.became:
            case Became.REDRIVEN:
                self.account.note(entry.key, REDRIVEN)
            case Became.UNFIT:
                self.account.note(entry.key, attempt.words)
            case Became.RETURNED:
                self.account.note(entry.key, RETURNED)
                self._count_failure(attempt)
            case Became.NACKED:
                self._count_failure(attempt)
            case Became.UNKNOWN | Became.NOT_SENT | Became.NOT_ACKED:
                self.account.stopped = attempt.words

    def _count_failure(self, attempt: Attempt) -> None:
        self._failures += 1
        allowed, failures, attempts = self._options.stop_if_returned, self._failures, self._attempts
        if allowed is None:
            self.account.stopped = attempt.words
        elif attempts >= MIN_ATTEMPTS and failures * 100 > allowed * attempts:
            self.account.stopped = (
                f"{failures} of {attempts} failed, more than {allowed:g} %: {attempt.words}"
            )

    def _asked_to_stop(self) -> None:
        self.account.stopped = f"asked to stop: {self._stop.reason}"

    def _gone(self) -> None:
        """Everything ready was seen: what is planned and was not met has been acked by somebody."""
        for key in self._wanted:
            self.account.note(key, REDRIVEN if key in self._journal.confirmed else GONE)
        self._wanted.clear()


def _redriven(queue: str, row: Row, delivery: Delivery) -> Redriven:
    def original_properties() -> bytes:
        capture = read_capture(decode_envelope(delivery.body))
        return capture.original_properties if isinstance(capture, Capture) else b"{}"

    return Redriven(queue, row.envelope_id or "", row.key, original_properties)
