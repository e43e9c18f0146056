"""The reading as the page shows it: rows with verdicts and effects, groups, and facets to filter by."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import attrs
import trio

from craig_mq.console.asked import AskRows
from craig_mq.console.reader import Reading
from craig_mq.console.refused import refusals
from craig_mq.console.settings import ConsoleSettings
from craig_mq.console.what_if import experiment_query
from craig_mq.operator.plan import PlanEntry, Ticks, make_plan
from craig_mq.operator.row import Row
from craig_mq.operator.scan import Group, Scan, count_by, fingerprint, group_rows
from craig_mq.operator.trail import known_rows, ledger_errors
from craig_mq.operator.verdict import Knowledge
from craig_mq.operator.where import parse_where, selects

MAX_GROUPS: Final = 100
MAX_FACETS: Final = 20

_FACETS: Final[Mapping[str, Callable[[Row], str | None]]] = MappingProxyType(
    {
        "reason": lambda row: row.reason,
        "event_type": lambda row: row.event_type,
        "service": lambda row: row.service,
        "error_type": lambda row: row.error_type,
    }
)


async def ask_ledger(settings: ConsoleSettings, scan: Scan) -> Knowledge:
    """What verdicts of this scan are judged by. Raises Refused where a ledger is named and can't be read."""
    knowledge = Knowledge(settings.queue, now_s=settings.now(), hot_window_s=settings.hot_window_s)
    if settings.audit_url is None:
        await trio.lowlevel.checkpoint()
        return knowledge
    tokens = {row.token for row in scan.rows if row.token is not None}
    with refusals(), ledger_errors():
        recorded, redriven = await known_rows(settings.audit_url, tokens, {row.key for row in scan.rows})
    return attrs.evolve(knowledge, recorded=recorded, redriven=redriven)


@attrs.define(frozen=True, slots=True)
class Judgement:
    """A reading judged row by row, with nothing ticked."""

    reading: Reading
    knowledge: Knowledge
    entries: Mapping[str, PlanEntry]

    @classmethod
    def of(cls, reading: Reading, knowledge: Knowledge) -> Judgement:
        """Judge every row; of two with one key the first is kept, as in a plan."""
        plan = make_plan(reading.scan, knowledge, Ticks())
        return cls(reading, knowledge, {entry.key: entry for entry in reversed(plan.entries)})

    def select(self, where: Sequence[str], group: str | None, keys: Sequence[str] | None = None) -> Scan:
        """The scan with the rows that conditions, group and keys leave. Raises BadCondition."""
        conditions, now_s = parse_where(where), self.knowledge.now_s
        wanted = None if keys is None else frozenset(keys)
        rows = tuple(
            row
            for row in self.reading.scan.rows
            if selects(conditions, row, now_s)
            and (group is None or _group_of(row) == group)
            and (wanted is None or row.key in wanted)
        )
        return attrs.evolve(self.reading.scan, rows=rows)

    def page(self, asked: AskRows) -> dict[str, Any]:
        """Rows of one page, and the groups and facets of everything selected. Raises BadCondition."""
        ungrouped = self.select(asked.where, None).rows
        rows = self.select(asked.where, asked.group).rows
        return {
            "selected": len(rows),
            "offset": asked.offset,
            "rows": [self._row(row) for row in rows[asked.offset : asked.offset + asked.count]],
            "groups": [_group(group) for group in group_rows(ungrouped)[:MAX_GROUPS]],
            "facets": {name: _top(count_by(rows, field)) for name, field in _FACETS.items()},
        }

    def row(self, key: str) -> dict[str, Any] | None:
        """Every field of one row; None where no row has this key."""
        found = next((row for row in self.reading.scan.rows if row.key == key), None)
        return None if found is None else self._row(found) | {"fields": attrs.asdict(found)}

    def _row(self, row: Row) -> dict[str, Any]:
        entry = self.entries[row.key]
        return {
            "key": row.key,
            "position": row.position,
            "age_s": None if row.at_s is None else max(0.0, self.knowledge.now_s - row.at_s),
            "reason": row.reason,
            "event_type": row.event_type,
            "service": row.service,
            "attempts": row.attempts,
            "park_count": row.park_count,
            "total_parks": row.total_parks,
            "size": row.size,
            "token": row.token,
            "error": row.error_line or row.fault,
            "verdict": entry.verdict,
            "why": entry.why,
            "effect": effect_words(row, self.knowledge),
            "experiment": experiment_query(row, self.knowledge),
        }


def effect_words(row: Row, knowledge: Knowledge) -> str:
    """What the ledger holds of this message's occurrence."""
    if row.token is None:
        return "no token to look up"
    if knowledge.recorded is None:
        return "no ledger asked"
    hot = knowledge.recorded.get(row.token)
    return "none recorded" if hot is None else "recorded" if hot else "recorded, archived"


def _group_of(row: Row) -> str:
    return f"{row.reason} {fingerprint(row)}"


def _group(group: Group) -> dict[str, Any]:
    return {"name": f"{group.reason} {group.fingerprint}", **attrs.asdict(group)}


def _top(counts: dict[str, int]) -> list[tuple[str, int]]:
    return list(counts.items())[:MAX_FACETS]
