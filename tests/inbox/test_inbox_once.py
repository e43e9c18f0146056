"""The inbox on both databases: one effect per event, within the window, in one transaction."""

from __future__ import annotations

import sqlite3
from typing import Any

import attrs
import pytest
import trio

from craig_mq import Disposition, DlqConfigError, DlqError, EventEnvelope, ReceivedEvent
from craig_mq.inbox import open_inbox
from craig_mq.inbox.inbox import EffectEndedTransaction

ID = "0192F0C1-0000-7000-8000-00000000000A"


def event(envelope_id: str = ID, queue: str = "orders") -> ReceivedEvent:
    envelope = EventEnvelope(envelope_id, "shop", "order.placed", "2026-11-30T10:00:00Z", b"{}")
    return ReceivedEvent(envelope, queue, "order.placed", 1, False, b"{}")


@attrs.define
class Service:
    """A service's database with one table of its own, and a wall clock to turn."""

    url: str
    now: float = 1_000.0

    def clock(self) -> float:
        return self.now

    def effect(self, connection: Any, received: ReceivedEvent) -> None:
        connection.execute("INSERT INTO effect (queue) VALUES ('" + received.queue + "')")

    def connect(self) -> Any:
        if self.url.startswith("sqlite"):
            return sqlite3.connect(self.url.removeprefix("sqlite:///"))
        import psycopg

        return psycopg.connect(self.url)

    def count(self, table: str = "effect") -> int:
        connection = self.connect()
        try:
            return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
        finally:
            connection.close()


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def service(request: pytest.FixtureRequest, tmp_path) -> Service:
    """A service on each kind of database."""
    sqlite = request.param == "sqlite"
    url = f"sqlite:///{tmp_path}/service.db" if sqlite else request.getfixturevalue("database_url")
    service = Service(url)
    connection = service.connect()
    connection.execute("CREATE TABLE effect (queue text)")
    connection.commit()
    connection.close()
    return service


async def test_one_effect_per_event(service):
    """However often an event comes, in whatever spelling of its id, its effect is committed once."""
    async with open_inbox(service.url, now=service.clock) as inbox:
        assert await inbox.apply(event(), service.effect)
        assert not await inbox.apply(event(), service.effect)
        await inbox.once(service.effect)(event(ID.lower()))
    async with open_inbox(service.url, now=service.clock) as inbox:
        assert not await inbox.apply(event(), service.effect)
    assert service.count() == 1


async def test_queues_do_not_share_an_event(service):
    """Two queues that get the same event have one effect each."""
    async with open_inbox(service.url, now=service.clock) as inbox:
        assert await inbox.apply(event(queue="orders"), service.effect)
        assert await inbox.apply(event(queue="mails"), service.effect)
    assert service.count() == 2


async def test_a_failed_effect_leaves_nothing(service):
    """An effect that raises is rolled back with its row, and the next copy has its effect."""

    def fails_late(connection: Any, received: ReceivedEvent) -> None:
        service.effect(connection, received)
        raise ValueError("boom")

    async with open_inbox(service.url, now=service.clock) as inbox:
        with pytest.raises(DlqError) as caught:
            await inbox.apply(event(), fails_late)
        assert caught.value.disposition is Disposition.TRANSIENT_PARK
        assert (service.count(), service.count("craig_inbox")) == (0, 0)
        assert await inbox.apply(event(), service.effect)
    assert service.count() == 1


async def test_an_effects_own_disposition_passes(service):
    """A DlqError out of an effect comes out as it is; a constraint of the database is PERMANENT."""

    def chooses(connection: Any, received: ReceivedEvent) -> None:
        raise DlqError(Disposition.TRANSIENT_RETRY, source=OSError("busy"))

    def repeats(connection: Any, received: ReceivedEvent) -> None:
        connection.execute("CREATE UNIQUE INDEX one ON effect (queue)")
        service.effect(connection, received)
        service.effect(connection, received)

    async with open_inbox(service.url, now=service.clock) as inbox:
        for effect, expected in ((chooses, Disposition.TRANSIENT_RETRY), (repeats, Disposition.PERMANENT)):
            with pytest.raises(DlqError) as caught:
                await inbox.apply(event(), effect)
            assert caught.value.disposition is expected


async def test_valid_strictly_before_expiry(service):
    """A row counts until just before its expiry; at the instant itself the effect happens again."""
    async with open_inbox(service.url, retention=60, now=service.clock) as inbox:
        assert await inbox.apply(event(), service.effect)
        service.now += 59.999999
        assert not await inbox.apply(event(), service.effect)
        service.now = 1_060.0
        assert await inbox.apply(event(), service.effect)
    assert service.count() == 2


async def test_a_hit_never_extends(service):
    """Copies that keep coming do not move the expiry."""
    async with open_inbox(service.url, retention=60, now=service.clock) as inbox:
        for _ in range(6):
            await inbox.apply(event(), service.effect)
            service.now += 10
        assert await inbox.apply(event(), service.effect)


async def test_expiry_is_measured_from_the_commit(service):
    """A slow effect does not shorten the window: the clock is read after it, by the last statement."""

    def slow(connection: Any, received: ReceivedEvent) -> None:
        service.effect(connection, received)
        service.now += 30

    async with open_inbox(service.url, retention=60, now=service.clock) as inbox:
        assert await inbox.apply(event(), slow)
        service.now += 59
        assert not await inbox.apply(event(), service.effect)
        service.now += 1
        assert await inbox.apply(event(), service.effect)


async def test_copies_at_the_same_time(service):
    """Of many copies handled at once by two replicas, exactly one has its effect, also at an expiry."""
    results: list[bool] = []

    async def apply(inbox: Any) -> None:
        results.append(await inbox.apply(event(), service.effect))

    async with (
        open_inbox(service.url, retention=60, now=service.clock) as one,
        open_inbox(service.url, retention=60, now=service.clock) as other,
    ):
        for _ in range(2):
            async with trio.open_nursery() as nursery:
                for _ in range(8):
                    nursery.start_soon(apply, one)
                    nursery.start_soon(apply, other)
            service.now += 60
    assert results.count(True) == 2
    assert service.count() == 2


async def test_pruning_deletes_only_what_no_longer_counts(service):
    """Pruning deletes rows at or past their expiry, and says how many."""
    async with open_inbox(service.url, retention=60, now=service.clock) as inbox:
        await inbox.apply(event(), service.effect)
        service.now += 30
        await inbox.apply(event(queue="mails"), service.effect)
        assert await inbox.prune() == 0
        service.now += 30
        assert await inbox.prune() == 1
        assert not await inbox.apply(event(queue="mails"), service.effect)


async def test_an_effect_must_not_end_the_transaction(service):
    """An effect that commits by itself is refused: its row could not be part of that commit."""

    def commits(connection: Any, received: ReceivedEvent) -> None:
        connection.commit()

    async with open_inbox(service.url, now=service.clock) as inbox:
        with pytest.raises(DlqError) as caught:
            await inbox.apply(event(), commits)
    if service.url.startswith("sqlite"):
        assert isinstance(caught.value.source, EffectEndedTransaction)


@pytest.mark.parametrize(
    ("url", "retention"),
    [
        ("mysql://x", 60),
        ("sqlite:///:memory:", 60),
        ("sqlite:///x", 0),
        ("postgresql://u:hunter2%zz@h/x", 60),
        ("postgresql://u:1@hunter2@h/x", 60),
    ],
)
async def test_what_cannot_be_opened_is_refused(url: str, retention: float):
    """Another database, one that dies with its process, a broken URL and a window of nothing are refused."""
    with pytest.raises(DlqConfigError) as caught:
        async with open_inbox(url, retention=retention):
            pass
    assert "hunter2" not in str(caught.value)
