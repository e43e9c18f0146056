"""The console's own state and tasks: one lease, one run, depths over time; one decision at a time."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, Final

import trio

from craig_mq.console import ledger
from craig_mq.console.asked import AskMessage, AskPlan, AskRedrive, AskRows
from craig_mq.console.depths import Depths
from craig_mq.console.judging import Judgement, ask_ledger
from craig_mq.console.plans import Plans
from craig_mq.console.reader import Reader
from craig_mq.console.record import Record, open_record
from craig_mq.console.refused import Refused, refusals
from craig_mq.console.runner import Runner
from craig_mq.console.service import ServiceView
from craig_mq.console.settings import ConsoleSettings
from craig_mq.console.what_if import scale_words
from craig_mq.operator.scan import find_message
from craig_mq.operator.trail import Act, open_trail
from craig_mq.transport.broker import Broker

MAX_SHOWN_BYTES: Final = 64 * 1024
NO_TOKEN: Final = ""
"""The token of no row."""


class Desk:
    """What the page can ask for. Every method raises Refused with one line for the operator."""

    def __init__(
        self, broker: Broker, settings: ConsoleSettings, record: Record, nursery: trio.Nursery
    ) -> None:
        self.settings = settings
        self.reader = Reader(broker, settings, nursery)
        self.runner = Runner(broker, settings, record, nursery)
        self.plans = Plans(settings)
        self.depths = Depths(broker, settings, lambda: self.reader.held)
        self.service = ServiceView(settings.service)
        self._broker = broker
        self._record = record
        self._turn = trio.Lock()
        self._judgement: Judgement | None = None

    def state(self, since: float) -> dict[str, Any]:
        """Everything that changes by itself. ``since``: depths after this time only."""
        reading, run = self.reader.reading, self.runner.run
        self.reader.seen()
        return {
            "queue": self.settings.queue,
            "quarantine": self.settings.quarantine,
            "who": self.settings.who,
            "allow_redrive": self.settings.allow_redrive,
            "ledger": self.settings.audit_url is not None,
            "now_s": self.settings.now(),
            "depths": self.depths.document(since),
            "reading_progress": self.reader.progress,
            "reading": None
            if reading is None
            else {
                "number": reading.number,
                "at_s": reading.at_s,
                "depth": reading.scan.depth,
                "seen": reading.scan.seen,
                "complete": reading.scan.complete,
                "seconds_left": reading.seconds_left(),
                "ended": reading.ended,
            },
            "run": None if run is None else run.document(),
        }

    async def read(self) -> None:
        """Lease quarantine, read it, and judge every row by the ledger as it is now."""
        async with self._turn:
            self.runner.require_idle()
            reading = await self.reader.look()
            self._judgement = Judgement.of(reading, await ask_ledger(self.settings, reading.scan))

    async def hand_back(self) -> None:
        """Give everything held back."""
        async with self._turn:
            await self.reader.hand_back("you handed it back")

    def rows(self, asked: AskRows) -> dict[str, Any]:
        """A page of the reading."""
        with refusals():
            return self._judged().page(asked)

    async def message(self, asked: AskMessage) -> dict[str, Any]:
        """Every field of one message, its effects, and what its experiment's seconds stand for."""
        judgement = self._judged()
        row = judgement.row(asked.key)
        if row is None:
            await trio.lowlevel.checkpoint()
            raise Refused(HTTPStatus.NOT_FOUND, "no message of this reading has that key")
        found = await ledger.effects(self.settings, token=row["token"] or NO_TOKEN)
        window_s = judgement.knowledge.hot_window_s
        return {**row, "effects": found, "scale": scale_words(row["age_s"] or 0.0, window_s)}

    async def body(self, asked: AskMessage) -> dict[str, Any]:
        """One body as text, at most 64 KiB of it; written down before and after, and the lease given back."""
        act = Act("reveal", self.settings.quarantine, self.settings.who, f"body of {asked.key}")
        async with self._turn:
            self.runner.require_idle()
            await self.reader.hand_back("a body was asked for")
            with refusals(), self._record.written(act) as outcome:
                async with open_trail(self.settings.audit_url, act) as trail:
                    found = await find_message(
                        self._broker,
                        self.settings.quarantine,
                        asked.key,
                        limit=self.settings.max_scan,
                        accept_delivery_count=self.settings.accept_delivery_count,
                    )
                    outcome["shown"] = trail.outcome["shown"] = found is not None
        if found is None:
            raise Refused(HTTPStatus.NOT_FOUND, "the message is no longer in quarantine: read it again")
        body = found[1].body
        return {
            "bytes": len(body),
            "cut": len(body) > MAX_SHOWN_BYTES,
            "text": body[:MAX_SHOWN_BYTES].decode("utf-8", "backslashreplace"),
        }

    async def plan(self, asked: AskPlan) -> dict[str, Any]:
        """The dry run: judged anew by the ledger, written to a file, nothing changed."""
        async with self._turn:
            self.runner.require_idle()
            judgement = self._judged()
            knowledge = await ask_ledger(self.settings, judgement.reading.scan)
            kept = await self.plans.make(judgement, knowledge, asked)
        return kept.document()

    async def redrive(self, asked: AskRedrive) -> dict[str, Any]:
        """Begin to carry out a plan; the lease is given back first, since a redrive takes its own."""
        if not self.settings.allow_redrive:
            raise Refused(
                HTTPStatus.FORBIDDEN, "this console is read-only: start it with --allow-redrive to redrive"
            )
        async with self._turn:
            self.runner.require_idle()
            kept = self.plans.find(asked.plan)
            await self.reader.hand_back("a redrive began")
            return self.runner.begin(kept, asked).document()

    async def effects(self) -> dict[str, Any]:
        """The ledger's newest rows of this queue; which of them lie in quarantine, too."""
        found = await ledger.effects(self.settings)
        scanned = () if self._judgement is None else self._judgement.reading.scan.rows
        tokens = {row.token for row in scanned if row.token is not None}
        rows = [{**row, "in_quarantine": row["token"] in tokens} for row in found["rows"]]
        return {**found, "rows": rows}

    async def history(self) -> dict[str, Any]:
        """What operators did."""
        return await ledger.history(self.settings, self._record)

    def _judged(self) -> Judgement:
        if self._judgement is None:
            raise Refused(HTTPStatus.CONFLICT, "read quarantine first")
        return self._judgement


@asynccontextmanager
async def open_desk(broker: Broker, settings: ConsoleSettings) -> AsyncGenerator[Desk]:
    """Open the console's record and run its tasks for the length of the block.

    Raises BadFolder and BadJournal. Leaving cancels what goes on: what is
    held is handed back, a redrive ends as a cancelled one does.
    """
    with open_record(settings) as record:
        async with trio.open_nursery() as nursery:
            desk = Desk(broker, settings, record, nursery)
            nursery.start_soon(desk.depths.run)
            yield desk
            nursery.cancel_scope.cancel(reason="the console closes")
