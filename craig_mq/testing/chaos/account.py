"""The independent checker: it reads the broker's queues and the database, and believes nobody else."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import attrs

from craig_mq.core.envelope import decode_envelope
from craig_mq.testing.chaos.trouble import PARKING, QUEUE
from craig_mq.testing.chaos.workload import fate_of, number_of
from craig_mq.transport.broker import Broker, ConnectionOptions

QUARANTINE = QUEUE + ".quarantine"


@attrs.define(frozen=True, slots=True)
class Account:
    """Where every confirmed message is. ``lost`` and ``misplaced`` must be empty.

    ``misplaced``: quarantined though it should have succeeded, or the other way round.
    ``left``: still in the main or parking queue. ``copies``: quarantined more than once, by number.
    """

    recorded: int
    quarantined: int
    left: int
    lost: tuple[int, ...]
    misplaced: tuple[int, ...]
    copies: dict[int, int]


async def settle_account(broker: Broker, ledger: Path, confirmed: set[int]) -> Account:
    """Read everything, with the subscription gone: emptying the queues is part of reading them."""
    recorded = _recorded(ledger)
    quarantined: Counter[int] = Counter()
    left: Counter[int] = Counter()
    async with broker.connect(ConnectionOptions("chaos checker")) as connection:
        channel = await connection.open_channel()
        for queue, counts in ((QUARANTINE, quarantined), (QUEUE, left), (PARKING, left)):
            while (delivery := await channel.get(queue)) is not None:
                counts[number_of(decode_envelope(delivery.body).id)] += 1
                channel.ack_nowait(delivery.delivery_tag)
                await channel.flush()
        await connection.aclose()
    somewhere = recorded | quarantined.keys() | left.keys()
    permanent = {number for number in confirmed if fate_of(number) == "permanent"}
    return Account(
        len(recorded),
        len(quarantined),
        sum(left.values()),
        tuple(sorted(confirmed - somewhere)),
        tuple(sorted((recorded & permanent) | (quarantined.keys() - permanent))),
        {number: count for number, count in quarantined.items() if count > 1},
    )


def _recorded(ledger: Path) -> set[int]:
    with closing(sqlite3.connect(f"file:{ledger}?mode=ro", uri=True)) as database:
        return {number_of(row[0]) for row in database.execute("SELECT envelope_id FROM occurrence")}
