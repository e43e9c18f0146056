"""The report of chaos campaigns, as JSON and as a page of the documentation."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import attrs

from craig_mq.testing.chaos.campaign import Outcome


def as_json(outcomes: Sequence[Outcome]) -> str:
    """Return everything measured, indented."""
    return json.dumps([attrs.asdict(outcome) for outcome in outcomes], indent=2, sort_keys=True) + "\n"


def failed(outcome: Outcome) -> list[str]:
    """Return what a campaign must not show, in words."""
    account = outcome.account
    problems = [f"lost: {number}" for number in account.lost]
    problems += [f"in the wrong place: {number}" for number in account.misplaced]
    if account.left or not outcome.settled:
        problems.append(f"{account.left} messages left in the main or parking queue")
    if account.copies and not _may_duplicate(outcome):
        problems.append(f"{len(account.copies)} letters quarantined more than once, without a reason")
    return problems


def reasons_for_copies(outcome: Outcome) -> dict[str, int]:
    """Count what explains a second copy: unknown outcomes, failed settlements, acks lost with a broker."""
    crashes = ("broker killed (SIGKILL)", "broker application stopped", "broker restarted")
    return {
        "settlement failures": outcome.statistics.settlement_failures,
        "publishes the producer repeated": outcome.repeated_publishes,
        "broker ends": sum(outcome.troubles.get(name, 0) for name in crashes),
    }


def _may_duplicate(outcome: Outcome) -> bool:
    return any(reasons_for_copies(outcome).values())


def as_markdown(outcomes: Sequence[Outcome]) -> str:
    """Return the report as a page."""
    lines = ["# Chaos report", "", "Written by `make chaos`; the numbers are in `chaos-report.json`.", ""]
    for outcome in outcomes:
        lines += _section(outcome)
    return "\n".join(lines)


def _section(outcome: Outcome) -> list[str]:
    campaign, account = outcome.campaign, outcome.account
    rows: list[tuple[str, Any]] = [
        ("messages confirmed to their producer", campaign.messages),
        ("troubles", sum(outcome.troubles.values())),
        ("lost", len(account.lost)),
        ("in the wrong place", len(account.misplaced)),
        ("left in the main or parking queue", account.left),
        ("recorded in the audit ledger", account.recorded),
        ("quarantined", account.quarantined),
        ("quarantined more than once", len(account.copies)),
        *((f"reason for copies: {name}", count) for name, count in reasons_for_copies(outcome).items()),
        ("handler invocations", outcome.invocations),
        ("duplicates absorbed by the arm's memory", outcome.statistics.duplicates_absorbed),
        ("sessions", outcome.statistics.sessions),
        ("seconds", round(outcome.seconds, 1)),
    ]
    return [
        f"## RabbitMQ {outcome.version}, {campaign.queue_type} queues, seed {campaign.seed}",
        "",
        "| what | count |",
        "|---|---|",
        *(f"| {name} | {value} |" for name, value in rows),
        "",
        "Troubles: " + ", ".join(f"{name} {count}" for name, count in sorted(outcome.troubles.items())) + ".",
        "",
        "Ends of sessions: "
        + ", ".join(f"{end} {count}" for end, count in sorted(outcome.ends.items()))
        + ".",
        "",
    ]
