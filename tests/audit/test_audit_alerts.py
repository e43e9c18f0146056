"""Threshold alerts on both stores: a burst within the sliding hour fires once per window."""

from __future__ import annotations

from datetime import timedelta

import trio

from craig_mq.audit import LedgerOptions, open_store
from craig_mq.audit.events import AlertCheckFailed, ThresholdCrossed, ignore


def _options(clock, fired, *, events=None):
    on_event = ignore if events is None else events.append
    return LedgerOptions(clock=clock, alert_threshold=3, on_alert=fired.append, on_event=on_event)


async def test_a_burst_fires_once_per_window(store_url, make_row, clock):
    """The third occurrence within the hour fires, the fourth does not; the next window fires again."""
    fired, events = [], []
    async with open_store(store_url, _options(clock, fired, events=events)) as store:
        for number in range(2):
            await store.record(make_row(number))
        assert fired == []
        await store.record(make_row(2))
        await store.record(make_row(3))
        assert fired == [ThresholdCrossed("billing", "invoice.paid", 3, 3, clock.now)]
        assert [one for one in events if isinstance(one, ThresholdCrossed)] == fired
        clock.advance(timedelta(hours=1, seconds=1))
        for number in range(10, 13):
            await store.record(make_row(number, occurred_at=clock.now))
    assert [one.fired_at for one in fired] == [clock.now - timedelta(hours=1, seconds=1), clock.now]


async def test_kinds_are_counted_apart(store_url, make_row, clock):
    """Two kinds just below the threshold don't add up to one above it."""
    fired = []
    async with open_store(store_url, _options(clock, fired)) as store:
        for number in range(4):
            await store.record(make_row(number, event_type="a" if number % 2 else "b"))
    assert fired == []


async def test_the_state_survives_a_restart(store_url, make_row, clock):
    """A store opened anew doesn't fire again within the window: the state is in the database."""
    fired = []
    for start in (0, 10):
        async with open_store(store_url, _options(clock, fired)) as store:
            for number in range(start, start + 4):
                await store.record(make_row(number))
    assert len(fired) == 1


async def test_replicas_fire_once_together(store_url, make_row, clock):
    """Two replicas recording one burst at the same time fire one alert between them."""
    fired = []

    async def replica(start):
        async with open_store(store_url, _options(clock, fired)) as store, trio.open_nursery() as nursery:
            for number in range(start, start + 10):
                nursery.start_soon(store.record, make_row(number))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(replica, 0)
        nursery.start_soon(replica, 100)
    assert len(fired) == 1


async def test_a_parked_return_counts_by_when_it_occurred(store_url, make_row, clock):
    """Inside the hour a parked return counts; older ones never fire, however many (ADR-059 §threshold)."""
    fired = []
    old = clock.now - timedelta(hours=1)
    recent = clock.now - timedelta(minutes=59)
    async with open_store(store_url, _options(clock, fired)) as store:
        for number in range(10):
            await store.record(make_row(number, occurred_at=old, park_count=7))
        assert fired == []
        for number in range(20, 23):
            await store.record(make_row(number, occurred_at=recent, park_count=1))
    assert len(fired) == 1


async def test_a_clock_far_ahead_never_fires(store_url, make_row, clock):
    """Occurrences from a producer whose clock is an hour ahead don't count; a few seconds ahead do."""
    fired = []
    async with open_store(store_url, _options(clock, fired)) as store:
        for number in range(5):
            await store.record(make_row(number, occurred_at=clock.now + timedelta(hours=1)))
        assert fired == []
        for number in range(10, 13):
            await store.record(make_row(number, occurred_at=clock.now + timedelta(seconds=20)))
    assert len(fired) == 1


async def test_phantoms_do_not_add_up(store_url, make_row, clock):
    """Redeliveries of two occurrences are two occurrences."""
    fired = []
    async with open_store(store_url, _options(clock, fired)) as store:
        for number in (1, 2, 1, 2, 1, 2):
            await store.record(make_row(number))
    assert fired == []


async def test_a_failed_check_undoes_nothing_and_is_made_up(store_url, make_row, clock):
    """If the threshold can't be evaluated the rows stay recorded, and the next group fires the alert."""
    fired, events = [], []
    async with open_store(store_url, _options(clock, fired, events=events)) as store:
        rename = "ALTER TABLE {} RENAME TO {}"
        await store.run(lambda database: database.execute(rename.format("alert", "away")))
        for number in range(3):
            await store.record(make_row(number))
        assert (await store.stats()).hot == 3
        assert any(isinstance(one, AlertCheckFailed) for one in events)
        await store.run(lambda database: database.execute(rename.format("away", "alert")))
        await store.record(make_row(50, event_type="another"))
    assert [one.event_type for one in fired] == ["invoice.paid"]
