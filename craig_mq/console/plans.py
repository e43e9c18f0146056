"""Dry runs of this console: made from the reading, kept in its folder, carried out by their SHA-256."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import attrs
import trio

from craig_mq.console.asked import AskPlan
from craig_mq.console.judging import Judgement
from craig_mq.console.refused import Refused, refusals
from craig_mq.console.settings import ConsoleSettings
from craig_mq.operator.plan import Plan, PlanEntry, Ticks, make_plan, write_plan
from craig_mq.operator.verdict import Knowledge

SHOWN_ENTRIES: Final = 50


@attrs.define(frozen=True, slots=True)
class Kept:
    """A plan, its SHA-256, and the file it lies in."""

    plan: Plan
    sha256: str
    path: Path

    @property
    def journal(self) -> Path:
        """Where carrying it out is written down; the command line finds it there, too."""
        return self.path.with_name(self.path.name + ".journal")

    def document(self) -> dict[str, Any]:
        """The plan in numbers, and the first of its messages."""
        return {
            "sha256": self.sha256,
            "file": str(self.path),
            "complete": self.plan.complete,
            "made_at": self.plan.made_at,
            **self.plan.counts(),
            "entries": [_entry(entry) for entry in self.plan.entries[:SHOWN_ENTRIES]],
        }


class Plans:
    """The plans of this process by SHA-256. What a restart forgets the command line still carries out."""

    def __init__(self, settings: ConsoleSettings) -> None:
        self._settings = settings
        self._kept: dict[str, Kept] = {}

    async def make(self, judgement: Judgement, knowledge: Knowledge, asked: AskPlan) -> Kept:
        """Judge what was asked for, and write it down. Raises Refused."""
        knowledge = attrs.evolve(
            knowledge, keep_park_count=asked.keep_park_count, new_identity=asked.identity == "new"
        )
        ticks = Ticks(may_duplicate=asked.allow_duplicates, will_return=asked.allow_returns)
        with refusals():
            scan = judgement.select(asked.where, asked.group, asked.keys)
            plan = make_plan(scan, knowledge, ticks, where=_words(asked), made_by=self._settings.who)
            path = self._settings.folder / f"plan-{secrets.token_hex(6)}.json"
            kept = Kept(plan, write_plan(plan, path), path)
        self._kept[kept.sha256] = kept
        await trio.lowlevel.checkpoint()
        return kept

    def find(self, sha256: str) -> Kept:
        """The plan with this SHA-256. Raises Refused."""
        if sha256 not in self._kept:
            raise Refused(HTTPStatus.NOT_FOUND, "this console has no such plan: make the dry run again")
        return self._kept[sha256]


def _words(asked: AskPlan) -> Sequence[str]:
    """What was asked for, as the plan file records it."""
    group = () if asked.group is None else (f"group={asked.group}",)
    keys = () if asked.keys is None else (f"{len(asked.keys)} ticked",)
    return (*asked.where, *group, *keys)


def _entry(entry: PlanEntry) -> dict[str, Any]:
    return {
        name: getattr(entry, name)
        for name in ("key", "selected", "verdict", "why", "reason", "event_type", "routing_key", "size")
    }
