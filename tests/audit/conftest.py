"""What the audit tests share: both stores, a private PostgreSQL server, rows to record."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

import psycopg
import pytest

from craig_mq.audit import AuditRow
from craig_mq.testing.postgres import PostgresServer

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Clock:
    """A wall clock that moves only when told."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now

    def advance(self, step: timedelta) -> None:
        self.now += step


class RowMaker(Protocol):
    """Makes rows; ``number`` decides the token, keyword arguments override columns."""

    def __call__(self, number: int, **columns: object) -> AuditRow: ...


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def make_row() -> RowMaker:
    def make(number: int, **columns: object) -> AuditRow:
        values: dict[str, object] = {
            "token": f"occ1:broker:{number:032x}",
            "envelope_id": f"00000000-0000-4000-8000-{number:012x}",
            "source_service": "billing",
            "event_type": "invoice.paid",
            "occurred_at": NOW - timedelta(minutes=5),
            "queue": "security.dlq",
            "body": b'{"number":%d}' % number,
            "reason": "rejected",
        }
        return AuditRow(**(values | columns))

    return make


@pytest.fixture
def postgres_url(postgres: PostgresServer) -> Iterator[str]:
    """The URL of a database whose ledger is empty; dropping the schema is far cheaper than a database."""
    if not postgres.running:
        postgres.start()
    yield postgres.url()
    if not postgres.running:
        postgres.start()
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
        )
        connection.execute("DROP SCHEMA IF EXISTS craig_audit CASCADE")


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A fresh ledger's URL, once for each kind of store."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/audit.db"
    url: str = request.getfixturevalue("postgres_url")
    return url
