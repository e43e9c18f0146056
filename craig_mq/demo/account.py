"""The account: where each publication is, found by a separate reader after the runtime closed.

It trusts nobody: queues are read over a connection of its own, the ledger through SQLite itself, and
every message is named by its publication id.
"""

from __future__ import annotations

import collections
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import attrs
import msgspec

from craig_mq.core.delivery import Delivery
from craig_mq.core.envelope import decode_envelope
from craig_mq.core.errors import MalformedBody
from craig_mq.core.topology import Topology
from craig_mq.core.unwrap import Capture, read_capture
from craig_mq.demo.mix import Kind, Planned
from craig_mq.observe import events as ev
from craig_mq.transport.broker import Broker, ConnectionOptions


@attrs.define(frozen=True, slots=True)
class Copy:
    """One message found in a queue: whose it is, and what its capture says."""

    place: str
    publication_id: str | None
    capture_id: str | None = None
    reason: str | None = None


@attrs.define(frozen=True, slots=True)
class Loss:
    """A publication that is nowhere, and what that means."""

    publication_id: str
    kind: str
    why: str


@attrs.define(frozen=True, slots=True)
class Account:
    """Every publication, and where it was found (``homes``, several for copies)."""

    published: int
    homes: Mapping[str, tuple[str, ...]]
    quarantined: Mapping[str, int]
    audited: int
    parked: int
    queued: int
    duplicates_absorbed: int
    lost: tuple[Loss, ...]


class Witness:
    """An Observer that remembers which captures the broker confirmed."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._confirmed: dict[str, tuple[str, str]] = {}

    def __call__(self, event: ev.Event) -> None:
        """Remember one confirmed capture: its envelope's id, and why it was made."""
        match event:
            case ev.Parked():
                self._confirmed[event.capture_id] = (event.envelope_id, "parked")
            case ev.Quarantined():
                self._confirmed[event.capture_id] = (event.envelope_id, event.reason)
            case _:
                pass

    def missing(self, copies: Sequence[Copy]) -> dict[str, str]:
        """Envelope ids with a confirmed capture that is in no queue any more, and its reason."""
        there = {copy.capture_id for copy in copies}
        return {
            envelope_id: reason
            for capture_id, (envelope_id, reason) in self._confirmed.items()
            if capture_id not in there
        }


async def read_copies(broker: Broker, topology: Topology) -> list[Copy]:
    """Look at every message of the three queues and leave it there.

    Messages are taken without an ack and requeued by closing the channel, which marks them redelivered.
    """
    places = {
        topology.queue_name: "queue",
        topology.parking_name: "parking",
        topology.quarantine_name: "quarantine",
    }
    copies: list[Copy] = []
    async with broker.connect(ConnectionOptions(name="craig_mq demo account")) as connection:
        for queue, place in places.items():
            channel = await connection.open_channel()
            while (delivery := await channel.get(queue)) is not None:
                copies.append(_copy(place, delivery))
            await channel.aclose()
        await connection.aclose()
    return copies


def _copy(place: str, delivery: Delivery) -> Copy:
    capture = _capture(delivery.body)
    if capture is None:
        return Copy(place, delivery.properties.message_id)
    properties = msgspec.json.decode(capture.original_properties, type=dict[str, object])
    name = properties.get("message_id")
    reason = None if capture.reason is None else capture.reason.value
    return Copy(place, name if isinstance(name, str) else None, capture.capture_id, reason)


def _capture(body: bytes) -> Capture | None:
    try:
        capture = read_capture(decode_envelope(body))
    except MalformedBody:
        return None
    return capture if isinstance(capture, Capture) else None


def read_ledger(path: Path) -> dict[str, int]:
    """How many rows the ledger holds per envelope id, hot and archived, read without its own code."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        query = "SELECT envelope_id FROM occurrence UNION ALL SELECT envelope_id FROM archived_occurrence"
        return dict(collections.Counter(row[0] for row in database.execute(query)))


def settle_account(
    planned: Sequence[Planned],
    copies: Sequence[Copy],
    ledger: Mapping[str, int],
    witness: Witness,
) -> Account:
    """Find a home for every publication; what has none is a loss, with what the witness knows of it."""
    found: dict[str, list[str]] = {item.publication_id: [] for item in planned}
    for copy in copies:
        if copy.publication_id in found:
            found[copy.publication_id].append(copy.place)
    for item in planned:
        if item.envelope_id is not None and ledger.get(item.envelope_id, 0) > 0:
            found[item.publication_id].append("audit")
    places = collections.Counter(copy.place for copy in copies)
    return Account(
        published=len(planned),
        homes={name: tuple(homes) for name, homes in found.items()},
        quarantined=dict(collections.Counter(copy.reason for copy in copies if copy.reason is not None)),
        audited=sum(ledger.values()),
        parked=places["parking"],
        queued=places["queue"],
        duplicates_absorbed=_absorbed(planned, found),
        lost=tuple(_losses(planned, found, witness.missing(copies))),
    )


def _absorbed(planned: Sequence[Planned], found: Mapping[str, Sequence[str]]) -> int:
    tokens = [
        item.token
        for item in planned
        if item.kind is Kind.DUPLICATE and "audit" in found[item.publication_id]
    ]
    return len(tokens) - len(set(tokens))


def _losses(
    planned: Sequence[Planned], found: Mapping[str, Sequence[str]], missing: Mapping[str, str]
) -> Iterator[Loss]:
    unreadable_copies = list(missing.values()).count(Kind.MALFORMED.value)
    for item in planned:
        if found[item.publication_id]:
            continue
        was_confirmed = item.envelope_id in missing if item.envelope_id else unreadable_copies > 0
        why = "its confirmed copy is gone" if was_confirmed else "acked without evidence"
        yield Loss(item.publication_id, item.kind.value, why)
