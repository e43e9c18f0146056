"""PostgreSQL that dies, freezes and comes back: nothing acked without a row, nothing recorded twice."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager

import psycopg
import pytest
import trio

from craig_mq.audit import GroupLimits, LedgerOptions, Phantom, Recorded
from craig_mq.audit.errors import CanonicalRowMissing, CommitUnresolved, StoreUnavailable
from craig_mq.audit.events import CommitResolved, OutageBegan, OutageEnded
from craig_mq.audit.opening import open_ledger
from craig_mq.audit.postgres.backend import PostgresBackend
from craig_mq.audit.postgres.connection import PostgresDatabase
from craig_mq.audit.postgres.settings import PostgresSettings
from craig_mq.core.disposition import Disposition, DlqError

pytestmark = pytest.mark.postgres


def _query(url, sql):
    with psycopg.connect(url) as connection:
        return connection.execute(sql).fetchall()


async def _deliver(store, row, acked):
    """Redeliver ``row`` until its handler returns, as a parked delivery comes back: then it is acked."""
    while True:
        try:
            await store.record(row)
        except DlqError as error:
            if error.disposition is Disposition.PERMANENT:
                raise  # an outage never quarantines
            await trio.sleep(0.05)
        else:
            acked[row.token] += 1
            return


async def _kill_under_load(postgres, url, make_row, *, kills, rows):
    """Kill the server that often while ``rows`` deliveries are recorded: tokens found and acked."""
    events, acked = [], Counter()
    options = LedgerOptions(limits=GroupLimits(rows=32), on_event=events.append)
    async with open_ledger(PostgresBackend(url), options) as store, trio.open_nursery() as nursery:
        turns = trio.Semaphore(32)

        async def one(number):
            async with turns:
                await _deliver(store, make_row(number), acked)

        for number in range(rows):
            nursery.start_soon(one, number)
        for kill in range(1, kills + 1):
            while len(acked) < rows * kill // (kills + 1):
                await trio.sleep(0.01)
            evidence = set(acked)
            await trio.to_thread.run_sync(postgres.kill)
            await trio.to_thread.run_sync(postgres.start)
            survived = {token for (token,) in _query(url, "SELECT token FROM craig_audit.occurrence")}
            assert evidence <= survived
    found = Counter(token for (token,) in _query(url, "SELECT token FROM craig_audit.occurrence"))
    assert any(isinstance(one, OutageBegan) for one in events)
    return found, acked


def _once_each(make_row, rows):
    return Counter(make_row(number).token for number in range(rows))


async def test_killed_under_load_nothing_is_acked_without_a_row(postgres, postgres_url, make_row):
    """Two kill -9 under load: every acked token has its row after each restart, and none has two."""
    found, acked = await _kill_under_load(postgres, postgres_url, make_row, kills=2, rows=600)
    assert found == acked == _once_each(make_row, 600)


@pytest.mark.soak
async def test_killed_ten_times_under_load(postgres, postgres_url, make_row):
    """Ten kill -9 under load: every acked token has its row after each restart, and none has two."""
    found, acked = await _kill_under_load(postgres, postgres_url, make_row, kills=10, rows=10_000)
    assert found == acked == _once_each(make_row, 10_000)


async def test_an_outage_is_short_circuited(postgres, postgres_url, make_row):
    """While the server is down two hundred deliveries park without a wait each; then it heals by itself."""
    events = []
    async with open_ledger(PostgresBackend(postgres_url), LedgerOptions(on_event=events.append)) as store:
        await store.record(make_row(0))
        await trio.to_thread.run_sync(postgres.stop)
        with pytest.raises(DlqError) as first:
            await store.record(make_row(1))
        assert first.value.disposition is Disposition.TRANSIENT_PARK
        began = trio.current_time()
        for number in range(200):
            with pytest.raises(DlqError) as caught:
                await store.record(make_row(number))
            assert caught.value.disposition is Disposition.TRANSIENT_PARK
            assert isinstance(caught.value.source, StoreUnavailable)
        assert trio.current_time() - began < 2.0  # less than one connect timeout for all of them
        await trio.to_thread.run_sync(postgres.start)
        with trio.fail_after(20):
            while store.down:
                await trio.sleep(0.05)
        assert isinstance(await store.record(make_row(1)), Recorded)
    kinds = [type(one) for one in events if isinstance(one, (OutageBegan, OutageEnded))]
    assert kinds == [OutageBegan, OutageEnded]


async def test_a_frozen_server_holds_no_delivery(postgres, postgres_url, make_row):
    """A server that stops answering is cut off at the commit timeout; once it thaws there is one row."""
    settings = PostgresSettings(connect_timeout_s=1, commit_timeout_s=0.5)
    async with open_ledger(PostgresBackend(postgres_url, settings)) as store:
        await store.record(make_row(0))
        postgres.pause()
        try:
            with trio.fail_after(15), pytest.raises(DlqError) as caught:
                await store.record(make_row(1))
        finally:
            postgres.resume()
        assert caught.value.disposition is Disposition.TRANSIENT_PARK
        with trio.fail_after(20):
            while store.down:
                await trio.sleep(0.05)
        assert isinstance(await store.record(make_row(1)), (Recorded, Phantom))
    token = make_row(1).token
    assert _query(postgres_url, f"SELECT count(*) FROM craig_audit.occurrence WHERE token = '{token}'") == [
        (1,)
    ]


class _DyingOnce(PostgresBackend):
    """A backend whose first group loses its connection ``before`` or ``after`` the commit took effect."""

    def __init__(self, url, moment):
        super().__init__(url)
        object.__setattr__(self, "moment", moment)

    def connect(self):
        database = super().connect()
        database.__class__ = _DyingDatabase
        database.backend = self
        return database


class _DyingDatabase(PostgresDatabase):
    backend: _DyingOnce

    def insert_rows(self, rows):
        inserted = super().insert_rows(rows)
        if self.backend.moment == "before":
            object.__setattr__(self.backend, "moment", None)
            self.abort()
            self.fetch("SELECT 1")
        return inserted

    @contextmanager
    def transaction(self):
        with super().transaction():
            yield
        wrote = self.fetch("SELECT count(*) FROM occurrence") != [(0,)]
        if self.backend.moment == "after" and wrote:
            object.__setattr__(self.backend, "moment", None)
            self.abort()
            self.fetch("SELECT 1")


@pytest.mark.parametrize(("moment", "found"), [("before", 0), ("after", 3)])
async def test_a_lost_commit_is_looked_up(postgres_url, make_row, moment, found):
    """A connection that dies around a commit: the rows are looked up, and each is recorded exactly once."""
    events, outcomes = [], []
    options = LedgerOptions(limits=GroupLimits(delay_s=0.1), on_event=events.append)
    backend = _DyingOnce(postgres_url, None)
    object.__setattr__(backend, "writers", 1)
    rows = [make_row(1), make_row(2), make_row(3, token=None)]
    async with open_ledger(backend, options) as store:
        object.__setattr__(backend, "moment", moment)

        async def one(row):
            outcomes.append(await store.record(row))

        async with trio.open_nursery() as nursery:
            for row in rows:
                nursery.start_soon(one, row)
        stats = await store.stats()
    assert [one for one in events if isinstance(one, CommitResolved)] == [CommitResolved(3, found)]
    assert Counter(type(one).__name__ for one in outcomes) == {"Recorded": 2, "Tokenless": 1}
    assert (stats.hot, stats.recorded) == (3, 3)


async def test_an_unresolved_commit_parks(postgres, postgres_url, make_row):
    """When the server is gone as well, nothing is guessed: the delivery parks, unacked."""
    backend = _DyingOnce(postgres_url, None)
    async with open_ledger(backend) as store:
        await store.record(make_row(0))
        object.__setattr__(backend, "url", "postgresql://postgres@127.0.0.1:1/postgres")
        object.__setattr__(backend, "moment", "before")
        with pytest.raises(DlqError) as caught:
            await store.record(make_row(1))
    assert caught.value.disposition is Disposition.TRANSIENT_PARK
    assert isinstance(caught.value.source, CommitUnresolved)


class _PrunedMeanwhile(PostgresDatabase):
    """Archives the canonical row between the refused insert and its look-up, as a pruner may."""

    url: str

    def insert_rows(self, rows):
        inserted = super().insert_rows(rows)
        if inserted < len(rows):
            with psycopg.connect(self.url, autocommit=True) as other:
                other.execute("DELETE FROM craig_audit.occurrence")
        return inserted


class _PruningBackend(PostgresBackend):
    def connect(self):
        database = super().connect()
        database.__class__ = _PrunedMeanwhile
        database.url = self.url
        return database


async def test_a_missing_canonical_row_is_retried(postgres_url, make_row):
    """The pruner took the canonical row during the phantom check: TRANSIENT_RETRY, and a retry records."""
    async with open_ledger(_PruningBackend(postgres_url)) as store:
        await store.record(make_row(1))
        with pytest.raises(DlqError) as caught:
            await store.record(make_row(1))
        assert caught.value.disposition is Disposition.TRANSIENT_RETRY
        assert isinstance(caught.value.source, CanonicalRowMissing)
        assert isinstance(await store.record(make_row(1)), Recorded)


async def test_a_token_locked_elsewhere_fails_alone(postgres_url, make_row):
    """A token another session holds uncommitted parks its own delivery only; the group's others commit."""
    settings = PostgresSettings(lock_timeout_s=0.3)
    outcomes = {}
    async with open_ledger(
        PostgresBackend(postgres_url, settings), LedgerOptions(limits=GroupLimits(delay_s=0.1))
    ) as store:
        await store.record(make_row(99))
        with psycopg.connect(postgres_url) as other:
            other.execute("SET search_path = craig_audit")
            other.execute("UPDATE occurrence SET token = %s", (make_row(2).token,))

            async def one(number):
                try:
                    outcomes[number] = await store.record(make_row(number))
                except DlqError as error:
                    outcomes[number] = error

            async with trio.open_nursery() as nursery:
                for number in range(5):
                    nursery.start_soon(one, number)
            other.rollback()
        assert outcomes[2].source.sqlstate == "55P03"
        assert outcomes[2].disposition is Disposition.TRANSIENT_PARK
        assert all(isinstance(outcomes[number], Recorded) for number in (0, 1, 3, 4))
        assert not store.down
        assert isinstance(await store.record(make_row(2)), Recorded)
