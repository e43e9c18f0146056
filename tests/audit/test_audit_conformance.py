"""One contract, two stores: everything ``AuditStore`` promises, on SQLite and on PostgreSQL."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from uuid import UUID

import pytest
import trio
import trio.testing

from craig_mq.audit import (
    Divergent,
    GroupLimits,
    LedgerOptions,
    Phantom,
    Recorded,
    RowFilter,
    Tokenless,
    open_store,
    record,
)
from craig_mq.audit.errors import AuditError, StoreClosed
from craig_mq.audit.events import GroupCommitted, RowsSettled
from craig_mq.audit.opening import backend_of
from craig_mq.audit.sqlite.connection import SqliteDatabase
from craig_mq.core.dead_letter import DeadLetter
from craig_mq.core.death import Death
from craig_mq.core.disposition import Disposition, DlqError
from craig_mq.core.envelope import EventEnvelope


async def _record_all(store, rows):
    """Record concurrently; the outcome or the DlqError of each row, in their order."""
    outcomes = [None] * len(rows)

    async def one(index, row):
        try:
            outcomes[index] = await store.record(row)
        except DlqError as error:
            outcomes[index] = error

    async with trio.open_nursery() as nursery:
        for index, row in enumerate(rows):
            nursery.start_soon(one, index, row)
    return outcomes


async def test_a_recorded_row_reads_back_column_for_column(store_url, make_row, clock):
    """What was recorded is found with every column as given, and its body byte for byte."""
    row = make_row(1, body=b"\x00\xff raw", event_type="prüfung", park_count=2**32 - 1, reason=None)
    async with open_store(store_url, LedgerOptions(clock=clock)) as store:
        outcome = await store.record(row)
        stored = await store.get(outcome.id)
    assert outcome == Recorded(stored.id)
    kept = ("token", "envelope_id", "source_service", "event_type", "occurred_at", "queue", "reason")
    assert {name: getattr(stored, name) for name in (*kept, "park_count", "content_sha256", "body")} == {
        name: getattr(row, name) for name in (*kept, "park_count", "content_sha256", "body")
    }
    assert (stored.recorded_at, stored.divergent, stored.archived_at) == (clock.now, False, None)


async def test_a_verdict_leaves_only_after_its_commit(store_url, make_row):
    """When ``record`` returns, a connection of its own already sees the row (ADR-059 §evidence)."""
    backend = backend_of(store_url)
    async with open_store(store_url) as store:
        for number in range(20):
            outcome = await store.record(make_row(number))
            other = backend.connect()
            try:
                assert other.fetch("SELECT count(*) FROM occurrence WHERE id = ?", (outcome.id,)) == [(1,)]
            finally:
                other.close()


async def test_a_phantom_is_absorbed(store_url, make_row):
    """The same token with the same content is a phantom of the canonical row, whatever else differs."""
    async with open_store(store_url) as store:
        first = await store.record(make_row(1))
        assert await store.record(make_row(1, park_count=1)) == Phantom(first.id)
        assert (await store.stats()).hot == 1


async def test_divergent_content_is_recorded_tokenless_and_flagged(store_url, make_row):
    """The same token with other content gives a second, tokenless row that names the canonical one."""
    async with open_store(store_url) as store:
        first = await store.record(make_row(1))
        other = await store.record(make_row(1, body=b"{}"))
        assert other == Divergent(other.id, first.id)
        flagged = await store.get(other.id)
        assert (flagged.token, flagged.divergent, flagged.canonical_id) == (None, True, first.id)
        assert [row.id for row in await store.find(RowFilter(divergent=True))] == [other.id]
        assert (await store.stats()).hot == 2


async def test_a_tokenless_delivery_always_inserts(store_url, make_row):
    """Without a token there is no dedup: every delivery is a row (ADR-059 §bounds)."""
    async with open_store(store_url) as store:
        outcomes = [await store.record(make_row(1, token=None)) for _ in range(3)]
        assert {type(one) for one in outcomes} == {Tokenless}
        assert len({one.id for one in outcomes}) == 3


async def test_concurrent_duplicates_in_one_process_make_one_row(store_url, make_row):
    """Fifty deliveries of one token at once: one row, forty-nine phantoms of it."""
    async with open_store(store_url) as store:
        outcomes = await _record_all(store, [make_row(1) for _ in range(50)])
        [recorded] = [one for one in outcomes if isinstance(one, Recorded)]
        assert [one for one in outcomes if one != recorded] == [Phantom(recorded.id)] * 49
        assert (await store.stats()).hot == 1


async def test_replicas_with_the_same_tokens_make_one_row_each(store_url, make_row):
    """Three stores recording the same tokens in different orders end with one row for each token."""
    rows = [make_row(number) for number in range(60)]
    orders = (rows, rows[::-1], rows[30:] + rows[:30])
    results = []

    async def replica(order):
        async with open_store(store_url, LedgerOptions(limits=GroupLimits(rows=16))) as store:
            results.extend(await _record_all(store, order))

    async with trio.open_nursery() as nursery:
        for order in orders:
            nursery.start_soon(replica, order)
    async with open_store(store_url) as store:
        stats = await store.stats()
    assert stats.hot == stats.recorded == 60
    assert sum(isinstance(one, Recorded) for one in results) == 60
    assert sum(isinstance(one, Phantom) for one in results) == 120


async def test_one_bad_row_fails_alone(store_url, make_row):
    """A row the database refuses gets PERMANENT; its neighbours in the group are each committed once."""
    events = []
    options = LedgerOptions(limits=GroupLimits(delay_s=0.05), on_event=events.append)
    rows = [make_row(number) for number in range(10)]
    rows[4] = make_row(4, park_count=-1)
    async with open_store(store_url, options) as store:
        outcomes = await _record_all(store, rows)
        stats = await store.stats()
    assert outcomes[4].disposition is Disposition.PERMANENT
    assert all(isinstance(one, Recorded) for index, one in enumerate(outcomes) if index != 4)
    assert (stats.hot, stats.recorded) == (9, 9)
    assert sum(one.failed for one in events if isinstance(one, GroupCommitted)) == 1


async def test_concurrent_deliveries_share_a_commit(store_url, make_row):
    """A group is committed at its size bound at the latest: forty rows, groups of at most sixteen."""
    events = []
    options = LedgerOptions(limits=GroupLimits(rows=16, delay_s=0.05), on_event=events.append)
    async with open_store(store_url, options) as store:
        await _record_all(store, [make_row(number) for number in range(40)])
    groups = [one.rows for one in events if isinstance(one, GroupCommitted)]
    assert sum(groups) == 40
    assert max(groups) == 16
    assert sum(one.rows for one in events if isinstance(one, RowsSettled)) == 40


async def test_a_group_is_bounded_by_its_bodies(store_url, make_row):
    """Bodies beyond the byte bound go into further groups, also when a single one is over it."""
    events = []
    limits = GroupLimits(delay_s=0.05, body_bytes=1000)
    async with open_store(store_url, LedgerOptions(limits=limits, on_event=events.append)) as store:
        rows = [make_row(number, body=bytes([number]) * 600) for number in range(3)]
        outcomes = await _record_all(store, [*rows, make_row(9, body=b"x" * 5000)])
    assert all(isinstance(one, Recorded) for one in outcomes)
    assert [one.rows for one in events if isinstance(one, GroupCommitted)] == [1, 1, 1, 1]


async def test_cancelled_before_its_group_nothing_is_written(store_url, make_row):
    """A ``record`` cancelled while its group still gathers leaves no row; its neighbour is committed."""
    async with open_store(store_url, LedgerOptions(limits=GroupLimits(delay_s=0.2))) as store:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.record, make_row(1))
            with trio.move_on_after(0.05) as scope:
                await store.record(make_row(2))
        assert scope.cancelled_caught
        assert [row.token for row in await store.find()] == [make_row(1).token]


async def test_cancelled_during_its_commit_the_group_goes_on(store_url, make_row):
    """Cancelled while its group commits, ``record`` returns at once, and a redelivery is a phantom."""
    async with open_store(store_url) as store:
        committing, proceed = trio.Event(), trio.Event()
        bounded = store._bounded

        async def held_back(attempt):
            committing.set()
            await proceed.wait()
            return await bounded(attempt)

        store._bounded = held_back
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.record, make_row(1))
            await committing.wait()
            nursery.cancel_scope.cancel(reason="the delivery's session ended")
        proceed.set()
        assert isinstance(await store.record(make_row(1)), Phantom)
        assert (await store.stats()).hot == 1


async def test_leaving_the_store_commits_what_waits(store_url, make_row):
    """A row whose ``record`` is under way when the block is left is committed, not dropped."""
    outcomes = []

    async def late(store):
        outcomes.append(await store.record(make_row(1)))

    options = LedgerOptions(limits=GroupLimits(delay_s=0.1))
    async with trio.open_nursery() as nursery, open_store(store_url, options) as store:
        nursery.start_soon(late, store)
        await trio.testing.wait_all_tasks_blocked()
    [outcome] = outcomes
    assert isinstance(outcome, Recorded)


async def test_a_closed_store_refuses(store_url, make_row):
    """After the block ``record`` raises DlqError(TRANSIENT_PARK): the delivery parks, nothing hangs."""
    async with open_store(store_url) as store:
        pass
    with pytest.raises(DlqError) as caught:
        await store.record(make_row(1))
    assert caught.value.disposition is Disposition.TRANSIENT_PARK
    assert isinstance(caught.value.source, StoreClosed)


async def test_the_blocks_own_exception_leaves_as_it_was_raised(store_url):
    """An exception inside the block isn't wrapped in the group of the store's nursery."""
    with pytest.raises(LookupError, match="mine"):
        async with open_store(store_url):
            raise LookupError("mine")


async def test_filters_and_pages(store_url, make_row, clock):
    """Every filter narrows the list, newest first, and ``before`` continues a page without overlap."""
    async with open_store(store_url, LedgerOptions(clock=clock)) as store:
        start = clock.now
        for number in range(6):
            service = "billing" if number % 2 else "mail"
            await store.record(
                make_row(number, source_service=service, reason="expired" if number == 3 else None)
            )
            clock.advance(timedelta(minutes=1))

        async def numbers(**fields):
            return [int(row.token[-2:], 16) for row in await store.find(RowFilter(**fields))]

        assert await numbers() == [5, 4, 3, 2, 1, 0]
        assert await numbers(source_service="mail") == [4, 2, 0]
        assert await numbers(event_type="nothing") == []
        assert await numbers(queue="security.dlq", reason="expired") == [3]
        assert await numbers(token=make_row(2).token) == [2]
        assert await numbers(since=start + timedelta(minutes=2), until=start + timedelta(minutes=4)) == [3, 2]
        first = await store.find(limit=4)
        second = await store.find(limit=4, before=first[-1].id)
        assert [len(first), len(second)] == [4, 2]
        assert {row.id for row in first}.isdisjoint(row.id for row in second)
        assert first[0].body is None
        assert (await store.find(limit=1, bodies=True))[0].body is not None


async def test_an_unknown_id_is_not_found(store_url):
    """``get`` answers None for an id that is in neither table."""
    async with open_store(store_url) as store:
        assert await store.get(UUID(int=0)) is None


async def test_after_archiving_the_same_token_records_again(store_url, make_row, clock):
    """The post-archive bound: dedup ends with the hot window, both rows stay visible (ADR-059 §bounds)."""
    async with open_store(store_url, LedgerOptions(clock=clock)) as store:
        first = await store.record(make_row(1))
        clock.advance(timedelta(days=1))
        assert await store.prune(clock.now) == 1
        second = await store.record(make_row(1))
        assert isinstance(second, Recorded)
        assert (await store.get(first.id)).archived_at == clock.now
        stats = await store.stats()
    assert (stats.hot, stats.archived, stats.recorded, stats.whole) == (1, 1, 2, True)


async def test_pruning_is_resumable_and_reports_progress(store_url, make_row, clock):
    """A prune stopped between batches has lost nothing; the next one finishes: hot + archive = recorded."""
    steps = []
    async with open_store(store_url, LedgerOptions(clock=clock)) as store:
        await _record_all(store, [make_row(number) for number in range(1200)])
        clock.advance(timedelta(hours=1))

        def stop_after_one(progress):
            steps.append(progress.done)
            raise InterruptedError

        with pytest.raises(InterruptedError):
            await store.prune(clock.now, on_progress=stop_after_one)
        halfway = await store.stats()
        assert (halfway.hot, halfway.archived, halfway.whole) == (700, 500, True)
        assert (
            await store.prune(clock.now, on_progress=lambda one: steps.append((one.done, one.total))) == 700
        )
        assert steps == [500, (500, 700), (700, 700)]
        assert (await store.stats()).archived == 1200


async def test_pruning_spares_what_is_young(store_url, make_row, clock):
    """Only rows recorded before the cutoff move."""
    async with open_store(store_url, LedgerOptions(clock=clock)) as store:
        await store.record(make_row(1))
        clock.advance(timedelta(days=2))
        young = await store.record(make_row(2))
        assert await store.prune(clock.now - timedelta(days=1)) == 1
        assert [row.id for row in await store.find()] == [young.id]
        assert len(await store.find(archived=True)) == 1


async def test_two_pruners_at_once_move_each_row_once(store_url, make_row, clock):
    """Concurrent prunes of two replicas move every row exactly once."""
    options = LedgerOptions(clock=clock)
    async with open_store(store_url, options) as one, open_store(store_url, options) as other:
        await _record_all(one, [make_row(number) for number in range(1100)])
        clock.advance(timedelta(hours=1))
        moved = []

        async def prune(store):
            moved.append(await store.prune(clock.now))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(prune, one)
            nursery.start_soon(prune, other)
        stats = await one.stats()
    assert sum(moved) == stats.archived == 1100
    assert stats.whole


async def test_the_handler_records_a_dead_letter(store_url):
    """``record(store)`` keeps the original's fields; a second delivery of the occurrence is absorbed."""
    envelope = EventEnvelope(
        id="8C7BF0A2-0000-4000-8000-000000000001",
        source_service="billing",
        event_type="invoice.paid",
        occurred_at="2026-03-01T11:22:33.123456789+01:00",
        payload=b"{}",
    )
    dead_letter = DeadLetter(
        envelope=envelope,
        token="occ1:broker:" + "a" * 32,
        queue="security.dlq",
        routing_key="dlq.billing",
        park_count=3,
        attempt=1,
        redelivered=False,
        body=b"the original",
        death=Death("billing.q", "rejected", None, None, 1),
    )
    async with open_store(store_url) as store:
        handler = record(store)
        await handler(dead_letter)
        await handler(dead_letter)
        [row] = await store.find(bodies=True)
    assert (row.envelope_id, row.reason, row.park_count) == (envelope.id, "rejected", 3)
    assert row.occurred_at.isoformat() == "2026-03-01T10:22:33.123456+00:00"  # cut, not rounded
    assert row.body == b"the original"


@pytest.mark.parametrize("occurred_at", ["0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59.9-23:59"])
async def test_an_instant_at_the_edge_of_the_calendar_is_clamped(store_url, make_row, occurred_at):
    """A valid ``occurred_at`` whose offset leads out of the calendar is recorded, at the calendar's edge."""
    envelope = EventEnvelope("e", "s", "t", occurred_at, b"{}")
    dead_letter = DeadLetter(envelope, None, "q", "dlq.q", 0, 1, False, b"{}", None)
    async with open_store(store_url) as store:
        await record(store)(dead_letter)
        [row] = await store.find()
    assert row.occurred_at.year in (1, 9999)


async def test_a_newer_schema_is_refused(store_url):
    """A program that meets a schema newer than its own says so and touches nothing."""
    async with open_store(store_url) as store:
        await store.run(partial(_pretend_newer, sqlite=store_url.startswith("sqlite")))
    with pytest.raises(AuditError, match="schema 99"):
        async with open_store(store_url):
            pass


def _pretend_newer(database, *, sqlite):
    database.execute("PRAGMA user_version = 99" if sqlite else "UPDATE schema_version SET version = 99")


async def test_replicas_may_start_at_once(store_url):
    """Eight stores opened at the same time on an empty database all come up: one of them migrated."""

    async def start():
        async with open_store(store_url) as store:
            assert (await store.stats()).recorded == 0

    async with trio.open_nursery() as nursery:
        for _ in range(8):
            nursery.start_soon(start)


async def test_sqlite_commits_reach_the_disk(tmp_path):
    """The embedded store keeps a write-ahead log and syncs it at every commit: an ack may follow at once."""
    async with open_store(f"sqlite:///{tmp_path}/audit.db") as store:
        assert await store.run(lambda database: database.fetch("PRAGMA journal_mode")) == [("wal",)]
        assert await store.run(lambda database: database.fetch("PRAGMA synchronous")) == [(2,)]  # FULL


@pytest.mark.postgres
async def test_postgres_commits_reach_the_disk(postgres_url):
    """No setting of the ledger's connections weakens the server's durability, and every wait has a limit."""
    names = ("fsync", "synchronous_commit", "statement_timeout", "lock_timeout", "TimeZone")
    async with open_store(postgres_url) as store:
        found = [(await store.run(lambda db, name=name: db.fetch(f"SHOW {name}")))[0][0] for name in names]
    assert found == ["on", "on", "15s", "2s", "UTC"]


async def test_a_batch_that_moved_too_few_rows_is_rolled_back(tmp_path, make_row, clock, monkeypatch):
    """If a batch deletes other than what it copied, it is undone as a whole: no row is lost or doubled."""
    async with open_store(f"sqlite:///{tmp_path}/audit.db", LedgerOptions(clock=clock)) as store:
        await _record_all(store, [make_row(number) for number in range(5)])
        clock.advance(timedelta(hours=1))
        execute = SqliteDatabase.execute

        def short(database, sql, parameters=()):
            return execute(database, sql, parameters) - sql.startswith("DELETE")

        monkeypatch.setattr(SqliteDatabase, "execute", short)
        with pytest.raises(AuditError, match="rolled back"):
            await store.prune(clock.now)
        stats = await store.stats()
    assert (stats.hot, stats.archived) == (5, 0)


async def test_an_old_ledger_is_upgraded_with_its_rows(store_url, make_row, monkeypatch):
    """A ledger of the first schema is brought up to date when it is opened, and keeps what it holds."""
    kind = store_url.partition(":")[0].replace("postgresql", "postgres")
    with monkeypatch.context() as past:
        past.setattr(f"craig_mq.audit.{kind}.backend.VERSION", 1)
        async with open_store(store_url) as store:
            outcome = await store.record(make_row(1))
    async with open_store(store_url) as store:
        assert [row.id for row in await store.find(RowFilter(reason="rejected"))] == [outcome.id]
        assert await store.run(lambda database: database.fetch("SELECT * FROM operator_action")) == []
