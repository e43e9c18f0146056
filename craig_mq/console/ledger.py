"""Effects and history: what the audit ledger holds beside quarantine, and what operators did."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from functools import partial
from typing import Any, Final, cast

import trio

from craig_mq.audit.opening import open_store
from craig_mq.audit.operators import read_actions
from craig_mq.audit.reading import RowFilter
from craig_mq.console.record import Record, RecordLine
from craig_mq.console.refused import refusals
from craig_mq.console.settings import ConsoleSettings
from craig_mq.operator.trail import ledger_errors

EFFECTS: Final = 20
ACTS: Final = 50


async def effects(settings: ConsoleSettings, *, token: str | None = None) -> dict[str, Any]:
    """The newest committed rows of the queue, or of one token; ``asked`` is False without a ledger."""
    if settings.audit_url is None:
        await trio.lowlevel.checkpoint()
        return {"asked": False, "rows": []}
    where = RowFilter(queue=settings.queue) if token is None else RowFilter(token=token)
    with refusals(), ledger_errors():
        async with open_store(settings.audit_url) as ledger:
            rows = await ledger.find(where, limit=EFFECTS)
            if token is not None:
                rows = [*rows, *await ledger.find(where, limit=EFFECTS, archived=True)]
    return {
        "asked": True,
        "rows": [
            {
                "recorded_at": row.recorded_at.isoformat(timespec="seconds"),
                "event_type": row.event_type,
                "service": row.source_service,
                "envelope_id": row.envelope_id,
                "token": row.token,
                "archived": row.archived_at is not None,
                "divergent": row.divergent,
            }
            for row in rows
        ],
    }


async def history(settings: ConsoleSettings, record: Record) -> dict[str, Any]:
    """Acts, newest first: of every operator where there is a ledger, else of this console alone."""
    if settings.audit_url is None:
        await trio.lowlevel.checkpoint()
        newest = itertools.islice(reversed(record.lines), 2 * ACTS)
        return {"of": "this console", "acts": _acts(newest)}
    with refusals(), ledger_errors():
        async with open_store(settings.audit_url) as ledger:
            rows = await ledger.run(partial(read_actions, limit=2 * ACTS))
    lines = (
        RecordLine(
            act=str(row.act),
            phase=row.phase,
            at=row.at.isoformat(timespec="milliseconds"),
            who=row.who,
            action=row.action,
            queue=row.queue,
            reason=row.reason,
            plan_sha256=row.plan_sha256,
            outcome=json.loads(row.outcome),
        )
        for row in rows
    )
    return {"of": "every operator, from the audit ledger", "acts": _acts(lines)}


def _acts(newest_first: Iterable[RecordLine]) -> list[dict[str, Any]]:
    """Join each act's two ends; one without its end is under way, or was killed."""
    acts: dict[str, dict[str, Any]] = {}
    for line in newest_first:
        act = acts.setdefault(line.act, {"outcome": "no end: under way, or killed"})
        act |= {"who": line.who, "action": line.action, "queue": line.queue, "reason": line.reason}
        act["plan"] = line.plan_sha256
        if line.phase == "ended":
            act["outcome"] = outcome_words(line.outcome)
            act.setdefault("at", line.at)
        else:
            act["at"] = line.at
    return list(acts.values())[:ACTS]


def outcome_words(outcome: dict[str, Any]) -> str:
    """An act's outcome in a line: its counts that are not 0, and what is said in words."""
    words = [
        f"{name.replace('_', ' ')} {_value(value)}"
        for name, value in outcome.items()
        if value not in (0, None, {}, False)
    ]
    return ", ".join(words) or "nothing"


def _value(value: Any) -> str:
    if value is True:
        return "yes"
    if isinstance(value, dict):
        counts = cast("dict[str, Any]", value)
        return " + ".join(f"{count} {name}" for name, count in counts.items())
    return str(value)
