"""Rows per second of the audit ledger, beside bare drivers doing the same inserts in the same run.

    python -m benchmarks.audit [--rows N] [--rounds N] [--json]

Every commit is fsynced. Each round gives every contender a fresh table and runs them in turn, so that
a busy machine is busy for all of them. ``raw`` loops know no dedup and no hash chain; ``group`` is one
``write_group`` a transaction; ``record`` is the whole path of a delivery: ``store.record`` from
concurrent tasks, whose return is the evidence for an ack.
"""

from __future__ import annotations

import json
import os
import platform
import sqlite3
import statistics
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from functools import partial
from time import perf_counter, process_time

import attrs
import click
import psycopg
import trio

from craig_mq.audit import AuditRow
from craig_mq.audit.chain import Link
from craig_mq.audit.database import Backend, Linked
from craig_mq.audit.dedup import Insertion
from craig_mq.audit.identifiers import ENTROPY_BYTES, row_id
from craig_mq.audit.opening import open_ledger
from craig_mq.audit.postgres.backend import PostgresBackend
from craig_mq.audit.postgres.connection import _columns as postgres_columns
from craig_mq.audit.row import Entry
from craig_mq.audit.schema import COLUMN_LIST, COLUMNS
from craig_mq.audit.sqlite.backend import SqliteBackend
from craig_mq.audit.sqlite.connection import _columns as sqlite_columns
from craig_mq.audit.writing import write_group
from craig_mq.testing.postgres import PostgresServer

BATCH = 256
BODY = b'{"id":"00000000-0000-4000-8000-000000000000","payload":"' + b"x" * 440 + b'"}'


@attrs.define(frozen=True)
class Store:
    """One kind of store: how to make a fresh one, and how its bare driver is used."""

    name: str
    backend: Callable[[], Backend]
    connect: Callable[[Backend], contextmanager]
    insert: str
    columns: Callable[[Linked], tuple[object, ...]]


def entries(count: int) -> list[Entry]:
    """Distinct rows with a body of 500 bytes."""
    now = datetime.now(UTC)
    return [Entry(row_id(now, os.urandom(ENTROPY_BYTES)), now, audit_row(number)) for number in range(count)]


def audit_row(number: int) -> AuditRow:
    return AuditRow(
        token=f"occ1:broker:{number:032x}",
        envelope_id=f"00000000-0000-4000-8000-{number:012x}",
        source_service="billing",
        event_type="invoice.paid",
        occurred_at=datetime.now(UTC),
        queue="security.dlq",
        body=BODY + str(number).encode(),
        reason="rejected",
    )


def prepared(store: Store, count: int) -> list[tuple[object, ...]]:
    """The columns of ``count`` rows, made before the clock starts: the raw loops only insert."""
    link = b"\0" * 32
    return [
        store.columns(Linked(Insertion(entry), Link("raw", seq, link)))
        for seq, entry in enumerate(entries(count), 1)
    ]


def raw_loop(store: Store, count: int, *, batch: int) -> float:
    """The bare driver: executemany of ``batch`` rows a transaction."""
    backend = store.backend()
    migrate(backend)
    rows = prepared(store, count)
    with store.connect(backend) as connection:
        began = perf_counter()
        for start in range(0, count, batch):
            cursor = connection.cursor()
            cursor.execute("BEGIN")
            cursor.executemany(store.insert, rows[start : start + batch])
            cursor.execute("COMMIT")
        return perf_counter() - began


def group_loop(store: Store, count: int, *, batch: int) -> float:
    """The ledger's own writing: dedup, hash chain and isolation, ``batch`` rows a transaction."""
    backend = store.backend()
    migrate(backend)
    rows = entries(count)
    with closing(backend.connect()) as database:
        began = perf_counter()
        for start in range(0, count, batch):
            write_group(database, rows[start : start + batch])
        return perf_counter() - began


def recorded(store: Store, count: int, *, tasks: int) -> float:
    """The path of a delivery: ``tasks`` concurrent workers that each wait for their commit."""
    return trio.run(partial(_record, store, count, tasks=tasks))


async def _record(store: Store, count: int, *, tasks: int) -> float:
    async with open_ledger(store.backend()) as ledger:
        rows = iter([audit_row(number) for number in range(count)])

        async def worker() -> None:
            for row in rows:
                await ledger.record(row)

        began = perf_counter()
        async with trio.open_nursery() as nursery:
            for _ in range(tasks):
                nursery.start_soon(worker)
        return perf_counter() - began


def migrate(backend: Backend) -> None:
    with closing(backend.connect()) as database:
        backend.migrate(database)


def contenders(store: Store) -> dict[str, Callable[[int], float]]:
    return {
        "raw, one row a transaction": partial(raw_loop, store, batch=1),
        "raw, batched": partial(raw_loop, store, batch=BATCH),
        "group, one row a transaction": partial(group_loop, store, batch=1),
        "group, batched": partial(group_loop, store, batch=BATCH),
        "record, 16 tasks": partial(recorded, store, tasks=16),
        "record, 256 tasks": partial(recorded, store, tasks=BATCH),
    }


@contextmanager
def stores() -> Iterator[list[Store]]:
    """Both stores, each backend fresh for every contender."""
    with tempfile.TemporaryDirectory() as folder, PostgresServer() as server:

        def fresh_sqlite() -> Backend:
            return SqliteBackend(tempfile.mktemp(suffix=".db", dir=folder))

        def fresh_postgres() -> Backend:
            return PostgresBackend(server.url(database=server.add_database()))

        marks = ", ".join("?" * len(COLUMNS))
        sqlite_insert = f"INSERT INTO occurrence ({COLUMN_LIST}) VALUES ({marks})"
        yield [
            Store("sqlite", fresh_sqlite, _sqlite, sqlite_insert, sqlite_columns),
            Store(
                "postgres",
                fresh_postgres,
                _postgres,
                sqlite_insert.replace("?", "%s") + " ON CONFLICT DO NOTHING",
                postgres_columns,
            ),
        ]


@contextmanager
def _sqlite(backend: SqliteBackend) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(backend.path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        yield connection


@contextmanager
def _postgres(backend: PostgresBackend) -> Iterator[psycopg.Connection]:
    with psycopg.connect(backend.settings.conninfo(backend.url), autocommit=True) as connection:
        yield connection


@click.command()
@click.option("--rows", default=10_000, show_default=True, type=click.IntRange(min=BATCH))
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(min=1))
@click.option("--json", "as_json", is_flag=True)
def main(rows: int, rounds: int, as_json: bool) -> None:
    """Measure both stores and print medians; one-row loops do a tenth of the rows."""
    figures: dict[str, dict[str, list[float]]] = {}
    cpu: dict[str, dict[str, list[float]]] = {}
    with stores() as both:
        for _ in range(rounds):
            for store in both:
                for name, run in contenders(store).items():
                    count = rows // 10 if "one row" in name else rows
                    before = process_time()
                    seconds = run(count)
                    spent = (process_time() - before) / count
                    cpu.setdefault(store.name, {}).setdefault(name, []).append(spent)
                    figures.setdefault(store.name, {}).setdefault(name, []).append(count / seconds)
    report = {"rows": rows, "rounds": rounds, "body_bytes": len(BODY), "python": platform.python_version()}
    results = {
        store: {
            name: {
                "rows_per_s": round(statistics.median(rates)),
                "min": round(min(rates)),
                "max": round(max(rates)),
                "cpu_us_per_row": round(statistics.median(cpu[store][name]) * 1e6, 1),
            }
            for name, rates in named.items()
        }
        for store, named in figures.items()
    }
    if as_json:
        print(json.dumps(report | {"results": results}, indent=2))
        return
    for store, named in results.items():
        for name, figure in named.items():
            print(f"{store:9} {name:30} {figure['rows_per_s']:>8} rows/s  ({figure['min']}..{figure['max']})")


if __name__ == "__main__":
    main()
