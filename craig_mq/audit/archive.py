"""Moving rows out of the hot window, and purging them, in batches that are each all or nothing.

Every batch is one transaction, so an interrupted run has lost nothing and the next run carries on.
After a row was archived its token is free: the same occurrence records again (the named post-archive
bound of ADR-059).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import groupby

import attrs

from craig_mq.audit.chain import genesis
from craig_mq.audit.columns import as_bytes, as_int
from craig_mq.audit.database import Columns, Database
from craig_mq.audit.errors import AuditError
from craig_mq.audit.gaps import extend_gap, record_gap
from craig_mq.audit.identifiers import id_floor
from craig_mq.audit.schema import COLUMN_LIST
from craig_mq.audit.walk import Gap

BATCH_ROWS = 500


@attrs.define(frozen=True, slots=True)
class Progress:
    """How far a run has come: rows ``done`` of ``total`` that were eligible when it began."""

    done: int
    total: int


def count_prunable(database: Database, older_than: datetime) -> int:
    """How many hot rows were recorded before ``older_than``."""
    [(count,)] = database.fetch("SELECT count(*) FROM occurrence WHERE id < ?", (id_floor(older_than),))
    return as_int(count)


def prune_batch(database: Database, older_than: datetime, *, now: datetime, limit: int = BATCH_ROWS) -> int:
    """Move up to ``limit`` of the oldest hot rows recorded before ``older_than`` to the archive."""
    with database.transaction():
        database.serialize_archiving()
        ids = [
            row_id
            for (row_id,) in database.fetch(
                "SELECT id FROM occurrence WHERE id < ? ORDER BY id LIMIT ?", (id_floor(older_than), limit)
            )
        ]
        if not ids:
            return 0
        marks = _marks(ids)
        copied = database.execute(
            f"INSERT INTO archived_occurrence ({COLUMN_LIST}, archived_at)"  # noqa: S608 - fixed names
            f" SELECT {COLUMN_LIST}, ? FROM occurrence WHERE id IN {marks}",
            [now, *ids],
        )
        removed = database.execute(f"DELETE FROM occurrence WHERE id IN {marks}", ids)  # noqa: S608 - marks only
        _require_equal(len(ids), copied, removed)
    return removed


def count_purgeable(database: Database, archived_before: datetime) -> int:
    """How many archived rows were archived before ``archived_before``."""
    [(count,)] = database.fetch(
        "SELECT count(*) FROM archived_occurrence WHERE archived_at < ?", (archived_before,)
    )
    return as_int(count)


def purge_batch(
    database: Database, archived_before: datetime, *, now: datetime, limit: int = BATCH_ROWS
) -> int:
    """Delete up to ``limit`` archived rows for good, leaving a gap record for each run of a chain."""
    with database.transaction():
        database.serialize_archiving()
        rows = database.fetch(
            "SELECT writer, seq, chain FROM archived_occurrence WHERE archived_at < ?"
            " ORDER BY writer, seq LIMIT ?",
            (archived_before, limit),
        )
        removed = 0
        for run in runs(rows):
            removed += _purge_run(database, run, now)
        _require_equal(len(rows), removed)
    return removed


def runs(rows: Sequence[Columns]) -> list[list[Columns]]:
    """Split (writer, seq, …) rows in that order into runs of consecutive seqs of one writer."""
    numbered = enumerate(rows)
    return [
        [row for _, row in run]
        for _, run in groupby(numbered, key=lambda pair: (pair[1][0], as_int(pair[1][1]) - pair[0]))
    ]


def _purge_run(database: Database, run: Sequence[Columns], now: datetime) -> int:
    writer, first, last = str(run[0][0]), as_int(run[0][1]), as_int(run[-1][1])
    gap = Gap(writer, first, last, chain_before(database, writer, first), as_bytes(run[-1][2]), now)
    if not extend_gap(database, by=gap):
        record_gap(database, gap)
    return database.execute(
        "DELETE FROM archived_occurrence WHERE writer = ? AND seq BETWEEN ? AND ?", (writer, first, last)
    )


def chain_before(database: Database, writer: str, first: int) -> bytes:
    """The link that the row ``first`` hashes: of the row or the gap before it, or the writer's genesis.

    Raises ``AuditError`` when there is none: the chain is broken there.
    """
    if first == 1:
        return genesis(writer).chain
    for sql in (
        "SELECT chain FROM occurrence WHERE writer = ? AND seq = ?",
        "SELECT chain FROM archived_occurrence WHERE writer = ? AND seq = ?",
        "SELECT chain_after FROM gap WHERE writer = ? AND last_seq = ?",
    ):
        for (chain,) in database.fetch(sql, (writer, first - 1)):
            return as_bytes(chain)
    raise AuditError(f"writer {writer} has no row {first - 1}: verify the ledger before purging it")


def _marks(values: Sequence[object]) -> str:
    return f"({', '.join('?' * len(values))})"


def _require_equal(expected: int, *counts: int) -> None:
    """A batch that did not do exactly what it read is rolled back: it would lose rows."""
    if any(count != expected for count in counts):
        raise AuditError(f"a batch of {expected} rows changed {counts}: rolled back")
