"""How the ledger looks on a terminal and as JSON."""

from __future__ import annotations

import base64
from collections.abc import Sequence

import msgspec
from rich.console import Console
from rich.text import Text

from craig_mq.audit.reading import AuditStats
from craig_mq.audit.row import StoredRow
from craig_mq.audit.verify import VerifyReport
from craig_mq.cli.terminal import facts, listing, show


def print_json(document: object) -> None:
    """One JSON document on stdout."""
    Console(soft_wrap=True, highlight=False, markup=False).out(
        msgspec.json.format(msgspec.json.encode(document)).decode()
    )


def row_document(row: StoredRow, *, body: bool) -> dict[str, object]:
    """A row as JSON; hashes in hex, the body as text or, where it is not UTF-8, in base64."""
    document: dict[str, object] = {
        "id": str(row.id),
        "token": row.token,
        "envelope_id": row.envelope_id,
        "source_service": row.source_service,
        "event_type": row.event_type,
        "occurred_at": row.occurred_at,
        "recorded_at": row.recorded_at,
        "queue": row.queue,
        "reason": row.reason,
        "park_count": row.park_count,
        "content_sha256": row.content_sha256.hex(),
        "divergent": row.divergent,
        "canonical_id": row.canonical_id,
        "writer": row.writer,
        "seq": row.seq,
        "chain": row.chain.hex(),
        "archived_at": row.archived_at,
    }
    if body and row.body is not None:
        try:
            document["body"] = row.body.decode()
        except UnicodeDecodeError:
            document["body_b64"] = base64.b64encode(row.body).decode()
    return document


def stats_document(stats: AuditStats) -> dict[str, object]:
    """The counts as JSON; ``anchors`` are the last hashes by writer."""
    return {
        "hot": stats.hot,
        "archived": stats.archived,
        "purged": stats.purged,
        "recorded": stats.recorded,
        "imported": stats.imported,
        "whole": stats.whole,
        "tokenless": stats.tokenless,
        "divergent": stats.divergent,
        "oldest": stats.oldest,
        "newest": stats.newest,
        "kinds": [
            {"source_service": kind.source_service, "event_type": kind.event_type, "rows": kind.rows}
            for kind in stats.kinds
        ],
        "anchors": {head.writer: head.chain.hex() for head in stats.writers},
    }


def verify_document(report: VerifyReport) -> dict[str, object]:
    """A verification as JSON."""
    return {
        "intact": report.intact,
        "rows": report.rows,
        "purged": report.purged,
        "findings": [{"writer": one.writer, "seq": one.seq, "text": one.text} for one in report.findings],
        "missing_anchors": list(report.missing_anchors),
    }


def print_rows(rows: Sequence[StoredRow], *, body: bool) -> None:
    """Rows as a table; the texts are data, never markup."""
    columns = ("recorded", "id", "service", "event type", "queue", "reason", "token")
    table = listing(*columns, *(("body",) if body else ()), fold=("id", "service", "queue", "token", "body"))
    for row in rows:
        flag = f"divergent from {row.canonical_id}" if row.divergent else "-"
        cells = [
            row.recorded_at.isoformat(timespec="seconds"),
            str(row.id),
            row.source_service,
            row.event_type,
            row.queue,
            row.reason or "-",
            row.token or flag,
        ]
        if body:
            cells.append(printable(row.body))
        table.add_row(*map(Text, cells))
    show(table)


def print_row(row: StoredRow, *, body: bool) -> None:
    """One row, a column a line."""
    table = facts()
    for name, value in row_document(row, body=False).items():
        table.add_row(name, Text("-" if value is None else str(value)))
    if body:
        table.add_row("body", Text(printable(row.body)))
    show(table)


def print_stats(stats: AuditStats) -> None:
    """The counts, the most frequent kinds and the anchors."""
    console = Console(highlight=False)
    account = "accounts for" if stats.whole else "DOES NOT ACCOUNT FOR"
    console.print(
        f"hot {stats.hot} + archived {stats.archived} + purged {stats.purged}"
        f" {account} recorded {stats.recorded}"
    )
    console.print(f"tokenless {stats.tokenless}, divergent {stats.divergent}, imported {stats.imported}")
    table = listing("service", "event type", "hot rows", fold=("service",))
    for kind in stats.kinds:
        table.add_row(Text(kind.source_service), Text(kind.event_type), str(kind.rows))
    show(table)
    for head in stats.writers:
        console.print(f"anchor {head.chain.hex()} (writer {head.writer}, {head.rows} rows)", soft_wrap=True)


def print_report(report: VerifyReport) -> None:
    """What verify found, a line each."""
    console = Console(highlight=False, markup=False, soft_wrap=True)
    for finding in report.findings:
        console.print(f"writer {finding.writer}, place {finding.seq}: {finding.text}")
    for anchor in report.missing_anchors:
        console.print(f"anchor {anchor} is on no chain: rows after the one before it were removed")
    verdict = "intact" if report.intact else "CHANGED"
    console.print(f"{verdict}: {report.rows} rows checked, {report.purged} purged ones accounted for")


def printable(body: bytes | None) -> str:
    """A body as text that no terminal takes for commands."""
    text = (body or b"").decode(errors="backslashreplace")
    return "".join(one if one.isprintable() or one == "\n" else repr(one)[1:-1] for one in text)
