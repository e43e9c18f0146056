"""Reading the ledger: filters, pages and counts that use the indexes and hold little memory."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

import attrs

from craig_mq.audit.columns import as_bytes, as_int, as_moment, stored_row
from craig_mq.audit.database import Database
from craig_mq.audit.identifiers import id_floor
from craig_mq.audit.row import StoredRow
from craig_mq.audit.schema import COLUMN_LIST, COLUMNS


@attrs.define(frozen=True, slots=True)
class RowFilter:
    """Which rows to list; None means any. Times are of recording, from ``since`` to before ``until``."""

    source_service: str | None = None
    event_type: str | None = None
    queue: str | None = None
    reason: str | None = None
    token: str | None = None
    divergent: bool | None = None
    since: datetime | None = None
    until: datetime | None = None


@attrs.define(frozen=True, slots=True)
class WriterHead:
    """The end of one hash chain. ``chain`` is the anchor to keep outside the database."""

    writer: str
    rows: int
    chain: bytes
    imported: bool


@attrs.define(frozen=True, slots=True)
class KindCount:
    """How many hot rows one kind of event has."""

    source_service: str
    event_type: str
    rows: int


@attrs.define(frozen=True, slots=True)
class AuditStats:
    """The ledger in numbers. ``recorded`` = ``hot`` + ``archived`` + ``purged`` in a whole ledger.

    ``imported`` rows are in the archive too, but were recorded elsewhere. ``oldest``, ``newest``,
    ``tokenless``, ``divergent`` and ``kinds`` describe the hot window.
    """

    hot: int
    archived: int
    imported: int
    purged: int
    recorded: int
    tokenless: int
    divergent: int
    oldest: datetime | None
    newest: datetime | None
    kinds: tuple[KindCount, ...]
    writers: tuple[WriterHead, ...]

    @property
    def whole(self) -> bool:
        """Whether every row ever recorded is accounted for."""
        return self.recorded == self.hot + self.archived + self.purged


def find(
    database: Database, where: RowFilter, *, limit: int, before: UUID | None, archived: bool, bodies: bool
) -> list[StoredRow]:
    """Up to ``limit`` rows, newest first; ``before`` continues after the last id of a page."""
    conditions, parameters = _conditions(where, before)
    table = "archived_occurrence" if archived else "occurrence"
    body = "" if bodies else ", NULL AS body"
    columns = COLUMN_LIST if bodies else ", ".join(COLUMNS[:-1]) + body
    archived_at = "archived_at" if archived else "NULL AS archived_at"
    sql = f"SELECT {columns}, {archived_at} FROM {table}{conditions} ORDER BY id DESC LIMIT ?"  # noqa: S608 - fixed names
    return [stored_row(values) for values in database.fetch(sql, [*parameters, limit])]


def _conditions(where: RowFilter, before: UUID | None) -> tuple[str, list[object]]:
    bounds: list[tuple[str, object]] = [
        (f"{name} = ?", value)
        for name in ("source_service", "event_type", "queue", "reason", "token")
        if (value := getattr(where, name)) is not None
    ]
    if where.since is not None:
        bounds.append(("id >= ?", id_floor(where.since)))
    if where.until is not None:
        bounds.append(("id < ?", id_floor(where.until)))
    if before is not None:
        bounds.append(("id < ?", before))
    conditions = [condition for condition, _ in bounds]
    if where.divergent is not None:
        conditions.append("divergent" if where.divergent else "NOT divergent")
    return (" WHERE " + " AND ".join(conditions) if conditions else ""), [value for _, value in bounds]


def get(database: Database, row_id: UUID) -> StoredRow | None:
    """The row with this id and its body, hot or archived."""
    for table, archived_at in (("occurrence", "NULL"), ("archived_occurrence", "archived_at")):
        sql = f"SELECT {COLUMN_LIST}, {archived_at} FROM {table} WHERE id = ?"  # noqa: S608 - fixed names
        rows = database.fetch(sql, (row_id,))
        if rows:
            return stored_row(rows[0])
    return None


def stats(database: Database, *, kinds: int = 20) -> AuditStats:
    """Count the ledger in one snapshot; the ``kinds`` most frequent kinds are listed."""
    with database.snapshot():
        hot, tokens, oldest, newest = database.fetch(
            "SELECT count(*), count(token), min(occurred_at), max(occurred_at) FROM occurrence"
        )[0]
        [(archived,)] = database.fetch("SELECT count(*) FROM archived_occurrence")
        [(imported,)] = database.fetch(
            "SELECT count(*) FROM archived_occurrence"
            " WHERE writer IN (SELECT writer FROM writer WHERE imported)"
        )
        [(divergent,)] = database.fetch("SELECT count(*) FROM occurrence WHERE divergent")
        [(purged,)] = database.fetch(
            "SELECT coalesce(sum(last_seq - first_seq + 1), 0) FROM gap"
            " WHERE writer NOT IN (SELECT writer FROM writer WHERE imported)"
        )
        writers = database.fetch("SELECT writer, seq, chain, imported FROM writer ORDER BY writer")
        top = database.fetch(
            "SELECT source_service, event_type, count(*) AS rows FROM occurrence"
            " GROUP BY source_service, event_type ORDER BY rows DESC, source_service, event_type LIMIT ?",
            (kinds,),
        )
    heads = tuple(WriterHead(str(w), as_int(seq), as_bytes(chain), bool(i)) for w, seq, chain, i in writers)
    return AuditStats(
        hot=as_int(hot),
        archived=as_int(archived) - as_int(imported),
        imported=as_int(imported),
        purged=int(str(purged)),
        recorded=sum(head.rows for head in heads if not head.imported),
        tokenless=as_int(hot) - as_int(tokens),
        divergent=as_int(divergent),
        oldest=None if oldest is None else as_moment(oldest),
        newest=None if newest is None else as_moment(newest),
        kinds=tuple(KindCount(str(s), str(e), as_int(n)) for s, e, n in top),
        writers=heads,
    )
