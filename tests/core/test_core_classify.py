"""What a storage error means for its message (ADR-059 §taxonomy)."""

from __future__ import annotations

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from craig_mq.core.classify import classify, sqlite_disposition, sqlstate_disposition
from craig_mq.core.disposition import Disposition
from craig_mq.core.errors import EnvelopeNotSerializable

PERMANENT = Disposition.PERMANENT
RETRY = Disposition.TRANSIENT_RETRY
PARK = Disposition.TRANSIENT_PARK


class _DriverError(Exception):
    def __init__(self, sqlstate: object) -> None:
        super().__init__()
        self.sqlstate = sqlstate


@pytest.mark.parametrize(
    ("sqlstate", "disposition"),
    [
        ("22001", PERMANENT),
        ("22P02", PERMANENT),
        ("23505", PERMANENT),
        ("23514", PERMANENT),
        ("40001", RETRY),
        ("40P01", RETRY),
        ("08006", PARK),
        ("53300", PARK),
        ("57P01", PARK),
        ("57014", PARK),
        ("42P01", PARK),
        ("42703", PARK),
        ("XX000", PARK),
        ("00000", PARK),
        ("", PARK),
        ("2", PARK),
        (None, PARK),
    ],
)
def test_a_sqlstate_is_classified_by_its_class(sqlstate: str | None, disposition: Disposition) -> None:
    """22 and 23 are PERMANENT, 40 retries, everything else parks."""
    assert sqlstate_disposition(sqlstate) is disposition
    assert classify(_DriverError(sqlstate)) is disposition


@given(st.text(max_size=6))
def test_only_two_classes_ever_quarantine(sqlstate: str) -> None:
    """Whatever the code, PERMANENT needs class 22 or 23: drift never quarantines a backlog."""
    assert (sqlstate_disposition(sqlstate) is PERMANENT) == (sqlstate[:2] in ("22", "23"))


@pytest.mark.parametrize(
    ("code", "disposition"),
    [
        (sqlite3.SQLITE_BUSY, RETRY),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, RETRY),
        (sqlite3.SQLITE_LOCKED, RETRY),
        (sqlite3.SQLITE_FULL, PARK),
        (sqlite3.SQLITE_IOERR, PARK),
        (sqlite3.SQLITE_IOERR_FSYNC, PARK),
        (sqlite3.SQLITE_CORRUPT, PARK),
        (sqlite3.SQLITE_ERROR, PARK),
        (sqlite3.SQLITE_SCHEMA, PARK),
        (sqlite3.SQLITE_CONSTRAINT, PERMANENT),
        (sqlite3.SQLITE_CONSTRAINT_CHECK, PERMANENT),
    ],
)
def test_sqlite_codes_are_classified_by_meaning(code: int, disposition: Disposition) -> None:
    """BUSY and LOCKED retry, FULL, IOERR and the unknown park, CONSTRAINT is PERMANENT, extended or not."""
    assert sqlite_disposition(code) is disposition


def test_real_sqlite_errors_are_recognised() -> None:
    """A violated check is PERMANENT, a missing table parks."""
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE t (n INTEGER CHECK (n > 0))")
    for statement, disposition in (("INSERT INTO t VALUES (0)", PERMANENT), ("SELECT * FROM missing", PARK)):
        with pytest.raises(sqlite3.Error) as failed:
            database.execute(statement)
        assert classify(failed.value) is disposition
    database.close()


@pytest.mark.parametrize(
    "error",
    [
        OSError(),
        ConnectionResetError(),
        TimeoutError(),
        ValueError(),
        KeyError(),
        _DriverError(22),
        sqlite3.Error("x"),
    ],
)
def test_whatever_is_not_known_is_parked(error: Exception) -> None:
    """I/O, TLS, protocol, pool and unknown errors park."""
    assert classify(error) is PARK


def test_an_envelope_that_cannot_be_written_is_permanent() -> None:
    """Failing to serialise the message's own envelope is message-specific: PERMANENT."""
    assert classify(EnvelopeNotSerializable("x")) is PERMANENT
