"""The independent checker: it reads the broker's queues and the database, and believes nobody else.

It reads JSON and SQL with the standard library alone, and compares what it reads from a queue with
what the broker counts in it.
"""

from __future__ import annotations

import json
import sqlite3
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

import attrs

from craig_mq.testing.chaos.workload import fate_of
from craig_mq.transport.broker import Broker, Channel, ConnectionOptions


@attrs.define(frozen=True, slots=True)
class Account:
    """Where every confirmed message is. ``lost``, ``misplaced`` and ``miscounted`` must be empty.

    ``misplaced``: quarantined though it should have succeeded, or the other way round.
    ``destroyed``: how many died by an operator's order, and are nowhere else. ``left``: still in the main or
    parking queue. ``copies``: quarantined more than once, by number. ``miscounted``: queues of which the
    broker counted another number of messages than was read. ``tokens_recorded_twice`` and
    ``divergent`` are rows that must not be in the ledger.
    """

    recorded: int
    quarantined: int
    left: int
    lost: tuple[int, ...]
    misplaced: tuple[int, ...]
    destroyed: int
    copies: dict[int, int]
    miscounted: tuple[str, ...]
    tokens_recorded_twice: int
    divergent: int


@attrs.define(frozen=True, slots=True)
class Expected:
    """What there is to account for: what the producer saw confirmed, and what an operator destroyed."""

    confirmed: set[int]
    destroyed: set[int]


def number_in(body: bytes) -> int:
    """Return the number of the message in a body, captured or not."""
    return uuid.UUID(json.loads(body)["id"]).int & (1 << 60) - 1


async def settle_account(
    broker: Broker,
    ledger: Path,
    expected: Expected,
    queues: tuple[str, str, str],
    count: Callable[[str], Awaitable[int]],
) -> Account:
    """Read everything, with the subscription gone: emptying the queues is part of reading them.

    ``queues``: main, parking, quarantine. ``count`` asks the broker how many messages one holds.
    """
    read: dict[str, Counter[int]] = {}
    miscounted: list[str] = []
    async with broker.connect(ConnectionOptions("chaos checker")) as connection:
        channel = await connection.open_channel()
        for queue in queues:
            counted = await count(queue)
            read[queue] = await _read(channel, queue)
            if read[queue].total() != counted:
                miscounted.append(f"{queue}: {counted} counted, {read[queue].total()} read")
        await connection.aclose()
    main, parking, quarantined = (read[queue] for queue in queues)
    rows, divergent = _ledger(ledger)
    left = main + parking
    somewhere = rows.keys() | quarantined.keys() | left.keys()
    permanent = {number for number in expected.confirmed if fate_of(number) == "permanent"}
    return Account(
        recorded=len(rows),
        quarantined=len(quarantined),
        left=left.total(),
        lost=tuple(sorted(expected.confirmed - somewhere - expected.destroyed)),
        misplaced=tuple(sorted((rows.keys() & permanent) | (quarantined.keys() - permanent))),
        destroyed=len((expected.confirmed & expected.destroyed) - somewhere),
        copies={number: times for number, times in quarantined.items() if times > 1},
        miscounted=tuple(miscounted),
        tokens_recorded_twice=sum(1 for times in rows.values() if times > 1),
        divergent=divergent,
    )


async def _read(channel: Channel, queue: str) -> Counter[int]:
    read: Counter[int] = Counter()
    while (delivery := await channel.get(queue)) is not None:
        read[number_in(delivery.body)] += 1
        channel.ack_nowait(delivery.delivery_tag)
    return read


def _ledger(path: Path) -> tuple[Counter[int], int]:
    """Return how many rows each message has, and how many rows are divergent."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        rows = database.execute("SELECT envelope_id FROM occurrence").fetchall()
        (divergent,) = database.execute("SELECT count(*) FROM occurrence WHERE divergent").fetchone()
    return Counter(uuid.UUID(row[0]).int & (1 << 60) - 1 for row in rows), divergent
