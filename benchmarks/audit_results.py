"""The audit ledger's figures as one document: rows a second beside bare drivers, and the whole path.

    python -m benchmarks.audit_results FILE [--rows N] [--rounds N]

Takes a minute or two. What is measured is said in ``benchmarks.audit`` and ``benchmarks.audit_path``.
"""

from __future__ import annotations

import datetime as dt
import json
import os
from pathlib import Path

import click

from benchmarks.audit import BATCH, measured, stores, summary
from benchmarks.audit_path import measured as path_measured
from benchmarks.audit_raw import BODY
from benchmarks.report import machine, versions

CONCURRENCY = 256
PACKAGES = ("trio", "msgspec", "attrs", "psycopg", "psycopg-binary")


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--rows", default=10_000, show_default=True, type=click.IntRange(min=BATCH))
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(min=1))
def main(file: Path, rows: int, rounds: int) -> None:
    """Measure both stores and write FILE."""
    before = os.getloadavg()[0]
    with stores() as both:
        ledger = {store.name: summary(measured(store, rows, rounds)) for store in both}
    path = [
        path_measured(name, messages=rows, rounds=rounds, concurrency=CONCURRENCY, body_bytes=len(BODY))
        for name in ledger
    ]
    report = {
        "at": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "machine": machine((before, os.getloadavg()[0])),
        "versions": versions(PACKAGES),
        "rows": rows,
        "rounds": rounds,
        "body_bytes": len(BODY),
        "ledger": ledger,
        "path": path,
    }
    file.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
