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

import json
import platform
import sqlite3
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from typing import Any

import click
import psycopg
import trio

from benchmarks.audit_raw import (
    BODY,
    Store,
    Times,
    Watch,
    audit_row,
    entries,
    migrate,
    raw_links_loop,
    raw_loop,
)
from craig_mq.audit.database import Backend
from craig_mq.audit.opening import open_ledger
from craig_mq.audit.postgres.backend import PostgresBackend
from craig_mq.audit.row import micros
from craig_mq.audit.schema import COLUMN_LIST, COLUMNS
from craig_mq.audit.sqlite.backend import SqliteBackend
from craig_mq.audit.writing import write_group
from craig_mq.testing.postgres import PostgresServer

BATCH = 256


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
