"""The operator's one visit, by the operator's own tools: scan, drain what is too old, plan, redrive.

A quarantine queue has no TTL (ADR-059 §quarantine), so a message expires where an operator says so: it
is drained to a file on disk before it is acked.
"""

# flake8: noqa: ASYNC910 - every turn of its loop over the messages has checkpoints
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import attrs

from craig_mq.core.config import QUARANTINE_SUFFIX
from craig_mq.operator.drain import DrainOptions, drain_queue
from craig_mq.operator.journal import open_journal
from craig_mq.operator.plan import Ticks, make_plan, read_plan, write_plan
from craig_mq.operator.redrive import RedriveOptions, redrive_plan
from craig_mq.operator.row import Row
from craig_mq.operator.scan import Scan, scan_queue
from craig_mq.operator.verdict import Knowledge
from craig_mq.review.events import MESSAGES, Message
from craig_mq.review.params import Params
from craig_mq.runtime.sources import Sources
from craig_mq.transport.broker import Broker
from supervisors.shutdown import Shutdown

_WHO: Final = "review"
_WHY: Final = "the review's one redrive"


class VisitFailed(Exception):
    """The operator's tools did not do all that was planned; the text says what."""


@attrs.frozen
class Held:
    """One quarantined message as the operator found it; ``age`` is in modeled seconds."""

    message: Message
    queue: str
    scan: Scan
    age: float

    @property
    def row(self) -> Row:
        """The capture's fields."""
        return self.scan.rows[0]


@attrs.define
class Visit:
    """The means of the visit, and ``verdicts``: what the plan said of each redriven message."""

    broker: Broker
    params: Params
    queues: dict[Message, str]
    sources: Sources
    modeled: Callable[[float], float]
    folder: Path
    verdicts: dict[Message, str] = attrs.field(factory=dict[Message, str])

    async def inspect(self) -> list[Held]:
        """Look at every quarantine queue; each message found goes back to its place."""
        held: list[Held] = []
        for message in MESSAGES:
            queue = self.queues[message]
            now_s = self.sources.now()
            scan = await scan_queue(self.broker, queue + QUARANTINE_SUFFIX, now_s=now_s)
            if scan.rows:
                at_s = scan.rows[0].at_s
                age = self.modeled(now_s - (now_s if at_s is None else at_s))
                held.append(Held(message, queue, scan, age))
        return held

    def expired(self, held: Held) -> bool:
        """Whether it has reached the quarantine retention."""
        return held.age >= self.params.quarantine_retention

    def chosen(self, held: Held) -> bool:
        """Whether it is retained and the action is about it."""
        return not self.expired(held) and self.params.action in {"all", held.message}

    async def drain(self, held: Held) -> None:
        """Take an expired message out of quarantine, into a file. Raises VisitFailed."""
        drained = await drain_queue(
            self.broker,
            held.queue + QUARANTINE_SUFFIX,
            self.folder / f"{held.message}.drained",
            DrainOptions((), self.sources.now),
            stop=Shutdown(),
        )
        if drained.stopped is not None or drained.drained != len(held.scan.rows):
            raise VisitFailed(f"{held.message} was not drained: {drained.stopped}")

    async def redrive(self, held: Held, recorded: dict[str, bool]) -> None:
        """Plan, write the plan down, and carry exactly it out. Raises VisitFailed.

        ``recorded`` is what the ledger knows of the tokens. The operator ticks *may duplicate*: this
        review is about what comes of it.
        """
        knowledge = Knowledge(
            queue=held.queue,
            now_s=self.sources.now(),
            hot_window_s=0.0,
            recorded=recorded,
            new_identity=self.params.identity == "new",
        )
        path = self.folder / f"{held.message}.plan"
        write_plan(make_plan(held.scan, knowledge, Ticks(may_duplicate=True), made_by=_WHO), path)
        plan, digest = read_plan(path)
        self.verdicts[held.message] = plan.entries[0].verdict
        options = RedriveOptions(sources=self.sources, who=_WHO, reason=_WHY)
        with open_journal(path.with_suffix(".journal"), plan_sha256=digest, now=self.sources.now) as journal:
            account = await redrive_plan(self.broker, plan, journal, options, stop=Shutdown())
        if account.count("redriven") != len(plan.entries):
            raise VisitFailed(f"{held.message} was not redriven: {account.sentence()}")
