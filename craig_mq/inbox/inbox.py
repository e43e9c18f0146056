"""Exactly-once effect: the effect and the note that it happened are one transaction.

The key is the queue and the envelope's id (in lower case: two spellings of one UUID are one event).
A row is valid strictly before its expiry, which is read from the clock by the last statement before
the commit, and a hit never extends it. So the bound is: a copy that comes later than ``retention``
after the commit has its effect again. Replicas with clocks apart move that edge by the difference.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, TypeAlias

import attrs
import trio

from craig_mq.audit.classification import classify
from craig_mq.audit.columns import as_int
from craig_mq.audit.database import Database, Pool
from craig_mq.core.config_fields import duration, within
from craig_mq.core.disposition import DlqError
from craig_mq.core.received_event import ReceivedEvent
from craig_mq.runtime.ladder_plan import EventHandler
from craig_mq.service_database import connector, create_tables

Effect: TypeAlias = Callable[[Any, ReceivedEvent], None]
"""What an event does, with the driver's own connection, inside a transaction that it must not end."""

_TABLES = (
    (
        "CREATE TABLE IF NOT EXISTS craig_inbox (queue text NOT NULL, envelope_id text NOT NULL,"
        " expires_at bigint NOT NULL, PRIMARY KEY (queue, envelope_id))"
    ),
    "CREATE INDEX IF NOT EXISTS craig_inbox_expiry ON craig_inbox (expires_at)",
)
_OF_KEY = "WHERE queue = ? AND envelope_id = ?"
_PARALLEL = 4
_SECONDS_IN_MICROS = 1_000_000
_SEVEN_DAYS = timedelta(days=7)


class EffectEndedTransaction(Exception):
    """An effect committed or rolled back by itself, so its row could not be part of it."""


@attrs.define(frozen=True, slots=True)
class InboxOptions:
    """``retention``: how long after its commit an event is recognised, 1 s to 10 years."""

    retention: timedelta = attrs.field(
        default=_SEVEN_DAYS, converter=duration, validator=within(1, 10 * 365 * 86_400)
    )


class Inbox:
    """One table in the service's database. Safe for any number of tasks and processes."""

    def __init__(self, pool: Pool, options: InboxOptions, now: Callable[[], float]) -> None:
        self._pool = pool
        self._retention_micros = round(options.retention.total_seconds() * _SECONDS_IN_MICROS)
        self._now = now
        self._threads = trio.CapacityLimiter(_PARALLEL)

    def once(self, effect: Effect) -> EventHandler:
        """Return a handler for ``subscribe`` that gives each event its effect once.

        What the effect or the database raises comes out as DlqError with the disposition that
        ``classify`` gives it, after the transaction was rolled back.
        """

        async def handler(event: ReceivedEvent) -> None:
            await self.apply(event, effect)

        return handler

    async def apply(self, event: ReceivedEvent, effect: Effect) -> bool:
        """Run the effect and commit, or return False because it was committed before.

        The effect runs in a worker thread. Cancelled: the transaction is finished first, so that its
        outcome is known; only one that waits for a thread is not begun.
        """
        try:
            return await trio.to_thread.run_sync(self._apply, event, effect, limiter=self._threads)
        except DlqError:
            raise
        except Exception as error:
            raise DlqError(classify(error), source=error) from error

    async def prune(self) -> int:
        """Delete the rows that no longer count; return how many. To be called now and then."""
        return await trio.to_thread.run_sync(self._prune, limiter=self._threads)

    def _apply(self, event: ReceivedEvent, effect: Effect) -> bool:
        key = (event.queue, event.envelope.id.lower())
        with self._pool.lease() as database, database.transaction():
            if not self._claim(database, key):
                return False
            effect(database.driver, event)
            noted = database.execute(
                f"UPDATE craig_inbox SET expires_at = ? {_OF_KEY}",  # noqa: S608 - fixed names
                (self._micros() + self._retention_micros, *key),
            )
            if noted != 1 or not _in_transaction(database):
                raise EffectEndedTransaction("an effect must not commit, nor roll back")
        return True

    def _claim(self, database: Database, key: tuple[str, str]) -> bool:
        """Whether this transaction is the one: it holds the key's row until its end."""
        lock = "" if database.exclusive else " FOR UPDATE"
        while True:
            if database.execute("INSERT INTO craig_inbox VALUES (?, ?, 0) ON CONFLICT DO NOTHING", key):
                return True
            held = database.fetch(f"SELECT expires_at FROM craig_inbox {_OF_KEY}{lock}", key)  # noqa: S608
            if held:
                # Looked at after the wait for the lock: strictly before its expiry a row counts.
                return not self._micros() < as_int(held[0][0])
            # Pruned between the two statements: it is free again.

    def _prune(self) -> int:
        with self._pool.lease() as database, database.transaction():
            return database.execute("DELETE FROM craig_inbox WHERE expires_at <= ?", (self._micros(),))

    def _micros(self) -> int:
        return int(self._now() * _SECONDS_IN_MICROS)


def _in_transaction(database: Database) -> bool:
    """Whether the effect left the transaction open; PostgreSQL's driver refuses to let it end one."""
    return not database.exclusive or bool(getattr(database.driver, "in_transaction", True))


@asynccontextmanager
async def open_inbox(
    url: str, *, retention: timedelta | float = _SEVEN_DAYS, now: Callable[[], float] = time.time
) -> AsyncGenerator[Inbox]:
    """Open the inbox in the database at ``url`` for the length of the block; its table is created.

    ``sqlite:///FILE`` or ``postgresql://…``. ``now`` gives seconds since the Unix epoch. Raises
    DlqConfigError for another URL or a retention out of range, and the driver's own errors.
    """
    options = InboxOptions(duration(retention))
    pool = Pool(connector(url), _PARALLEL)

    def prepare() -> None:
        with pool.lease() as database:
            create_tables(database, _TABLES)

    try:
        await trio.to_thread.run_sync(prepare)
        yield Inbox(pool, options, now)
    finally:
        pool.close()
