"""What operators did to quarantine and parking: who, when, why, by which plan, with what outcome."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final, Literal
from uuid import UUID

import attrs

from craig_mq.audit.columns import as_moment, as_text, as_uuid
from craig_mq.audit.database import Database

_COLUMNS: Final = "id, act, phase, at, who, action, queue, reason, plan_sha256, outcome"


@attrs.define(frozen=True, slots=True)
class OperatorAction:
    """One end of one act. ``act`` joins the two; ``outcome`` is JSON, ``{}`` where it begins.

    An act with no *ended* row was killed. Both ids are UUIDv7, ``at`` is aware.
    """

    id: UUID
    act: UUID
    phase: Literal["begun", "ended"]
    at: datetime
    who: str
    action: str
    queue: str
    reason: str
    plan_sha256: str | None = None
    outcome: str = "{}"


def write_action(database: Database, action: OperatorAction) -> None:
    """Commit one row."""
    with database.transaction():
        database.execute(
            f"INSERT INTO operator_action ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608 - fixed names
            attrs.astuple(action),
        )


def read_actions(database: Database, *, limit: int) -> list[OperatorAction]:
    """Up to ``limit`` rows, newest first."""
    sql = f"SELECT {_COLUMNS} FROM operator_action ORDER BY id DESC LIMIT ?"  # noqa: S608 - fixed names
    return [
        OperatorAction(
            id=as_uuid(values[0]),
            act=as_uuid(values[1]),
            phase="ended" if values[2] == "ended" else "begun",
            at=as_moment(values[3]),
            who=str(values[4]),
            action=str(values[5]),
            queue=str(values[6]),
            reason=str(values[7]),
            plan_sha256=as_text(values[8]),
            outcome=str(values[9]),
        )
        for values in database.fetch(sql, (limit,))
    ]


def mark_redriven(database: Database, capture_id: str, *, plan_sha256: str, who: str, at: datetime) -> None:
    """Commit that this capture's redrive is confirmed; a second time changes nothing."""
    with database.transaction():
        if not database.fetch("SELECT 1 FROM redriven_capture WHERE capture_id = ?", (capture_id,)):
            database.execute(
                "INSERT INTO redriven_capture (capture_id, plan_sha256, who, at) VALUES (?, ?, ?, ?)",
                (capture_id, plan_sha256, who, at),
            )


def redriven_captures(database: Database, capture_ids: Iterable[str]) -> dict[str, str]:
    """Which of these captures were redriven, and by which plan."""
    found: dict[str, str] = {}
    for capture_id in capture_ids:
        sql = "SELECT plan_sha256 FROM redriven_capture WHERE capture_id = ?"
        for (plan_sha256,) in database.fetch(sql, (capture_id,)):
            found[capture_id] = str(plan_sha256)
    return found


def token_rows(database: Database, tokens: Iterable[str]) -> dict[str, bool]:
    """Of each of these tokens that has a row: whether that row is in the hot window."""
    found: dict[str, bool] = {}
    for token in tokens:
        if database.fetch("SELECT 1 FROM occurrence WHERE token = ?", (token,)):
            found[token] = True
        elif database.fetch("SELECT 1 FROM archived_occurrence WHERE token = ? LIMIT 1", (token,)):
            found[token] = False
    return found
