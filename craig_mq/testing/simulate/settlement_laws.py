"""Laws of settlement: nothing is lost, no ack without evidence, nothing is settled twice."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import attrs

from craig_mq.core.outcome import Acked
from craig_mq.observe.events import SessionDown
from craig_mq.testing.simulate.evidence import Evidence
from craig_mq.testing.simulate.notes import Committed, Returned
from craig_mq.testing.simulate.scenario import PARKING, QUARANTINE, QUEUE
from craig_mq.testing.simulate.stories import Fact, Story, park_count_of
from craig_mq.transport.memory import Duplicate, Operation, Reorder
from craig_mq.transport.memory.trace import (
    MessageAcked,
    MessageDelivered,
    MessageDropped,
    MessagePublished,
    MessageRequeued,
    OutcomeTold,
)


def conservation(evidence: Evidence, stories: dict[int, Story]) -> Iterator[str]:
    """Every letter is somewhere at every moment: in a queue, in the ledger, or destroyed by an operator."""
    for story in stories.values():
        if not story.destroyed:
            yield from _last_copy_kept(story)
            if not story.committed and not evidence.quarantined.get(story.number):
                yield f"letter {story.number} ended neither in the ledger nor in quarantine"


def _last_copy_kept(story: Story) -> Iterator[str]:
    live: defaultdict[tuple[int, str], int] = defaultdict(int)
    for fact in story.facts:
        if isinstance(fact, MessageAcked):
            live[fact.serial, fact.queue] -= 1
            if not any(count > 0 for count in live.values()):
                yield f"letter {story.number}: the ack of its last copy, in {fact.queue}, at {fact.at:g} s"
        elif isinstance(fact, Committed):
            return  # from here on the ledger has it
        elif isinstance(fact, MessagePublished):
            for queue in fact.queues:
                live[fact.serial, queue] += 1
        elif isinstance(fact, MessageDropped):
            live[fact.serial, fact.queue] -= 1
        elif isinstance(fact, MessageRequeued) and not fact.connection:
            live[fact.serial, fact.queue] += 1  # a crash brought an acked message back


@attrs.define(slots=True)
class _Copy:
    """What is known about one serial in one queue: the park_count it carries, and the evidence since.

    A duplicated delivery puts the same serial there twice: so many receipts may be ``outstanding``.
    """

    parks: int = 0
    outstanding: int = 0
    committed: bool = False
    confirmed: bool = False


def evidence_before_ack(_evidence: Evidence, stories: dict[int, Story]) -> Iterator[str]:
    """A delivery is acked after an audit commit, or a clean confirm of its next copy, since it was taken."""
    for story in stories.values():
        copies: dict[tuple[int, str], _Copy] = {}
        for fact in story.facts:
            if isinstance(fact, MessageAcked):
                copy = copies[fact.serial, fact.queue]
                copy.outstanding -= 1
                if not (copy.committed or copy.confirmed):
                    yield f"letter {story.number}: acked in {fact.queue} at {fact.at:g} s without evidence"
            else:
                _take_note(copies, fact)


def _take_note(copies: dict[tuple[int, str], _Copy], fact: Fact) -> None:
    match fact:
        case MessagePublished(serial=serial, publication=publication, queues=queues):
            for queue in queues:
                copies[serial, queue] = _Copy(park_count_of(publication.body))
        case MessageDelivered(serial=serial, queue=queue):
            # A commit counts for the receipt it was made in; a confirm also for a redelivery.
            copy = copies[serial, queue]
            copy.committed &= copy.outstanding > 0
            copy.outstanding += 1
        case MessageRequeued(serial=serial, queue=queue, connection=connection) if connection:
            copies[serial, queue].outstanding -= 1
        case Committed():
            for (_, queue), copy in copies.items():
                copy.committed |= queue == QUEUE
        case OutcomeTold(publication=publication, outcome=Acked()):
            _confirm(copies, publication.routing_key, park_count_of(publication.body))
        case _:
            pass


def _confirm(copies: dict[tuple[int, str], _Copy], routing_key: str, parks: int) -> None:
    """Note a clean confirm as evidence for the copies it can stem from."""
    for (_, queue), copy in copies.items():
        if routing_key == PARKING:
            copy.confirmed |= queue == QUEUE and copy.parks == parks - 1
        elif routing_key == QUARANTINE:
            copy.confirmed |= queue == QUEUE
        else:
            copy.confirmed |= queue == PARKING and copy.parks == parks


def settled_once(evidence: Evidence, stories: dict[int, Story]) -> Iterator[str]:
    """No delivery is settled twice, nor by a session that did not receive it."""
    for story in stories.values():
        taken: defaultdict[tuple[int, int, str], int] = defaultdict(int)
        for fact in story.facts:
            if isinstance(fact, MessageDelivered):
                taken[fact.connection, fact.serial, fact.queue] += 1
            elif isinstance(fact, MessageAcked):
                receipt = fact.connection, fact.serial, fact.queue
                taken[receipt] -= 1
                if taken[receipt] < 0:
                    yield f"letter {story.number}: more acks than receipts on connection {fact.connection}"
    if not _settlements_disturbed(evidence):
        for life in evidence.lives:
            for at, event in life.events:
                if isinstance(event, SessionDown) and "unknown delivery tag" in event.text:
                    yield f"replica {life.replica}, {event.arm}, {at:g} s: {event.text}"


def drain_settles(evidence: Evidence, stories: dict[int, Story]) -> Iterator[str]:
    """What a handler finished before a graceful end is acked by that session (decisions, 5; ACK-09)."""
    if len(evidence.scenario.replicas) > 1 or any(
        struck.strike.occurrence.operation in (Operation.ACK, Operation.FLUSH) for struck in evidence.struck
    ):
        return
    drained = {
        round(at, 6)
        for life in evidence.lives
        for at, event in life.events
        if isinstance(event, SessionDown) and (event.arm, event.end) == ("main", "SHUTDOWN")
    }
    if not drained:
        return
    for story in stories.values():
        finished = False
        for fact in story.facts:
            match fact:
                case Returned():
                    finished = True
                case MessageDelivered(queue="sim.dlq"):
                    finished = False
                case MessageAcked(queue="sim.dlq"):
                    finished = False
                case MessageRequeued(queue="sim.dlq", at=at) if finished and round(at, 6) in drained:
                    yield f"letter {story.number}: finished, and given back at the drain's end at {at:g} s"
                case _:
                    pass


def _settlements_disturbed(evidence: Evidence) -> bool:
    """Whether a fault repeated or swapped settlements, or ended a channel under one in the broker's name."""
    settling = {Operation.ACK, Operation.NACK}
    return any(
        struck.strike.occurrence.operation in settling
        and isinstance(struck.strike.action, Duplicate | Reorder)
        for struck in evidence.struck
    )
