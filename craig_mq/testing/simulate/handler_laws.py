"""Laws of invocation and of copies: every loop is bounded, and every duplicate has its reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from craig_mq.core.outcome import Unconfirmed
from craig_mq.testing.simulate.evidence import Evidence
from craig_mq.testing.simulate.notes import Dialled, Invoked, Redriven, ShutdownAsked
from craig_mq.testing.simulate.scenario import PARKING, QUARANTINE, QUEUE
from craig_mq.testing.simulate.stories import Fact, Story, is_capture, park_count_of
from craig_mq.transport.memory import Duplicate, Operation
from craig_mq.transport.memory.trace import (
    MessageDelivered,
    MessagePublished,
    MessageRequeued,
    Noted,
    OutcomeTold,
)

_BEGINNINGS = (Invoked, OutcomeTold)


def attempts_per_receipt(evidence: Evidence, stories: dict[int, Story]) -> Iterator[str]:
    """One receipt is handled at most ``handler_attempts`` times, and its body is intact each time."""
    limits = [replica.config.handler_attempts for replica in evidence.scenario.replicas]
    for story in stories.values():
        receipts = begun = 0
        for fact in story.facts:
            if isinstance(fact, MessageDelivered) and fact.queue == QUEUE:
                receipts += 1
            elif isinstance(fact, Invoked):
                begun += fact.attempt == 1
                if fact.attempt > limits[fact.replica]:
                    yield f"letter {story.number}: invocation {fact.attempt} of one receipt"
                if begun > receipts:
                    yield f"letter {story.number}: handled for the {begun}th time after {receipts} receipts"
                if not fact.intact:
                    yield f"letter {story.number}: its body changed on the way"


def no_retry_after_shutdown(evidence: Evidence, _: dict[int, Story]) -> Iterator[str]:
    """Once a shutdown was asked for, no retry is made: what sleeps stays unacked (ADR-059 §retry)."""
    stopping: set[int] = set()
    for record in evidence.trace:
        if not isinstance(record, Noted):
            continue
        match record.what:
            case Invoked(replica=replica, attempt=attempt):
                if attempt > 1 and replica in stopping:
                    yield f"replica {replica} retries at {record.at:g} s, after its shutdown was asked for"
            case ShutdownAsked(replica):
                stopping.add(replica)
            case Dialled(replica=replica, role="main"):
                stopping.discard(replica)
            case _:
                pass


def total_invocations(evidence: Evidence, stories: dict[int, Story]) -> Iterator[str]:
    """In all: handler_attempts x (park_cap + 1) x (1 + redeliveries), for each round an operator asks for."""
    configs = [replica.config for replica in evidence.scenario.replicas]
    attempts = max(config.handler_attempts for config in configs)
    rounds = max(config.park_cap for config in configs) + 1
    copies = _duplicated(evidence)
    for story in stories.values():
        invoked = sum(isinstance(fact, Invoked) for fact in story.facts)
        if invoked <= attempts * rounds:
            continue
        again = sum(isinstance(fact, MessageRequeued) for fact in story.facts) + copies
        again += _unknown_outcomes(story.facts) + sum(isinstance(fact, Redriven) for fact in story.facts)
        if invoked > attempts * rounds * (1 + again):
            yield f"letter {story.number}: {invoked} invocations, {again} redeliveries"


def explained_copies(evidence: Evidence, stories: dict[int, Story]) -> Iterator[str]:
    """Ends of a letter: 1 + unknown outcomes + redeliveries of what was dealt with + planned duplicates."""
    duplicated = _duplicated(evidence)
    for story in stories.values():
        ends = story.committed + sum(
            isinstance(fact, MessagePublished) and fact.connection > 0 and QUARANTINE in fact.queues
            for fact in story.facts
        )
        if ends <= 1:
            continue
        redriven = sum(isinstance(fact, Redriven) for fact in story.facts)
        reasons = _unknown_outcomes(story.facts) + _returned_after_work(story.facts) + duplicated
        reasons += _overtaken(story.facts)
        if ends > 1 + redriven + reasons:
            yield f"letter {story.number}: {ends} ends, {reasons} reasons"


def _unknown_outcomes(facts: list[Fact]) -> int:
    """Count publishes whose caller never learned the outcome, be it that it was cancelled."""
    told = sum(isinstance(fact, OutcomeTold) for fact in facts)
    unknown = sum(isinstance(fact, OutcomeTold) and isinstance(fact.outcome, Unconfirmed) for fact in facts)
    unconfirmed = sum(
        isinstance(fact, OutcomeTold) and type(fact.outcome).__name__ in ("Nacked", "Returned")
        for fact in facts
    )
    made = sum(isinstance(fact, MessagePublished) and fact.connection > 0 for fact in facts)
    return unknown + unconfirmed + max(0, made - told)


def _returned_after_work(facts: list[Fact]) -> int:
    """Count deliveries that came back although something had been, or was still to be, done about them.

    A handler may begin on a delivery whose session ended at that very moment: its channel's end is
    news that has not been read yet.
    """
    begun = False
    count = 0
    unread: set[int] = set()
    for fact in facts:
        if isinstance(fact, _BEGINNINGS) or (isinstance(fact, MessagePublished) and fact.connection):
            begun = True
            count += len(unread)
            unread.clear()
        elif isinstance(fact, MessageDelivered):
            unread.discard(fact.serial)
        elif isinstance(fact, MessageRequeued) and begun:
            count += 1
        elif isinstance(fact, MessageRequeued):
            unread.add(fact.serial)
    return count


def _overtaken(facts: list[Fact]) -> int:
    """Count receipts that were begun although, at that very moment, another replica had the message already.

    A session's end gives its deliveries to the next consumer before its own replica has read that news: one
    receipt since, and yet two replicas begin.
    """
    count = 0
    returned_at: dict[int, float] = {}
    at_once = False
    began: dict[type[Fact], int] = {}
    for fact in facts:
        match fact:
            case MessageRequeued(at=at, serial=serial):
                returned_at[serial] = at
                at_once = False
            case MessageDelivered(at=at, serial=serial):
                at_once = returned_at.get(serial) == at
                began.clear()
            case Invoked(replica=who) if at_once:
                count += began.setdefault(Invoked, who) != who
            case MessagePublished(connection=who, queues=queues) if at_once and who and QUARANTINE in queues:
                count += began.setdefault(MessagePublished, who) != who
            case _:
                pass
    return count


def _duplicated(evidence: Evidence) -> int:
    """Count the faults that make a second copy of something on purpose."""
    twice = {Operation.PUBLISH, Operation.DELIVER}
    return sum(
        struck.strike.occurrence.operation in twice and isinstance(struck.strike.action, Duplicate)
        for struck in evidence.struck
    )


def park_counts(evidence: Evidence, stories: dict[int, Story]) -> Iterator[str]:
    """A park raises park_count by one; a redrive resets it; it never exceeds the cap of who publishes."""
    cap = max(replica.config.park_cap for replica in evidence.scenario.replicas)
    for story in stories.values():
        counts: Counter[int] = Counter()
        known = {0}
        for fact in story.facts:
            if not isinstance(fact, MessagePublished) or not is_capture(fact.publication.body):
                continue
            count = park_count_of(fact.publication.body)
            if fact.publication.routing_key == PARKING:
                counts[count] += 1
                if count - 1 not in known:
                    yield f"letter {story.number}: park {count} follows none with {count - 1}"
                if count > cap:
                    yield f"letter {story.number}: parked with park_count {count}, the cap is {cap}"
            known.add(count)
