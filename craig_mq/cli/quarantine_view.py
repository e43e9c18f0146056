"""How quarantine looks on a terminal and as JSON; texts of messages are data, never markup."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from typing import Any, Final, cast

import attrs
from rich.console import Console
from rich.table import Table
from rich.text import Text

from craig_mq.cli.audit_view import printable
from craig_mq.cli.terminal import facts, listing, show
from craig_mq.core.timing import instant_seconds
from craig_mq.operator.row import Row
from craig_mq.operator.scan import Group, Scan

_FOLDING: Final = ("service", "last error", "key")
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3_600, 86_400


def scan_document(scan: Scan) -> dict[str, Any]:
    """A scan as JSON."""
    return {
        "queue": scan.queue,
        "depth": scan.depth,
        "seen": scan.seen,
        "complete": scan.complete,
        "selected": len(scan.rows),
        "rows": [attrs.asdict(row) for row in scan.rows],
    }


def body_document(body: bytes) -> dict[str, str]:
    """A body as JSON: text, or base64 where it is not UTF-8."""
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"body_b64": base64.b64encode(body).decode()}


def print_scan(scan: Scan, now_s: float) -> None:
    """Rows as a table, then how much was seen."""
    names = ("age", "reason", "event type", "service", "parks", "token", "redrivable", "last error", "key")
    table = listing(*names, fold=_FOLDING)
    for row in scan.rows:
        cells = (
            _age(row.at_s, now_s),
            row.reason,
            row.event_type,
            row.service,
            f"{row.park_count}/{row.total_parks}",
            "yes" if row.token else "no",
            "yes" if row.fault is None else "no",
            row.error_line or row.fault,
            row.key,
        )
        _add(table, cells)
    show(table)
    print_reach(scan)


def print_parked(scan: Scan, ttl_s: float, now_s: float) -> None:
    """Parked rows as a table, with the wait that is left."""
    names = ("due in", "waited", "event type", "service", "parks", "last error", "key")
    table = listing(*names, fold=_FOLDING)
    for row in scan.rows:
        left = None if row.at_s is None else row.at_s + ttl_s
        cells = (
            "-" if left is None else _age(now_s, left) if left > now_s else "now",
            _age(row.at_s, now_s),
            row.event_type,
            row.service,
            f"{row.park_count}/{row.total_parks}",
            row.error_line or row.fault,
            row.key,
        )
        _add(table, cells)
    show(table)


def print_reach(scan: Scan) -> None:
    """How much of the queue was looked at, and what looking did."""
    words = f"{len(scan.rows)} selected of {scan.seen} seen; {scan.depth} were ready in {scan.queue}"
    if not scan.complete:
        words += "; NOT ALL was seen: raise --max-scan"
    Console(stderr=True, highlight=False, soft_wrap=True).print(Text(words))


def print_groups(groups: Sequence[Group], now_s: float) -> None:
    """Groups as an exception list."""
    table = listing("messages", "bytes", "reason", "oldest", "error", "example", fold=("error", "example"))
    for group in groups:
        oldest = _age(None if group.oldest_at is None else instant_seconds(group.oldest_at), now_s)
        cells = (str(group.rows), str(group.bytes), group.reason, oldest, group.error, group.example)
        _add(table, cells)
    show(table)


def print_plan(document: dict[str, Any]) -> None:
    """A plan in numbers, a line each."""
    table = facts()
    for name, value in document.items():
        words = _counts(cast("dict[str, int]", value)) if isinstance(value, dict) else str(value)
        table.add_row(name.replace("_", " "), Text(printable(words.encode("utf-8", "replace"))))
    show(table)


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items()) or "-"


def print_row(row: Row, body: bytes | None) -> None:
    """One row, a field a line; the body below it where given."""
    table = facts()
    for name, value in attrs.asdict(row).items():
        table.add_row(name, Text("-" if value is None else printable(str(value).encode("utf-8", "replace"))))
    if body is not None:
        table.add_row("body", Text(printable(body)))
    show(table)


def _add(table: Table, cells: Iterable[str | None]) -> None:
    table.add_row(*(Text(printable((cell or "-").encode("utf-8", "replace"))) for cell in cells))


def _age(at_s: float | None, now_s: float) -> str:
    if at_s is None:
        return "-"
    age = max(0.0, now_s - at_s)
    for unit, seconds in (("d", _DAY_S), ("h", _HOUR_S), ("m", _MINUTE_S)):
        if age >= seconds:
            return f"{int(age // seconds)}{unit}"
    return f"{int(age)}s"
