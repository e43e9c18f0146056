"""Rows per second of the audit ledger, beside bare drivers doing the same inserts in the same run.

    python -m benchmarks.audit [--rows N] [--rounds N] [--store sqlite|postgres] [--json]

Every commit is fsynced. Each round gives every contender a fresh table and runs them in turn, so that
a busy machine is busy for all of them; ratios are taken within a round. ``raw`` is the bare driver's
``executemany`` of finished tuples. ``raw with links`` makes the tuples within its loop as well, links
of the hash chain included: it writes the very rows that the ledger writes. Neither knows dedup.
``group`` is one ``write_group`` a transaction; ``record`` is the whole path of a delivery:
``store.record`` from concurrent tasks, whose return is the evidence for an ack.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import uuid4

import attrs
import click
import psycopg
import trio

from craig_mq.audit import AuditRow
from craig_mq.audit.database import Backend
from craig_mq.audit.identifiers import ENTROPY_BYTES, row_id
from craig_mq.audit.opening import open_ledger
from craig_mq.audit.postgres.backend import PostgresBackend
from craig_mq.audit.row import Entry, micros
from craig_mq.audit.schema import COLUMN_LIST, COLUMNS
from craig_mq.audit.sqlite.backend import SqliteBackend
from craig_mq.audit.writing import write_group
from craig_mq.testing.postgres import PostgresServer

BATCH = 256
BODY = b'{"id":"00000000-0000-4000-8000-000000000000","payload":"' + b"x" * 440 + b'"}'
Tuples = list[tuple[object, ...]]
Times = tuple[float, float]  # wall and CPU seconds


@attrs.define(frozen=True)
class Store:
    """One kind of store: how to make a fresh one, and how its bare driver is used.

    ``own_id`` and ``own_time`` turn an id and a time into what the driver binds.
    """

    name: str
    backend: Callable[[], Backend]
    connect: Callable[[Backend], Any]
    insert: str
    own_id: Callable[[Any], object]
    own_time: Callable[[datetime], object]


class Watch:
    """Wall and CPU time (of all threads) since it was made."""

    def __init__(self) -> None:
        self._began = time.perf_counter(), time.process_time()

    def read(self) -> Times:
        return time.perf_counter() - self._began[0], time.process_time() - self._began[1]


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


class RawChain:
    """The least that makes the same rows: a tuple and a SHA-256 over its values each."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._seq = 0
        self._chain = bytes(32)
        self._writer = uuid4().hex

    def tuples(self, batch: Sequence[Entry]) -> Tuples:
        own_id, own_time = self._store.own_id, self._store.own_time
        made: Tuples = []
        for entry in batch:
            row = entry.row
            self._seq += 1
            text = (
                f"{self._seq}|{entry.id}|{row.token}|{row.envelope_id}|{row.source_service}|{row.event_type}"
                f"|{micros(row.occurred_at)}|{micros(entry.recorded_at)}|{row.queue}|{row.reason}"
                f"|{row.park_count}|{row.content_sha256.hex()}"
            )
            self._chain = hashlib.sha256(self._chain + text.encode()).digest()
            made.append(
                (
                    own_id(entry.id), row.token, row.envelope_id, row.source_service, row.event_type,
                    own_time(row.occurred_at), own_time(entry.recorded_at), row.queue, row.reason,
                    row.park_count, row.content_sha256, False, None, self._writer, self._seq, self._chain,
                    row.body,
                )
            )  # fmt: skip
        return made


def raw_loop(store: Store, count: int, *, batch: int) -> Times:
    """The bare driver: executemany of ``batch`` finished tuples a transaction."""
    rows = RawChain(store).tuples(entries(count))
    return _insert_raw(store, rows, batch, list)


def raw_links_loop(store: Store, count: int, *, batch: int) -> Times:
    """The bare driver, with each batch's tuples and links made within the loop."""
    return _insert_raw(store, entries(count), batch, RawChain(store).tuples)


def _insert_raw(store: Store, rows: Sequence[Any], batch: int, tuples: Callable[[Any], Tuples]) -> Times:
    backend = store.backend()
    migrate(backend)
    with store.connect(backend) as connection:
        watch = Watch()
        for start in range(0, len(rows), batch):
            cursor = connection.cursor()
            cursor.execute("BEGIN")
            cursor.executemany(store.insert, tuples(rows[start : start + batch]))
            cursor.execute("COMMIT")
        return watch.read()


def group_loop(store: Store, count: int, *, batch: int) -> Times:
    """The ledger's own writing: dedup, hash chain and isolation, ``batch`` rows a transaction."""
    backend = store.backend()
    migrate(backend)
    rows = entries(count)
    with closing(backend.connect()) as database:
        watch = Watch()
        for start in range(0, count, batch):
            write_group(database, rows[start : start + batch])
        return watch.read()


def recorded(store: Store, count: int, *, tasks: int) -> Times:
    """The path of a delivery: ``tasks`` concurrent workers that each wait for their commit."""
    return trio.run(partial(_record, store, count, tasks=tasks))


async def _record(store: Store, count: int, *, tasks: int) -> Times:
    async with open_ledger(store.backend()) as ledger:
        rows = iter([audit_row(number) for number in range(count)])

        async def worker() -> None:
            for row in rows:
                await ledger.record(row)

        watch = Watch()
        async with trio.open_nursery() as nursery:
            for _ in range(tasks):
                nursery.start_soon(worker)
        return watch.read()


def migrate(backend: Backend) -> None:
    with closing(backend.connect()) as database:
        backend.migrate(database)


CONTENDERS: dict[str, Callable[[Store, int], Times]] = {
    "raw, one row": partial(raw_loop, batch=1),
    "group, one row": partial(group_loop, batch=1),
    "raw": partial(raw_loop, batch=BATCH),
    "raw with links": partial(raw_links_loop, batch=BATCH),
    "group": partial(group_loop, batch=BATCH),
    "record, 16 tasks": partial(recorded, tasks=16),
    "record, 256 tasks": partial(recorded, tasks=BATCH),
}
RATIOS = (("group", "raw"), ("group", "raw with links"), ("group, one row", "raw, one row"))


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
        postgres_insert = sqlite_insert.replace("?", "%s") + " ON CONFLICT DO NOTHING"
        yield [
            Store("sqlite", fresh_sqlite, _sqlite, sqlite_insert, str, micros),
            Store("postgres", fresh_postgres, _postgres, postgres_insert, _as_is, _as_is),
        ]


def _as_is(value: object) -> object:
    return value


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


def measured(store: Store, rows: int, rounds: int) -> dict[str, list[Times]]:
    """Wall and CPU seconds a row of every contender in every round; one-row loops do a tenth of the rows."""
    figures: dict[str, list[Times]] = {name: [] for name in CONTENDERS}
    for _ in range(rounds):
        for name, run in CONTENDERS.items():
            count = rows // 10 if "one row" in name else rows
            wall, cpu = run(store, count)
            figures[name].append((wall / count, cpu / count))
    return figures


def summary(figures: dict[str, list[Times]]) -> dict[str, Any]:
    """Medians and extremes over the rounds."""
    report: dict[str, Any] = {}
    for name, samples in figures.items():
        rates = [1 / wall for wall, _ in samples]
        cpu = [spent * 1e6 for _, spent in samples]
        report[name] = {"rows_per_s": _spread(rates, 0), "cpu_us_per_row": _spread(cpu, 1)}
    for name, beside in RATIOS:
        pairs = list(zip(figures[name], figures[beside], strict=True))
        report[f"{name} / {beside}"] = {
            "by_wall": _spread([raw[0] / own[0] for own, raw in pairs], 2),
            "by_cpu": _spread([raw[1] / own[1] for own, raw in pairs], 2),
        }
    return report


def _spread(values: Sequence[float], digits: int) -> dict[str, float]:
    return {
        "median": round(statistics.median(values), digits),
        "min": round(min(values), digits),
        "max": round(max(values), digits),
    }


@click.command()
@click.option("--rows", default=10_000, show_default=True, type=click.IntRange(min=BATCH))
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(min=1))
@click.option("--store", "only", type=click.Choice(["sqlite", "postgres"]))
@click.option("--json", "as_json", is_flag=True)
def main(rows: int, rounds: int, only: str | None, as_json: bool) -> None:
    """Measure the stores in interleaved rounds and print medians with their extremes."""
    with stores() as both:
        results = {
            store.name: summary(measured(store, rows, rounds)) for store in both if only in {None, store.name}
        }
    report = {"rows": rows, "rounds": rounds, "body_bytes": len(BODY), "python": platform.python_version()}
    if as_json:
        print(json.dumps(report | {"results": results}, indent=2))
        return
    for store_name, named in results.items():
        for name, figure in named.items():
            parts = (
                f"{unit} {each['median']:g} ({each['min']:g}..{each['max']:g})"
                for unit, each in figure.items()
            )
            print(f"{store_name:9} {name:30} {'  '.join(parts)}")


if __name__ == "__main__":
    main()
