"""How the demo looks on a terminal: the tree, the depths, the counters, and the account."""

from __future__ import annotations

from typing import Any

from rich.columns import Columns
from rich.console import RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from craig_mq.cli.terminal import listing
from craig_mq.demo.run import DemoResult
from craig_mq.service.status import SHOWN_COUNTERS, Status

_STATE_STYLES = {"running": "green", "backoff": "yellow"}


def status_view(status: Status) -> RenderableType:
    """The running service as three panels side by side."""
    document = status.document
    counters = {name: str(document["statistics"][name]) for name in SHOWN_COUNTERS}
    return Columns(
        [
            Panel(_tree(document["tree"], document["clock_s"]), title="supervisor tree"),
            Panel(_depths(document), title="messages"),
            Panel(_pairs(counters), title="so far"),
        ]
    )


def _tree(snapshot: dict[str, Any], clock_s: float) -> Text:
    text = Text()
    _walk(snapshot, text, clock_s, depth=0)
    return text


def _walk(supervisor: dict[str, Any], text: Text, clock_s: float, depth: int) -> None:
    for child in supervisor["children"]:
        state = str(child["state"]).lower()
        text.append("  " * depth + f"{child['id']} ")
        text.append(state, style=_STATE_STYLES.get(state, "dim"))
        text.append(f" #{child['generation']}")
        if state == "backoff" and child["timer_at"] is not None:
            text.append(f" wakes in {max(0.0, child['timer_at'] - clock_s):.0f} s")
        if child["last_end"] is not None:
            text.append(f" after {child['last_end']}", style="dim")
        text.append("\n")
        if child["supervisor"] is not None:
            _walk(child["supervisor"], text, clock_s, depth + 1)


def _depths(document: dict[str, Any]) -> Table:
    """Per queue what is ready and what this service holds, and how old the parked head is."""
    table = listing("queue", "ready", "held", fold=("queue",))
    held: dict[str, int] = document.get("held", {})
    for name, ready in document["depths"].items():
        table.add_row(name, "?" if ready is None else str(ready), str(held.get(name, "-")))
    oldest_s = document.get("oldest_parked_s")
    if oldest_s is not None:
        table.add_row("oldest parked", f"{oldest_s:.0f} s")
    return table


def _pairs(pairs: dict[str, str]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column()
    table.add_column(justify="right")
    for name, value in pairs.items():
        table.add_row(name, value)
    return table


def account_table(result: DemoResult) -> Table:
    """The account: what went in, and where it is."""
    account, statistics = result.account, result.statistics
    table = Table(title="Account, by a separate reader after the runtime closed", title_justify="left")
    table.add_column("messages")
    table.add_column("count", justify="right")
    table.add_row("published", str(account.published), style="bold")
    table.add_row("audit rows", str(account.audited))
    table.add_row("duplicates absorbed by their token", str(account.duplicates_absorbed))
    for reason, count in sorted(account.quarantined.items()):
        table.add_row(f"quarantined: {reason}", str(count))
    table.add_row("still parked", str(account.parked))
    table.add_row("still queued", str(account.queued))
    table.add_section()
    table.add_row("returned from parking on the way", str(statistics.returned))
    table.add_row("settlement failures survived", str(statistics.settlement_failures))
    table.add_row("lost", str(len(account.lost)), style="bold red" if account.lost else "bold green")
    return table
