"""The report of chaos campaigns, as JSON and as a page of the documentation."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs
from cattrs import structure

from craig_mq.testing.chaos.outcome import Outcome
from craig_mq.testing.chaos.trail import UNEXPLAINED

JSON_NAME: Final = "chaos-report.json"
PAGE_NAME: Final = "chaos-report.md"


def read_report(folder: Path) -> list[Outcome]:
    """Return what the report in the folder tells of, if there is one."""
    path = folder / JSON_NAME
    return structure(json.loads(path.read_text(encoding="utf-8")), list[Outcome]) if path.exists() else []


def write_report(folder: Path, outcomes: Sequence[Outcome]) -> None:
    """Write both files, keeping what they told of settings and seeds that were not run this time."""
    folder.mkdir(parents=True, exist_ok=True)
    by_run = {(where(one), one.campaign.seed): one for one in (*read_report(folder), *outcomes)}
    together = [by_run[run] for run in sorted(by_run)]
    (folder / JSON_NAME).write_text(as_json(together), encoding="utf-8")
    (folder / PAGE_NAME).write_text(as_markdown(together), encoding="utf-8")


def as_json(outcomes: Sequence[Outcome]) -> str:
    """Return everything measured, indented."""
    return json.dumps([attrs.asdict(outcome) for outcome in outcomes], indent=2, sort_keys=True) + "\n"


def failed(outcome: Outcome) -> list[str]:
    """Return what a campaign must not show, in words."""
    account = outcome.account
    problems = [f"lost: {number}" for number in account.lost]
    problems += [f"in the wrong place: {number}" for number in account.misplaced]
    problems += [f"miscounted: {text}" for text in account.miscounted]
    if account.left or not outcome.settled:
        problems.append(f"{account.left} messages left in the main or parking queue")
    if account.tokens_recorded_twice or account.divergent:
        problems.append(f"{account.tokens_recorded_twice} double, {account.divergent} divergent rows")
    for what, reasons in (("handled again", outcome.repetitions), ("in quarantine again", outcome.copies)):
        if reasons.get(UNEXPLAINED):
            problems.append(f"{reasons[UNEXPLAINED]} messages {what}, unexplained")
    problems += outcome.unexplained
    return problems


def where(outcome: Outcome) -> str:
    """Return the setting in words, e.g. "RabbitMQ 4.0.5, quorum queues, three nodes"."""
    nodes = "one node" if outcome.place == "node" else "three nodes"
    return f"RabbitMQ {outcome.version}, {outcome.campaign.queue_type} queues, {nodes}"


def as_markdown(outcomes: Sequence[Outcome]) -> str:
    """Return the report as a page."""
    lines = ["# Chaos report", "", "Written by `make chaos`; the numbers are in `chaos-report.json`.", ""]
    lines += _summary(outcomes)
    for outcome in outcomes:
        lines += _section(outcome)
    return "\n".join(lines)


def _summary(outcomes: Sequence[Outcome]) -> list[str]:
    heads = "| setting | messages | troubles | lost | unexplained repetitions | seconds |"
    counts = [
        (
            outcome.campaign.messages,
            sum(outcome.troubles.values()),
            len(outcome.account.lost),
            outcome.repetitions.get(UNEXPLAINED, 0) + outcome.copies.get(UNEXPLAINED, 0),
            round(outcome.seconds),
        )
        for outcome in outcomes
    ]
    totals = [sum(column) for column in zip(*counts, strict=True)]
    rows = [
        *(_row(where(outcome), *cells) for outcome, cells in zip(outcomes, counts, strict=True)),
        _row("**in all**", *totals),
    ]
    return [heads, "|---|---|---|---|---|---|", *rows, ""]


def _section(outcome: Outcome) -> list[str]:
    account = outcome.account
    rows: list[tuple[str, int]] = [
        ("messages confirmed to their producer", outcome.campaign.messages),
        ("troubles", sum(outcome.troubles.values())),
        ("**lost**", len(account.lost)),
        ("in the wrong place", len(account.misplaced)),
        ("left in the main or parking queue", account.left),
        ("destroyed by an operator's order, accounted for by number", account.destroyed),
        ("recorded in the audit ledger, once each", account.recorded),
        ("quarantined", account.quarantined),
        *((f"quarantined again: {reason}", count) for reason, count in sorted(outcome.copies.items())),
        *((f"handled again: {reason}", count) for reason, count in sorted(outcome.repetitions.items())),
        ("receipts handled", outcome.invocations),
        ("publishes repeated by the producer", outcome.repeated_publishes),
        ("duplicates absorbed by the arm's memory", outcome.statistics.duplicates_absorbed),
        ("settlement failures", outcome.statistics.settlement_failures),
        ("sessions", outcome.statistics.sessions),
    ]
    return [
        f"## {where(outcome)}",
        "",
        f"Seed {outcome.campaign.seed}, {outcome.seconds:.0f} s.",
        "",
        "| what | count |",
        "|---|---|",
        *(_row(*cells) for cells in rows),
        "",
        "| trouble | times | sessions it ended |",
        "|---|---|---|",
        *(_row(name, times, outcome.bites[name]) for name, times in sorted(outcome.troubles.items())),
        "",
        f"Ends of sessions: {_listed(outcome.ends)}.",
        "",
    ]


def _row(*cells: object) -> str:
    return f"| {' | '.join(str(cell) for cell in cells)} |"


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
