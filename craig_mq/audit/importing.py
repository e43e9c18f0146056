"""Bringing the rows of an export back into an archive."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from itertools import groupby
from pathlib import Path

import attrs
import trio

from craig_mq.audit.archive import BATCH_ROWS, Progress
from craig_mq.audit.chain import Link, genesis
from craig_mq.audit.columns import as_bytes, as_int, as_uuid
from craig_mq.audit.database import Database
from craig_mq.audit.errors import ExportError
from craig_mq.audit.export import Run
from craig_mq.audit.export_check import read_manifest, read_part, verify_export
from craig_mq.audit.gaps import fill_gaps, record_gap
from craig_mq.audit.ledger import Ledger, unwatched, utc_now
from craig_mq.audit.row import StoredRow
from craig_mq.audit.schema import COLUMN_LIST, COLUMNS
from craig_mq.audit.store import OnProgress
from craig_mq.audit.walk import Gap

_INSERT = (
    f"INSERT INTO archived_occurrence ({COLUMN_LIST}, archived_at)"  # noqa: S608 - fixed names
    f" VALUES ({', '.join('?' * (len(COLUMNS) + 1))}) ON CONFLICT DO NOTHING"
)


@attrs.define(frozen=True, slots=True)
class ImportReport:
    """``imported`` rows came into the archive, ``present`` ones were in the ledger already."""

    imported: int
    present: int


async def import_export(store: Ledger, folder: Path, *, on_progress: OnProgress = unwatched) -> ImportReport:
    """Bring an export's rows into the archive of ``store``; rows that are there already are left alone.

    The export is verified first, as a whole. One transaction a batch: interrupted, run it again.
    Raises ``ExportError`` for a changed or broken export, or one that contradicts the ledger.
    """
    report = await trio.to_thread.run_sync(verify_export, folder)
    if not report.intact:
        raise ExportError(f"the export's chain is broken: {report.findings[0].text}")
    manifest = await trio.to_thread.run_sync(read_manifest, folder)
    await store.run(partial(_admit_writers, runs=manifest.runs, now=utc_now()))
    imported = done = 0
    for part in manifest.parts:
        rows = await trio.to_thread.run_sync(read_part, folder, part)
        for start in range(0, len(rows), BATCH_ROWS):
            batch = rows[start : start + BATCH_ROWS]
            imported += await store.run(partial(_import_batch, rows=batch, now=utc_now()))
            done += len(batch)
            on_progress(Progress(done, manifest.rows))
    await store.run(partial(_fill, runs=manifest.runs, now=utc_now()))
    return ImportReport(imported, done - imported)


def _admit_writers(database: Database, *, runs: Sequence[Run], now: datetime) -> None:
    """Register the chains of other ledgers, with gaps for what the export leaves out of them."""
    with database.transaction():
        database.serialize_archiving()
        for writer, group in groupby(runs, key=lambda run: run.writer):
            found = database.fetch("SELECT seq, chain, imported FROM writer WHERE writer = ?", (writer,))
            if found and not found[0][2]:
                continue  # recorded here: its head and its gaps are this ledger's own
            head = Link(writer, as_int(found[0][0]), as_bytes(found[0][1])) if found else genesis(writer)
            for run in group:
                if run.first_seq > head.seq + 1:
                    before = bytes.fromhex(run.chain_before)
                    record_gap(
                        database, Gap(writer, head.seq + 1, run.first_seq - 1, head.chain, before, now)
                    )
                if run.last_seq > head.seq:
                    head = Link(writer, run.last_seq, bytes.fromhex(run.chain_after))
            database.execute(
                "INSERT INTO writer (writer, seq, chain, imported) VALUES (?, ?, ?, ?)"
                " ON CONFLICT (writer) DO UPDATE SET seq = excluded.seq, chain = excluded.chain",
                (writer, head.seq, head.chain, True),
            )


def _import_batch(database: Database, *, rows: Sequence[StoredRow], now: datetime) -> int:
    ids = [row.id for row in rows]
    with database.transaction():
        database.serialize_archiving()
        before = _present(database, ids)
        missing = [row for row in rows if row.id not in before]
        database.execute_many(
            _INSERT,
            [(*(getattr(row, name) for name in COLUMNS), row.archived_at or now) for row in missing],
        )
        lost = len(ids) - len(_present(database, ids))
        if lost:
            raise ExportError(f"{lost} rows contradict the ledger: their places in the chain hold other rows")
    return len(missing)


def _present(database: Database, ids: Sequence[object]) -> set[object]:
    marks = ", ".join("?" * len(ids))
    return {
        as_uuid(row_id)
        for table in ("occurrence", "archived_occurrence")
        for (row_id,) in database.fetch(f"SELECT id FROM {table} WHERE id IN ({marks})", ids)  # noqa: S608 - marks only
    }


def _fill(database: Database, *, runs: Sequence[Run], now: datetime) -> None:
    with database.transaction():
        database.serialize_archiving()
        for run in runs:
            before, after = bytes.fromhex(run.chain_before), bytes.fromhex(run.chain_after)
            fill_gaps(database, Gap(run.writer, run.first_seq, run.last_seq, before, after, now))
