"""The checker of chaos campaigns finds what is planted for it."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing

import pytest

from craig_mq.core.delivery import Properties, Publication
from craig_mq.core.topology import QueueSpec
from craig_mq.testing import MemoryBroker
from craig_mq.testing.chaos.account import Expected, settle_account
from craig_mq.testing.chaos.workload import BIG_BODY_BYTES, body_of, fate_of, id_of
from craig_mq.transport.broker import ConnectionOptions

QUEUES = ("q", "q.parking", "q.quarantine")
OK, ALSO_OK, PERMANENT = 0, 1, 9


@pytest.fixture
def ledger(tmp_path):
    """A ledger of three rows at most, with the columns the checker reads."""
    path = tmp_path / "audit.db"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE occurrence (envelope_id TEXT, divergent INT)")
    return path


def record(ledger, *numbers, divergent=0):
    """Put rows into the ledger."""
    with closing(sqlite3.connect(ledger)) as database, database:
        rows = [(id_of(number), divergent) for number in numbers]
        database.executemany("INSERT INTO occurrence VALUES (?, ?)", rows)


async def account_of(ledger, letters, *, destroyed=(), counted=None):
    """Settle the account of a broker that holds ``letters`` (queue, number); three were confirmed."""
    broker = MemoryBroker()
    async with broker.connect(ConnectionOptions("planter")) as connection:
        channel = await connection.open_channel(confirms=True)
        for queue in QUEUES:
            await channel.declare_queue(QueueSpec(queue, arguments={"x-queue-type": "classic"}))
        for place, (queue, number) in enumerate(letters):
            properties = Properties(message_id=str(place), delivery_mode=2)
            await channel.publish(Publication("", queue, body_of(number), properties))
        await connection.aclose()
    held = Counter(queue for queue, _ in letters) | Counter(counted or {})

    async def count(queue):
        return held[queue]

    expected = Expected({OK, ALSO_OK, PERMANENT}, set(destroyed))
    return await settle_account(broker, ledger, expected, QUEUES, count)


def test_the_fates_used_here():
    """Messages 0 and 1 are to be recorded, message 9 is to be quarantined, and its body is a big one."""
    assert [fate_of(number) for number in (OK, ALSO_OK, PERMANENT)] == ["ok", "ok", "permanent"]
    assert [len(body_of(number)) for number in (8, 9, 108)] == [BIG_BODY_BYTES] * 3


async def test_everything_in_its_place(autojump_clock, ledger):
    """What was recorded and quarantined as its fate demands is accounted for, without a complaint."""
    record(ledger, OK, ALSO_OK)
    account = await account_of(ledger, [("q.quarantine", PERMANENT)])
    assert (account.recorded, account.quarantined, account.left) == (2, 1, 0)
    assert account.lost == account.misplaced == account.miscounted == ()
    assert account.destroyed == 0
    assert account.copies == {}


async def test_a_message_nowhere_is_lost(autojump_clock, ledger):
    """A confirmed message found in no queue and no row is lost; one still in a queue is left."""
    record(ledger, OK)
    account = await account_of(ledger, [("q.parking", ALSO_OK)])
    assert account.lost == (PERMANENT,)
    assert account.left == 1


async def test_a_purge_excuses_only_what_it_destroyed(autojump_clock, ledger):
    """What an operator destroyed is no loss, what is missing beside it is one, what exists is neither."""
    record(ledger, OK)
    account = await account_of(ledger, [], destroyed={OK, PERMANENT})
    assert account.destroyed == 1
    assert account.lost == (ALSO_OK,)


async def test_the_wrong_place_is_seen(autojump_clock, ledger):
    """A permanent failure in the ledger and a success in quarantine are both in the wrong place."""
    record(ledger, OK, PERMANENT)
    account = await account_of(ledger, [("q.quarantine", ALSO_OK)])
    assert account.misplaced == (ALSO_OK, PERMANENT)


async def test_copies_rows_and_counts_are_compared(autojump_clock, ledger):
    """Second copies, double and divergent rows, and a broker that counts otherwise are all reported."""
    record(ledger, OK, OK, ALSO_OK)
    record(ledger, ALSO_OK, divergent=1)
    letters = [("q.quarantine", PERMANENT)] * 2
    account = await account_of(ledger, letters, counted={"q.quarantine": 3})
    assert account.copies == {PERMANENT: 2}
    assert account.tokens_recorded_twice == 2
    assert account.divergent == 1
    assert account.miscounted == ("q.quarantine: 3 counted, 2 read",)
