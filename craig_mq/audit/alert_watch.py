"""When thresholds are looked at: after each commit, for the kinds it touched."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from functools import partial
from typing import TypeAlias

import trio

from craig_mq.audit.alerts import WINDOW, Kind, evaluate, kinds_in_window
from craig_mq.audit.database import Database, Verdict
from craig_mq.audit.events import AlertCheckFailed, AuditObserver, ThresholdCrossed
from craig_mq.audit.row import Entry

Run: TypeAlias = Callable[[Callable[[Database], list[ThresholdCrossed]]], Awaitable[list[ThresholdCrossed]]]


class AlertWatch:
    """Remembers which kinds a failed check left over, and which fired here within the hour.

    The second only saves queries: what decides is the state in the database.
    """

    def __init__(
        self, threshold: int, *, clock: Callable[[], datetime], announce: AuditObserver, run: Run
    ) -> None:
        self._threshold = threshold
        self._clock = clock
        self._announce = announce
        self._run = run
        self._unchecked: set[Kind] = set()
        self._fired: dict[Kind, datetime] = {}

    async def committed(self, entries: Sequence[Entry], verdicts: Sequence[Verdict]) -> None:
        """Fire what ``entries`` bring about. Never raises: the rows are committed, their acks are due.

        Shielded, since what is committed must reach those who wait for it; the statement timeouts of
        the store bound the check.
        """
        kinds = self._kinds(entries, verdicts)
        with trio.CancelScope(shield=True):
            if kinds:
                await self._check(kinds)
            await trio.lowlevel.checkpoint()

    def _kinds(self, entries: Sequence[Entry], verdicts: Sequence[Verdict]) -> set[Kind]:
        """The kinds of what is in the ledger now, without those whose alert of this hour has fired here.

        Phantoms count as well: a crash may have come between their commit and their check.
        """
        now = self._clock()
        answered = zip(entries, verdicts, strict=True)
        present = (entry.row for entry, one in answered if not isinstance(one, Exception))
        recent = {kind for kind, fired_at in self._fired.items() if fired_at > now - WINDOW}
        return (self._unchecked | kinds_in_window(present, now)) - recent

    async def _check(self, kinds: set[Kind]) -> None:
        self._unchecked = kinds  # kept after a failure: the next group checks them again
        try:
            alerts = await self._run(
                partial(evaluate, kinds=kinds, threshold=self._threshold, now=self._clock())
            )
        except Exception as error:  # noqa: BLE001 - an alert must not undo the acks of committed rows
            self._announce(AlertCheckFailed(str(error).strip()))
            alerts = []
        else:
            self._unchecked = set()
        for alert in alerts:
            self._fired[alert.source_service, alert.event_type] = alert.fired_at
            self._announce(alert)
        await trio.lowlevel.checkpoint()
