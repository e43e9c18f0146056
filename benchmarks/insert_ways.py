"""``python -m benchmarks.insert_ways``: ways to bring a group of finished ledger rows to PostgreSQL.

The same rows, links included, one group a transaction, a fresh database for each way and round; the
ways take turns. CPU a row is told apart for this process and the server.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import timedelta
from typing import Any

import click
import msgspec
import psycopg

from benchmarks.audit_path import processor_seconds
from benchmarks.audit_raw import entries, migrate
from craig_mq.audit.chain import genesis
from craig_mq.audit.database import Columns
from craig_mq.audit.dedup import Insertion
from craig_mq.audit.linking import link_all
from craig_mq.audit.postgres.arrays import Packed, packed
from craig_mq.audit.postgres.backend import PostgresBackend
from craig_mq.audit.postgres.connection import PostgresDatabase
from craig_mq.audit.row import EPOCH
from craig_mq.audit.schema import COLUMN_LIST
from craig_mq.testing.postgres import PostgresServer

ROWS = 10_240
KINDS = (
    "uuid", "text", "text", "text", "text", "timestamptz", "timestamptz", "text", "text", "int8",
    "bytea", "bool", "uuid", "text", "int8", "bytea", "bytea",
)  # fmt: skip
TIMES = (5, 6)
TOKEN, DIGEST, CHAIN, BODY = 1, 10, 15, 16
INSERT = f"INSERT INTO occurrence ({COLUMN_LIST})"
MOMENT = (
    "timestamptz 'epoch' + (j->>{0})::bigint / 1000000 * interval '1 second'"
    " + mod((j->>{0})::bigint, 1000000) * interval '1 microsecond'"
)
FROM_JSON = (
    f"{INSERT} SELECT (j->>0)::uuid, j->>1, j->>2, j->>3, j->>4, {MOMENT.format(5)}, {MOMENT.format(6)},"
    " j->>7, j->>8, (j->>9)::bigint, decode(j->>10, 'hex'), (j->>11)::boolean, (j->>12)::uuid, j->>13,"
    " (j->>14)::bigint, chain, body"
    " FROM ROWS FROM (jsonb_array_elements(%b::jsonb), unnest(%b::bytea[]), unnest(%b::bytea[]))"
    " AS row (j, chain, body)"
    " ON CONFLICT DO NOTHING"
)

Rows = Sequence[Columns]
Way = Callable[[PostgresDatabase, Rows], int]
_encode = msgspec.json.Encoder().encode


def in_order(rows: Rows) -> list[tuple[Any, ...]]:
    return sorted(rows, key=lambda row: str(row[TOKEN] or ""))


def with_times(row: tuple[Any, ...]) -> list[Any]:
    cells = list(row)
    for place in TIMES:
        cells[place] = EPOCH + timedelta(microseconds=cells[place])
    return cells


def packed_arrays(database: PostgresDatabase, rows: Rows) -> int:
    """The ledger's own way."""
    return database.insert_rows(rows)


def lists(database: PostgresDatabase, rows: Rows) -> int:
    """The same statement with lists, which psycopg dumps element by element."""
    arrays = [list(column) for column in zip(*map(with_times, in_order(rows)), strict=True)]
    marks = ", ".join(f"%b::{kind}[]" for kind in KINDS)
    query = f"{INSERT} SELECT * FROM unnest({marks}) ON CONFLICT DO NOTHING"
    return database.driver.execute(query.encode(), arrays).rowcount


def copy(database: PostgresDatabase, rows: Rows, table: str = "occurrence") -> int:
    """Binary COPY, which knows no ON CONFLICT: a taken token fails the group."""
    with database.driver.cursor() as cursor:
        with cursor.copy(f"COPY {table} ({COLUMN_LIST}) FROM STDIN (FORMAT BINARY)".encode()) as into:
            into.set_types(KINDS)
            for row in in_order(rows):
                into.write_row(with_times(row))
        return cursor.rowcount


def staged_copy(database: PostgresDatabase, rows: Rows) -> int:
    """Binary COPY into a temporary table, and from there with ON CONFLICT."""
    copy(database, rows, "pg_temp.staging")
    query = f"{INSERT} SELECT {COLUMN_LIST} FROM pg_temp.staging ON CONFLICT DO NOTHING"
    return database.execute(query)


def json(database: PostgresDatabase, rows: Rows) -> int:
    """One JSON document and two arrays of bytes."""
    ordered = in_order(rows)
    cells = [(*row[:DIGEST], row[DIGEST].hex(), *row[DIGEST + 1 : CHAIN]) for row in ordered]
    binaries = packed(("bytea", "bytea"), [[row[CHAIN] for row in ordered], [row[BODY] for row in ordered]])
    document = Packed(b"\x01" + _encode(cells))  # the version of jsonb's binary form
    return database.driver.execute(FROM_JSON.encode(), [document, *binaries]).rowcount


WAYS: tuple[Way, ...] = (packed_arrays, lists, copy, staged_copy, json)


def groups_of(size: int) -> list[Rows]:
    """``ROWS`` rows in groups of ``size``, as links of one chain."""
    head, groups = genesis("writer"), list[Rows]()
    insertions = [Insertion(entry) for entry in entries(ROWS)]
    for start in range(0, ROWS, size):
        head, rows = link_all(head, insertions[start : start + size])
        groups.append(rows)
    return groups


def measure(server: PostgresServer, way: Way, groups: Sequence[Rows]) -> tuple[float, float, float]:
    """Rows a second, and CPU microseconds a row of this process and of the server."""
    backend = PostgresBackend(server.url(database=server.add_database()))
    migrate(backend)
    with closing(psycopg.connect(backend.settings.conninfo(backend.url), autocommit=True)) as driver:
        database = PostgresDatabase(driver)
        database.execute("CREATE TEMP TABLE staging (LIKE craig_audit.occurrence) ON COMMIT DELETE ROWS")
        before, began = processor_seconds(), time.perf_counter()
        for rows in groups:
            with database.transaction():
                if way(database, rows) != len(rows):
                    raise RuntimeError(f"{way.__name__} left rows out")
        seconds, after = time.perf_counter() - began, processor_seconds()
    client, served = ((after[name] - before[name]) / ROWS * 1e6 for name in ("client", "postgres"))
    return ROWS / seconds, client, served


@click.command()
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(min=1))
@click.option("--size", default=128, show_default=True, type=click.IntRange(1, ROWS))
def main(rounds: int, size: int) -> None:
    """Measure every way on one private server and print medians."""
    figures: dict[Way, list[tuple[float, float, float]]] = {way: [] for way in WAYS}
    with PostgresServer() as server:
        for _ in range(rounds):
            for way in WAYS:
                figures[way].append(measure(server, way, groups_of(size)))
    for way, samples in figures.items():
        rate, client, served = (statistics.median(column) for column in zip(*samples, strict=True))
        print(
            f"{way.__name__:14} {rate:7,.0f} rows/s  client {client:5.1f} us  server {served:5.1f} us a row"
        )


if __name__ == "__main__":
    main()
