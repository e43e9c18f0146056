"""The dry run as a file: exactly which messages, what would happen to each, and why.

A redrive does what its plan says and touches nothing else, so the file's SHA-256 names the act in the
journal and in the audit ledger.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Sequence
from io import BufferedWriter
from pathlib import Path
from typing import Any, Final, Literal

import attrs
import msgspec

from craig_mq.core.timing import format_instant
from craig_mq.operator.errors import BadPlan
from craig_mq.operator.scan import Scan
from craig_mq.operator.verdict import Knowledge, Verdict, judge

FORMAT: Final = "craig_mq.plan/1"

_TICKED: Final = frozenset({Verdict.ABSORBED, Verdict.RUNS_AGAIN})


class PlanEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One message: ``key`` is its capture_id, ``sha256`` of its body. Only ``selected`` ones are redriven."""

    key: str
    sha256: str
    position: int
    selected: bool
    verdict: Literal["absorbed", "runs again", "may duplicate", "will return", "not redrivable", "copy"]
    why: str
    reason: str
    size: int
    envelope_id: str | None = None
    event_type: str | None = None
    service: str | None = None
    routing_key: str | None = None
    token: str | None = None
    at: str | None = None
    park_count: int = 0
    error: str | None = None


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A dry run. ``queue`` is the dead-letter queue, ``source`` the quarantine queue that was scanned."""

    format: Literal["craig_mq.plan/1"]
    queue: str
    source: str
    made_at: str
    made_by: str
    where: tuple[str, ...]
    hot_window_s: float
    ledger_asked: bool
    keep_park_count: bool
    new_identity: bool
    depth: int
    seen: int
    complete: bool
    entries: tuple[PlanEntry, ...]

    @property
    def selected(self) -> tuple[PlanEntry, ...]:
        """What a redrive of this plan would send back."""
        return tuple(entry for entry in self.entries if entry.selected)

    def counts(self) -> dict[str, Any]:
        """The plan in numbers: by reason, verdict and route."""
        return {
            "messages": len(self.entries),
            "selected": len(self.selected),
            "selected_bytes": sum(entry.size for entry in self.selected),
            "by_reason": dict(Counter(entry.reason for entry in self.entries).most_common()),
            "by_verdict": dict(Counter(entry.verdict for entry in self.entries).most_common()),
            "routes": dict(Counter(entry.routing_key or "-" for entry in self.selected).most_common()),
        }


@attrs.define(frozen=True, slots=True)
class Ticks:
    """Which verdicts beside *absorbed* and *runs again* the operator ticks."""

    may_duplicate: bool = False
    will_return: bool = False

    def allow(self, verdict: Verdict) -> bool:
        """Whether a message of this verdict is selected."""
        if verdict is Verdict.MAY_DUPLICATE:
            return self.may_duplicate
        return verdict in _TICKED or (verdict is Verdict.WILL_RETURN and self.will_return)


def make_plan(
    scan: Scan, knowledge: Knowledge, ticks: Ticks, *, where: Sequence[str] = (), made_by: str = ""
) -> Plan:
    """Judge every row of a scan; pure."""
    known: set[str | None] = set()
    entries: list[PlanEntry] = []
    for row in scan.rows:
        names = {row.key, row.token} - {None}
        judged = judge(row, knowledge, first=known.isdisjoint(names))
        known |= names
        entries.append(
            PlanEntry(
                key=row.key,
                sha256=row.sha256,
                position=row.position,
                selected=ticks.allow(judged.verdict),
                verdict=judged.verdict.value,
                why=judged.why,
                reason=row.reason,
                size=row.size,
                envelope_id=row.envelope_id,
                event_type=row.event_type,
                service=row.service,
                routing_key=row.routing_key,
                token=row.token,
                at=row.at,
                park_count=row.park_count,
                error=row.error_line,
            )
        )
    return Plan(
        format=FORMAT,
        queue=knowledge.queue,
        source=scan.queue,
        made_at=format_instant(knowledge.now_s),
        made_by=made_by,
        where=tuple(where),
        hot_window_s=knowledge.hot_window_s,
        ledger_asked=knowledge.recorded is not None,
        keep_park_count=knowledge.keep_park_count,
        new_identity=knowledge.new_identity,
        depth=scan.depth,
        seen=scan.seen,
        complete=scan.complete,
        entries=tuple(entries),
    )


def write_plan(plan: Plan, path: Path) -> str:
    """Write the plan, readable by its owner only, to a new file; return its SHA-256.

    Raises OSError where the file exists or can't be written whole; then nothing is left of it.
    """
    data = msgspec.json.format(msgspec.json.encode(plan)) + b"\n"
    file = open_new(path)
    try:
        with file:
            file.write(data)
    except OSError:  # half a plan would stand in the way of a whole one
        path.unlink()
        raise
    return hashlib.sha256(data).hexdigest()


def read_plan(path: Path) -> tuple[Plan, str]:
    """Read a plan and the SHA-256 of its file. Raises BadPlan."""
    try:
        data = path.read_bytes()
        plan = msgspec.json.decode(data, type=Plan)
    except OSError as error:
        raise BadPlan(f"cannot read {path}: {error.strerror}") from error
    except msgspec.MsgspecError as error:
        raise BadPlan(f"{path} is no plan of this version: {error}") from error
    keys = [entry.key for entry in plan.selected]
    if len(set(keys)) != len(keys):
        raise BadPlan(f"{path} selects a message twice: make the plan again")
    return plan, hashlib.sha256(data).hexdigest()


def open_new(path: Path) -> BufferedWriter:
    """A new file for the owner alone: plans, journals and drains hold people's messages. Raises OSError."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode=0o600), "wb")
