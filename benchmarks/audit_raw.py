"""What a bare driver does with the audit ledger's rows: the loops that the ledger is measured beside."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import attrs

from craig_mq.audit import AuditRow
from craig_mq.audit.database import Backend
from craig_mq.audit.identifiers import ENTROPY_BYTES, row_id
from craig_mq.audit.row import Entry, micros

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


def migrate(backend: Backend) -> None:
    with closing(backend.connect()) as database:
        backend.migrate(database)
