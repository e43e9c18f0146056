"""Every class of failure, provoked on a real database, and its disposition (ADR-059 §dispositions)."""

from __future__ import annotations

import sqlite3
import ssl
import threading

import psycopg
import pytest
import trio

from craig_mq.audit import LedgerOptions, Recorded, classify
from craig_mq.audit.opening import open_ledger
from craig_mq.audit.postgres.backend import PostgresBackend
from craig_mq.audit.sqlite.backend import SqliteBackend
from craig_mq.core.disposition import Disposition, DlqError
from craig_mq.core.errors import EnvelopeNotSerializable

RETRY, PARK, PERMANENT = Disposition.TRANSIENT_RETRY, Disposition.TRANSIENT_PARK, Disposition.PERMANENT


@pytest.fixture
def session(postgres):
    """Opens plain sessions of the superuser beside a table of two rows, ``trial``; closes them all."""
    opened = []

    def connect():
        opened.append(psycopg.connect(postgres.url(), autocommit=True))
        return opened[-1]

    connect().execute("CREATE TABLE trial (id int PRIMARY KEY, n int NOT NULL CHECK (n >= 0))")
    opened[0].execute("INSERT INTO trial VALUES (1, 0), (2, 0)")
    yield connect
    for one in opened[1:]:
        one.close()  # first the sessions that may still hold locks on it
    opened[0].execute("SET lock_timeout = '10s'")
    opened[0].execute("DROP TABLE trial")
    opened[0].close()


STATEMENTS = [  # sqlstate, disposition, statement
    ("22003", PERMANENT, "INSERT INTO trial VALUES (9, 99999999999)"),
    ("22P02", PERMANENT, "SELECT 'x'::int"),
    ("22021", PERMANENT, "SELECT convert_from('\\xff', 'UTF8')"),
    ("22012", PERMANENT, "SELECT 1 / 0"),
    ("23505", PERMANENT, "INSERT INTO trial VALUES (1, 1)"),
    ("23502", PERMANENT, "INSERT INTO trial VALUES (9, NULL)"),
    ("23514", PERMANENT, "INSERT INTO trial VALUES (9, -1)"),
    ("42P01", PARK, "SELECT * FROM no_such_table"),
    ("42703", PARK, "SELECT no_such_column FROM trial"),
    ("42601", PARK, "SELEKT"),
    ("57014", PARK, "SET statement_timeout = 50; SELECT pg_sleep(5)"),
    ("25006", PARK, "BEGIN READ ONLY; INSERT INTO trial VALUES (9, 9)"),
    ("0A000", PARK, "SELECT 1 FROM trial GROUP BY id FOR UPDATE"),
    ("P0001", PARK, "DO $$ BEGIN RAISE EXCEPTION 'anything'; END $$"),
]


@pytest.mark.postgres
@pytest.mark.parametrize(("sqlstate", "disposition", "statement"), STATEMENTS)
def test_a_statement_that_fails(session, sqlstate, disposition, statement):
    """Bad data and constraints are PERMANENT; drift, cancelled statements and the unknown park."""
    with pytest.raises(psycopg.Error) as caught:
        session().execute(statement)
    assert caught.value.sqlstate == sqlstate
    assert classify(caught.value) is disposition


@pytest.mark.postgres
def test_a_serialization_failure_is_retried(session):
    """40001, from two serializable transactions that can't both be: TRANSIENT_RETRY."""
    one, other = session(), session()
    for connection in (one, other):
        connection.execute("BEGIN ISOLATION LEVEL SERIALIZABLE")
        connection.execute("SELECT sum(n) FROM trial")
    one.execute("UPDATE trial SET n = n + 1 WHERE id = 1")
    other.execute("UPDATE trial SET n = n + 1 WHERE id = 2")
    one.execute("COMMIT")
    with pytest.raises(psycopg.errors.SerializationFailure) as caught:
        other.execute("COMMIT")
    assert classify(caught.value) is RETRY


@pytest.mark.postgres
def test_a_deadlock_is_retried(session):
    """40P01, from two transactions that wait for each other: TRANSIENT_RETRY for the one that is chosen."""
    one, other = session(), session()
    errors = []
    for connection, row in ((one, 1), (other, 2)):
        connection.execute("SET deadlock_timeout = '50ms'")
        connection.execute("BEGIN")
        connection.execute("UPDATE trial SET n = 1 WHERE id = %s", (row,))

    def cross(connection, row):
        try:
            connection.execute("UPDATE trial SET n = 1 WHERE id = %s", (row,))
        except psycopg.Error as error:
            errors.append(error)
            connection.execute("ROLLBACK")

    waiting = threading.Thread(target=cross, args=(one, 2))
    waiting.start()
    cross(other, 1)
    waiting.join()
    [error] = errors
    assert error.sqlstate == "40P01"
    assert classify(error) is RETRY


@pytest.mark.postgres
def test_an_outage_parks(session, postgres):
    """Admin shutdown, connection loss, too many connections and no server at all: TRANSIENT_PARK."""
    admin, victim = session(), session()
    admin.execute("SELECT pg_terminate_backend(%s)", (victim.info.backend_pid,))
    with pytest.raises(psycopg.Error) as shutdown:
        victim.execute("SELECT 1")
    assert shutdown.value.sqlstate == "57P01"
    with pytest.raises(psycopg.Error) as lost:
        victim.execute("SELECT 1")
    admin.execute("CREATE ROLE narrow LOGIN CONNECTION LIMIT 0")
    try:
        with pytest.raises(psycopg.OperationalError, match="too many connections") as crowded:
            psycopg.connect(postgres.url(user="narrow"))
    finally:
        admin.execute("DROP ROLE narrow")
    with pytest.raises(psycopg.OperationalError) as absent:
        psycopg.connect("postgresql://postgres@127.0.0.1:1/postgres", connect_timeout=2)
    for caught in (shutdown, lost, crowded, absent):
        assert classify(caught.value) is PARK


@pytest.mark.postgres
async def test_drift_never_quarantines_a_backlog(postgres_url, make_row):
    """With the ledger's table gone every delivery parks, and records once the table is back."""
    async with open_ledger(PostgresBackend(postgres_url)) as store:
        rename = "ALTER TABLE {} RENAME TO {}"
        await store.run(lambda database: database.execute(rename.format("occurrence", "lost")))
        for number in range(3):
            with pytest.raises(DlqError) as caught:
                await store.record(make_row(number))
            assert caught.value.disposition is PARK
            assert caught.value.source.sqlstate == "42P01"
        await store.run(lambda database: database.execute(rename.format("lost", "occurrence")))
        assert isinstance(await store.record(make_row(1)), Recorded)


@pytest.mark.postgres
@pytest.mark.parametrize("field", ["event_type", "source_service", "queue", "reason"])
async def test_text_postgresql_cannot_hold_is_permanent(postgres_url, make_row, field):
    """A NUL in a text is the message's own fault: PERMANENT for it alone."""
    async with open_ledger(PostgresBackend(postgres_url)) as store:
        with pytest.raises(DlqError) as caught:
            await store.record(make_row(1, **{field: "a\0b"}))
        assert caught.value.disposition is PERMANENT
        assert isinstance(await store.record(make_row(2)), Recorded)


async def test_a_lone_surrogate_is_permanent(tmp_path, make_row):
    """A text that no encoding can hold never gets better: PERMANENT, before the database sees it."""
    async with open_ledger(SqliteBackend(str(tmp_path / "audit.db"))) as store:
        with pytest.raises(DlqError) as caught:
            await store.record(make_row(1, event_type="\ud800"))
    assert caught.value.disposition is PERMANENT


async def test_a_busy_file_is_retried(tmp_path, make_row):
    """SQLITE_BUSY, another process holding the write lock beyond the timeout: TRANSIENT_RETRY."""
    path = str(tmp_path / "audit.db")
    async with open_ledger(SqliteBackend(path, busy_timeout_s=0.05)) as store:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(DlqError) as caught:
            await store.record(make_row(1))
        assert caught.value.disposition is RETRY
        other.execute("COMMIT")
        other.close()
        assert isinstance(await store.record(make_row(1)), Recorded)


async def test_a_full_disk_parks_and_heals(tmp_path, make_row):
    """SQLITE_FULL parks the delivery and loses nothing; with room again the same row records."""
    async with open_ledger(SqliteBackend(str(tmp_path / "audit.db"))) as store:
        [(pages,)] = await store.run(lambda database: database.fetch("PRAGMA page_count"))
        await store.run(lambda database: database.execute(f"PRAGMA max_page_count = {pages}"))
        with pytest.raises(DlqError) as caught:
            await store.record(make_row(1, body=b"x" * 100_000))
        assert caught.value.disposition is PARK
        assert caught.value.source.sqlite_errorname == "SQLITE_FULL"
        await store.run(lambda database: database.execute("PRAGMA max_page_count = 1000000"))
        assert isinstance(await store.record(make_row(1, body=b"x" * 100_000)), Recorded)


async def test_a_missing_table_parks(tmp_path, make_row):
    """SQLite's plain SQLITE_ERROR is drift: TRANSIENT_PARK."""
    async with open_ledger(SqliteBackend(str(tmp_path / "audit.db"))) as store:
        await store.run(lambda database: database.execute("DROP TABLE writer"))
        with pytest.raises(DlqError) as caught:
            await store.record(make_row(1))
    assert caught.value.disposition is PARK


def test_a_file_that_is_no_database_is_let_go(tmp_path, monkeypatch):
    """Opening a file that is no SQLite database raises the driver's error and leaves no connection open."""
    path = tmp_path / "audit.db"
    path.write_text("no database, " * 100, encoding="utf-8")
    connect, opened = sqlite3.connect, []

    def connect_and_keep(*arguments, **options):
        opened.append(connect(*arguments, **options))
        return opened[-1]

    monkeypatch.setattr(sqlite3, "connect", connect_and_keep)
    with pytest.raises(sqlite3.DatabaseError, match="not a database"):
        SqliteBackend(str(path)).connect()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        opened[0].execute("SELECT 1")


def test_sqlite_by_meaning():
    """A constraint, a value too large and a type mismatch are PERMANENT."""
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, n CHECK (n > 0))")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 1000)
    for statement, parameters in (
        ("INSERT INTO t VALUES (1, 0)", ()),
        ("INSERT INTO t VALUES ('x', 1)", ()),
        ("INSERT INTO t VALUES (2, ?)", ("x" * 2000,)),
    ):
        with pytest.raises(sqlite3.Error) as caught:
            connection.execute(statement, parameters)
        assert classify(caught.value) is PERMANENT, statement
    connection.close()


@pytest.mark.parametrize(
    "error",
    [
        OSError("disk"),
        ConnectionResetError(),
        TimeoutError(),
        ssl.SSLError("handshake"),
        EOFError(),
        ValueError("decode"),
        KeyError("schema"),
        psycopg.DataError("timestamp too large (after year 10K)"),
        trio.BrokenResourceError(),
        RuntimeError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_io_tls_decode_and_the_unknown_park(error):
    """The fail-safe default: what isn't provably the message's fault parks."""
    assert classify(error) is PARK


def test_the_messages_own_envelope_is_permanent():
    """Failing to serialise the message's own envelope is the message's fault."""
    assert classify(EnvelopeNotSerializable("id")) is PERMANENT


@pytest.mark.parametrize(
    ("leaves", "disposition"),
    [
        ((PERMANENT, PERMANENT), PERMANENT),
        ((RETRY, RETRY), RETRY),
        ((PERMANENT, RETRY), PARK),
        ((PERMANENT, PARK), PARK),
    ],
)
def test_a_group_needs_every_leaf(leaves, disposition):
    """A group is PERMANENT or TRANSIENT_RETRY only if every leaf is, however deep (field failure EXG-01)."""
    first, *rest = (DlqError(leaf, source=None) for leaf in leaves)
    assert classify(ExceptionGroup("outer", [first, ExceptionGroup("inner", rest)])) is disposition


def test_options_are_validated():
    """A threshold below one is refused at construction."""
    with pytest.raises(ValueError, match="alert_threshold"):
        LedgerOptions(alert_threshold=0)
