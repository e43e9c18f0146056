"""The experiment on a terminal: diagram, table and ledger of one snapshot."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from craig_mq.review.model import Run
from craig_mq.review.outcomes import caption
from craig_mq.review.snapshots import MessageState, Snapshot

_LANES = {"ready": 0, "waiting": 0, "quarantined": 1, "acked": 3, "expired": 4}
_STYLES = {
    "ready": "cyan",
    "waiting": "cyan",
    "quarantined": "yellow",
    "acked": "green",
    "expired": "magenta",
}

_LEGEND = (
    "Receives: in this cycle (in all cycles). Effects: committed. Hits: absorbed by dedup, without an effect."
)


def render(run: Run, index: int) -> RenderableType:
    """Return snapshot `index` for printing; raises IndexError outside the run."""
    sentence = caption(run, index)
    snapshot = run.snapshots[index]
    legend = Text(_LEGEND, style="dim")
    return Group(_diagram(snapshot), _table(snapshot), legend, _ledger(run, snapshot), Text(sentence))


def _diagram(snapshot: Snapshot) -> Table:
    title = f"Modeled time {snapshot.at} s"
    table = _plain(title, "Source", "Quarantine", "Committed effects", "Acknowledged", "Expired")
    for message in snapshot.messages:
        cells: list[RenderableType] = [""] * 5
        cells[2] = "● " * message.effects
        cells[_LANES[message.status]] = Text(_chip(message), style=_STYLES[message.status])
        table.add_row(*cells)
    return table


def _chip(message: MessageState) -> str:
    if message.next_at is not None:
        return f"{message.name} (due {message.next_at} s)"
    return message.name if message.reason is None else f"{message.name} ({message.reason})"


def _table(snapshot: Snapshot) -> Table:
    table = _plain(
        "Current snapshot", "Message", "Status", "Reason", "Key", "Cycle", "Receives", "Effects", "Hits"
    )
    for message in snapshot.messages:
        receives = f"{message.cycle_receives} ({message.total_receives})"
        numbers = (str(message.cycle), receives, str(message.effects), str(message.dedup_hits))
        table.add_row(message.name, message.status, message.reason or "-", message.key, *numbers)
    return table


def _ledger(run: Run, snapshot: Snapshot) -> Table:
    title = f"Committed-effect ledger: {snapshot.effects_total}"
    table = _plain(title, "#", "At", "Intent", "Key", "Delta", "Cycle", "Receive")
    for row in run.ledger[: snapshot.effects_total]:
        numbers = (f"+{row.delta}", str(row.cycle), str(row.total_receive))
        table.add_row(str(row.n), f"{row.at} s", row.intent, row.key, *numbers)
    return table


def _plain(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, no_wrap=True)
    return table
